//! Partners that end, many in a row.

use super::*;
use crate::deaths::{lose_nothing, settled, settled_with};
use musubi::abi::info::Memory;

/// Another thread runs all the while.
fn with_load(body: impl FnOnce() -> Outcome) -> Outcome {
    let stop: &'static AtomicU64 = alloc::boxed::Box::leak(alloc::boxed::Box::new(AtomicU64::new(0)));
    let load = thread::spawn(
        || {
            while stop.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
        },
        0,
    );
    let load = load.map_err(doing("thread"))?;
    let outcome = body();
    stop.store(1, Ordering::Relaxed);
    load.join().map_err(doing("join"))?;
    outcome
}

/// In each way in turn, while this thread waits for it.
fn a_partner_dies(n: usize) -> Outcome {
    let pair = Pair::start(["exit", "fault", "hold", "stay"][n % 4])?;
    pair.with(|o| {
        o.there.wait(FOR_EVER).map_err(doing("the beginning"))?;
        if n % 4 == 3 {
            pair.child.kill().map_err(doing("kill"))?;
        }
        match n % 4 {
            2 => same!(o.semaphore.acquire(FOR_EVER).map(|held| held.left), Ok(Some(pair.other)), "the place"),
            _ => same!(o.back.wait(FOR_EVER), Err(Error::Dead), "waiting for a dead one"),
        }
        Ok(())
    })?;
    pair.kill()
}

pub fn partners_die_under_load() -> Outcome {
    let mut n = 0;
    with_load(|| {
        lose_nothing(200, || {
            n += 1;
            a_partner_dies(n)
        })
    })
}

/// A thread that ends while the other one waits for it, every third with what it holds.
pub fn one_of_many(words: Words, turn: u64, other: u64) {
    let me = task::identity().thread;
    words[TURN].store(me, Ordering::SeqCst);
    while words[WATCHED].load(Ordering::SeqCst) != me {
        thread::yield_now();
    }
    let Ok(partners) = partners(&[other]) else { return };
    let Ok(Objects { semaphore, there, .. }) = objects(words, &partners) else { return };
    if turn % 3 == 0 {
        core::mem::forget(semaphore.acquire(FOR_EVER));
    }
    there.set();
    (0..2).for_each(|_| thread::yield_now());
    if turn % 3 == 1 {
        thread::exit(1);
    }
}

/// So many threads of one program end.
fn partners_threads_die(count: u64) -> Outcome {
    let pair = Pair::start_with("threads", count)?;
    pair.words[WATCHED].store(1, Ordering::SeqCst);
    for turn in 0..count {
        // The one before has been joined, so this is another.
        while pair.words[ENDED].load(Ordering::SeqCst) < turn || pair.words[TURN].load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        let other = pair.words[TURN].swap(0, Ordering::SeqCst);
        let partners = partners(&[other]).map_err(doing("watching"))?;
        let o = objects(pair.words, &partners).map_err(doing("objects"))?;
        pair.words[WATCHED].store(other, Ordering::SeqCst);
        o.there.wait(FOR_EVER).map_err(doing("the beginning"))?;
        match turn % 3 {
            0 => same!(o.semaphore.acquire(FOR_EVER).map(|held| held.left), Ok(Some(other)), "the place"),
            _ => same!(o.back.wait(FOR_EVER), Err(Error::Dead), "waiting for a dead one"),
        }
    }
    pair.end(0)
}

/// Threads of programs, and programs. What is lost with a death is lost ten thousand times; what only grows to its size has it
/// long before.
pub fn ten_thousand_partners_die() -> Outcome {
    const PARTS: usize = 10;
    const PROGRAMS: usize = 40;
    const THREADS: u64 = 24;
    with_load(|| {
        let mut all: Vec<Memory> = Vec::with_capacity(PARTS);
        for part in 0..PARTS {
            for n in 0..PROGRAMS {
                let dies = || {
                    partners_threads_die(THREADS)?;
                    a_partner_dies(n)
                };
                dies().map_err(|why| format!("part {part}, program {n}: {why}"))?;
            }
            all.push(settled()?);
        }
        let (early, counts) = (&all[..=PARTS / 2], |m: &Memory| (m.sections, m.tasks, m.threads));
        let most = |of: fn(&Memory) -> u64| early.iter().map(of).max().unwrap_or(0);
        let (views, heap) = (most(|m| m.views), most(|m| m.kernel_heap_used));
        let least = early.iter().map(|m| m.free + m.kept()).min().unwrap_or(0);
        // The load's tables grow by a page when more of it is under way than ever before: less than any object of each death.
        settled_with(|late| {
            same!(counts(late), counts(&all[PARTS / 2]), "sections, tasks, threads");
            let grown = late.views.saturating_sub(views);
            holds!(grown <= 4 * PAGE, "views have grown by {grown} bytes in the last four thousand");
            let lost = least.saturating_sub(late.free + late.kept());
            holds!(lost <= 4 * PAGE, "{lost} bytes of memory were lost in the last four thousand");
            // Its tables double and are cleared now and then: in the end it is not more than it has once been.
            let grown = late.kernel_heap_used.saturating_sub(heap);
            holds!(grown < 2 * PAGE, "the kernel's heap has grown by {grown} bytes in the last four thousand");
            Ok(())
        })
        .map(drop)
    })
}
