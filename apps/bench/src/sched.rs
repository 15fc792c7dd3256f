//! What it costs that a thread passes on to another and gets it back: two switches between threads, by the kernel's round
//! robin and by schedulers outside the kernel (CUBIX-M7).

use crate::report::{Case, Report};
use crate::rounds::Plan;
use alloc::format;
use alloc::string::String;
use core::sync::atomic::{AtomicBool, Ordering};
use musubi::interfaces::sched::SchedClient;
use musubi::rt::{sched, task, thread};
use musubi::{Error, names};

const PLAN: Plan = Plan::new(500);
/// What it is called in the table, and what is asked for.
const WAYS: [(&str, &str); 3] = [("in-turn", "none"), ("itc-improved", "ageing"), ("itc-initial", "initial")];

static STOP: AtomicBool = AtomicBool::new(false);

pub fn run(report: &Report) -> Result<(), String> {
    let chooser = names::lookup("sched").and_then(|gate| SchedClient::bind_with_args(gate, 4096));
    let chooser = chooser.map_err(|e| format!("sched: {e}"))?;
    let mut outcome = Ok(());
    for (way, name) in WAYS {
        outcome = chooser.choose(name).and_then(|()| measure(report, way)).map_err(|e| format!("{way}: {e}"));
        if outcome.is_err() {
            break;
        }
    }
    chooser.choose("none").map_err(|e| format!("none: {e}"))?;
    outcome
}

fn measure(report: &Report, way: &str) -> Result<(), Error> {
    let me = task::identity().thread;
    STOP.store(false, Ordering::SeqCst);
    let other = thread::spawn(
        move || {
            let _ = sched::sleep(u64::MAX);
            while !STOP.load(Ordering::SeqCst) {
                let _ = sched::pass(me, u64::MAX);
            }
        },
        0,
    )?;
    let mut failed = Ok(());
    let per_itc = switches_per_itc(other.number())?;
    let rounds = PLAN.measure(|| failed = sched::pass(other.number(), u64::MAX));
    STOP.store(true, Ordering::SeqCst);
    sched::wake_up(other.number())?;
    other.join()?;
    failed?;
    report.case(Case { case: "switch-and-back", way, bytes: 0 }, &rounds, &[]);
    report.count(Case { case: "switches-per-itc", way, bytes: 0 }, "switches", per_itc);
    Ok(())
}

/// Switches of the processor for one from thread to thread, as the kernel counts them: the least of several runs, as others
/// may wake up meanwhile.
fn switches_per_itc(other: u64) -> Result<u64, Error> {
    const PASSES: u64 = 50;
    let switches = || task::processors().map(|p| p.switches).sum::<u64>();
    let mut least = u64::MAX;
    for _ in 0..10 {
        let before = switches();
        for _ in 0..PASSES {
            sched::pass(other, u64::MAX)?;
        }
        // Each is answered by one back.
        least = least.min((switches() - before) / (2 * PASSES));
    }
    Ok(least)
}
