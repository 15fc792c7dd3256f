//! One program asks the scheduler for changes of priority as fast as it can, of threads on all processors.

use crate::report::{Check, Outcome, doing};
use crate::sched::{Load, leak, with};
use crate::{holds, same};
use alloc::format;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::rt::itc::Here;
use musubi::rt::{sched, task, thread, time};

pub const CHECKS: &[Check] = &[
    ("a_flood_of_priorities", || flood("ageing")),
    ("a_flood_of_priorities_in_the_initial_version", || flood("initial")),
    ("a_flood_from_another_processor", from_elsewhere),
];

/// Requests that are a flood.
const REQUESTS: u64 = 10_000;
/// Of the kernel's memory, for whatever waits to be told.
const HEAP_MAX: u64 = 64 << 10;

fn heap() -> Result<u64, alloc::string::String> {
    task::memory().map(|memory| memory.kernel_heap_used).map_err(doing("memory"))
}

/// Whoever sits in the seats stays there and goes on deciding; everybody gets on; the kernel keeps no more than the latest wish for each
/// thread.
fn flood(name: &str) -> Outcome {
    let processors = task::processors().count();
    let load = Load::start(4 * processors)?;
    with(name, || {
        load.all_run()?;
        let seats = || sched::seats().map(|seat| (seat.thread, seat.dismissed)).collect::<Vec<_>>();
        let asked = || sched::seats().map(|seat| seat.asked).collect::<Vec<_>>();
        let (before, had) = (seats(), heap()?);
        let (over, requests) = (leak(AtomicBool::new(false)), leak(AtomicU64::new(0)));
        let targets: &'static Vec<u64> = leak(load.numbers());
        let body = move || {
            for n in 0.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                let thread = targets[n as usize % targets.len()];
                if sched::set_priority(thread, 15 + n / targets.len() as u64 % 3).is_ok() {
                    requests.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        let flooders: Result<Vec<_>, _> = (0..processors).map(|_| thread::spawn(body, 0)).collect();
        let flooders = flooders.map_err(doing("thread"))?;
        let until = time::now_ns() + 60_000_000_000;
        let mut most = had;
        let mut outcome = Ok(());
        while outcome.is_ok() && requests.load(Ordering::Relaxed) < REQUESTS && time::now_ns() < until {
            most = most.max(heap()?);
            let decided = asked();
            outcome = load.all_run();
            if outcome.is_ok() && asked().iter().zip(&decided).any(|(after, before)| after == before) {
                // A processor on which everybody has run has been decided about, now or soon.
                time::sleep_ns(50_000_000);
                let after = asked();
                if after.iter().zip(&decided).any(|(after, before)| after == before) {
                    outcome = Err(format!("asked {decided:?} times, and later {after:?}"));
                }
            }
        }
        over.store(true, Ordering::Relaxed);
        for one in flooders {
            one.join().map_err(doing("join"))?;
        }
        outcome?;
        let (sum, after) = (requests.load(Ordering::Relaxed), seats());
        holds!(sum >= REQUESTS, "only {sum} requests");
        holds!(after == before, "{name}: seats (thread, put out) {before:?} before the flood, {after:?} afterwards");
        holds!(most < had + HEAP_MAX, "{name}: {:#x} bytes of the kernel's heap for what waits", most - had);
        Ok(())
    })?;
    load.stop()
}

/// Of a hundred threads that sleep, all last seen on one processor, by one who runs on another and is not slowed down by what he does there:
/// everybody else there gets on, and no scheduler is put out.
fn from_elsewhere() -> Outcome {
    const SLEEPERS: usize = 100;
    const MS: u64 = 1_000_000;
    let processors = task::processors().count();
    if processors == 1 {
        return Ok(());
    }
    let over = leak(AtomicBool::new(false));
    let sleepers: Result<Vec<_>, _> = (0..SLEEPERS).map(|_| thread::spawn(|| thread::park(), 0)).collect();
    let sleepers = sleepers.map_err(doing("sleepers"))?;
    let load = Load::start(4 * processors)?;
    let outcome = with("ageing", || {
        load.all_run()?;
        let mut on: Vec<Vec<u64>> = (0..processors).map(|_| Vec::new()).collect();
        let numbers: Vec<u64> = sleepers.iter().map(thread::Thread::number).collect();
        task::threads()
            .filter(|one| numbers.contains(&one.thread))
            .for_each(|one| on[one.processor as usize].push(one.thread));
        let most = on.iter().map(Vec::len).max().unwrap_or(0);
        holds!(most >= SLEEPERS / processors, "at most {most} sleepers on a processor");
        let on: &'static Vec<Vec<u64>> = leak(on);
        let (here, requests) = (leak(Here::find().map_err(doing("who runs where"))?), leak(AtomicU64::new(0)));
        let body = move || {
            let me = task::identity().thread;
            for n in 0.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                // Always of another processor, wherever it has its turns.
                let at = here.running().position(|thread| thread == me);
                let others = on.iter().enumerate().filter(|(processor, _)| Some(*processor) != at).map(|(_, on)| on);
                let targets = others.max_by_key(|on| on.len()).filter(|on| at.is_some() && !on.is_empty());
                let Some(targets) = targets else {
                    thread::yield_now();
                    continue;
                };
                if sched::set_priority(targets[n % targets.len()], 15 + n as u64 / targets.len() as u64 % 3).is_ok() {
                    requests.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        let seats = || sched::seats().map(|seat| (seat.thread, seat.dismissed)).collect::<Vec<_>>();
        let before = seats();
        let flooder = thread::spawn(body, 0).map_err(doing("thread"))?;
        let until = time::now_ns() + 1000 * MS;
        let mut outcome = Ok(());
        while outcome.is_ok() && (time::now_ns() < until || requests.load(Ordering::Relaxed) < REQUESTS) {
            holds!(time::now_ns() < until + 60_000 * MS, "only {} requests", requests.load(Ordering::Relaxed));
            outcome = load.all_run();
        }
        over.store(true, Ordering::Relaxed);
        flooder.join().map_err(doing("join"))?;
        outcome?;
        same!(seats(), before, "seats (thread, put out)");
        Ok(())
    });
    over.store(true, Ordering::Relaxed);
    for one in sleepers {
        one.kill().and_then(|()| one.join()).map_err(doing("a sleeper's end"))?;
    }
    outcome?;
    load.stop()
}
