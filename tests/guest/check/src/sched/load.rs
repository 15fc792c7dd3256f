//! Threads that keep a scheduler busy, each in its own way, and one that looks whether any of them runs twice.

use super::leak;
use crate::report::{Outcome, doing};
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::rt::{info, sched, thread, time};

/// Threads that compute, give way, sleep and wake each other, and count.
pub struct Load {
    stop: &'static AtomicBool,
    counts: Vec<&'static AtomicU64>,
    threads: Vec<thread::Thread>,
    /// Of the last one that has found something counted that it has not counted itself, one more; 0: none has.
    doubled: &'static AtomicU64,
    /// Looks who runs.
    watcher: thread::Thread,
}

impl Load {
    pub fn start(count: usize) -> Result<Load, String> {
        let stop: &'static AtomicBool = leak(AtomicBool::new(false));
        let all = info::all().map_err(doing("who runs"))?;
        let watcher = thread::spawn(move || thread::exit(watch(all, stop)), 0).map_err(doing("thread"))?;
        let doubled: &'static AtomicU64 = leak(AtomicU64::new(0));
        let mut load = Load { stop, counts: Vec::new(), threads: Vec::new(), doubled, watcher };
        for n in 0..count {
            let count: &'static AtomicU64 = leak(AtomicU64::new(0));
            let body = move || {
                // In a register most of the time, so of a thread that runs twice there are two: each finds what the other one has counted.
                let mut expected = 0;
                while !stop.load(Ordering::Relaxed) {
                    let done = count.fetch_add(1, Ordering::Relaxed);
                    if done != expected {
                        doubled.store(n as u64 + 1, Ordering::Relaxed);
                    }
                    expected = done + 1;
                    match (n % 4, done % 64) {
                        (1, 0) => thread::yield_now(),
                        (2, 0) => time::sleep_ns(200_000),
                        (3, 0) => {
                            let _ = sched::sleep(300_000);
                        }
                        _ => core::hint::spin_loop(),
                    }
                }
            };
            load.counts.push(count);
            load.threads.push(thread::spawn(body, 0).map_err(doing("thread"))?);
        }
        Ok(load)
    }

    pub fn numbers(&self) -> Vec<u64> {
        self.threads.iter().map(thread::Thread::number).collect()
    }

    /// Every thread gets on. Looked at once more when the time is over: whoever looks is a thread, too.
    pub fn all_run(&self) -> Outcome {
        let now = || -> Vec<u64> { self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect() };
        let (before, began) = (now(), time::now_ns());
        let (mut last, mut looked, mut longest) = (began, 0, 0);
        loop {
            let (counts, when) = (now(), time::now_ns());
            (last, looked, longest) = (when, looked + 1, longest.max(when - last));
            if counts.iter().zip(&before).all(|(count, before)| count > before) {
                holds!(
                    longest < 10_000_000_000,
                    "everybody gets on but who looks: once in {longest} ns, {before:?}, {counts:?}"
                );
                return Ok(());
            }
            if when - began > 20_000_000_000 {
                return Err(format!(
                    "a thread does not get on: {before:?}, {counts:?}, seen {looked} times, {longest} ns apart at most"
                ));
            }
            time::sleep_ns(1_000_000);
        }
    }

    pub fn stop(self) -> Outcome {
        self.stop.store(true, Ordering::Relaxed);
        for one in self.threads {
            one.join().map_err(doing("join"))?;
        }
        let twice = self.watcher.join().map_err(doing("join"))?;
        same!(twice, 0, "the thread that was seen on two processors at once");
        same!(self.doubled.load(Ordering::Relaxed), 0, "the thread (and one) that has met another one of itself");
        Ok(())
    }
}

/// Looks again and again who runs, until it is to stop. Value: a thread that stayed on two processors, 0: none did. One that goes from one
/// to another may be read on both, but not as often in a row as here.
fn watch(all: info::Info, stop: &AtomicBool) -> u64 {
    const LOOKS: usize = 30;
    let on_two = || {
        let mut running: Vec<u64> = all.running().filter(|thread| *thread != 0).collect();
        running.sort_unstable();
        running.windows(2).find(|two| two[0] == two[1]).map(|two| two[0])
    };
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..20 {
            if let Some(thread) = on_two()
                && (0..LOOKS).all(|_| on_two() == Some(thread))
            {
                return thread;
            }
        }
        time::sleep_ns(500_000);
    }
    0
}
