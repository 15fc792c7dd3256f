//! Threads that work together: barriers, ends that are asked for, values of one's own, parallel loops (K1-2, 3, U2).

use crate::report::{Check, Outcome, doing};
use crate::sched::{leak, switches};
use crate::{holds, same};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use musubi::abi::task::{Limits, exit};
use musubi::command::Command;
use musubi::rt::sync::{Barrier, Cancel};
use musubi::rt::{Local, task, thread, time};
use musubi::{Error, eprintln, parallel};

pub const CHECKS: &[Check] = &[
    ("rounds_at_a_barrier", rounds_at_a_barrier),
    ("a_thread_is_asked_to_end", asked_to_end),
    ("each_thread_has_its_own", each_has_its_own),
    ("all_begin_or_none", all_or_none),
    ("two_hundred_ends_at_once", two_hundred_ends),
    ("a_loop_is_done_once_by_all", a_loop),
    ("two_threads_at_one_moment", at_one_moment),
];

const THREADS: usize = 5;

/// Nobody begins a round before all have ended the one before.
fn rounds_at_a_barrier() -> Outcome {
    const ROUNDS: u32 = 200;
    let (barrier, come) = (leak(Barrier::new(THREADS as u32)), leak(AtomicU32::new(0)));
    let (wrong, first) = (leak(AtomicU32::new(0)), leak(AtomicU32::new(0)));
    let together = thread::together(THREADS, |_| {
        for round in 0..ROUNDS {
            come.fetch_add(1, Ordering::SeqCst);
            match barrier.wait() {
                Ok(is_first) => _ = first.fetch_add(is_first.into(), Ordering::SeqCst),
                Err(_) => _ = wrong.fetch_add(1, Ordering::SeqCst),
            }
            if come.load(Ordering::SeqCst) < (round + 1) * THREADS as u32 {
                wrong.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    same!(together, Ok(()), "the threads");
    same!(wrong.load(Ordering::SeqCst), 0, "too early, or refused");
    same!(first.load(Ordering::SeqCst), ROUNDS, "the first of each round");
    Ok(())
}

fn asked_to_end() -> Outcome {
    let cancel: Arc<Cancel> = Arc::default();
    let told = cancel.clone();
    let sleeps = thread::spawn(move || thread::exit(told.rest(u64::MAX).map_or(2, u64::from)), 0);
    let told = cancel.clone();
    let works = thread::spawn(
        move || {
            while !told.is_wished() {
                core::hint::spin_loop();
            }
        },
        0,
    );
    same!(cancel.rest(1_000_000), Ok(false), "nobody has asked");
    cancel.cancel();
    same!(sleeps.map_err(doing("thread"))?.join(), Ok(1), "who slept");
    same!(works.map_err(doing("thread"))?.join(), Ok(0), "who worked");
    same!(cancel.rest(u64::MAX), Ok(true), "it stays asked for");
    Ok(())
}

/// Counts how many there are.
struct Counted(AtomicU64);

static LIVING: AtomicU64 = AtomicU64::new(0);

impl Drop for Counted {
    fn drop(&mut self) {
        LIVING.fetch_sub(1, Ordering::SeqCst);
    }
}

fn each_has_its_own() -> Outcome {
    static OWN: Local<Counted> = Local::new(|| {
        LIVING.fetch_add(1, Ordering::SeqCst);
        Counted(AtomicU64::new(0))
    });
    static OTHER: Local<AtomicU64> = Local::new(AtomicU64::default);
    let wrong = leak(AtomicU64::new(0));
    let together = thread::together(THREADS, |me| {
        for n in 0..100 {
            let seen = OWN.with(|own| own.0.fetch_add(me as u64, Ordering::SeqCst));
            let other = OTHER.with(|other| other.fetch_add(1, Ordering::SeqCst));
            if (seen, other) != (Ok(n * me as u64), Ok(n)) {
                wrong.fetch_add(1, Ordering::SeqCst);
            }
            thread::yield_now();
        }
    });
    same!(together, Ok(()), "the threads");
    same!(wrong.load(Ordering::SeqCst), 0, "values of somebody else");
    // The calling thread was one of them, and goes on.
    same!(LIVING.load(Ordering::SeqCst), 1, "values that are left");
    Ok(())
}

fn all_or_none() -> Outcome {
    let begun = leak(AtomicU64::new(0));
    let count = |_| _ = begun.fetch_add(1, Ordering::SeqCst);
    // More threads than anybody may have.
    let refused = thread::together(1 << 20, count);
    holds!(matches!(refused, Err(Error::ThreadQuota | Error::NoMemory)), "too many threads: {refused:?}");
    same!(begun.load(Ordering::SeqCst), 0, "those that began all the same");
    same!(thread::together(0, count), Ok(()), "none but the calling one");
    same!(begun.load(Ordering::SeqCst), 1, "that one");
    same!(
        thread::together(3, |me| if me == 2 {
            thread::exit(7)
        }),
        Err(Error::Killed),
        "one that ends in the middle"
    );
    Ok(())
}

const MANY: usize = 200;
/// As many as the program that pays for them may have.
const AT_ONCE: usize = 100;

/// Whoever has so many threads hears of the end of each, though all have ended before it asks for the first.
fn two_hundred_ends() -> Outcome {
    let limits = Limits { threads: MANY as u64 + 8, ..Limits::default() };
    let child = Command::new(b"bin/check").args(["check", "as", "ends"]).limits(limits).spawn();
    let child = child.map_err(doing("a program with many threads"))?;
    let exit = child.wait().map_err(doing("its end"))?;
    same!((exit.kind, exit.code), (exit::EXITED, 0), "how it ended (see the error stream)");
    Ok(())
}

/// That program.
pub fn ends() -> i32 {
    match all_are_told() {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("{why}");
            1
        }
    }
}

fn all_are_told() -> Outcome {
    let mut threads = Vec::with_capacity(MANY);
    for code in 0..MANY as u64 {
        // Whoever pays for this program may not have so many at once: some of them have ended before the last begins.
        let one = loop {
            match thread::spawn(move || thread::exit(code), 4096) {
                Err(Error::ThreadQuota) => thread::yield_now(),
                one => break one.map_err(doing("thread"))?,
            }
        };
        threads.push((code, one));
    }
    let used = || task::info(task::identity().task).map(|info| info.used.threads);
    while used().is_some_and(|used| used > 1) {
        thread::yield_now();
    }
    for (code, one) in threads.into_iter().rev() {
        same!(one.join(), Ok(code), "the code of thread {code}");
    }
    same!(thread::together(AT_ONCE, |_| {}), Ok(()), "{AT_ONCE} threads together");
    same!(parallel::each(AT_ONCE, AT_ONCE, 1, |_| {}), Ok(()), "a loop by {AT_ONCE} threads");
    Ok(())
}

fn a_loop() -> Outcome {
    const ROUNDS: usize = 10_000;
    let done: &Vec<AtomicU32> = leak((0..ROUNDS).map(|_| AtomicU32::new(0)).collect());
    for (times, (threads, grain)) in [(1, 1), (3, 7), (8, 1000), (2, usize::MAX)].into_iter().enumerate() {
        let all = parallel::each(ROUNDS, threads, grain, |some| {
            some.for_each(|round| _ = done[round].fetch_add(1, Ordering::Relaxed));
        });
        same!(all, Ok(()), "{threads} threads");
        let wrong = done.iter().position(|round| round.load(Ordering::Relaxed) != times as u32 + 1);
        same!(wrong, None, "the first round that {threads} threads did not do once");
    }
    // Who is long at one round is helped with all his others: that one ends last.
    const FEW: u32 = 400;
    let (others, last) = (leak(AtomicU32::new(0)), leak(AtomicU32::new(0)));
    let helped = parallel::each(FEW as usize, 4, 1, |some| {
        let until = time::now_ns() + 20_000_000_000;
        while some.start == 0 && others.load(Ordering::SeqCst) < FEW - 1 && time::now_ns() < until {
            thread::yield_now();
        }
        let before = others.fetch_add(u32::from(some.start > 0), Ordering::SeqCst);
        if some.start == 0 {
            last.store(before, Ordering::SeqCst);
        }
    });
    same!((helped, last.load(Ordering::SeqCst)), (Ok(()), FEW - 1), "rounds that were done while one took long");
    same!(parallel::each(0, 4, 1, |_| unreachable!()), Ok(()), "nothing to do");
    let nothing = |_: core::ops::Range<usize>| {};
    same!(parallel::each(1, 0, 1, nothing), Err(Error::BadArgument), "nobody");
    same!(parallel::each(1, 1, 0, nothing), Err(Error::BadArgument), "no grain");
    same!(parallel::each(usize::MAX, 1, 1, nothing), Err(Error::BadArgument), "too many rounds");
    Ok(())
}

/// Two threads of a task answer each other without giving way: on one processor each answer would take a switch, when a quantum ends.
fn at_one_moment() -> Outcome {
    if task::processors().count() == 1 {
        return Ok(());
    }
    const ANSWERS: u32 = 2000;
    let ball = leak(AtomicU32::new(0));
    let before = switches();
    let together = thread::together(2, |me| {
        for turn in (me as u32..ANSWERS).step_by(2) {
            while ball.load(Ordering::Acquire) != turn {
                core::hint::spin_loop();
            }
            ball.store(turn + 1, Ordering::Release);
        }
    });
    let made = switches() - before;
    same!(together, Ok(()), "the threads");
    holds!(made < u64::from(ANSWERS) / 2, "{made} switches for {ANSWERS} answers");
    Ok(())
}
