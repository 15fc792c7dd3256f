//! Our own figures: the guest's, and what was counted from outside while it measured.

use crate::benches::{Bench, PROGRAMS};
use crate::figure::{ASYNC, Figure, MUSUBI, count, of_one_call, unit};
use crate::locks;
use crate::steps;
use crate::table::handlers;
use crate::untold;
use crate::ways;
use crate::{found, itc};
use anyhow::{Context, Result, bail, ensure};
use machine::{Emulator, Exec, Finished, Load, Options, Outcome, Parts, Put, Sink, Wish};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use tally::{Case, Costly};

/// What is counted from outside.
const OUTSIDE: &str = "steps, key-writes, locked-ops, locks, post-locks and spins";
const SEEN: [(&str, Costly); 5] = [
    (count::KEYS, Costly::KeyWrite),
    (count::LOCKED, Costly::Locked),
    (count::LOCKS, Costly::TakesLock),
    (count::POST_LOCKS, Costly::TakesPost),
    (count::SPINS, Costly::Pause),
];

/// And in one benchmark, as it takes long.
pub const TOUCHED: [(&str, Costly); 2] = [(count::LINES, Costly::Line), (count::PAGES, Costly::Page)];
pub const TOUCHED_BY: &str = "calls";

/// Likewise, on one processor.
const WITHIN: (&str, Costly) = (count::WITHIN, Costly::Within);
const WITHIN_BY: &str = "messages";

/// Behind a way: on processors that run at once.
const AT_ONCE: &str = "-at-once";

/// On what it is measured.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    pub parts: &'a Parts,
    /// The plugin of `host/plugin`, built. Without it nothing is counted from outside, and a run takes half as long.
    pub plugin: Option<&'a Path>,
    /// The kernel that tells programs nothing, for benchmarks that want it.
    pub untold: Option<&'a Path>,
    /// A real processor, and its cycles instead of counted instructions.
    pub kvm: bool,
    /// Whether the processors show protection keys.
    pub pku: bool,
}

/// What the guest's ticks are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clock {
    Instructions,
    /// Of a real processor.
    Cycles,
    /// Of the host.
    Nanoseconds,
    /// The same, in whatever unit: nobody asks how long anything takes.
    Host,
}

impl Setup<'_> {
    fn clock(&self) -> Clock {
        if self.kvm { Clock::Cycles } else { Clock::Instructions }
    }
}

/// What came of it.
#[derive(Debug)]
pub struct Ours {
    pub figures: Vec<Figure>,
    /// The rounds as they were seen from outside, a case for each total; without any if they could not be seen.
    pub cases: Vec<Case>,
    /// What is missing, and why.
    pub notes: Vec<String>,
}

impl Ours {
    /// Boots a machine and runs a benchmark in it; where processors make a difference, or must not, further machines.
    pub fn measure(setup: &Setup, bench: &Bench) -> Result<Self> {
        let mut ours = Self::measure_once(setup, bench)?;
        for cpus in bench.also_cpus {
            ours.figures.extend(Self::measure_once(setup, &Bench { cpus: *cpus, ..*bench })?.figures);
        }
        let host = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
        match bench.at_once() {
            Some(cpus) if setup.kvm || cpus > host => {
                ours.notes
                    .push(format!("{cpus} processors that run at once are not to be had, so nothing is counted there"));
            }
            Some(cpus) => ours.figures.extend(Self::at_once(setup, &Bench { cpus, ..*bench })?),
            None => {}
        }
        if bench.untold {
            let parts = setup.parts.with_kernel(setup.untold.context("there is no kernel that tells nothing")?)?;
            let other = Self::measure_once(&Setup { parts: &parts, ..*setup }, bench)?;
            ours.figures = untold::beside(ours.figures, other.figures)?;
        }
        Ok(ours)
    }

