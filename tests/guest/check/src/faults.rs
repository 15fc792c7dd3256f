//! Faults that a text deals with itself, and callers who would rather that it did not (pitfalls, H8): what one text leaves
//! unfinished is no other's, and a callee hears of a fault whatever its caller's stack is like.

use crate::memory::{data, store};
use crate::peer::{Peer, op, six};
use crate::report::{Check, Outcome, doing, in_time};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::layout::PAGE;
use musubi::abi::rights::principal;
use musubi::abi::task::{CALLEE_GRACE_NS, Limits, USER_SYSTEM, exit};
use musubi::command::Command;
use musubi::interfaces::passing::PassingClient;
use musubi::rt::bound::result_of;
use musubi::rt::gate::{Skeleton, Values};
use musubi::rt::{Bound, Gates, Trap, plain_call, section, sync, task, thread, time};
use musubi::{AclEntry, Caller, Error, Rights, eprintln, names};

pub const CHECKS: &[Check] = &[
    ("a_fault_left_unfinished_is_no_other_texts", left_unfinished),
    ("a_fault_on_the_callers_stack_is_heard", on_the_callers_stack),
    ("a_fault_of_the_callers_stack_is_heard", the_stack_itself),
    ("a_fault_entry_has_its_time", endless_entries),
    ("who_is_late_in_a_server_leaves_it_whole", late_in_a_server),
    ("a_poor_caller_makes_no_server_fault", || poor_caller(0)),
    ("poor_callers_on_many_threads_make_no_server_fault", || poor_caller(6)),
];

/// A fault entry that ends the call instead of the fault. Values of the call: 0, and where the entry's stack is.
#[unsafe(naked)]
pub extern "C" fn leave() {
    core::arch::naked_asm!("xor edi, edi", "mov rsi, rsp", "mov eax, 0x34", "syscall", "ud2")
}

/// The lock of the peer is free.
fn is_free(peer: &'static Peer, lent: u64, wanted: u64) -> Outcome {
    same!(in_time(move || peer.call(op::COPY_LOCKED, &[lent, PAGE])), Some(Ok(wanted)), "another thread's call");
    Ok(())
}

/// One server ends a call in its fault entry; what another one does at the same depth, by the same thread, is its own first fault.
fn left_unfinished() -> Outcome {
    let peer: &'static Peer = Box::leak(Box::new(Peer::start()?));
    let lent = data(PAGE).map_err(doing("create"))?;
    section::grant(lent.base(), &everybody(Rights::READ)).map_err(doing("grant"))?;
    // Called first, by each way: its stack is the lower one or the higher one.
    for (n, rounds) in [1, 3].into_iter().enumerate() {
        same!(peer.call(op::COPY_LOCKED, &[8, 1]), Err(Error::BadAddress), "bad memory, before");
        let other = Peer::start()?;
        same!(other.call(op::LEAVING_ENTRY, &[]), Ok(0), "an entry that ends the call");
        for _ in 0..rounds {
            holds!(matches!(other.call(op::FAULT, &[]), Ok(1..)), "a fault that ends the call");
            holds!(matches!(other.plain(op::FAULT, &[]), Ok(1..)), "the same in a plain call");
            same!(peer.call(op::COPY_LOCKED, &[8, 1]), Err(Error::BadAddress), "bad memory, after");
            same!(peer.plain(op::COPY_LOCKED, &[8, 1]), Err(Error::BadAddress), "bad memory by a plain call");
            // Deeper by one, and back.
            let by_other = other.call(op::RELAY, &[peer.gate, op::COPY_LOCKED, 8, 1]);
            same!(by_other, Err(Error::BadAddress), "bad memory from further away");
        }
        is_free(peer, lent.base(), n as u64 + 1)?;
        same!(task::identity().depth, 0, "the depth afterwards");
        let _ = other.child.kill();
    }
    Ok(())
}

/// For the fault entry that has another program loop: its gate, and where that says so.
static ENDLESS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// A fault entry that computes for ever, one that waits, one that calls a program that does not come back; or, again and again, a server of the system's
/// that has a lock, or the scheduler.
pub fn endless(kind: u64, gate: u64, word: u64) -> u64 {
    ENDLESS.iter().zip([gate, word]).for_each(|(at, value)| at.store(value, Ordering::SeqCst));
    let all = [computes as *const (), waits as *const (), calls as *const (), asks as *const (), passes as *const ()];
    all[kind as usize] as u64
}

