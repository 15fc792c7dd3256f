#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod case;
mod checks;
mod debugger;
mod lab;
mod mutants;
mod room;
mod screen;
mod session;
mod stages;
mod text;
mod variant;

use anyhow::{Result, ensure};
use build::Workspace;
use case::{Case, Found};
use lab::{Failure, Lab};
use machine::Parts;
use room::Room;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use variant::Variant;

/// Threads that run machines: one more than a small host has processors, since some machines only wait. How many run at a time is up to the room.
const HANDS: usize = 3;

/// One run of a test, and what of it is to be found out: all, unless something is named.
type Run<'a> = (&'a Case, Variant, Vec<String>);
/// A run, what it found, and how long it took.
type Report<'a> = (Run<'a>, Vec<Found>, Duration);

fn main() -> Result<ExitCode> {
    machine::guard::enter();
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    let keys = !names.iter().any(|name| name == "--no-pku");
    let whole = names.iter().any(|name| name == "--all");
    names.retain(|name| name != "--no-pku" && name != "--all");
    // What is named runs as thoroughly as it can.
    let thorough = whole || !names.is_empty();
    for name in &names {
        let one = std::slice::from_ref(name);
        ensure!(stages::all().iter_mut().any(|case| case.narrow(one)), "there is no test, and no stage, {name}");
    }
    let workspace = Workspace::find();
    let built = workspace.build()?;
    let parts = Parts::read(&built.kernel, &built.programs, &lab::manifest(&workspace))?;
    let lab = Lab::new(keys, &parts, &workspace, &built)?;

    let mut cases = stages::all();
    cases.retain_mut(|case| case.narrow(&names));
    let mut runs: Vec<Run> = Vec::new();
    for case in &cases {
        if case.long && !thorough {
            case.full_names().for_each(|name| println!("{name} long (./musubi test all)"));
            continue;
        }
        runs.extend(case.variants(keys, thorough).into_iter().map(|variant| (case, variant, Vec::new())));
    }
    let mut unsteady = Vec::new();
    let mut good = true;
    run_all(&lab, runs, HANDS, |(run, found, took)| {
        let failed = failed(&found);
        let again = run.0.depends_on_the_host() && !failed.is_empty() && !has_come_through(run.0, &found);
        unsteady.extend(again.then_some((run.0, run.1, failed)));
        good &= show(&found, took, again);
    });
    // What waits for processors of a machine fails where the host has no time for them. Such a test runs once more, alone, and if need be
    // another time; that it needed it is said (`unsteady`), for it may as well have found a race.
    for last in [false, true] {
        let runs = std::mem::take(&mut unsteady);
        run_all(&lab, runs, 1, |(run, found, took)| {
            let failed = failed(&found);
            let again = !last && !failed.is_empty() && !has_come_through(run.0, &found);
            unsteady.extend(again.then_some((run.0, run.1, failed)));
            good &= show(&found, took, again);
        });
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks there try what must never succeed, or lose what must never be lost.
const FINAL: [&str; 3] = ["s30_epc", "s60_attacks", "s65_gate"];

/// An attack that has come through once has come through, what a call has lost is lost, and so with a kernel that has come to its end: it may have been a
/// matter of chance.
fn has_come_through(case: &Case, found: &[Found]) -> bool {
    let is_final = |failure: &Failure| {
        failure.is_final()
            || FINAL.contains(&case.stage) && matches!(failure, Failure::Told(_))
            || case.no_end_is_final && failure.is_failed()
    };
    found.iter().any(|(_, outcome)| outcome.as_ref().is_err_and(is_final))
}

/// The names of what has failed.
fn failed(found: &[Found]) -> Vec<String> {
    let failed = found.iter().filter(|(_, outcome)| outcome.as_ref().is_err_and(Failure::is_failed));
    failed.map(|(name, _)| name.clone()).collect()
}

/// Runs them all, so many at the same time, and gives what each has found to `tell`, in the order in which they are done.
fn run_all<'a>(lab: &Lab, runs: Vec<Run<'a>>, hands: usize, mut tell: impl FnMut(Report<'a>)) {
    let (queue, room) = (Mutex::new(runs.into_iter()), Room::new());
    let (results, inbox) = channel::<Report>();
    std::thread::scope(|scope| {
        for _ in 0..hands {
            let (queue, room, results) = (&queue, &room, results.clone());
            scope.spawn(move || {
                loop {
                    let next = queue.lock().expect("nobody panics with the queue").next();
                    let Some((case, variant, again)) = next else { return };
                    let place = room.enter(&case.options(variant));
                    let start = Instant::now();
                    let found = case.run(lab, variant, &again);
                    drop(place);
                    // The receiver outlives the senders.
                    let _ = results.send(((case, variant, again), found, start.elapsed()));
                }
            });
        }
        drop(results);
        inbox.into_iter().for_each(&mut tell);
    });
}

/// Prints a line for each name, with the report of what failed. `again`: there is a second run. Whether all is well so far.
fn show(found: &[Found], took: Duration, again: bool) -> bool {
    let took = took.as_secs_f64();
    let mut good = true;
    for (name, outcome) in found {
        match outcome {
            Ok(()) => println!("{name} ok ({took:.1} s)"),
            Err(Failure::Skipped(why)) => println!("{name} skipped ({why})"),
            Err(Failure::Failed(report) | Failure::Told(report)) => {
                good &= again;
                let word = if again { "unsteady" } else { "FAILED" };
                println!("{name} {word} ({took:.1} s)");
                report.lines().for_each(|line| println!("    {line}"));
            }
        }
    }
    good
}
