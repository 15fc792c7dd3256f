//! Ours and Linux's in one run of `./musubi bench`, as a user gets it who says nothing about the peer: what scripts read, and the table
//! that people get of the same figures.

use super::SYSTEMS;
use crate::lab::Lab;
use crate::stages::s80_bench::papers;
use anyhow::{Context, Result, bail, ensure};
use measure::{ASYNC, Bench, Figure, MUSUBI, PROGRAMS, Paper, Source, Table, count, unit};
use std::collections::BTreeSet;
use std::process::Command;

/// What was measured of one benchmark, by both clocks if it has both.
pub struct Joined {
    counted: Vec<Figure>,
    wall: Vec<Figure>,
    table: String,
}

/// What a figure is about: case, way, system and size, on one processor, as the peer has.
type Subject = (String, String, String, u64);

impl Joined {
    pub fn run(lab: &Lab, name: &str) -> Result<Self> {
        let mut command = Command::new("sh");
        command.args(["musubi", "bench", name, "--json"]).current_dir(lab.workspace().top());
        let output = command.output().context("./musubi bench does not start")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "bench {name} ended with {}: {said}", output.status);
        for system in SYSTEMS {
            ensure!(said.contains(&format!("{system}: Linux ")), "which {system} was it?\n{said}");
        }
        let is_time = |figure: &Figure| [unit::NANOSECONDS, unit::LATE].contains(&figure.unit.as_str());
        let (wall, counted): (Vec<_>, Vec<_>) =
            Figure::read(str::from_utf8(&output.stdout)?)?.into_iter().partition(is_time);
        let (bench, papers) = (Bench::find(name).context("there is no such benchmark")?, Paper::all()?);
        let table = Table { bench: &bench, figures: &counted, papers: &papers, wall: &wall }.to_string();
        Ok(Self { counted, wall, table })
    }

    /// What was counted of Linux.
    pub fn theirs(&self) -> impl Iterator<Item = Figure> {
        let is_theirs = |figure: &&Figure| figure.source == Source::Measured && figure.system != MUSUBI;
        self.counted.iter().filter(is_theirs).cloned()
    }

    /// What was measured on one processor, by either clock. Some benchmarks measure the same on machines with more.
    fn measured(&self) -> impl Iterator<Item = &Figure> {
        self.counted.iter().chain(&self.wall).filter(|figure| figure.source == Source::Measured && figure.cpus == 1)
    }

    /// What there is of a unit, each once.
    fn subjects(&self, unit: &str) -> Result<BTreeSet<Subject>> {
        let mut subjects = BTreeSet::new();
        for figure in self.measured() {
            if figure.unit == unit && figure.case_and_step().1.is_none() {
                let Figure { case, way, system, bytes, .. } = figure.clone();
                ensure!(subjects.insert((case, way, system, bytes)), "twice: {}", figure.line());
            }
        }
        Ok(subjects)
    }

    fn find(&self, (case, way, system, bytes): &Subject, unit: &str) -> Result<&Figure> {
        let is_it =
            |f: &&Figure| (&f.case, &f.way, &f.system, f.bytes) == (case, way, system, *bytes) && f.unit == unit;
        let found = self.measured().find(is_it);
        found.with_context(|| format!("no {unit} of {case} with {bytes} bytes by {way} on {system}"))
    }

    /// The cells of a row of the first table that has one like this, behind its beginning.
    fn row(&self, from: &str, beginning: &[&str]) -> Result<Vec<&str>> {
        let at = self.table.find(from).with_context(|| format!("no {from:?} in\n{}", self.table))?;
        let mut rows = self.table[at..].lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let row = rows.find(|row| row.starts_with(beginning));
        let row = row.with_context(|| format!("{beginning:?} is missing in\n{}", &self.table[at..]))?;
        Ok(row[beginning.len()..].to_vec())
    }
}