    /// What is counted in rounds on processors that run at once, each on one of the host's; how long they take is nothing there. (The emulator's processors count without a
    /// lock: of two that do at the same moment one may be lost, so it is at least that many.)
    fn at_once(setup: &Setup, bench: &Bench) -> Result<Vec<Figure>> {
        let (finished, cases, _) = Self::seen(setup, bench, Clock::Host)?;
        let figures = read(bench, &finished)?;
        let mut figures = if cases.is_empty() { figures } else { join(figures, &cases)? };
        let is_count = |figure: &Figure| {
            figure.case_and_step().1.is_none()
                && (count::ALL.contains(&figure.unit.as_str()) || figure.unit == count::MESSAGES)
        };
        figures.retain(is_count);
        figures.iter_mut().for_each(|figure| figure.way.push_str(AT_ONCE));
        Ok(figures)
    }

    /// Boots machines that do not count instructions, and measures how long rounds take: nanoseconds of this host, each total only;
    /// and how many times as fast as one thread several are, where each processor of the machine has one of the host's. (What else
    /// is counted does not depend on the clock.)
    pub fn wall(setup: &Setup, bench: &Bench) -> Result<Vec<Figure>> {
        let host = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
        let mut figures = Vec::new();
        for cpus in bench.side_by_side(host) {
            figures.extend(Self::wall_once(setup, &Bench { cpus, ..*bench }, cpus <= host)?);
        }
        Ok(figures)
    }

    fn wall_once(setup: &Setup, bench: &Bench, at_once: bool) -> Result<Vec<Figure>> {
        let finished = run(setup, bench, Clock::Nanoseconds, Vec::new())?;
        let mut figures = read(bench, &finished)?;
        let ratios: Vec<Figure> = figures.iter().filter(|f| at_once && f.unit == count::PERMILLE).cloned().collect();
        let average = format!("{}{}", unit::NANOSECONDS, unit::AVERAGE);
        let is_time = |figure: &Figure| figure.unit == unit::NANOSECONDS || figure.unit == average;
        figures.retain(|figure| figure.is_total() && is_time(figure) || figure.unit == unit::LATE);
        figures
            .iter_mut()
            .filter(|figure| figure.unit == average)
            .for_each(|figure| figure.unit = unit::NANOSECONDS.into());
        ensure!(!figures.is_empty(), "the guest's bench told no wall time");
        figures.extend(ratios.into_iter().map(|ratio| Figure { unit: count::BY_WALL.into(), ..ratio }));
        Ok(figures)
    }

    fn measure_once(setup: &Setup, bench: &Bench) -> Result<Self> {
        let mut notes = Vec::new();
        if setup.kvm {
            notes.push(format!("{OUTSIDE} are counted in translated code only, not with --kvm"));
            return Self::gather(setup, bench, &run(setup, bench, setup.clock(), Vec::new())?, Vec::new(), notes);
        }
        // What one on several processors alone prints are no rounds between marks.
        let has_rounds = (bench.cpus == 1 || !bench.also_cpus.is_empty()) && !bench.has_one_beside();
        let plugin = setup.plugin.filter(|_| has_rounds);
        if plugin.is_none() {
            return Self::gather(setup, bench, &run(setup, bench, setup.clock(), Vec::new())?, Vec::new(), notes);
        }
        let (finished, cases, missing) = Self::seen(setup, bench, Clock::Instructions)?;
        notes.extend(missing);
        Self::gather(setup, bench, &finished, cases, notes)
    }

    /// Runs it and counts from outside; or says why that cannot be.
    fn seen(setup: &Setup, bench: &Bench, clock: Clock) -> Result<(Finished, Vec<Case>, Option<String>)> {
        let Some(plugin) = setup.plugin else { return Ok((run(setup, bench, clock, Vec::new())?, Vec::new(), None)) };
        let dir = tempfile::tempdir().context("cannot make a temporary folder")?;
        symlink(plugin, dir.path().join("plugin.so")).context("cannot link to the plugin")?;
        let (out, locks) = (dir.path().join("tally"), dir.path().join("locks"));
        fs::write(&locks, locks::find(&fs::read(&setup.parts.kernel)?)?.to_string())?;
        // QEMU takes a comma for the end, and two for a comma.
        let path = |path: &Path| path.display().to_string().replace(',', ",,");
        let mut plugin = format!("{},out={},locks={}", path(&dir.path().join("plugin.so")), path(&out), path(&locks));
        if bench.name == TOUCHED_BY {
            plugin.push_str(",touched=one");
        }
        if bench.name == WITHIN_BY {
            plugin.push_str(",held=one");
        }
        if bench.name == ways::BENCH {
            let ways = ways::find(&fs::read(&setup.parts.kernel)?)?;
            plugin.push_str(&format!(",ways={}-{}", ways.start, ways.end));
        }
        let finished = run(setup, bench, clock, vec!["-plugin".into(), plugin.into()])?;
        match fs::read_to_string(&out) {
            Ok(text) => Ok((finished, tally::read(&text)?, None)),
            Err(_) => {
                // Another QEMU's plugins may have another interface, or it may have none.
                let why = finished.console.lines().last().unwrap_or_default();
                let missing = format!("{OUTSIDE} are not counted: this QEMU takes no plugin ({why})");
                Ok((run(setup, bench, clock, Vec::new())?, Vec::new(), Some(missing)))
            }
        }
    }