extern "C" fn computes() -> ! {
    loop {
        core::hint::spin_loop();
    }
}

extern "C" fn waits() -> ! {
    let word = AtomicU32::new(0);
    loop {
        let _ = sync::wait(&word, 0, u64::MAX);
    }
}

extern "C" fn calls() -> ! {
    let [gate, word] = [0, 1].map(|n| ENDLESS[n].load(Ordering::SeqCst));
    let _ = plain_call(gate, six(op::LOOP, &[word]));
    // That is over with the call in which the fault was.
    computes()
}

extern "C" fn asks() -> ! {
    loop {
        let _ = names::lookup("files");
    }
}

extern "C" fn passes() -> ! {
    let (me, passing) = (task::identity().thread, names::lookup("passing").and_then(PassingClient::bind));
    loop {
        if let Ok(passing) = &passing {
            let _ = passing.wake_up(me);
            let _ = passing.sleep();
        }
    }
}

/// Whoever is late with a fault is most of the time in a server's text, perhaps with its lock: the call in which the fault was is over when that is
/// left, and the server loses nothing, whom others ask meanwhile.
fn late_in_a_server() -> Outcome {
    let server =
        || task::list().find(|t| t.user == USER_SYSTEM && musubi::ended::text(&t.name) == "names").map(|t| t.task);
    let before = server().ok_or("no name server")?;
    let over: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let asks = move || {
        while !over.load(Ordering::SeqCst) {
            let _ = names::lookup("files");
        }
    };
    let asks = thread::spawn(asks, 0).map_err(doing("a thread"))?;
    for round in 0..4 {
        // Another one each time: what is late leaves a lock of its own text behind.
        let peer: &'static Peer = Box::leak(Box::new(Peer::start()?));
        same!(peer.call(op::ENDLESS_ENTRY, &[3, 0, 0]), Ok(0), "the entry");
        same!(in_time(move || peer.call(op::FAULT, &[])), Some(Err(Error::Faulted)), "call {round}");
        holds!(names::lookup("files").is_ok(), "the name server does not answer after call {round}");
    }
    over.store(true, Ordering::SeqCst);
    asks.join().map_err(doing("join"))?;
    same!(server(), Some(before), "the name server's task");
    Ok(())
}

/// A server whose fault entry does not come to an end holds nobody up for longer than the time that a killed caller's callee has.
fn endless_entries() -> Outcome {
    let word = data(PAGE).map_err(doing("create"))?;
    section::grant(word.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let other: &'static Peer = Box::leak(Box::new(Peer::start()?));
    let mut callers = Vec::new();
    let mut peers = Vec::new();
    for kind in 0..3 {
        let peer: &'static Peer = Box::leak(Box::new(Peer::start()?));
        same!(peer.call(op::ENDLESS_ENTRY, &[kind, other.gate, word.base()]), Ok(0), "entry {kind}");
        peers.push(peer);
        for way in 0..3 {
            let told: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(u64::MAX)));
            let call = move || {
                let began = time::now_ns();
                let outcome = match way {
                    0 => peer.call(op::FAULT, &[]),
                    1 => peer.plain(op::FAULT, &[]),
                    // From further away.
                    _ => other.call(op::RELAY, &[peer.gate, op::FAULT]),
                };
                let early = time::now_ns() - began < CALLEE_GRACE_NS;
                told.store(if early { 0 } else { outcome.map_or_else(Error::word, |_| 0) }, Ordering::SeqCst);
            };
            callers.push((kind, way, told, thread::spawn(call, 0).map_err(doing("a thread"))?));
        }
    }
    let until = time::now_ns() + 60_000_000_000;
    for (kind, way, told, _) in &callers {
        while told.load(Ordering::SeqCst) == u64::MAX {
            holds!(time::now_ns() < until, "entry {kind}, call {way}: the caller was never told");
            time::sleep_ns(10_000_000);
        }
        same!(told.load(Ordering::SeqCst), Error::Faulted.word(), "entry {kind}, call {way}: what the caller was told");
    }
    for (kind, peer) in peers.into_iter().enumerate() {
        same!(peer.call(op::ADD, &[1]), Ok(1), "the server of entry {kind} afterwards");
    }
    same!(other.call(op::ADD, &[1]), Ok(1), "who was called by an entry, afterwards");
    for (.., one) in callers {
        one.join().map_err(doing("join"))?;
    }
    same!(task::identity().depth, 0, "the depth afterwards");
    Ok(())
}