const PATTERNS: [&str; 4] = ["NullProc", "ArgNoRtn", "ArgRtn_NoCopy", "ArgRtn_Copy"];
const SIZES: [u64; 5] = [64, 2048, 4096, 8192, 1 << 20];
const COLOUR_MAP: &str = "ColourMap";
const CALLS: [&str; 3] = ["epc-h", "epc-s", "plain"];
const ITC: [&str; 2] = ["itc-improved", "itc-initial"];
/// By these nobody can send without waiting for an answer.
const SYNCHRONOUS: [&str; 1] = ["sunrpc-udp"];
const THEIRS: [&str; 7] = ["pipe", "unix", "shm-futex", "udp", "tcp", "sunrpc-udp", "sunrpc-tcp"];

/// Of these sizes those that a message of this way takes: a datagram takes no mebibyte.
fn taken(way: &str, sizes: &[u64]) -> Vec<u64> {
    sizes.iter().copied().filter(|bytes| !way.contains("udp") || *bytes < 1 << 20).collect()
}

/// Rows of the table that the paper's patterns make: case, way, system, and sizes.
fn rows() -> Vec<(String, &'static str, &'static str, Vec<u64>)> {
    let mut rows = Vec::new();
    for pattern in PATTERNS {
        let sizes = if pattern == "NullProc" { vec![0] } else { SIZES.to_vec() };
        let later = format!("{pattern}{ASYNC}");
        rows.extend(CALLS.iter().chain(&ITC).map(|way| (pattern.to_string(), *way, MUSUBI, sizes.clone())));
        rows.extend(ITC.map(|way| (later.clone(), way, MUSUBI, sizes.clone())));
        for system in SYSTEMS {
            for way in THEIRS {
                let sizes = taken(way, &sizes);
                // Sun RPC by TCP does not wait where nothing is returned.
                let waits = SYNCHRONOUS.contains(&way) || way == "sunrpc-tcp" && pattern.starts_with("ArgRtn");
                rows.push((pattern.to_string(), way, system, sizes.clone()));
                rows.extend((!waits).then(|| (later.clone(), way, system, sizes)));
            }
        }
    }
    // The paper's server.
    rows.extend(CALLS.iter().chain(&ITC).map(|way| (COLOUR_MAP.to_string(), *way, MUSUBI, SIZES.to_vec())));
    for system in SYSTEMS {
        rows.extend(THEIRS.map(|way| (COLOUR_MAP.to_string(), way, system, taken(way, &SIZES))));
    }
    rows
}

/// What the issue asks for is there in exact instructions, and whatever is has its time, too.
pub fn both_clocks(ipc: &Joined) -> Result<()> {
    let counted = ipc.subjects(unit::INSTRUCTIONS)?;
    for (case, way, system, sizes) in rows() {
        for bytes in sizes {
            let subject = (case.clone(), way.to_string(), system.to_string(), bytes);
            ensure!(counted.contains(&subject), "not measured: {subject:?}");
        }
    }
    let timed = ipc.subjects(unit::NANOSECONDS)?;
    let lacking: Vec<_> = counted.symmetric_difference(&timed).collect();
    ensure!(lacking.is_empty(), "by one clock only: {lacking:?}");
    for subject in &counted {
        for unit in [unit::INSTRUCTIONS, unit::NANOSECONDS] {
            let figure = ipc.find(subject, unit)?;
            let Figure { value, min, max, n, .. } = figure;
            ensure!(*value > 0 && min <= value && value <= max && *n > 0, "{}", figure.line());
        }
    }
    Ok(())
}

/// Of ours what 99 of a hundred rounds do not exceed is told, where there are a hundred: a long picture is changed five times.
pub fn late_rounds(ipc: &Joined) -> Result<()> {
    let late = ipc.subjects(unit::LATE)?;
    for subject in ipc.subjects(unit::NANOSECONDS)? {
        let wanted = subject.2 == MUSUBI && !(subject.0 == COLOUR_MAP && subject.3 == 1 << 20);
        ensure!(late.contains(&subject) == wanted, "p99 of {subject:?}: is it there?");
        if wanted {
            let (late, all) = (ipc.find(&subject, unit::LATE)?, ipc.find(&subject, unit::NANOSECONDS)?);
            ensure!((all.value..=all.max).contains(&late.value), "{} of {}", late.line(), all.line());
        }
    }
    Ok(())
}

