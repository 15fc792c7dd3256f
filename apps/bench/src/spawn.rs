//! What a program's life costs, from the request until its end is known.

use crate::report::{Case, Report};
use crate::rounds::Plan;
use alloc::format;
use alloc::string::String;
use musubi::abi::task::Exit;
use musubi::command::Command;
use musubi::rt::time;

const ROUNDS: usize = 20;
/// What fits an exit status.
const STAMP_MASK: u64 = 0x7fff_ffff;
const STEPS: [&str; 3] = ["loader", "start", "end"];

/// The program that is started: says by its exit status when it began.
pub fn stamp() -> i32 {
    (time::ticks() & STAMP_MASK) as i32
}

pub fn run(report: &Report) -> Result<(), String> {
    let command = Command::new(b"bin/bench").arg(b"stamp");
    let mut outcome = Ok(());
    let rounds = Plan::new(ROUNDS).measure_steps(|| match life(&command) {
        Ok(steps) => steps,
        Err(why) => {
            outcome = Err(why);
            [0; 3]
        }
    });
    outcome?;
    report.case(Case { case: "spawn", way: "loader", bytes: 0 }, &rounds, &STEPS);
    Ok(())
}

/// The loader: text cloned, data filled, task made; the start: until the main function runs; the end: all given back, and
/// the waiter runs.
fn life(command: &Command) -> Result<[u64; 3], String> {
    let began = time::ticks();
    let child = command.spawn().map_err(|e| format!("{e}"))?;
    let loaded = time::ticks();
    let Exit { code, .. } = child.wait().map_err(|e| format!("{e}"))?;
    let ended = time::ticks();
    // With several processors the main function may begin before the loader has returned.
    let ran = (code & STAMP_MASK).wrapping_sub(began) & STAMP_MASK;
    let (loaded, ended) = (loaded - began, ended - began);
    let loader = loaded.min(ran);
    Ok([loader, ran - loader, ended.saturating_sub(ran)])
}
