//! `bench apps`: that what is told of programs which nobody here wrote is there, and can be. What it comes to is held to nothing.

use super::Runs;
use anyhow::{Context, Result, ensure};
use measure::{Figure, PROGRAMS, count, unit};

/// The scripts of `apps/bench/src/apps.txt`, which says what they are.
const CASES: [&str; 8] =
    ["sha256sum", "sort", "gzip", "awk", "pipeline", "script", "sha256sum-4-at-once", "gzip-by-xargs"];
const MACHINES: [u32; 3] = [1, 2, 4];
/// The least that a shell and what it starts take, and the most that they do.
const LEAST: u64 = 100_000;
const MOST: u64 = 10_000_000_000;
/// Programs of the script that starts many: each is loaded and ends, for which the kernel is entered at least so often.
const STARTED: u64 = 40;

fn value(runs: &Runs, case: &str, cpus: u32, unit: &str) -> Result<u64> {
    let same =
        |f: &&Figure| (f.case.as_str(), f.way.as_str(), f.cpus, f.unit.as_str()) == (case, "busybox", cpus, unit);
    let found = runs.of(PROGRAMS)?.figures.iter().find(same);
    found.map(|figure| figure.value).with_context(|| format!("no {unit} of {case} on {cpus} processors"))
}

/// K1-U6: on each machine what each takes, what is executed of that, entries and messages, and what part these are.
pub fn take_what_is_told(runs: &Runs) -> Result<()> {
    for cpus in MACHINES {
        for case in CASES {
            let of = |unit| value(runs, case, cpus, unit);
            let (taken, executed) = (of(unit::INSTRUCTIONS)?, of(count::EXECUTED)?);
            ensure!((LEAST..=MOST).contains(&executed), "{case} on {cpus} processors: {executed} are executed");
            // An instruction that faults is seen at each attempt.
            let most = taken + taken / 10;
            ensure!(executed <= most, "{case} on {cpus} processors: {executed} of {taken} are executed");
            let (entries, messages, part) = (of(count::ENTRIES)?, of(count::MESSAGES)?, of(count::PERMILLE)?);
            ensure!(entries > 0 && entries < executed, "{case} on {cpus} processors: {entries} entries");
            ensure!(messages > 0 && messages < executed, "{case} on {cpus} processors: {messages} messages");
            ensure!(part < 1000, "{case} on {cpus} processors: {part} thousandths are for messages");
        }
        let entries = value(runs, "script", cpus, count::ENTRIES)?;
        ensure!(entries >= 2 * STARTED, "{STARTED} programs start and end by {entries} entries on {cpus} processors");
    }
    Ok(())
}

/// What several do in the time of one is told of two and of four.
pub fn stand_side_by_side(runs: &Runs) -> Result<()> {
    for (case, words) in [("sha256sum", "programs"), ("gzip-by-xargs", "at-once")] {
        for count in [2, 4] {
            let way = format!("{count}-{words}");
            let same = |f: &&Figure| f.case == case && f.way == way && f.unit == count::BESIDE;
            let gained = runs.of(PROGRAMS)?.figures.iter().find(same).with_context(|| format!("{case}: no {way}"))?;
            ensure!((1..=2000 * count).contains(&gained.value), "{}", gained.line());
        }
    }
    Ok(())
}
