//! Many threads become ready at once, by one who goes on: idle processors have them before that one's turn is over.

use super::{leak, with};
use crate::report::{Outcome, doing};
use crate::{holds, same};
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::rt::{Mutex, sched, task, thread, time};

/// Far less than a turn takes.
const LIMIT_NS: u64 = 2_000_000;
const ROUNDS: usize = 8;

struct Woken {
    thread: thread::Thread,
    /// When it went on in the present round; 0: not yet.
    began: &'static AtomicU64,
}

/// In a machine whose clock counts instructions, without a scheduler and in both versions.
pub fn is_shared() -> Outcome {
    holds!(time::ticks_are_instructions(), "the clock does not count instructions");
    holds!(task::processors().count() > 2, "nobody to share with");
    burst("none")?;
    for name in ["ageing", "initial"] {
        with(name, || burst(name))?;
    }
    Ok(())
}

/// Woken by their own sleep, and by nobody who waits for them.
fn burst(name: &str) -> Outcome {
    let (over, go): (&'static AtomicBool, &'static AtomicU64) = (leak(AtomicBool::new(false)), leak(AtomicU64::new(0)));
    let mut all: Vec<Woken> = Vec::new();
    for _ in 1..task::processors().count() {
        let began: &'static AtomicU64 = leak(AtomicU64::new(0));
        let body = move || {
            for round in 1.. {
                let _ = sched::sleep(u64::MAX);
                if over.load(Ordering::SeqCst) {
                    return;
                }
                began.store(time::now_ns(), Ordering::SeqCst);
                while go.load(Ordering::SeqCst) < round {
                    core::hint::spin_loop();
                }
            }
        };
        all.push(Woken { thread: thread::spawn(body, 0).map_err(doing("thread"))?, began });
    }
    let outcome = (1..=ROUNDS as u64).try_for_each(|round| {
        // All of them sleep, and the processors rest.
        time::sleep_ns(30_000_000);
        let since = time::now_ns();
        for one in &all {
            sched::wake_up(one.thread.number()).map_err(doing("wake-up"))?;
        }
        while all.iter().any(|one| one.began.load(Ordering::SeqCst) == 0) && time::now_ns() < since + 1_000_000_000 {
            core::hint::spin_loop();
        }
        let after: Vec<u64> = all.iter().map(|one| one.began.swap(0, Ordering::SeqCst).saturating_sub(since)).collect();
        go.store(round, Ordering::SeqCst);
        holds!(
            after.iter().all(|ns| (1..LIMIT_NS).contains(ns)),
            "{name}: in round {round} they went on after {after:?} ns"
        );
        Ok::<_, String>(())
    });
    over.store(true, Ordering::SeqCst);
    go.store(u64::MAX, Ordering::SeqCst);
    for one in all {
        sched::wake_up(one.thread.number()).map_err(doing("wake-up"))?;
        one.thread.join().map_err(doing("join"))?;
    }
    outcome
}

/// So long others compute, and so long it is looked at what comes then.
const BUSY_NS: u64 = 300_000_000;
const LOOKED_AT_NS: u64 = 200_000_000;

/// One who holds a lock gives way over and over, and goes on each time on the turn of one who waits for it, and has a higher priority. What was its
/// turn before stays in the queue: thousands of them. The processors that become idle then look for work among those, and none takes so long that it is put out.
pub fn past_turns() -> Outcome {
    holds!(time::ticks_are_instructions(), "the clock does not count instructions");
    for name in ["ageing", "initial"] {
        with(name, || among_past_turns(name))?;
    }
    Ok(())
}

fn among_past_turns(name: &str) -> Outcome {
    let stop: &'static AtomicBool = leak(AtomicBool::new(false));
    let lock: &'static Mutex<u64> = leak(Mutex::new(0));
    let held: &'static AtomicBool = leak(AtomicBool::new(false));
    let holds = move || {
        let mut times = lock.lock();
        held.store(true, Ordering::SeqCst);
        while !stop.load(Ordering::Relaxed) {
            *times += 1;
            thread::yield_now();
        }
    };
    let until = time::now_ns() + BUSY_NS;
    let computes = move || while time::now_ns() < until {};
    let mut all = Vec::new();
    for _ in 1..task::processors().count() {
        all.push(thread::spawn(computes, 0).map_err(doing("thread"))?);
    }
    let holder = thread::spawn(holds, 0).map_err(doing("thread"))?;
    sched::set_priority(holder.number(), 24).map_err(doing("priority"))?;
    while !held.load(Ordering::SeqCst) {
        time::sleep_ns(1_000_000);
    }
    let waiter = thread::spawn(move || drop(lock.lock()), 0).map_err(doing("thread"))?;
    sched::set_priority(waiter.number(), 8).map_err(doing("priority"))?;
    let out = || sched::seats().map(|seat| seat.dismissed).sum::<u64>();
    let before = out();
    time::sleep_ns(BUSY_NS + LOOKED_AT_NS);
    let after = out();
    stop.store(true, Ordering::Relaxed);
    all.extend([holder, waiter]);
    for one in all {
        one.join().map_err(doing("join"))?;
    }
    let times = *lock.lock();
    holds!(times > 4096, "{name}: only {times} turns are past");
    same!(after, before, "{name}: seats that were lost, with {times} turns that are past");
    Ok(())
}
