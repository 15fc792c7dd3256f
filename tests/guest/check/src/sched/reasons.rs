//! What the high level of a scheduler is called for.

use super::{leak, lines, with};
use crate::report::{Outcome, doing};
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use core::sync::atomic::{AtomicBool, Ordering};
use musubi::Error;
use musubi::rt::{sched, task, thread, time};

/// Time until a change of priority is told, on a busy host.
const TOLD_NS: u64 = 5_000_000_000;

/// A quantum, and threads that may be in the middle of one, on each processor.
const QUANTUM_NS: u64 = 10_000_000;
const BEGUN: u64 = 8;

/// How often the high level was called, over all processors: for a priority, for a quantum.
pub fn high_calls() -> Result<(u64, u64), String> {
    let mut sum = (0, 0);
    for line in lines(0)? {
        let number = |after: &str| -> u64 {
            let rest = line.split(after).nth(1).unwrap_or("0");
            rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok()).unwrap_or(0)
        };
        holds_none(&line, number("unknown events "))?;
        sum = (sum.0 + number("called for priority "), sum.1 + number(", quantum "));
    }
    Ok(sum)
}

fn holds_none(line: &str, unknown: u64) -> Outcome {
    holds!(unknown == 0, "unknown events: {line}");
    Ok(())
}

pub fn two_reasons() -> Outcome {
    ["ageing", "share", "deadline", "gang"].into_iter().try_for_each(of)
}

fn of(policy: &str) -> Outcome {
    with(policy, || {
        let me = task::identity().thread;
        // The keyboard's driver asks each scheduler for its priority, once, when it next looks at its device.
        let mut tries = 0;
        while let Err(why) = counted(me) {
            tries += 1;
            holds!(tries < 3, "{why}");
        }
        // What a thread agrees on with the policy comes to it as a priority does, and the log says what it was.
        let client = super::client()?;
        let began = time::now_ns();
        let agreed = match policy {
            "share" => client.share(me, 10),
            "gang" => client.join(me, 1),
            _ => Err(Error::NotSupported),
        };
        client.unbind().map_err(doing("unbind"))?;
        if agreed == Err(Error::NotSupported) {
            return Ok(());
        }
        agreed.map_err(doing("agreeing"))?;
        is_noted("terms are proposed, which is told as a priority", began)
    })
}

/// Not only is it called for nothing else: it does not run. Threads sleep and wake up meanwhile.
pub fn quiet_otherwise() -> Outcome {
    // On another one it may just be running for what was counted before.
    same!(task::processors().count(), 1, "processors");
    ["ageing", "share", "deadline", "gang"].into_iter().try_for_each(is_quiet)
}

fn is_quiet(policy: &str) -> Outcome {
    with(policy, || {
        let me = task::identity().thread;
        let mut tries = 0;
        while let Err(why) = counted(me) {
            tries += 1;
            holds!(tries < 3, "{why}");
        }
        let mut quiet = 0;
        for _ in 0..40 {
            let (calls, had) = (high_calls()?, high_time()?);
            for _ in 0..20 {
                time::sleep_ns(10_000);
            }
            let has = high_time()?;
            if high_calls()? == calls {
                quiet += 1;
                same!(has, had, "ns that the high level had without being called");
            }
        }
        holds!(quiet > 0, "it was always called");
        Ok(())
    })
}

/// Three changes of priority, and then quanta that end.
fn counted(me: u64) -> Outcome {
    let before = high_calls()?;
    for level in [3, 4, 16] {
        let (had, asked) = (high_calls()?.0, time::now_ns());
        sched::set_priority(me, level).map_err(doing("priority"))?;
        // It is told at most once in a beat, of the latest wish only.
        let until = time::now_ns() + TOLD_NS;
        while high_calls()?.0 == had && time::now_ns() < until {
            thread::yield_now();
        }
        is_noted(&format!("thread {me} is to have another priority"), asked)?;
    }
    let counted_at = time::now_ns();
    let after = high_calls()?;
    same!(after.0 - before.0, 3, "calls of the high level for a priority");
    // It computes for some quanta, and somebody else is ready.
    let stop = leak(AtomicBool::new(false));
    let spin = move || {
        while !stop.load(Ordering::Relaxed) {
            core::hint::spin_loop();
        }
    };
    let spinner = thread::spawn(spin, 0).map_err(doing("thread"))?;
    let began = time::now_ns();
    let until = time::now_ns() + 100_000_000;
    while time::now_ns() < until {}
    stop.store(true, Ordering::Relaxed);
    spinner.join().map_err(doing("join"))?;
    let last = high_calls()?;
    holds!(last.1 > after.1, "no call of the high level at the end of a quantum");
    same!(last.0, after.0, "calls for a priority, without any");
    // Each is the end of a whole quantum, of which a part may have been over before.
    let quanta = task::processors().count() as u64 * ((time::now_ns() - counted_at) / QUANTUM_NS + BEGUN);
    holds!(last.1 - after.1 <= quanta, "{} calls at the end of {quanta} quanta", last.1 - after.1);
    is_noted("has ended", began)
}

/// `sched calls` has a call since then for this reason, and each for one of the two.
fn is_noted(why: &str, since: u64) -> Outcome {
    let calls = lines(3)?;
    let when = |line: &str| line.split_once(" at ")?.1.split(' ').next()?.parse::<u64>().ok();
    let is_it = |line: &String| line.ends_with(why) && when(line).is_some_and(|us| us >= since / 1000);
    holds!(calls.iter().any(is_it), "no call since {} us where {why}: {calls:#?}", since / 1000);
    let unknown = calls.iter().find(|line| line.contains("for no reason"));
    holds!(unknown.is_none(), "{unknown:?}");
    Ok(())
}

/// Time that the threads of the high level have had.
fn high_time() -> Result<u64, String> {
    let told = lines(0)?;
    let task =
        told.first().and_then(|line| line.split_once("high level: task ")?.1.split(')').next()?.parse::<u64>().ok());
    let task = task.ok_or_else(|| format!("no high level in {told:?}"))?;
    Ok(task::threads().filter(|thread| thread.task == task).map(|thread| thread.time).sum())
}
