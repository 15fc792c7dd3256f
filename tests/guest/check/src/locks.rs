//! Locks whose holders do not come back: nobody waits for them for ever.

use crate::deaths::rounds_in;
use crate::memory::{await_word, data};
use crate::peer::{Peer, op, work};
use crate::report::{Check, Outcome, doing, in_time};
use crate::sched::{leak, lines, with};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::layout::PAGE;
use musubi::abi::sched::{PRIORITY_LOWEST, op as op_of_sched};
use musubi::abi::task::{Exit, exit};
use musubi::command::Command;
use musubi::rt::{Bound, Mutex, Trap, sched, section, task, thread, time};
use musubi::{Error, Rights};

pub const CHECKS: &[Check] = &[
    ("a_lock_of_a_killed_thread_ends_its_program", killed_holder),
    ("threads_killed_in_the_heap_do_not_stop_it", killed_in_the_heap),
    ("a_lock_of_a_killed_caller_ends_the_server", killed_caller),
    ("a_lock_that_is_held_for_long_is_waited_for", long_held),
    ("many_threads_take_turns_at_a_lock", many),
    ("a_holder_runs_on_the_turn_of_who_waits", lent_turns),
    ("a_lock_left_by_an_unwound_call_ends_the_server", unwound),
    ("a_lock_is_taken_in_turns_whatever_the_levels", whatever_the_levels),
    ("locks_of_a_server_on_its_callers_stack", on_callers_stack),
];

/// The priority of a thread that nobody has said anything about.
const USUAL: u64 = 16;
/// What a program ends with that panics.
const PANICKED: u64 = 101;

fn role(name: &str) -> Result<Exit, String> {
    let child = Command::new(b"bin/check").args(["check", "as", name]).spawn().map_err(doing("start"))?;
    child.wait_for(60_000_000_000).map_err(doing("wait"))
}

fn killed_holder() -> Outcome {
    let ended = role("torn-lock")?;
    same!((ended.kind, ended.code), (exit::EXITED, PANICKED), "how it ended");
    Ok(())
}

/// A thread is killed with a lock in its hands. Another one wants it, and the program ends.
pub fn torn() -> i32 {
    static LOCK: Mutex<u64> = Mutex::new(0);
    static HELD: AtomicBool = AtomicBool::new(false);
    let holder = thread::spawn(
        || {
            let _held = LOCK.lock();
            HELD.store(true, Ordering::SeqCst);
            thread::park();
        },
        0,
    );
    let Ok(holder) = holder else { return 2 };
    while !HELD.load(Ordering::SeqCst) {
        thread::yield_now();
    }
    if holder.kill().is_err() || holder.join() != Ok(Error::Killed.word()) {
        return 3;
    }
    *LOCK.lock() += 1;
    0
}

fn killed_in_the_heap() -> Outcome {
    for round in 0..5 {
        let ended = role("torn-heap")?;
        let whole = (ended.kind, ended.code) == (exit::EXITED, 0);
        holds!(
            whole || (ended.kind, ended.code) == (exit::EXITED, PANICKED),
            "round {round}: it ended with {ended:x?}"
        );
    }
    Ok(())
}

/// Threads that do nothing but allocate are killed. They may leave the heap whole, or locked.
pub fn torn_heap() -> i32 {
    for _ in 0..200 {
        let body = || {
            loop {
                core::hint::black_box(Vec::<u64>::with_capacity(100));
            }
        };
        let Ok(one) = thread::spawn(body, 0) else { return 2 };
        time::sleep_ns(300_000);
        if one.kill().is_err() || one.join() != Ok(Error::Killed.word()) {
            return 3;
        }
    }
    0
}

