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
const WAYS: [(&str, &str); 3] = [("in-turn", "none"), ("improved", "ageing"), ("initial", "initial")];

static STOP: AtomicBool = AtomicBool::new(false);

pub fn run(report: &Report) -> Result<(), String> {
    by_each(&WAYS, |way| measure(report, way).map_err(|e| format!("{e}")))
}

/// Does something under each scheduler (what it is called, what is asked for), and takes it away again.
pub fn by_each(ways: &[(&str, &str)], mut what: impl FnMut(&str) -> Result<(), String>) -> Result<(), String> {
    let chooser = names::lookup("sched").and_then(|gate| SchedClient::bind_with_args(gate, 4096));
    let chooser = chooser.map_err(|e| format!("sched: {e}"))?;
    let mut outcome = Ok(());
    for &(way, name) in ways {
        outcome = chooser.choose(name).map_err(|e| format!("{e}")).and_then(|()| what(way));
        outcome = outcome.map_err(|e| format!("{way}: {e}"));
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
    let rounds = PLAN.measure(|| failed = sched::pass(other.number(), u64::MAX));
    STOP.store(true, Ordering::SeqCst);
    sched::wake_up(other.number())?;
    other.join()?;
    failed?;
    report.case(Case { case: "pass-and-back", way, bytes: 0 }, &rounds, &[]);
    Ok(())
}