/// CUBIX-M6: what else an exchange takes. No scheduler outside the kernel is told of anything on Linux.
pub fn counts(ipc: &Joined) -> Result<()> {
    const SEEN: [&str; 6] = [count::ENTRIES, count::VIEWS, count::KEYS, count::FLUSHES, count::COPIES, count::COPIED];
    for subject in ipc.subjects(unit::INSTRUCTIONS)? {
        let is_ours = subject.2 == MUSUBI;
        for unit in SEEN.iter().chain(is_ours.then_some(&count::EVENTS)) {
            ipc.find(&subject, unit)?;
        }
        ensure!(is_ours || ipc.find(&subject, count::EVENTS).is_err(), "whose scheduler? {subject:?}");
    }
    let value = |case: &str, way: &str, system: &str, bytes, unit| {
        Ok::<_, anyhow::Error>(ipc.find(&(case.into(), way.into(), system.into(), bytes), unit)?.value)
    };
    for (way, entries) in [("epc-h", 0), ("epc-s", 2)] {
        let of = |unit| value("NullProc", way, MUSUBI, 0, unit);
        let found = (of(count::ENTRIES)?, of(count::EVENTS)?, of(count::COPIES)?);
        ensure!(found == (entries, 0, 0), "entries, events and copies of a call by {way}: {found:?}");
    }
    for system in SYSTEMS {
        // A header of eight bytes is written and read, and so is that of the answer.
        let of = |unit| value("NullProc", "pipe", system, 0, unit);
        let found = (of(count::ENTRIES)?, of(count::VIEWS)?, of(count::COPIES)?, of(count::COPIED)?);
        ensure!(found == (4, 2, 4, 32), "{system}: entries, switches, copies and bytes by pipe: {found:?}");
        for (way, times) in [("pipe", 4), ("unix", 4), ("udp", 4), ("sunrpc-udp", 4)] {
            let (null, data) = (
                value("NullProc", way, system, 0, count::COPIED)?,
                value("ArgRtn_NoCopy", way, system, 8192, count::COPIED)?,
            );
            // To the kernel and out of it, there and back; headers besides.
            let each = (data - null) as f64 / 8192.0;
            ensure!((times as f64..times as f64 + 0.2).contains(&each), "{system}, {way}: copied {each} times");
            let (null, data) = (
                value("NullProc", way, system, 0, count::COPIES)?,
                value("ArgRtn_NoCopy", way, system, 8192, count::COPIES)?,
            );
            ensure!(null > 0 && data >= null, "{system}, {way}: {null} and {data} copies");
        }
        let shared = value("ArgRtn_Copy", "shm-futex", system, 8192, count::COPIED)?;
        ensure!(shared < 64, "{system}: the kernel copies {shared} bytes of shared memory");
    }
    Ok(())
}

