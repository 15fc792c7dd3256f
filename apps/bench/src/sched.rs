//! What it costs that a thread passes on to another and gets it back: two switches between threads, by the kernel's round
//! robin and by schedulers outside the kernel (CUBIX-M7).

use crate::report::{Case, Report};
use crate::rounds::{Plan, STEPS};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use core::sync::atomic::{AtomicBool, Ordering};
use musubi::interfaces::keyboard::{KeyboardClient, way as listening};
use musubi::interfaces::passing::PassingClient;
use musubi::interfaces::sched::SchedClient;
use musubi::pass::{ByKernel, Pass};
use musubi::rt::{task, thread};
use musubi::{Error, names};

const ROUNDS: usize = 500;
/// What it is called in the table, and what is asked for.
const WAYS: [(&str, &str); 4] =
    [("in-turn", "none"), ("itc-improved", "ageing"), ("itc-improved-by-kernel", "ageing"), ("itc-initial", "initial")];
/// The scheduler is called as a procedure; otherwise by a call of the kernel.
const DIRECT: &str = "itc-improved";

static STOP: AtomicBool = AtomicBool::new(false);

pub fn run(report: &Report) -> Result<(), String> {
    by_each(&WAYS, |way| {
        let measured = match way {
            DIRECT => names::lookup("passing")
                .and_then(PassingClient::bind)
                .and_then(|p| measure(report, way, &*Box::leak(Box::new(p)))),
            _ => measure(report, way, ByKernel),
        };
        measured.map_err(|e| format!("{e}"))
    })?;
    interrupts(report)
}

/// From a device's interrupt to its driver: called by the scheduler, or by waking a thread (CUBIX-U10). The probe tells how long
/// it was from before the write to a port that causes the interrupt, and how long such a write takes alone.
const TO_DRIVERS: [(&str, &str); 4] = [
    ("epc-from-scheduler", "ageing"),
    ("thread-improved", "ageing"),
    ("thread-initial", "initial"),
    ("thread-in-turn", "none"),
];
const PROBES: usize = 200;

fn interrupts(report: &Report) -> Result<(), String> {
    let keyboard = names::lookup("keyboard").and_then(KeyboardClient::bind).map_err(|e| format!("keyboard: {e}"))?;
    let outcome = by_each(&TO_DRIVERS, |way| {
        let how = if way == "epc-from-scheduler" { listening::CALL } else { listening::THREAD };
        keyboard.listen(how).and_then(|()| probe(report, way, &keyboard)).map_err(|e| format!("{e}"))
    });
    keyboard.listen(listening::CALL).map_err(|e| format!("keyboard: {e}"))?;
    outcome
}

fn probe(report: &Report, way: &str, keyboard: &KeyboardClient) -> Result<(), Error> {
    let mut failed = Ok(());
    let rounds = Plan::new(PROBES).measure_steps(|| match (keyboard.write_time(), keyboard.probe()) {
        (Ok(write), Ok(all)) => [write, all.saturating_sub(write), 0],
        (Err(error), _) | (_, Err(error)) => {
            failed = Err(error);
            [0; STEPS]
        }
    });
    failed?;
    report.case(Case { case: "interrupt", way, bytes: 0 }, &rounds, &["port-write", "to-driver"]);
    Ok(())
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

fn measure(report: &Report, way: &str, ask: impl Pass) -> Result<(), Error> {
    let me = task::identity().thread;
    STOP.store(false, Ordering::SeqCst);
    let other = thread::spawn(
        move || {
            let _ = ask.sleep();
            while !STOP.load(Ordering::SeqCst) {
                let _ = ask.pass(me);
            }
        },
        0,
    )?;
    let mut failed = Ok(());
    let first = || {
        let _ = ask.pass(other.number());
    };
    let rounds = Plan::new(ROUNDS).first(&first).measure(|| failed = ask.pass(other.number()));
    let per_itc = switches_per_itc(ask, other.number());
    STOP.store(true, Ordering::SeqCst);
    ask.wake_up(other.number())?;
    other.join()?;
    failed?;
    report.case(Case { case: "switch-and-back", way, bytes: 0 }, &rounds, &[]);
    if let Some(per_itc) = per_itc? {
        report.count(Case { case: "switches-per-itc", way, bytes: 0 }, "switches", per_itc);
    }
    Ok(())
}

/// Changes of context for one from thread to thread: switches, as the kernel counts them, and calls of the scheduler, as it counts
/// them. From stretches in which no interrupt has come, so that hardly anything else has happened: more than half of them must be
/// equal and leave no remainder.
/// `None`: there were none, or on several processors the two run side by side.
fn switches_per_itc(ask: impl Pass, other: u64) -> Result<Option<u64>, Error> {
    const PASSES: u64 = 5;
    const STRETCHES: u32 = 1000;
    let state = || {
        let sums = task::processors().map(|p| (p.interrupts, p.switches + ask.entered(p.index)));
        sums.fold((0, 0), |sum, p| (sum.0 + p.0, sum.1 + p.1))
    };
    // Side by side each goes on without a switch as often as it happens, and misses the other's turn.
    let is_alone = task::processors().count() == 1;
    // How many stretches took so many.
    let mut found = BTreeMap::<u64, u32>::new();
    for _ in 0..STRETCHES {
        let before = state();
        for _ in 0..PASSES {
            match ask.pass(other) {
                Err(error) if is_alone => return Err(error),
                _ => {}
            }
        }
        let after = state();
        if after.0 == before.0 {
            // Each is answered by one back.
            *found.entry(after.1 - before.1).or_default() += 1;
        }
    }
    let all: u32 = found.values().sum();
    let most = found.into_iter().max_by_key(|(_, stretches)| *stretches);
    // Besides, a high level may look after its queues without an interrupt, and side by side each goes on without a switch.
    match most {
        Some((made, stretches)) if made.is_multiple_of(2 * PASSES) && stretches > all / 2 => {
            Ok(Some(made / (2 * PASSES)))
        }
        Some(_) if is_alone => Err(Error::Changed),
        _ => Ok(None),
    }
}