    fn gather(setup: &Setup, bench: &Bench, finished: &Finished, cases: Vec<Case>, notes: Vec<String>) -> Result<Self> {
        let mut figures = read(bench, finished)?;
        for figure in &mut figures {
            if let Some(of) = figure.unit.strip_prefix(unit::TICKS) {
                ensure!(setup.kvm, "the machine's ticks are not instructions");
                figure.unit = format!("{}{of}", unit::CYCLES);
            }
        }
        if !cases.is_empty() {
            figures = join(figures, &cases)?;
        }
        figures.extend(itc::parts(&figures, !cases.is_empty())?);
        figures.extend(found::figures(&figures));
        Ok(Self { figures, cases, notes })
    }
}

/// The figures that the guest printed.
fn read(bench: &Bench, finished: &Finished) -> Result<Vec<Figure>> {
    if finished.outcome != Outcome::Exited(0) {
        let said = String::from_utf8_lossy(&finished.err);
        bail!("{} did not end well: {:?}\n{said}{}", bench.name, finished.outcome, finished.tail(20));
    }
    let figures = Figure::read(str::from_utf8(&finished.out)?)?;
    ensure!(!figures.is_empty(), "the guest's bench printed nothing");
    let stranger = figures.iter().find(|figure| figure.bench != bench.name || figure.system != MUSUBI);
    ensure!(stranger.is_none(), "not a figure of this run: {}", stranger.map(Figure::line).unwrap_or_default());
    Ok(figures)
}

fn run(setup: &Setup, bench: &Bench, clock: Clock, lead: Vec<OsString>) -> Result<Finished> {
    let options = Options {
        cpus: Some(bench.cpus),
        mem: bench.mem.into(),
        pku: setup.pku,
        vendor: None,
        icount: clock == Clock::Instructions,
        turn_us: bench.turn_us(),
        wish: if setup.kvm { Wish::Kvm } else { Wish::Tcg },
        ..Options::default()
    };
    let wall = (clock == Clock::Nanoseconds).then_some("--wall");
    let words = bench.limits.iter().copied().chain(["bench", bench.name, "--json"]).chain(wall);
    let words: Vec<Vec<u8>> = words.map(|word| word.as_bytes().to_vec()).collect();
    let puts = bench.puts().iter().map(|file| Put::parse(OsStr::new(file))).collect::<Result<Vec<Put>>>()?;
    let exec = Exec {
        emulator: Emulator { lead, ..Emulator::default() },
        options: &options,
        load: Load { parts: setup.parts, puts: &puts, words: Some(&words), sched: None },
        timeout: bench.timeout,
        sink: Sink::Keep,
    };
    exec.finish()
}

