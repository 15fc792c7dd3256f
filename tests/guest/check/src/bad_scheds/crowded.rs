//! A scheduler that goes wrong has many threads to be given back.

use crate::holds;
use crate::report::{Outcome, doing};
use crate::sched::{client, leak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use musubi::abi::sched::reason;
use musubi::rt::{sched, thread, time};

/// Ready all the time.
const CROWD: usize = 3500;
const LIMIT_NS: u64 = 10_000_000;

/// In a machine whose clock counts instructions: one that loops is put out, and so many threads take turns without it, less than 10 ms
/// after it was asked. (In a task that may have so many.)
pub fn given_back() -> Outcome {
    holds!(time::ticks_are_instructions(), "the clock does not count instructions");
    let stop: &'static AtomicBool = leak(AtomicBool::new(false));
    let body = move || {
        while !stop.load(Ordering::Relaxed) {
            thread::yield_now();
        }
    };
    let mut crowd = Vec::new();
    for n in 0..CROWD {
        crowd.push(thread::spawn(body, 0).map_err(doing(&alloc::format!("{n}")))?);
    }
    let gone = || sched::seats().map(|seat| seat.dismissed).sum::<u64>();
    let (before, until) = (gone(), time::now_ns() + 60_000_000_000);
    let choosing =
        thread::spawn(|| _ = client().map(|chooser| chooser.choose("bad loop")), 0).map_err(doing("thread"))?;
    while gone() == before {
        holds!(time::now_ns() < until, "it was not put out");
        time::sleep_ns(1_000_000);
    }
    let lost: Vec<_> = sched::seats().filter(|seat| seat.reason == reason::SLOW).map(|seat| seat.took_ns).collect();
    stop.store(true, Ordering::Relaxed);
    for one in crowd {
        one.join().map_err(doing("join"))?;
    }
    client()?.choose("none").map_err(doing("none"))?;
    choosing.join().map_err(doing("join"))?;
    holds!(!lost.is_empty(), "it was put out for something else");
    let in_time = |took: &u64| (LIMIT_NS / 2..LIMIT_NS).contains(took);
    holds!(lost.iter().all(in_time), "its threads went on after {lost:?} ns");
    Ok(())
}
