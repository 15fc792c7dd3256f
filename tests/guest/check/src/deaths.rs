//! Deaths in a row, under load: nothing is lost by any of them.

mod many;

use crate::memory::{await_word, data, load, store};
use crate::peer::ways::{By, WAYS, in_call_by};
use crate::peer::{Peer, op, own, work};
use crate::report::{Check, Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::info::Memory;
use musubi::abi::layout::PAGE;
use musubi::abi::task::exit;
use musubi::command::Command;
use musubi::rt::{Bound, Trap, section, task, thread, time};
use musubi::{Error, Rights};

pub const CHECKS: &[Check] = &[
    ("thousand_faults_under_load", || under_load(faults)),
    // Where a host has fewer processors than the machine.
    ("hundred_deaths_under_load", || under_load(|| deaths(100))),
    ("ten_thousand_deaths_under_load", || under_load(|| many::die(many::MIXED))),
    ("ten_thousand_programs_end_under_load", || under_load(|| many::die(many::ENDS))),
    ("a_server_survives_its_callers_memory", a_server_survives),
    ("a_killed_caller_waits_its_turn", a_killed_caller_waits_its_turn),
    ("an_end_is_told_when_it_is_over", an_end_is_told_when_it_is_over),
    ("a_callee_is_told_of_its_callers_end", a_callee_is_told),
];

static OVER: AtomicBool = AtomicBool::new(false);

/// Calls between which a caller keeps the only processor.
const TURN: u64 = 200;

/// Others call another server all the while, on each processor but one, and every call of theirs must go through. Where
/// there is only one, they give way now and then: each step of a death would otherwise wait for the end of a quantum.
fn under_load(body: fn() -> Outcome) -> Outcome {
    let busy: &'static Peer = Box::leak(Box::new(Peer::start()?));
    let calls: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
    let processors = task::processors().count();
    let load = move || {
        while !OVER.load(Ordering::Relaxed) && busy.call(op::ADD, &[1]).is_ok() {
            let n = calls.fetch_add(1, Ordering::Relaxed);
            if processors == 1 && n.is_multiple_of(TURN) {
                thread::yield_now();
            }
        }
    };
    let threads: Result<Vec<_>, _> = (1..processors.max(2)).map(|_| thread::spawn(load, 0)).collect();
    let threads = threads.map_err(doing("thread"))?;
    let outcome = body();
    OVER.store(true, Ordering::SeqCst);
    for thread in threads {
        thread.join().map_err(doing("join"))?;
    }
    outcome?;
    let sum = calls.load(Ordering::SeqCst);
    same!(busy.call(op::ADD, &[0]), Ok(sum), "the calls of the others");
    holds!(sum > 1000, "the others made only {sum} calls");
    Ok(())
}

/// Batches, each of which must lose nothing.
const BATCHES: usize = 3;

/// Does `once` until everything that grows has grown, then `count` times in batches, and compares before and after each.
pub fn lose_nothing(count: usize, mut once: impl FnMut() -> Outcome) -> Outcome {
    for _ in 0..count / 2 {
        once()?;
    }
    let size = count / BATCHES;
    let first = settled()?;
    let mut before = first;
    for batch in 0..BATCHES {
        for n in 0..size {
            once().map_err(|why| format!("batch {batch}, number {n}: {why}"))?;
        }
        let as_before = |after: &Memory| compare(&before, after, size).and_then(|()| compare(&first, after, size));
        before = settled_with(as_before).map_err(|why| format!("batch {batch} of {size}: {why}"))?;
    }
    Ok(())
}

fn compare(before: &Memory, after: &Memory, size: usize) -> Outcome {
    same!(
        (after.sections, after.tasks, after.threads),
        (before.sections, before.tasks, before.threads),
        "sections, tasks, threads"
    );
    // In all batches together less than a page for every second death of one. Tables grow in steps when more are under way at once than
    // ever before, or where a processor serves that never did (a view of its own is six pages): those of views by a page for each 2 MiB of
    // addresses, those on the heap to twice their size, which was seen to be 16912 bytes.
    no_more_lost(before, after, (size as u64 / 2).clamp(4, 16) * PAGE)?;
    let heap = after.kernel_heap_used.saturating_sub(before.kernel_heap_used);
    holds!(heap < 8 * PAGE, "{heap} bytes of the kernel's heap were lost");
    Ok(())
}

/// No more than so many bytes.
pub fn no_more_lost(before: &Memory, after: &Memory, most: u64) -> Outcome {
    holds!(after.views <= before.views + most, "views grew from {:#x} to {:#x} bytes", before.views, after.views);
    // The kernel's heap grows by whole frames, which are not lost, and so do its tables.
    let [had, has] = [before, after].map(|m| m.free + m.kept());
    holds!(has + most >= had, "{:#x} bytes of memory were lost", had - has);
    Ok(())
}

/// What is in use when those who end have ended.
pub fn settled() -> Result<Memory, String> {
    musubi::rt::time::sleep_ns(20_000_000);
    task::memory().map_err(doing("memory"))
}

/// What is in use when this holds for it. On a busy host the last to end may take their time; what is lost does not come back.
pub fn settled_with(holds: impl Fn(&Memory) -> Outcome) -> Result<Memory, String> {
    let until = time::now_ns() + 5_000_000_000;
    loop {
        let now = settled()?;
        match holds(&now) {
            Ok(()) => return Ok(now),
            Err(why) if time::now_ns() > until => return Err(why),
            Err(_) => {}
        }
    }
}

fn faults() -> Outcome {
    let peer = Peer::start()?;
    lose_nothing(1000, || {
        same!(peer.call(op::FAULT, &[]), Err(Error::Faulted), "a call that faults");
        Ok(())
    })?;
    peer.end()
}

/// The callee's program ends in the middle of a call, in each way in turn.
fn deaths(count: usize) -> Outcome {
    let flags = data(PAGE).map_err(doing("create"))?;
    section::grant(flags.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let mut n = 0u64;
    lose_nothing(count, || {
        n += 1;
        one_program(n, flags.base())
    })
}

/// So many callers are killed, each inside the peer at `gate` between the two halves of what it writes, which it finishes. Not a
/// number of ends that went wrong, but the first.
pub fn callers_are_killed(gate: u64, flag: u64, count: u64) -> Outcome {
    const ROUNDS: u64 = 2000;
    let all: &'static Vec<By> = Box::leak(Box::new(By::all(gate)?));
    let bound = Bound::bind(gate, 0).map_err(doing("bind"))?;
    for (n, by) in (1..=count).zip(all.iter().cycle()) {
        store(flag, 0);
        // It is killed when it is back, if it is through already; not in the heap, whose lock would stay locked.
        let call = move || {
            if by.prepare().is_ok() {
                let _ = by.call(op::WORK, &[n, flag, ROUNDS]);
            }
            thread::park();
        };
        let caller = thread::spawn(call, 0).map_err(doing("thread"))?;
        await_word(flag);
        caller.kill().map_err(doing("kill"))?;
        same!(caller.join(), Ok(Error::Killed.word()), "how number {n} ended");
        same!(bound.call(0, [op::PAIR, 0, 0, 0, 0, 0]), Ok([n, n]), "the pair afterwards");
    }
    Ok(())
}

/// A callee that works without end, in the middle of an update, as long as nobody has killed its caller (pitfalls, H12). One that was not
/// told would have its second and be left there, half way.
fn a_callee_is_told() -> Outcome {
    let (outer, inner) = (crate::sched::leak(Peer::start()?), crate::sched::leak(Peer::start()?));
    let slot = outer.call(op::BIND, &[inner.gate]).map_err(doing("binding"))?;
    let flags = data(PAGE).map_err(doing("create"))?;
    section::grant(flags.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let flag = flags.base();
    let finished = |n: u64, how: &str| {
        let until = time::now_ns() + 20_000_000_000;
        while load(flag) != 2 {
            holds!(time::now_ns() < until, "{how}: the callee was not told");
            thread::yield_now();
        }
        same!(inner.pair(op::PAIR), Ok([n, n]), "{how}: what it was about to write");
        Ok(())
    };
    let ways: &'static Vec<By> = crate::sched::leak(By::all(inner.gate)?);
    for (n, by) in (1..).zip(ways.iter().map(Some).chain([None])) {
        let how = &by.map_or("a call in a call".into(), |by| format!("a call ({:?})", by.way));
        store(flag, 0);
        let call = move || {
            let _ = match by {
                Some(by) => by.prepare().map(|()| by.call(op::HEED, &[flag, n])),
                None => Ok(outer.call(op::CALL_BOUND, &[slot, op::HEED, flag, n])),
            };
            thread::park();
        };
        let caller = thread::spawn(call, 0).map_err(doing("thread"))?;
        await_word(flag);
        time::sleep_ns(3_000_000);
        same!(load(flag), 1, "{how}: told before anybody was killed");
        caller.kill().map_err(doing("kill"))?;
        same!(caller.join(), Ok(Error::Killed.word()), "{how}: how the caller ended");
        finished(n, how)?;
    }
    // The whole task, with its thread in there; its text is gone then, and its arguments are still to be read and written.
    for (n, role, op) in [(7, "call", op::HEED), (8, "call-with-arguments", op::HEED_AND_COUNT)] {
        store(flag, 0);
        let words = [format!("{:#x}", inner.gate), format!("{op}"), format!("{flag:#x}"), format!("{n}")];
        let child = Command::new(b"bin/check").args(["check", "as", role, &words[0], &words[1], &words[2], &words[3]]);
        let child = child.spawn().map_err(doing("child"))?;
        await_word(flag);
        child.kill().map_err(doing("kill"))?;
        finished(n, role)?;
        same!(child.wait_for(20_000_000_000).map(|exit| exit.kind), Ok(exit::KILLED), "how the task ended");
    }
    // A thread that nobody has killed is told nothing, whatever happened to others before.
    same!(inner.call(op::ADD, &[1]).is_ok(), true, "a call");
    holds!(!thread::is_killed(), "this thread was not killed");
    for peer in [outer, inner] {
        peer.child.kill().map_err(doing("kill"))?;
    }
    Ok(())
}

/// A program ends with a caller inside.
fn one_program(n: u64, flags: u64) -> Outcome {
    // On the heap: the stack of this thread is not for the one that is to be inside.
    let own = Box::into_raw(Box::new(Peer::start()?));
    // SAFETY: it is taken back below, when the thread that uses it has been joined.
    let peer: &'static Peer = unsafe { &*own };
    if n % 4 == 2 {
        same!(peer.call(op::EXIT, &[1]), Err(Error::Dead), "the call into one that exits");
    } else {
        let what = if n % 4 == 3 { op::SLEEP } else { op::LOOP };
        let way = WAYS[(n / 4) as usize % WAYS.len()];
        let by = Arc::new(By::to(peer.gate, way)?);
        let (thread, outcome) = in_call_by(&by, what, flags, u64::MAX / 2)?;
        if n % 4 == 1 {
            // Its own thread deletes its text, and it is no more.
            let _ = peer.call(op::OWN, &[own::DELETE_TEXT, 0]);
        } else {
            peer.child.kill().map_err(doing("kill"))?;
        }
        thread.join().map_err(doing("join"))?;
        same!(outcome.load(Ordering::SeqCst), Error::Dead.word(), "the call into one that goes ({way:?})");
        Arc::into_inner(by).map_or(Ok(()), By::end)?;
    }
    let _ = peer.child.kill();
    peer.child.wait_for(20_000_000_000).map_err(doing("wait"))?;
    // SAFETY: made above by `into_raw`, and nobody else has it any more.
    let peer = unsafe { Box::from_raw(own) };
    peer.bound.unbind().map_err(doing("unbind"))
}

/// A client passes memory that is not there, not all there, not the server's to read, or that goes while it is copied. The server
/// hears of it with its lock held, puts its data in order, and answers for itself (pitfalls, H8).
fn a_server_survives() -> Outcome {
    let peer: &'static Peer = Box::leak(Box::new(Peer::start()?));
    let copy = |address: u64, len: u64| peer.call(op::COPY_LOCKED, &[address, len]);
    let lent = data(4 * PAGE).map_err(doing("create"))?;
    let own = data(PAGE).map_err(doing("create"))?;
    section::grant(lent.base(), &everybody(Rights::READ)).map_err(doing("grant"))?;
    same!(copy(lent.base(), 4 * PAGE), Ok(1), "memory that is there");
    same!(copy(8, 1), Err(Error::BadAddress), "no memory");
    same!(copy(own.base(), 8), Err(Error::BadAddress), "memory that is not the server's to read");
    same!(copy(lent.base() + PAGE, 4 * PAGE), Err(Error::BadAddress), "memory that ends in between");
    same!(copy(lent.base(), 4 * PAGE), Ok(2), "memory that is there, again");
    // The right comes and goes while others copy.
    let over: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let base = lent.base();
    let caller = thread::spawn(
        move || {
            let mut done = 0;
            while !over.load(Ordering::SeqCst) {
                match copy(base, 4 * PAGE) {
                    Ok(_) => done += 1,
                    Err(Error::BadAddress) => {}
                    Err(other) => thread::exit(1_000_000 + other.word()),
                }
            }
            thread::exit(done)
        },
        0,
    );
    let caller = caller.map_err(doing("thread"))?;
    for n in 0..200 {
        let rights = if n % 2 == 0 { Rights::empty() } else { Rights::READ };
        section::grant(base, &everybody(rights)).map_err(doing("grant"))?;
        thread::yield_now();
    }
    over.store(true, Ordering::SeqCst);
    let done = caller.join().map_err(doing("join"))?;
    holds!(done < 1_000_000, "a caller was told {}", done - 1_000_000);
    same!(copy(base, 8), Ok(done + 3), "what was copied in all");
    // An entry that is none: the second fault takes the usual course, and so does one that is not mended.
    same!(peer.call(op::FAULT, &[]), Err(Error::Faulted), "a fault that is nobody's");
    same!(peer.call(op::FAULT_ENTRY, &[8]), Ok(0), "an entry where nothing is");
    same!(peer.call(op::FAULT, &[]), Err(Error::Faulted), "a fault in the entry");
    same!(peer.call(op::FAULT_ENTRY, &[u64::MAX]), Err(Error::BadAddress), "an entry that is no address");
    same!(peer.call(op::FAULT_ENTRY, &[0]), Ok(0), "no entry");
    same!(peer.call(op::FAULT, &[]), Err(Error::Faulted), "a fault without an entry");
    same!(stub::fault_return(&Trap, base, 1), Err(Error::NotFound), "a return from no fault");
    let _ = peer.child.kill();
    Ok(())
}

/// With so many busy threads that a killed caller's turn comes once in more than a second, its callee still has the time that it
/// needs: it is not ended between the two halves of what it writes.
fn a_killed_caller_waits_its_turn() -> Outcome {
    const BUSY: usize = 115;
    same!(task::processors().count(), 1, "processors: for more a program has not enough threads");
    let peer: &'static Peer = Box::leak(Box::new(Peer::start()?));
    let flags = data(PAGE).map_err(doing("create"))?;
    section::grant(flags.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let load = || {
        while !OVER.load(Ordering::Relaxed) {
            core::hint::spin_loop();
        }
    };
    let busy: Result<Vec<_>, _> = (0..BUSY).map(|_| thread::spawn(load, 0)).collect();
    let busy = busy.map_err(doing("thread"))?;
    for round in 1..3 {
        store(flags.base(), 0);
        let flag = flags.base();
        let call = move || {
            let _ = peer.call(op::TURN, &[round, flag]);
        };
        let caller = thread::spawn(call, 0).map_err(doing("thread"))?;
        await_word(flags.base());
        caller.kill().map_err(doing("kill"))?;
        same!(caller.join(), Ok(Error::Killed.word()), "how the caller ended");
        same!(peer.pair(op::PAIR), Ok([round, round]), "the pair afterwards");
    }
    OVER.store(true, Ordering::Relaxed);
    // The kernel does not remember the ends of so many.
    for one in busy {
        let _ = one.join();
    }
    Ok(())
}

/// What the program holds that ends in two ways at once.
const HELD: u64 = 2048;

/// The last thread of a program ends while somebody kills it. Whoever is told of the end finds everything given back, whichever of the
/// two does it.
fn an_end_is_told_when_it_is_over() -> Outcome {
    const ROUNDS: u64 = 60;
    let flags = data(PAGE).map_err(doing("create"))?;
    section::grant(flags.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let me = task::identity().task;
    // What children use is charged to their parent, too.
    let used = || task::info(me).map_or(0, |info| info.used.frames);
    for round in 0..ROUNDS {
        store(flags.base(), 0);
        let line = format!("check as last-thread {}", flags.base());
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let child = Command::new(b"bin/check").args(words).spawn().map_err(|e| format!("{e}"))?;
        await_word(flags.base());
        let held = used();
        store(flags.base(), 2);
        work(round * 40);
        let _ = child.kill();
        child.wait_for(20_000_000_000).map_err(doing("wait"))?;
        let left = used();
        holds!(left + HELD <= held, "round {round}: of {held} frames {left} are in use after its end was told");
    }
    Ok(())
}

/// Ends with its thread, when it is told to.
pub fn last_thread(flag: u64) -> i32 {
    let Ok(mut held) = data(HELD * PAGE) else { return 2 };
    held.bytes_mut().iter_mut().step_by(PAGE as usize).for_each(|byte| *byte = 1);
    store(flag, 1);
    while crate::memory::load(flag) == 1 {
        core::hint::spin_loop();
    }
    thread::exit(0)
}

/// Rounds of [`work`] in so much time, where nobody else computes; of three tries the one that was disturbed least.
pub fn rounds_in(ns: u64) -> u64 {
    const ROUNDS: u64 = 1_000_000;
    let once = |_| {
        let began = time::now_ns();
        work(ROUNDS);
        time::now_ns() - began
    };
    ROUNDS * ns / (0..3).map(once).min().unwrap_or(1).max(1)
}