/// Adds to each total what was counted from outside in the same rounds.
fn join(figures: Vec<Figure>, cases: &[Case]) -> Result<Vec<Figure>> {
    let totals = figures.iter().filter(|figure| figure.has_rounds()).count();
    ensure!(totals == cases.len(), "{totals} cases were told, and {} were seen", cases.len());
    let told_by_itself = |total: &Figure| {
        figures.iter().any(|f| f.is_about(total) && f.way == total.way && f.case_and_step().1.is_some())
    };
    let mut all = Vec::new();
    let mut seen = cases.iter();
    for figure in &figures {
        all.push(figure.clone());
        if !figure.has_rounds() {
            continue;
        }
        let case = seen.next().context("a case more than was seen")?;
        ensure!(case.len() == figure.n, "{}: {} rounds were told, and {} were seen", figure.case, figure.n, case.len());
        // Steps are those of a round, which is many calls in an asynchronous case.
        if !told_by_itself(figure) && !figure.case.ends_with(ASYNC) {
            let mut steps = seen_steps(figure, case);
            steps.retain(ways::is_part);
            // The same way out may be taken by several cases: the first one tells it.
            let of_ways = ways::figures(figure, &steps);
            let is_new =
                |one: &Figure| !all.iter().any(|known: &Figure| known.case == one.case && known.way == one.way);
            let of_ways: Vec<Figure> = of_ways.into_iter().filter(is_new).collect();
            if figure.bench == handlers::NAME {
                all.extend(handlers::short(figure, &steps));
            }
            all.extend(steps);
            all.extend(of_ways);
        }
        if figure.bench == PROGRAMS {
            all.push(executed(figure, case)?);
        }
        let touched = TOUCHED.into_iter().filter(|_| figure.bench == TOUCHED_BY);
        let within = Some(WITHIN).filter(|_| figure.bench == WITHIN_BY && figure.cpus == 1);
        for (unit, costly) in SEEN.into_iter().chain(touched).chain(within) {
            let (value, min, max) = case.summary(|round| round.count(costly)).context("no rounds")?;
            // As the guest does.
            let [value, min, max] = [value, min, max].map(|counted| of_one_call(&figure.case, counted));
            all.push(Figure { unit: unit.into(), value, min, max, ..figure.clone() });
        }
    }
    Ok(all)
}

/// What all processors executed in the rounds of a total.
///
/// # Errors
/// There were none.
pub fn executed(total: &Figure, case: &Case) -> Result<Figure> {
    let (value, min, max) = case.summary(|round| round.instructions).context("no rounds")?;
    Ok(Figure { unit: count::EXECUTED.into(), value, min, max, ..total.clone() })
}