/// Peer, and the peer once more by a call on this thread's stack.
fn stack_peer() -> Result<(&'static Peer, Bound), alloc::string::String> {
    let peer: &'static Peer = Box::leak(Box::new(Peer::start()?));
    let gate = peer.call(op::ON_CALLERS_STACK, &[]).map_err(doing("gate"))?;
    let bound = Bound::bind_on_own_stack(gate, 0).map_err(doing("bind"))?;
    Ok((peer, bound))
}

fn stack() -> Result<(u64, u64), alloc::string::String> {
    let local = 0u64;
    let info = section::info(core::ptr::from_ref(&local) as u64).map_err(doing("the stack"))?;
    Ok((info.base, info.base + info.len))
}

fn on_the_callers_stack() -> Outcome {
    let (peer, bound) = stack_peer()?;
    let call = |words| bound.call(0, words).and_then(result_of);
    let lent = data(PAGE).map_err(doing("create"))?;
    section::grant(lent.base(), &everybody(Rights::READ)).map_err(doing("grant"))?;
    for round in 0..3 {
        same!(call([op::COPY_LOCKED, lent.base(), PAGE, 0, 0, 0]), Ok(2 * round + 1), "good memory");
        same!(call([op::COPY_LOCKED, 8, 1, 0, 0, 0]), Err(Error::BadAddress), "bad memory");
        is_free(peer, lent.base(), 2 * round + 2)?;
    }
    // A fault that the entry does not mend ends the call, as ever.
    same!(call([op::FAULT, 0, 0, 0, 0, 0]), Err(Error::Faulted), "a fault that is nobody's");
    same!(peer.call(op::LEAVING_ENTRY, &[]), Ok(0), "an entry that ends the call");
    let (base, top) = stack()?;
    let at = call([op::FAULT, 0, 0, 0, 0, 0]).map_err(doing("a fault that ends the call"))?;
    holds!(at != 0 && !(base..top).contains(&at), "the entry ran at {at:#x}, on the caller's stack");
    same!(peer.call(op::ADD, &[1]), Ok(1), "the peer afterwards");
    Ok(())
}

static STACK: AtomicU64 = AtomicU64::new(0);
static TEXT: AtomicU64 = AtomicU64::new(0);

/// Called by the callee: takes the stack from it on which it runs.
struct Take;

impl Skeleton for Take {
    fn dispatch(&self, _: &Caller, _: u64, _: &[u64; 6]) -> Values {
        let (id, text) = (task::identity().thread, TEXT.load(Ordering::SeqCst));
        let entry = AclEntry { principal: principal::THREAD, rights: 0, id, text };
        Values::of(section::grant(STACK.load(Ordering::SeqCst), &entry).map(|()| 0))
    }
}

/// The caller takes its stack away while the callee runs on it: the hazard is the caller's. The callee hears of it.
fn the_stack_itself() -> Outcome {
    let (peer, bound) = stack_peer()?;
    let take = Gates::export(Take, 1).map_err(doing("export"))?;
    STACK.store(stack()?.0, Ordering::SeqCst);
    TEXT.store(peer.text, Ordering::SeqCst);
    let call = || bound.call(0, [op::RELAY, take.address(), 0, 0, 0, 0]).and_then(result_of);
    same!(call(), Err(Error::Faulted), "a callee whose entry does not mend it");
    same!(peer.call(op::LEAVING_ENTRY, &[]), Ok(0), "an entry that ends the call");
    for _ in 0..3 {
        let at = call().map_err(doing("a callee without its caller's stack"))?;
        let (base, top) = stack()?;
        holds!(at != 0 && !(base..top).contains(&at), "the entry ran at {at:#x}, on the caller's stack");
    }
    same!(peer.call(op::ADD, &[1]), Ok(1), "the peer afterwards");
    Ok(())
}

/// Places that lie so far apart that each needs a page table of its own.
const PLACES: usize = 150;

