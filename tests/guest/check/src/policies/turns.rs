//! Time, and not turns: who computes has as much of it as another one, whatever comes in between.

use super::{Busy, compute};
use crate::report::{Outcome, doing};
use crate::sched::{leak, with};
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use musubi::interfaces::passing::PassingClient;
use musubi::names;
use musubi::rt::{task, thread, time};

/// For so long they are watched: fifty quanta.
const WATCHED_NS: u64 = 500_000_000;

fn time_of(number: u64) -> Result<u64, String> {
    task::threads().find(|one| one.thread == number).map(|one| one.time).ok_or_else(|| format!("no thread {number}"))
}

/// What threads have had of the processor while they were watched.
fn had(threads: &[u64]) -> Result<Vec<u64>, String> {
    time::sleep_ns(WATCHED_NS / 5);
    let before = threads.iter().map(|one| time_of(*one)).collect::<Result<Vec<_>, _>>()?;
    time::sleep_ns(WATCHED_NS);
    let after = threads.iter().map(|one| time_of(*one)).collect::<Result<Vec<_>, _>>()?;
    Ok(after.iter().zip(before).map(|(after, before)| after - before).collect())
}

/// Neither has a tenth more than the other.
fn alike(policy: &str, had: &[u64]) -> Outcome {
    let (most, least) = (had.iter().max().copied().unwrap_or(0), had.iter().min().copied().unwrap_or(0));
    holds!(least > 0 && most * 10 <= least * 11, "by {policy} they had {had:?} ns");
    Ok(())
}

const POLICIES: [&str; 5] = ["ageing", "share", "deadline", "gang", "initial"];

/// Two that only compute. (Of three what one has too little goes round.)
pub fn equal_threads() -> Outcome {
    same!(task::processors().count(), 1, "processors");
    for policy in POLICIES {
        with(policy, || {
            let busy = Busy::start(2)?;
            let numbers: Vec<u64> = busy.threads.iter().map(thread::Thread::number).collect();
            alike(policy, &had(&numbers)?)?;
            busy.stop()
        })?;
    }
    Ok(())
}

/// One that calls the scheduler all the time, and is mostly found there when its time is over.
pub fn who_calls_the_scheduler() -> Outcome {
    same!(task::processors().count(), 1, "processors");
    for policy in ["ageing", "share", "deadline"] {
        with(policy, || {
            let stop: &'static AtomicBool = leak(AtomicBool::new(false));
            let client = names::lookup("passing").and_then(PassingClient::bind).map_err(doing("passing"))?;
            let body = move || {
                // Nobody has this number.
                while !stop.load(Ordering::Relaxed) {
                    let _ = client.wake_up(0);
                }
            };
            let calls = thread::spawn(body, 0).map_err(doing("thread"))?;
            let busy = Busy::start(1)?;
            compute(100);
            let had = had(&[calls.number(), busy.threads[0].number()])?;
            stop.store(true, Ordering::Relaxed);
            calls.join().map_err(doing("join"))?;
            busy.stop()?;
            alike(policy, &had)
        })?;
    }
    Ok(())
}