/// A caller is killed in a server that keeps a lock beyond all time. The next one who wants the lock hears of the server's end.
fn killed_caller() -> Outcome {
    let peer: &'static Peer = Box::leak(Box::new(Peer::start()?));
    let flags = data(PAGE).map_err(doing("create"))?;
    section::grant(flags.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let flag = flags.base();
    same!(peer.call(op::COPY_LOCKED, &[flag, 8]), Ok(1), "a call before");
    let caller = thread::spawn(
        move || {
            let _ = peer.call(op::HOLD, &[flag]);
        },
        0,
    );
    let caller = caller.map_err(doing("thread"))?;
    await_word(flag);
    // As long as the holder is there it is waited for.
    let told: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
    let waits = thread::spawn(
        move || {
            let how = peer.call(op::COPY_LOCKED, &[flag, 8]);
            told.store(how.map_or_else(Error::word, |_| u64::MAX), Ordering::SeqCst);
            thread::park();
        },
        0,
    );
    let waits = waits.map_err(doing("thread"))?;
    time::sleep_ns(1_500_000_000);
    same!(told.load(Ordering::SeqCst), 0, "what was said while the holder was there");
    caller.kill().map_err(doing("kill"))?;
    same!(caller.join(), Ok(Error::Killed.word()), "how the caller ended");
    same!(in_time(move || peer.call(op::COPY_LOCKED, &[flag, 8])), Some(Err(Error::Dead)), "the call afterwards");
    let heard = in_time(|| {
        while told.load(Ordering::SeqCst) == 0 {
            time::sleep_ns(1_000_000);
        }
    });
    holds!(heard.is_some(), "the one that waited still waits");
    same!(told.load(Ordering::SeqCst), Error::Dead.word(), "what the one was told that waited");
    waits.kill().map_err(doing("kill"))?;
    let ended = peer.child.wait_for(20_000_000_000).map_err(doing("the server's end"))?;
    same!((ended.kind, ended.code), (exit::EXITED, PANICKED), "how the server ended");
    Ok(())
}

fn long_held() -> Outcome {
    static LOCK: Mutex<u64> = Mutex::new(0);
    let held = LOCK.lock();
    let body = || {
        let found = *LOCK.lock();
        thread::exit(found)
    };
    let waits = thread::spawn(body, 0).map_err(doing("thread"))?;
    time::sleep_ns(1_300_000_000);
    let mut held = held;
    *held = 7;
    drop(held);
    same!(waits.join(), Ok(7), "what the waiter found");
    Ok(())
}

fn many() -> Outcome {
    const ROUNDS: u64 = 2000;
    static LOCK: Mutex<[u64; 2]> = Mutex::new([0; 2]);
    let threads = 2 * task::processors().count() as u64 + 2;
    let body = || {
        for n in 0..ROUNDS {
            let mut pair = LOCK.lock();
            pair[0] += 1;
            if n % 64 == 0 {
                thread::yield_now();
            }
            pair[1] += 1;
            if pair[0] != pair[1] {
                thread::exit(1);
            }
        }
    };
    let all: Result<Vec<_>, _> = (0..threads).map(|_| thread::spawn(body, 0)).collect();
    for one in all.map_err(doing("thread"))? {
        same!(one.join(), Ok(0), "a thread");
    }
    same!(*LOCK.lock(), [ROUNDS * threads; 2], "what they have counted");
    Ok(())
}

/// A caller that hardly ever has a turn holds a server's lock, one that comes before all others wants it (pitfall H13). The threads in
/// between must not have the processor meanwhile: without help the holder gets a turn only when it has waited for eight.
fn lent_turns() -> Outcome {
    for name in ["ageing", "initial", "none"] {
        // On a busy host a scheduler's high level may be late, or be put out: then levels count for nothing for a while.
        let one = || with(name, || lent(name)).map_err(|why| format!("{name}: {why}"));
        one().or_else(|_| one()).or_else(|_| one())?;
    }
    Ok(())
}

fn lent(name: &str) -> Outcome {
    const BETWEEN: usize = 3;
    const STEP: u64 = 1000;
    let has_levels = name != "none";
    let peer = leak(Peer::start()?);
    let flags = data(PAGE).map_err(doing("create"))?;
    section::grant(flags.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let (flag, rounds) = (flags.base(), rounds_in(200_000_000));
    let set = |thread, level| if has_levels { sched::set_priority(thread, level) } else { Ok(()) };
    let me = task::identity().thread;
    set(me, 0).map_err(doing("priority"))?;
    let holds = move || {
        let _ = peer.call(op::WORK_LOCKED, &[flag, rounds]);
    };
    let holder = thread::spawn(holds, 0).map_err(doing("thread"))?;
    set(holder.number(), PRIORITY_LOWEST).map_err(doing("priority"))?;
    await_word(flag);
    let (over, done) = (leak(AtomicBool::new(false)), leak(AtomicU64::new(0)));
    let busy = move || {
        while !over.load(Ordering::Relaxed) {
            work(STEP);
            done.fetch_add(STEP, Ordering::Relaxed);
        }
    };
    let busy: Result<Vec<_>, _> = (0..BETWEEN).map(|_| thread::spawn(busy, 0)).collect();
    let busy = busy.map_err(doing("thread"))?;
    let before = done.load(Ordering::Relaxed);
    let outcome = peer.call(op::COPY_LOCKED, &[flag, 8]);
    let meanwhile = done.load(Ordering::Relaxed) - before;
    over.store(true, Ordering::Relaxed);
    for one in busy.into_iter().chain([holder]) {
        one.join().map_err(doing("join"))?;
    }
    set(me, USUAL).map_err(doing("priority"))?;
    let _ = peer.child.kill();
    same!(outcome, Ok(1), "the call that waited");
    // Ageing gives the others one turn in eight. On further processors they run beside.
    let alone = has_levels && task::processors().count() == 1;
    holds!(!alone || meanwhile < rounds / 2, "{meanwhile} rounds by others, while the holder had {rounds} to do");
    Ok(())
}

/// A call ends by its text's own handler of faults, with a lock held: who wants the lock does not wait for ever, though the thread
/// that left it is alive.
fn unwound() -> Outcome {
    for same in [false, true] {
        let peer: &'static Peer = Box::leak(Box::new(Peer::start()?));
        same!(peer.call(op::LEAVING_ENTRY, &[]), Ok(0), "a handler that leaves");
        let leave = move || peer.call(op::FAULT_LOCKED, &[]);
        let want = move || peer.call(op::COPY_LOCKED, &[8, 1]);
        let next = if same {
            in_time(move || leave().and_then(|_| want()))
        } else {
            holds!(matches!(leave(), Ok(1..)), "a fault with the lock held");
            in_time(want)
        };
        same!(next, Some(Err(Error::Dead)), "the next call");
        let ended = peer.child.wait_for(20_000_000_000).map_err(doing("the server's end"))?;
        same!((ended.kind, ended.code), (exit::EXITED, PANICKED), "how the server ended");
    }
    Ok(())
}

/// A thread of the lowest level takes a lock again and again, and is nearly always in the middle. One of the highest level gets it all the
/// same, in time; and the scheduler has room, however often turns are lent.
fn whatever_the_levels() -> Outcome {
    const TAKES: usize = 100;
    const LOANS: usize = 5000;
    for name in ["ageing", "initial", "none"] {
        let outcome = with(name, || {
            let lock = leak(Mutex::new(0u64));
            let (stop, gives_way) = (leak(AtomicBool::new(false)), leak(AtomicBool::new(false)));
            let stack = leak(AtomicU64::new(0));
            let take = move || {
                let local = 0u64;
                stack.store(core::ptr::from_ref(&local) as u64, Ordering::SeqCst);
                while !stop.load(Ordering::SeqCst) {
                    let mut count = lock.lock();
                    *count += 1;
                    if gives_way.load(Ordering::SeqCst) {
                        thread::yield_now();
                    } else {
                        work(2000);
                    }
                }
            };
            let low = thread::spawn(take, 0).map_err(doing("thread"))?;
            await_word(core::ptr::from_ref(stack) as u64);
            let me = task::identity().thread;
            if name != "none" {
                sched::set_priority(low.number(), PRIORITY_LOWEST).map_err(doing("priority"))?;
                sched::set_priority(me, 0).map_err(doing("priority"))?;
            }
            let taken = in_time(move || {
                (0..TAKES).for_each(|_| {
                    time::sleep_ns(1_000_000);
                    *lock.lock() += 1;
                });
            });
            let at = stack.load(Ordering::SeqCst);
            let loans = if name == "initial" { LOANS / 10 } else { LOANS };
            // Each leaves a turn behind that has been had, more than the queue has room for.
            gives_way.store(true, Ordering::SeqCst);
            for _ in 0..loans {
                let _ = stub::call_scheduler(&Trap, op_of_sched::LEND, at, 0);
            }
            stop.store(true, Ordering::SeqCst);
            if name != "none" {
                sched::set_priority(me, USUAL).map_err(doing("priority"))?;
            }
            same!(low.join(), Ok(0), "the thread that took it again and again");
            holds!(taken.is_some(), "the lock was not to be had");
            // (On a host that does not run all processors at once a fast level may be found too slow now and then.)
            let full = format!("it ended with status {}", Error::TooBig.word());
            let log = lines(1)?;
            holds!(!log.iter().any(|line| line.contains(&full)), "the scheduler had no room: {log:?}");
            Ok(())
        });
        outcome.map_err(|why| format!("{name}: {why}"))?;
    }
    Ok(())
}

/// A server that runs on its callers' stacks, several at once: its lock is as good as anybody's.
fn on_callers_stack() -> Outcome {
    let peer: &'static Peer = Box::leak(Box::new(Peer::start()?));
    let flags = data(PAGE).map_err(doing("create"))?;
    section::grant(flags.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let there = peer.call(op::ON_CALLERS_STACK, &[]).map_err(doing("gates for callers' stacks"))?;
    let bound: &'static Bound = leak(Bound::bind_on_own_stack(there, 0).map_err(doing("bind"))?);
    let (flag, rounds) = (flags.base(), rounds_in(20_000_000));
    // One that holds it and does not run, others that want it.
    let holds =
        move || thread::exit(bound.call(0, [op::WORK_LOCKED, flag, rounds, 0, 0, 0]).map_or_else(Error::word, |_| 0));
    let holder = thread::spawn(holds, 0).map_err(doing("thread"))?;
    await_word(flag);
    let calls = move || {
        let call = || bound.call(0, [op::COPY_LOCKED, flag, 8, 0, 0, 0]);
        thread::exit((0..500).find_map(|_| call().err()).map_or(0, Error::word))
    };
    let all: Result<Vec<_>, _> = (0..4).map(|_| thread::spawn(calls, 0)).collect();
    for one in all.map_err(doing("thread"))?.into_iter().chain([holder]) {
        same!(one.join(), Ok(0), "a caller");
    }
    same!(peer.call(op::COPY_LOCKED, &[flag, 8]), Ok(2001), "what the server has counted");
    let _ = peer.child.kill();
    Ok(())
}