/// A program that has used up its quota lends a server memory in many places. That costs tables, in its own view and at its own
/// expense; the server still has what it needs for its own memory, and nothing is left half done.
fn poor_caller(threads: u64) -> Outcome {
    let peer: &'static Peer = Box::leak(Box::new(Peer::start()?));
    same!(peer.call(op::OWN_SECTION, &[]), Ok(1), "a call before");
    let (gate, number) = (format!("{}", peer.gate), format!("{threads}"));
    let command = Command::new(b"bin/check").args(["check", "as", "poor", &gate, &number]);
    let limits = Limits { frames: 3000, sections: 512, ..Limits::default() };
    let child = command.limits(limits).spawn().map_err(doing("the poor caller"))?;
    let ended = child.wait_for(120_000_000_000).map_err(doing("the poor caller's end"))?;
    same!((ended.kind, ended.code), (exit::EXITED, 0), "how the poor caller ended (see the error stream)");
    let calls = 1 + CALLS * (1 + threads);
    same!(in_time(move || peer.call(op::OWN_SECTION, &[])), Some(Ok(calls + 1)), "another thread's call afterwards");
    Ok(())
}

/// Calls of each thread of the poor caller.
const CALLS: u64 = 20;

/// The poor caller. Value: its exit status.
pub fn poor(gate: u64, threads: u64) -> i32 {
    match poor_within(gate, threads) {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("poor: {why}");
            1
        }
    }
}

fn poor_within(gate: u64, threads: u64) -> Outcome {
    let bound: &'static Bound = Box::leak(Box::new(Bound::bind(gate, 0).map_err(doing("bind"))?));
    let places: &'static mut Vec<u64> = Box::leak(Box::new(Vec::with_capacity(PLACES)));
    for n in 0..PLACES {
        let section = data(PAGE).map_err(doing("a section"))?;
        store(section.base(), n as u64 + 1);
        section::grant(section.base(), &everybody(Rights::READ)).map_err(doing("grant"))?;
        places.push(section.base());
        core::mem::forget(section);
    }
    let places: &'static [u64] = places;
    let lend = move |first: usize| -> Result<(), Error> {
        for n in 0..CALLS as usize {
            // The tables of its own memory are not the last that it was given.
            for &at in places.iter().cycle().skip(first + 7 * n).take(PLACES / 2) {
                bound.call(0, [op::PEEK, at, 0, 0, 0, 0])?;
            }
            bound.call(0, [op::OWN_SECTION, 0, 0, 0, 0, 0]).and_then(result_of)?;
        }
        Ok(())
    };
    let failed: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
    let go: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
    let body = move |first: usize| {
        // Whatever a thread needs for its first call is there before memory is short.
        let first_call = bound.call(0, [op::ADD, 0, 0, 0, 0, 0]);
        while go.load(Ordering::SeqCst) == 0 {
            time::sleep_ns(1_000_000);
        }
        if let Err(e) = first_call.and_then(|_| lend(first)) {
            failed.store(e.word(), Ordering::SeqCst);
        }
    };
    let others: Result<Vec<_>, _> = (0..threads as usize).map(|n| thread::spawn(move || body(20 * n), 0)).collect();
    let others = others.map_err(doing("a thread"))?;
    bound.call(0, [op::ADD, 0, 0, 0, 0, 0]).map_err(doing("a call"))?;
    time::sleep_ns(50_000_000);
    // Now the quota is used up, and what tables were paid for goes to pages, too.
    let (fill, mut filled) = (data(64 << 20).map_err(doing("a section to fill"))?, 0);
    for _ in 0..2 {
        while stub::identity(&Trap, fill.base() + filled * PAGE).is_ok() {
            filled += 1;
        }
        for &at in places {
            section::grant(at, &everybody(Rights::empty())).map_err(doing("revoke"))?;
            section::grant(at, &everybody(Rights::READ)).map_err(doing("grant"))?;
        }
    }
    holds!(filled > 1000 && filled < (64 << 20) / PAGE, "{filled} pages were had");
    go.store(1, Ordering::SeqCst);
    lend(3).map_err(doing("a call"))?;
    for one in others {
        one.join().map_err(doing("join"))?;
    }
    same!(failed.load(Ordering::SeqCst), 0, "what another thread was told");
    Ok(())
}
