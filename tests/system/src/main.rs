#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod case;
mod checks;
mod lab;
mod mutants;
mod session;
mod stages;

use anyhow::{Result, ensure};
use build::Workspace;
use case::{Case, Variant};
use lab::{Failure, Lab};
use machine::Parts;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Instant;

/// Machines that run at the same time. More would compete for the two processors of a small host, and tests with
/// several processors would wait for threads that are not running.
const MACHINES: usize = 2;

fn main() -> Result<ExitCode> {
    machine::guard::enter();
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    let keys = !names.iter().any(|name| name == "--no-pku");
    names.retain(|name| name != "--no-pku");
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
    let mut runs: Vec<(&Case, Variant)> = Vec::new();
    for case in &cases {
        runs.extend(case.variants(keys).into_iter().map(|variant| (case, variant)));
    }
    let queue = Mutex::new(runs.into_iter());
    let (results, inbox) = channel();
    let mut good = true;
    std::thread::scope(|scope| {
        for _ in 0..MACHINES {
            let (queue, lab, results) = (&queue, &lab, results.clone());
            scope.spawn(move || {
                loop {
                    let next = queue.lock().expect("nobody panics with the queue").next();
                    let Some((case, variant)) = next else { return };
                    let start = Instant::now();
                    for (name, outcome) in case.run(lab, variant) {
                        // The receiver outlives the senders.
                        let _ = results.send((name, outcome, start.elapsed()));
                    }
                }
            });
        }
        drop(results);
        for (name, outcome, took) in inbox {
            let took = took.as_secs_f64();
            match outcome {
                Ok(()) => println!("{name} ok ({took:.1} s)"),
                Err(Failure::Skipped(why)) => println!("{name} skipped ({why})"),
                Err(Failure::Failed(report)) => {
                    good = false;
                    println!("{name} FAILED ({took:.1} s)");
                    report.lines().for_each(|line| println!("    {line}"));
                }
            }
        }
    });
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
