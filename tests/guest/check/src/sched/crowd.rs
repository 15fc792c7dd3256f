//! Many more threads than an event buffer has room for become ready in one moment.

use super::{choose, leak, with};
use crate::report::{Outcome, doing};
use crate::{holds, same};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use musubi::rt::{sched, sync, thread, time};

const CROWD: u64 = 600;
const PATIENCE_NS: u64 = 60_000_000_000;

fn lost() -> u64 {
    sched::seats().map(|seat| seat.dismissed).sum()
}

/// Woken by one call, under each version; and ready when a scheduler sits down. (In a task that may have so many.)
pub fn wakes() -> Outcome {
    for name in ["ageing", "initial"] {
        with(name, || {
            let before = lost();
            at_once(name, CROWD)?;
            same!(lost(), before, "{name}: seats that were lost to those who woke up");
            Ok(())
        })?;
        to_a_new_one(name)?;
    }
    Ok(())
}

/// All who wake up have one place in the order of shares, and behind it stands one who has had his quantum: each is filed before that one.
pub fn wakes_with_shares() -> Outcome {
    const MANY: u64 = 2400;
    with("share", || {
        let stop: &'static AtomicU32 = leak(AtomicU32::new(0));
        let body = || {
            while stop.load(Ordering::Relaxed) == 0 {
                core::hint::spin_loop();
            }
        };
        let computes = thread::spawn(body, 0).map_err(doing("thread"))?;
        let before = lost();
        let woken = at_once("share", MANY);
        stop.store(1, Ordering::SeqCst);
        computes.join().map_err(doing("join"))?;
        woken?;
        same!(lost(), before, "seats that were lost to those who woke up");
        Ok(())
    })
}

fn at_once(name: &str, count: u64) -> Outcome {
    let (word, awake): (&'static AtomicU32, &'static AtomicU64) = (leak(AtomicU32::new(0)), leak(AtomicU64::new(0)));
    let (asleep, mut crowd): (&'static AtomicU64, _) = (leak(AtomicU64::new(0)), Vec::new());
    let body = || {
        asleep.fetch_add(1, Ordering::SeqCst);
        while word.load(Ordering::SeqCst) == 0 {
            let _ = sync::wait(word, 0, u64::MAX);
        }
        awake.fetch_add(1, Ordering::SeqCst);
    };
    for _ in 0..count {
        crowd.push(thread::spawn(body, 0).map_err(doing("thread"))?);
    }
    let until = time::now_ns() + PATIENCE_NS;
    while asleep.load(Ordering::SeqCst) < count {
        time::sleep_ns(1_000_000);
    }
    time::sleep_ns(50_000_000);
    word.store(1, Ordering::SeqCst);
    sync::wake(word, u64::MAX);
    while awake.load(Ordering::SeqCst) < count && time::now_ns() < until {
        time::sleep_ns(1_000_000);
    }
    let came = awake.load(Ordering::SeqCst);
    for one in crowd {
        one.join().map_err(doing("join"))?;
    }
    same!(came, count, "{name}: who woke up");
    Ok(())
}

fn to_a_new_one(name: &str) -> Outcome {
    let (stop, rounds): (&'static AtomicU32, &'static AtomicU64) = (leak(AtomicU32::new(0)), leak(AtomicU64::new(0)));
    let body = || {
        while stop.load(Ordering::Relaxed) == 0 {
            rounds.fetch_add(1, Ordering::Relaxed);
            thread::yield_now();
        }
    };
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        crowd.push(thread::spawn(body, 0).map_err(doing("thread"))?);
    }
    let seats = lost();
    let chosen = choose(name).and_then(|()| {
        let before = rounds.load(Ordering::SeqCst);
        let until = time::now_ns() + PATIENCE_NS;
        while rounds.load(Ordering::SeqCst) < before + 2 * CROWD && time::now_ns() < until {
            time::sleep_ns(1_000_000);
        }
        same!(lost(), seats, "{name}: seats that were lost to those who were ready");
        holds!(sched::seats().all(|seat| seat.thread != 0), "{name}: not all seats are taken");
        holds!(rounds.load(Ordering::SeqCst) >= before + 2 * CROWD, "{name}: the crowd does not get on");
        Ok(())
    });
    stop.store(1, Ordering::SeqCst);
    for one in crowd {
        one.join().map_err(doing("join"))?;
    }
    choose("none")?;
    chosen
}
