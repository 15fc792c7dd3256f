//! Servers in user mode, in supervisor mode, and there without preemption (SSS-61): what one line to the console, one look for a file and one
//! switch between threads by a scheduler outside the kernel take. Their programs are the same.

use crate::report::{Case, Report};
use crate::rounds::Plan;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::sync::atomic::{AtomicBool, Ordering};
use musubi::abi::section::class::WORDS;
use musubi::interfaces::sched::SchedClient;
use musubi::rt::{thread, time};
use musubi::{Error, files, names, servers, stream};

const PLAN: Plan = Plan::new(200);
/// Short enough to go to the console byte by byte.
const LINE: [u8; 32] = [b'.'; 32];

pub fn run(report: &Report) -> Result<(), String> {
    let mut outcome = Ok(());
    for class in 0..WORDS.len() as u64 {
        outcome = outcome.and_then(|()| of_class(report, class));
    }
    // As they were, however it went.
    for name in ["console", "files", "sched-fast"] {
        let _ = servers::place(name, 0, 0);
    }
    outcome
}

fn of_class(report: &Report, class: u64) -> Result<(), String> {
    let way = WORDS[class as usize];
    let case = |case, bytes| Case { case, way, bytes };
    for name in ["console", "files", "sched-fast"] {
        servers::place(name, class, 0).map_err(|e| format!("placing {name}: {e}"))?;
    }
    let mut good = true;
    let line = PLAN.measure(|| good &= stream::errors().write_all(&LINE).is_ok());
    report.case(case("console-line", LINE.len()), &line, &[]);
    let look = PLAN.measure(|| good &= files::find(b"bin/bench").is_ok());
    report.case(case("file-look", 0), &look, &[]);
    if !good {
        return Err(format!("a server in {way} refuses"));
    }
    let client = names::lookup("sched").and_then(|gate| SchedClient::bind_with_args(gate, 4096));
    let client = client.map_err(|e| format!("sched: {e}"))?;
    client.choose("ageing").map_err(|e| format!("a scheduler: {e}"))?;
    let switched = switch(report, case("giving-way", 0));
    client.choose("none").map_err(|e| format!("the round robin: {e}"))?;
    switched.map_err(|e| format!("a thread: {e}"))
}

/// Two threads that do nothing but give way to each other: there and back.
fn switch(report: &Report, case: Case) -> Result<(), Error> {
    let done: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let other = move || {
        while !done.load(Ordering::Relaxed) {
            time::sleep_ns(0);
        }
    };
    let other = thread::spawn(other, 0)?;
    let both = PLAN.measure(|| time::sleep_ns(0));
    done.store(true, Ordering::Relaxed);
    other.join()?;
    report.case(case, &both, &[]);
    Ok(())
}