/// The paper's patterns for people: ours, each of Linux's ways, and what the papers published; and all of it by the clock.
pub fn for_people(ipc: &Joined) -> Result<()> {
    let number = |cell: &&str| cell.trim_end_matches('*').parse::<u64>().is_ok_and(|number| number > 0);
    let ratio = |cell: &&str| cell.parse::<f64>().is_ok_and(|ratio| ratio > 0.0);
    for (case, way, system, sizes) in rows() {
        for from in ["ipc: ", "Wall time"] {
            let cells = ipc.row(from, &[&case, way, system])?;
            ensure!(cells.iter().take(sizes.len()).all(number), "{from} {case} {way} {system}: {cells:?}");
            let columns = if case.starts_with("NullProc") { 1 } else { SIZES.len() };
            if system == MUSUBI {
                ensure!(cells[columns..].iter().take(2).all(ratio), "ratios of {case} by {way}: {cells:?}");
            }
            let (least, late) = (cells.get(columns + 2), cells.get(columns + 3));
            if from == "Wall time" {
                ensure!(least.is_some_and(number), "the least of {case} by {way}: {cells:?}");
                ensure!(late.is_some_and(number) == (system == MUSUBI), "p99 of {case} by {way}: {cells:?}");
            }
        }
    }
    for published in ["0.902 ms (cubix386 itc)", "17.100 ms (bsd/386-1.1 sun-rpc-udp)"] {
        ensure!(ipc.table.contains(published), "{published} is missing in\n{}", ipc.table);
    }
    // Of a system that is not here: under its size.
    let cells = ipc.row("ipc: ", &["ArgRtn_Copy", "mig", "mach-3.0"])?;
    let at = SIZES.iter().position(|bytes| *bytes == 8192).context("the paper's size is none of ours")?;
    ensure!(cells.get(at) == Some(&"3.270") && cells.last() == Some(&"ms"), "of Mach: {cells:?}");
    Ok(())
}

