//! Linux, to compare with: that what it says is whole, and that it can be what it says. Fetches a kernel of 70 MB, so it runs
//! only as `./musubi test peers`.

use crate::case::{Case, several};
use crate::checks::Found;
use crate::lab::{Failure, Lab};
use anyhow::{Context, Result, ensure};
use joined::Joined;
use machine::{Options, Wish};
use measure::{Figure, MUSUBI, PROGRAMS, count, unit};
use peers::{Clock, Report};
use std::process::{Command, Output};

mod joined;

pub fn cases() -> Vec<Case> {
    vec![several("linux", &CHECKS.map(|(name, _)| name), all).by_name()]
}

type Check = (&'static str, fn(&Runs) -> Result<()>);
const CHECKS: [Check; 18] = [
    ("says_what_it_is", says_what_it_is),
    ("every_line_has_its_form", every_line_has_its_form),
    ("a_message_is_two_switches", a_message_is_two_switches),
    ("counted_from_outside", counted_from_outside),
    ("data_cost_where_they_are_copied", data_cost_where_they_are_copied),
    ("not_to_wait_is_cheaper", not_to_wait_is_cheaper),
    ("wall_time", wall_time),
    ("stands_beside_ours", stands_beside_ours),
    ("calls_touch_less_than_messages", calls_touch_less),
    ("every_way_has_both_clocks", |runs| joined::both_clocks(runs.joined("ipc")?)),
    ("p99_of_ours", |runs| joined::late_rounds(runs.joined("ipc")?)),
    ("counts_of_ours_and_theirs", |runs| joined::counts(runs.joined("ipc")?)),
    ("every_way_stands_beside_ours", |runs| joined::for_people(runs.joined("ipc")?)),
    ("ways_in_stand_beside_ours", |runs| joined::nearest(runs.joined("entry")?, "entry")),
    ("pages_stand_beside_ours", |runs| joined::nearest(runs.joined("memory")?, "memory")),
    ("messages_stand_beside_ours", |runs| joined::messages(runs.joined("pool")?)),
    ("pagers_stand_beside_ours", |runs| joined::nearest(runs.joined("pager")?, "pager")),
    ("programs_stand_beside_ours", |runs| joined::programs(runs.joined(PROGRAMS)?)),
];

/// Compared with ours in any case, and so measured in one run with it.
const JOINED: [&str; 6] = ["ipc", "entry", "memory", "pager", "pool", PROGRAMS];
/// The other ones of Linux's.
const ALONE: [&str; 3] = ["calls", "spawn", "sched"];

struct Runs {
    /// All that is counted of Linux.
    instructions: Report,
    wall: Report,
    table: Output,
    joined: [(&'static str, Result<Joined, String>); JOINED.len()],
}

impl Runs {
    fn joined(&self, name: &str) -> Result<&Joined> {
        let (_, joined) = self.joined.iter().find(|(bench, _)| *bench == name).context("it is not measured here")?;
        joined.as_ref().map_err(|why| anyhow::anyhow!("{name} cannot be measured: {why}"))
    }
}

/// That nothing is missing and nothing is said twice is checked whenever Linux is measured: these fail then.
fn all(lab: &Lab, _: &Options, _: &[&str]) -> Result<Vec<Found>, Failure> {
    let measure = |benches: &[&str], clock| peers::linux(lab.workspace(), benches, clock, Wish::Tcg, &mut |_| ());
    let mut front = Command::new("sh");
    front.args(["musubi", "bench", "calls", "--peer", "linux"]).current_dir(lab.workspace().top());
    let mut runs = Runs {
        instructions: measure(&ALONE, Clock::Instructions)?,
        wall: measure(&["sched"], Clock::Nanoseconds)?,
        table: front.output().context("./musubi bench does not start")?,
        joined: JOINED.map(|name| (name, Joined::run(lab, name).map_err(|why| format!("{why:#}")))),
    };
    for (_, joined) in &runs.joined {
        runs.instructions.figures.extend(joined.iter().flat_map(Joined::theirs));
    }
    Ok(CHECKS.map(|(name, check)| (name, check(&runs).map_err(Failure::from))).into())
}

const SYSTEMS: [&str; 2] = ["linux-default", "linux-best"];

fn value(report: &Report, system: &str, case: &str, way: &str, bytes: u64) -> Result<u64> {
    let same = |f: &&Figure| f.system == system && f.case == case && f.way == way && f.bytes == bytes;
    let found = report.figures.iter().filter(same).find(|figure| figure.is_total());
    Ok(found.with_context(|| format!("no {case} of {bytes} bytes by {way} on {system}"))?.value)
}

fn says_what_it_is(runs: &Runs) -> Result<()> {
    for (about, system) in runs.instructions.about.iter().zip(SYSTEMS) {
        ensure!(about.system == system, "{about:?}");
        ensure!(about.version.contains("Debian "), "not the version of Debian's package: {about:?}");
        ensure!(about.command_line.contains("mitigations=off") == (system == "linux-best"), "{about:?}");
    }
    ensure!(runs.instructions.about.len() == SYSTEMS.len(), "{:?}", runs.instructions.about);
    Ok(())
}

fn every_line_has_its_form(runs: &Runs) -> Result<()> {
    for figure in &runs.instructions.figures {
        ensure!(JOINED.into_iter().chain(ALONE).any(|bench| bench == figure.bench), "{}", figure.line());
        ensure!(SYSTEMS.contains(&figure.system.as_str()), "{}", figure.line());
        ensure!(figure.unit == unit::INSTRUCTIONS || !figure.is_total(), "{}", figure.line());
        // What takes long is done a few times, on several processors, too.
        let is_program = figure.bench == PROGRAMS && figure.n >= 3;
        ensure!(is_program || figure.cpus == 1 && figure.n >= 20, "{}", figure.line());
        ensure!(Figure::read(&figure.line())? == [figure.clone()], "{}", figure.line());
    }
    Ok(())
}

/// A message there and back is two switches of the address space at least, and each way adds to that.
fn a_message_is_two_switches(runs: &Runs) -> Result<()> {
    let report = &runs.instructions;
    for system in SYSTEMS {
        let of = |case, way| value(report, system, case, way, 0);
        let (call, switches) = (of("getppid", "system-call")?, of("yield", "processes-fifo")?);
        ensure!(call < switches && of("no-such-call", "system-call")? < call, "{system}: getppid {call}");
        ensure!(of("clock", "vdso")? < of("no-such-call", "system-call")?, "{system}: the vdso enters the kernel");
        for way in ["pipe", "unix", "tcp", "udp", "shm-futex", "sunrpc-udp", "sunrpc-tcp"] {
            let message = of("NullProc", way)?;
            ensure!(message > switches, "{system}: {message} by {way}, {switches} for two switches alone");
        }
        ensure!(
            of("NullProc", "udp")? < of("NullProc", "sunrpc-udp")?,
            "{system}: Sun RPC costs less than what it uses"
        );
        ensure!(of("spawn", "vfork+exec")? < of("spawn", "fork+exec")?, "{system}: fork costs nothing");
    }
    Ok(())
}

/// The paper's count of an exchange between two address spaces (CUBIX-M6): two switches, and client and server each enter the
/// kernel, to send and to wait.
fn counted_from_outside(runs: &Runs) -> Result<()> {
    let median = |system: &str, case: &str, way: &str, unit: &str| {
        let same = |f: &&Figure| f.system == system && f.case == case && f.way == way && f.unit == unit;
        let found = runs.instructions.figures.iter().find(same);
        found
            .map(|figure| figure.value)
            .with_context(|| format!("{unit} of {case} by {way} on {system} are not counted"))
    };
    for system in SYSTEMS {
        let call = |unit| median(system, "getppid", "system-call", unit);
        ensure!((call(count::ENTRIES)?, call(count::VIEWS)?) == (1, 0), "{system}: what is a system call?");
        let clock = median(system, "clock", "vdso", count::ENTRIES)?;
        ensure!(clock == 0, "{system}: the vdso enters the kernel");
        for way in ["pipe", "shm-futex"] {
            let views = median(system, "NullProc", way, count::VIEWS)?;
            ensure!(views == 2, "{system}: {views} switches for a message by {way} and its answer");
        }
        let entries = median(system, "NullProc", "pipe", count::ENTRIES)?;
        ensure!(entries == 4, "{system}: {entries} entries for two writes and two reads");
    }
    Ok(())
}

fn data_cost_where_they_are_copied(runs: &Runs) -> Result<()> {
    const MUCH: u64 = 1 << 20;
    // The longest copy that one instruction makes, without a repeated one: 32 bytes there, and as many back.
    let copy = MUCH / 64;
    for system in SYSTEMS {
        for way in ["pipe", "unix", "tcp", "sunrpc-tcp"] {
            let of = |case, bytes| value(&runs.instructions, system, case, way, bytes);
            let (take, answer) = (of("ArgNoRtn", MUCH)?, of("ArgRtn_NoCopy", MUCH)?);
            ensure!(take > of("ArgNoRtn", 64)? + copy, "{system}: a mebibyte by {way} costs nothing: {take}");
            ensure!(answer > take + copy, "{system}: the way back by {way} costs nothing: {answer}");
            ensure!(of("ArgRtn_Copy", MUCH)? > answer, "{system}: the server's copy by {way} costs nothing");
        }
        let of = |case, bytes| value(&runs.instructions, system, case, "shm-futex", bytes);
        ensure!(of("ArgNoRtn", MUCH)? < of("ArgNoRtn", 64)? + copy, "{system}: shared memory is copied");
    }
    Ok(())
}

fn not_to_wait_is_cheaper(runs: &Runs) -> Result<()> {
    for system in SYSTEMS {
        for way in ["pipe", "unix", "tcp", "udp", "shm-futex", "sunrpc-tcp"] {
            let of = |case| value(&runs.instructions, system, case, way, 0);
            let (waits, not) = (of("NullProc")?, of("NullProc-async")?);
            ensure!(not < waits, "{system}, {way}: {not} without waiting, {waits} with");
        }
    }
    Ok(())
}

/// Two rounds by turns have come to one figure.
fn wall_time(runs: &Runs) -> Result<()> {
    ensure!(!runs.wall.figures.is_empty(), "no wall time");
    for figure in &runs.wall.figures {
        ensure!(figure.unit == unit::NANOSECONDS && figure.n == 40, "{}", figure.line());
    }
    let [same, other] = ["threads-fifo", "processes-fifo"].map(|way| value(&runs.wall, "linux-best", "yield", way, 0));
    let (same, other) = (same?, other?);
    ensure!(same < other, "switching the address space takes no time: {same} ns and {other} ns");
    Ok(())
}

/// CUBIX-33: lines of a cache and pages, in the same run: each of our calls touches less than a message by any of Linux's ways.
fn calls_touch_less(runs: &Runs) -> Result<()> {
    let text = str::from_utf8(&runs.table.stdout)?;
    let (_, table) = text.split_once("Lines of a cache").context("no lines are counted")?;
    // case, bytes, way, system, lines, pages
    let rows: Vec<Vec<&str>> = table.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    let messages = |row: &&Vec<&str>| row.first() == Some(&"NullProc");
    let of = |is: &dyn Fn(&[&str]) -> bool, at: usize| -> Result<Vec<u64>> {
        let rows = rows.iter().take_while(|row| row.len() >= 6).filter(messages).filter(|row| is(row));
        rows.map(|row| row[at].parse().with_context(|| format!("{row:?}"))).collect()
    };
    for (at, unit) in [(4, count::LINES), (5, count::PAGES)] {
        let ours = of(&|row| row[3] == MUSUBI && !row[2].starts_with("itc"), at)?;
        let theirs = of(&|row| row[3] != MUSUBI, at)?;
        let most = ours.iter().max().context("none of ours")?;
        let least = theirs.iter().min().context("none of theirs")?;
        ensure!(ours.len() >= 3 && theirs.len() >= 14 && most < least, "{unit}: {ours:?}, and Linux's {theirs:?}");
    }
    Ok(())
}

fn stands_beside_ours(runs: &Runs) -> Result<()> {
    let said = String::from_utf8_lossy(&runs.table.stderr);
    ensure!(runs.table.status.success(), "it ended with {}: {said}", runs.table.status);
    let text = str::from_utf8(&runs.table.stdout)?;
    let row = text.lines().find(|line| line.starts_with("NullProc")).context("no row of ours")?;
    let cells: Vec<&str> = row.split_whitespace().collect();
    // case, bytes, way, ours, best, (way), ratio, default, (way), ratio
    let number = |at: usize| cells.get(at).and_then(|cell| cell.parse::<f64>().ok());
    let numbers = [3, 4, 6, 7, 9].map(number);
    ensure!(numbers.iter().all(|number| number.is_some_and(|number| number > 0.0)), "{row}");
    for system in SYSTEMS {
        ensure!(text.contains(&format!("\n{system}: Linux ")), "which {system} was it?\n{text}");
    }
    Ok(())
}
