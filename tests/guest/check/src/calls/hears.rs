//! How long it takes until callers hear that what they have called has ended, where the clock counts instructions: so it is what the
//! kernel takes for it, and no time of a host's.

use crate::memory::{await_word, data, load, store};
use crate::peer::ways::{By, WAYS};
use crate::peer::{Peer, op, own};
use crate::report::{Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use musubi::abi::layout::PAGE;
use musubi::rt::{section, task, thread, time};
use musubi::{Error, Rights};

/// Of a thread under the kernel's round robin, in ns, which are instructions here.
const QUANTUM: u64 = 10_000_000;
/// What has to be done where the same thread goes on in its caller; and for a program's end with several callers inside.
const AT_ONCE: u64 = 150_000;
const END: u64 = 1_000_000;
/// Callers inside where there is one processor, and threads that compute beside them on each.
const INSIDE: u64 = 2;
const BUSY: u64 = 1;

/// Goes on from one program to the next.
static TURN: AtomicUsize = AtomicUsize::new(0);

type End = fn(&Peer) -> Result<(), Error>;

/// On several processors there is a caller for each, and the clock counts what all of them do.
pub fn in_bounded_time() -> Outcome {
    holds!(time::ticks_are_instructions(), "the clock does not count instructions");
    let processors = task::processors().count() as u64;
    let inside = INSIDE.max(processors);
    let flags = data(PAGE).map_err(doing("create"))?;
    section::grant(flags.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let by_itself = [
        ("faults", op::FAULT, Error::Faulted),
        ("ends its thread", op::THREAD_EXIT, Error::Dead),
        ("exits", op::EXIT, Error::Dead),
    ];
    for (how, what, told) in by_itself {
        for way in WAYS {
            let peer = Peer::start()?;
            let by = By::to(peer.gate, way)?;
            by.prepare()?;
            let outcome = by.call(op::STAMPED, &[flags.base(), what]);
            let took = time::ticks() - load(flags.base());
            same!(outcome, Err(told), "{how} ({way:?})");
            holds!(took < AT_ONCE * processors, "{how} ({way:?}): its caller heard after {took} instructions");
            by.end()?;
            let _ = peer.end();
        }
    }
    let ends: [(&str, End); 3] = [
        ("killed", |peer| peer.child.kill()),
        ("deleted", |peer| peer.call(op::OWN, &[own::DELETE_TEXT]).map(drop)),
        // By one more caller, in its call.
        ("exits", |peer| peer.call(op::EXIT, &[]).map(drop)),
    ];
    for (how, end) in ends {
        for (what, computing) in [(op::HAMMER, inside), (op::SLEEP, 0)] {
            for busy in [0, BUSY] {
                // Where the callee's own thread has to run first, which deletes its text, whoever computes has a turn before that, callers too.
                let before = busy + if how == "deleted" { busy + computing } else { 0 };
                let most = (END + if before == 0 { 0 } else { before + 1 } * QUANTUM) * processors;
                let took = callers_hear(flags.base(), what, end, [inside, busy * processors])?;
                holds!(took < most, "{how} in {what} beside {busy}: the last caller heard after {took} instructions");
            }
        }
    }
    Ok(())
}

/// Callers are in a program when it ends: how long it is until the last of them hears of it.
fn callers_hear(flags: u64, what: u64, end: End, [callers, busy]: [u64; 2]) -> Result<u64, alloc::string::String> {
    let peer: &'static Peer = Box::leak(Box::new(Peer::start()?));
    let over: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let (mut inside, counted) = (Vec::new(), flags + 8 * callers);
    // Not two of them in the same way, nor always the same ones together.
    let ways = WAYS.into_iter().cycle().skip(TURN.fetch_add(1, Ordering::Relaxed)).step_by(2);
    for (n, way) in (0..callers).zip(ways) {
        let by = By::to(peer.gate, way)?;
        let flag = flags + 8 * n;
        store(flag, 0);
        let heard: &'static [AtomicU64; 2] = Box::leak(Box::new([const { AtomicU64::new(0) }; 2]));
        let call = move || {
            let is_prepared = by.prepare();
            let outcome = by.call(what, &[flag, if what == op::SLEEP { u64::MAX / 2 } else { counted }]);
            let outcome = if is_prepared.is_ok() { outcome } else { Ok(0) };
            heard[1].store(time::ticks(), Ordering::SeqCst);
            heard[0].store(outcome.map_or_else(Error::word, |_| 0), Ordering::SeqCst);
        };
        inside.push((heard, thread::spawn(call, 0).map_err(doing("thread"))?));
        await_word(flag);
    }
    let computes = move || {
        // (A hint to the processor would have the emulator stop each time.)
        while !over.load(Ordering::Relaxed) {
            core::hint::black_box(());
        }
    };
    let others: Result<Vec<_>, _> = (0..busy).map(|_| thread::spawn(computes, 0)).collect();
    let others = others.map_err(doing("thread"))?;
    let began = time::ticks();
    let _ = end(peer);
    let mut last = 0;
    for (heard, thread) in inside {
        thread.join().map_err(doing("join"))?;
        same!(heard[0].load(Ordering::SeqCst), Error::Dead.word(), "what a caller was told");
        last = last.max(heard[1].load(Ordering::SeqCst));
    }
    over.store(true, Ordering::SeqCst);
    for other in others {
        other.join().map_err(doing("join"))?;
    }
    peer.child.wait_for(10_000_000_000).map_err(doing("the peer's end"))?;
    holds!(task::identity().depth == 0 && last > began, "a caller heard before");
    Ok(last - began)
}
