//! Partners that end, many in a row.

use super::*;
use crate::deaths::{lose_nothing, nothing_lost, settled};
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
        let (early, late) = (&all[PARTS / 2], &all[PARTS - 1]);
        let counts = |m: &Memory| (m.sections, m.tasks, m.threads);
        same!(counts(late), counts(early), "sections, tasks, threads");
        nothing_lost(early, late)?;
        // Its tables double and are cleared now and then: in the end it is not more than it has once been.
        let most = all[..PARTS / 2].iter().map(|m| m.kernel_heap_used).max().unwrap_or(0);
        let heap = late.kernel_heap_used.saturating_sub(most);
        holds!(heap < 2 * PAGE, "the kernel's heap has grown by {heap} bytes in the last five thousand");
        Ok(())
    })
}