/// The steps of the rounds that went the usual way, if they can be told.
fn seen_steps(total: &Figure, case: &Case) -> Vec<Figure> {
    let Some(usual) = case.usual().and_then(|round| round.steps.as_ref()).filter(|steps| steps.len() > 1) else {
        return Vec::new();
    };
    let way =
        |steps: &Option<Vec<(u64, u64)>>| -> Vec<u64> { steps.iter().flatten().map(|(region, _)| *region).collect() };
    let usual_way = way(&Some(usual.clone()));
    let mut same = case.clone();
    same.rounds.retain(|(_, round)| way(&round.steps) == usual_way);
    let named = steps::named(usual, &total.way).into_iter().enumerate();
    named
        .map(|(at, (name, value))| {
            let length = |round: &tally::Round| round.steps.as_ref().map_or(0, |steps| steps[at].1);
            let (_, min, max) = same.summary(length).unwrap_or_default();
            Figure { case: format!("{}/{name}", total.case), value, min, max, n: same.len(), ..total.clone() }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Source;
    use tally::{KERNEL, Round};

    fn total(case: &str, way: &str, n: u64) -> Figure {
        Figure {
            bench: "calls".into(),
            case: case.into(),
            bytes: 0,
            system: MUSUBI.into(),
            way: way.into(),
            cpus: 1,
            unit: unit::INSTRUCTIONS.into(),
            value: 600,
            min: 600,
            max: 700,
            n,
            source: Source::Measured,
        }
    }

    fn round(kernel: u64, locked: u64) -> Round {
        let mut counts = [0; Costly::ALL.len()];
        counts[Costly::Locked as usize] = locked;
        Round { instructions: kernel + 30, counts, steps: Some(vec![(5, 10), (KERNEL, kernel), (5, 20)]) }
    }

    #[test]
    fn what_was_seen_stands_beside_what_was_told() {
        let case = Case { rounds: vec![(2, round(570, 8)), (1, round(670, 9))] };
        let all = join(vec![total("NullProc", "epc-s", 3)], &[case]).unwrap();
        let told: Vec<(&str, &str, [u64; 4])> =
            all.iter().map(|f| (f.case.as_str(), f.unit.as_str(), [f.value, f.min, f.max, f.n])).collect();
        assert_eq!(
            told,
            [
                ("NullProc", "instructions", [600, 600, 700, 3]),
                ("NullProc/caller there", "instructions", [10, 10, 10, 3]),
                ("NullProc/kernel", "instructions", [570, 570, 670, 3]),
                ("NullProc/caller back", "instructions", [20, 20, 20, 3]),
                ("NullProc", "key-writes", [0, 0, 0, 3]),
                ("NullProc", "locked-ops", [8, 8, 9, 3]),
                ("NullProc", "locks", [0, 0, 0, 3]),
                ("NullProc", "post-locks", [0, 0, 0, 3]),
                ("NullProc", "spins", [0, 0, 0, 3]),
                ("NullProc", "cache-lines", [0, 0, 0, 3]),
                ("NullProc", "tlb-pages", [0, 0, 0, 3]),
            ]
        );
    }

    /// SSS-24: in rounds that went the usual way. What an interrupt took on the way out is a handler of its own.
    #[test]
    fn short_ways_stand_among_handlers() {
        let interrupted = Some(vec![(5, 10), (KERNEL, 57), (5, 5), (KERNEL, 900), (5, 15)]);
        let other = Round { steps: interrupted, ..round(957, 9) };
        let case = Case { rounds: vec![(2, round(57, 8)), (1, round(67, 9)), (1, other)] };
        let outside = Case { rounds: vec![(3, Round { steps: Some(vec![(5, 10), (9, 40)]), ..round(20, 0) })] };
        let mut told = [total("page_free", "light", 4), total("NullProc", "epc-h", 3)];
        told.iter_mut().for_each(|figure| figure.bench = handlers::NAME.into());
        let all = join(told.into(), &[case, outside]).unwrap();
        let own: Vec<&Figure> = all.iter().filter(|figure| figure.unit == "instructions-at-most").collect();
        assert_eq!(own.len(), 1);
        assert_eq!((own[0].case.as_str(), own[0].way.as_str()), ("page_free", "the short way light"));
        assert_eq!((own[0].value, own[0].n), (67, 3));
        assert!(!own[0].has_rounds());
    }

    #[test]
    fn counts_of_calls_under_way_together_are_of_one() {
        let case = Case { rounds: vec![(3, round(570, 20))] };
        let all = join(vec![total("NullProc-async", "itc-improved", 3)], &[case]).unwrap();
        let locked = all.iter().find(|figure| figure.unit == count::LOCKED).unwrap();
        assert_eq!([locked.value, locked.min, locked.max], [3; 3]);
    }

    #[test]
    fn who_tells_its_steps_is_believed() {
        let told = vec![total("spawn", "loader", 1), total("spawn/start", "loader", 1)];
        let all = join(told, &[Case { rounds: vec![(1, round(570, 8))] }]).unwrap();
        let steps = all.iter().filter(|figure| figure.case_and_step().1.is_some()).count();
        assert_eq!(steps, 1);
    }

    #[test]
    fn a_round_of_too_many_steps_has_none() {
        let case = Case { rounds: vec![(1, Round { steps: None, ..round(570, 8) })] };
        let all = join(vec![total("spawn", "loader", 1)], &[case]).unwrap();
        assert!(all.iter().all(|figure| figure.case == "spawn"));
        assert_eq!(all.len(), 1 + SEEN.len() + TOUCHED.len());
    }

    /// K1-U6: what is slept is part of a round's length, and is not executed.
    #[test]
    fn what_programs_execute_is_told() {
        let case = Case { rounds: vec![(3, Round { steps: None, ..round(470, 8) })] };
        let told = Figure { bench: PROGRAMS.into(), ..total("sort", "busybox", 3) };
        let all = join(vec![told], &[case]).unwrap();
        let executed = all.iter().find(|figure| figure.unit == count::EXECUTED).unwrap();
        assert_eq!((all[0].value, executed.value, executed.is_total()), (600, 500, false));
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let case = Case { rounds: vec![(2, round(570, 8))] };
        assert!(join(vec![total("NullProc", "epc-s", 3)], std::slice::from_ref(&case)).is_err(), "other rounds");
        assert!(join(vec![total("NullProc", "epc-s", 2)], &[case.clone(), case]).is_err(), "other cases");
    }
}