/// Linux's nearest equivalents in the tables of SSS-CORE: case, sizes, ours, and Linux's ways, the one first that stands beside ours.
type Nearest = (&'static str, &'static [u64], &'static str, &'static [&'static str]);

const ENTRY: [Nearest; 3] = [
    ("get_taskid", &[0], "light", &["getppid"]),
    ("sleep0", &[0], "full", &["sched_yield"]),
    ("sleep0-x2", &[0], "full", &["sched_yield"]),
];
const MEMORY: [Nearest; 3] = [
    ("alloc+free", &[4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20], "light", &["mmap"]),
    ("page_invalidate", &[4 << 10, 64 << 10], "light", &["mprotect"]),
    ("page_validate", &[4 << 10, 64 << 10], "light", &["mprotect"]),
];
const PAGER: [Nearest; 2] = [
    ("round-trip", &[0], "validate", &["sigsegv+mprotect", "userfaultfd"]),
    ("round-trip", &[0], "supply", &["userfaultfd", "sigsegv+mprotect"]),
];

/// What a script reads, and what stands in one row or table with ours: Linux's, and what the papers say.
pub fn nearest(joined: &Joined, bench: &str) -> Result<()> {
    let all: &[Nearest] = match bench {
        "entry" => &ENTRY,
        "memory" => &MEMORY,
        "pager" => &PAGER,
        other => bail!("nothing is known of {other}"),
    };
    for (case, sizes, way, theirs) in all {
        for bytes in *sizes {
            let find = |way: &str, system: &str| {
                let figure = joined.find(&(case.to_string(), way.into(), system.into(), *bytes), unit::INSTRUCTIONS)?;
                ensure!(figure.value > 0, "{}", figure.line());
                Ok(figure.value)
            };
            let own = find(way, MUSUBI)?;
            for system in SYSTEMS {
                theirs.iter().try_for_each(|way| find(way, system).map(drop))?;
            }
            if sizes.len() > 1 {
                // A column for each size, and a row for each way of each system on machines with as many processors, of which that of one is looked at.
                let is_ours = |f: &&Figure| f.system == MUSUBI && f.is_total() && f.case == *case;
                let columns: BTreeSet<u64> = joined.counted.iter().filter(is_ours).map(|figure| figure.bytes).collect();
                let column = columns.iter().position(|size| size == bytes).context("no such column")?;
                let cpus =
                    joined.counted.iter().filter(|f| f.system == MUSUBI).any(|figure| figure.cpus > 1).then_some("1");
                for (way, system) in [(*way, MUSUBI), (theirs[0], SYSTEMS[0]), (theirs[0], SYSTEMS[1])] {
                    let beginning: Vec<&str> = [*case, way].into_iter().chain(cpus).chain([system]).collect();
                    let (cells, value) =
                        (joined.row(&format!("{bench}: "), &beginning)?, find(way, system)?.to_string());
                    ensure!(cells.get(column) == Some(&value.as_str()), "{case} {way} {system}: {cells:?}, {value}");
                }
                continue;
            }
            let mut expected = vec![own.to_string()];
            for system in SYSTEMS.into_iter().rev() {
                let nearest = find(theirs[0], system)?;
                let ratio = format!("{:.1}", nearest as f64 / own as f64);
                expected.extend([nearest.to_string(), format!("({})", theirs[0]), ratio]);
            }
            let cells = joined.row(&format!("{bench}: "), &[case, &bytes.to_string(), way])?;
            ensure!(cells.starts_with(&expected.iter().map(String::as_str).collect::<Vec<_>>()), "{case}: {cells:?}");
        }
    }
    papers::stand(bench, &joined.table, |case, way, bytes| {
        let subject = (case.to_string(), way.to_string(), MUSUBI.to_string(), bytes);
        joined.find(&subject, unit::INSTRUCTIONS).map(|figure| figure.value)
    })
}

/// K1-M1: Linux's pipe and its datagrams stand in the table of ours and the paper's, and take longer than a post.
pub fn messages(joined: &Joined) -> Result<()> {
    let find = |way: &str, system: &str| {
        let figure = joined.find(&("ping-pong".into(), way.into(), system.into(), 48), unit::INSTRUCTIONS)?;
        Ok::<_, anyhow::Error>(figure.value)
    };
    let ours = find("pool", MUSUBI)?;
    for system in SYSTEMS {
        for way in ["pipe", "unix-dgram"] {
            let theirs = find(way, system)?;
            ensure!(0 < ours && ours < theirs, "{ours} by a post, {theirs} by {way} on {system}");
            let cells = joined.row("K1-M1", &[system, way, "1"])?;
            ensure!(cells.first() == Some(&theirs.to_string().as_str()), "{way} on {system}: {cells:?}, {theirs}");
        }
    }
    Ok(())
}

/// K1-U6: programs that nobody here wrote, on as many processors, stand in one row, with what else was counted of both.
pub fn programs(joined: &Joined) -> Result<()> {
    let of = |case: &str, system: &str, cpus, unit: &str| {
        let same = |f: &&Figure| f.case == case && f.system == system && f.cpus == cpus && f.unit == unit;
        let found = joined.counted.iter().find(same);
        found.with_context(|| format!("no {unit} of {case} by {system} on {cpus} processors"))
    };
    let ours: Vec<&Figure> = joined.counted.iter().filter(|f| f.system == MUSUBI && f.is_total()).collect();
    let on = |cpus| ours.iter().filter(|figure| figure.cpus == cpus).count();
    ensure!(on(1) > 0 && on(2) == on(1) && on(4) == on(1), "{} of ours", ours.len());
    for own in ours {
        let (case, cpus) = (own.case.as_str(), own.cpus);
        for system in [MUSUBI].into_iter().chain(SYSTEMS) {
            for unit in [unit::INSTRUCTIONS, count::EXECUTED, count::ENTRIES] {
                ensure!(of(case, system, cpus, unit)?.value > 0, "{unit} of {case} by {system} on {cpus} processors");
            }
        }
        let cells = joined.row(&format!("{PROGRAMS}: "), &[case, "0", &own.way, &cpus.to_string()])?;
        let of = |system| of(case, system, cpus, unit::INSTRUCTIONS).map(|figure| figure.value.to_string());
        // Ours, then of each system its figure, its way and the ratio.
        for (at, system) in [(0, MUSUBI), (1, SYSTEMS[1]), (4, SYSTEMS[0])] {
            ensure!(cells.get(at) == Some(&of(system)?.as_str()), "{case} on {cpus} processors: {cells:?}");
        }
    }
    ensure!(!joined.wall.is_empty(), "no wall time");
    Ok(())
}
