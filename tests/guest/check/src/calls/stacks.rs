//! Whose stack a callee is on, and what it can do to its caller there.

use crate::peer::{Peer, op};
use crate::raw::kind;
use crate::report::{Outcome, doing};
use crate::same;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::Error;
use musubi::rt::bound::result_of;
use musubi::rt::{Bound, plain_call};

/// By default a callee reaches nothing of its caller's stack.
pub fn stacks_are_apart() -> Outcome {
    let peer = Peer::start()?;
    let local = Box::new(AtomicU64::new(5));
    let on_stack = AtomicU64::new(6);
    for at in [core::ptr::from_ref(&on_stack) as u64, core::ptr::from_ref(&*local) as u64] {
        same!(peer.call(op::POKE, &[at, 9]), Err(Error::Faulted), "a store by a bound call");
        same!(peer.plain(op::POKE, &[at, 9]), Err(Error::Faulted), "a store by a plain call");
    }
    same!((on_stack.load(Ordering::SeqCst), local.load(Ordering::SeqCst)), (6, 5), "the caller's data");
    peer.end()
}

/// On request, and with the callee's consent, it runs on the caller's stack: then it can spoil the caller's data there.
pub fn callers_stack() -> Outcome {
    let peer = Peer::start()?;
    same!(Bound::bind_on_own_stack(peer.gate, 0).err(), Some(Error::NotSupported), "without the callee's consent");
    let gate = peer.call(op::ON_CALLERS_STACK, &[]).map_err(doing("gate"))?;
    let bound = Bound::bind_on_own_stack(gate, 0).map_err(doing("bind"))?;
    let on_stack = AtomicU64::new(6);
    let at = core::ptr::from_ref(&on_stack) as u64;
    let call = |words| bound.call(0, words).and_then(result_of);
    same!(call([op::ADD, 4, 0, 0, 0, 0]), Ok(4), "a call");
    same!(call([op::POKE, at, 9, 0, 0, 0]), Ok(0), "a store to the caller's stack");
    same!(on_stack.load(Ordering::SeqCst), 9, "what the caller sees");
    same!(call([op::FAULT, 0, 0, 0, 0, 0]), Err(Error::Faulted), "a fault on the caller's stack");
    same!(call([op::ADD, 4, 0, 0, 0, 0]), Ok(8), "a call after it");
    for n in 1..200 {
        same!(call([op::ADD, 0, 0, 0, 0, 0]), Ok(8), "call {n}");
    }
    // Only as long as it is called so.
    for (call, outcome) in [("a bound", peer.call(op::POKE, &[at, 10])), ("a plain", peer.plain(op::POKE, &[at, 10]))] {
        same!(outcome, Err(Error::Faulted), "a store to the caller's stack by {call} call afterwards");
    }
    same!(call([op::POKE, at, 11, 0, 0, 0]), Ok(0), "and again in such a call");
    same!(on_stack.load(Ordering::SeqCst), 11, "what the caller sees");
    bound.unbind().map_err(doing("unbind"))?;
    peer.end()
}

static DIVERTED: AtomicU64 = AtomicU64::new(0);

extern "C" fn elsewhere() {
    DIVERTED.fetch_add(1, Ordering::SeqCst);
}

/// A callee that puts another address in the place of its return address does not get its caller to go there.
pub fn divert(flags: u64) -> Outcome {
    let peer = Peer::start()?;
    let gate = peer.call(op::RAW, &[kind::OTHER_RETURN, flags]).map_err(doing("gate"))?;
    let bind = if flags == 0 { Bound::bind } else { Bound::bind_on_own_stack };
    let bound = bind(gate, 0).map_err(doing("bind"))?;
    let aim = elsewhere as *const () as u64;
    let data = peer.call(op::ADDRESS_OF_DATA, &[]).map_err(doing("address"))?;
    for target in [aim, 0, 8, data, musubi::abi::gate::DOORSTEP + 8, 1 << 47, u64::MAX, 1 << 63] {
        let outcome = bound.call(0, [target, 0, 0, 0, 0, 0]);
        same!(outcome, Err(Error::Faulted), "a return to {target:#x}");
    }
    same!(plain_call(gate, [aim, 0, 0, 0, 0, 0]), Err(Error::Faulted), "a plain call");
    same!(DIVERTED.load(Ordering::SeqCst), 0, "how often the caller's function ran");
    same!(peer.call(op::ADD, &[1]), Ok(1), "the callee afterwards");
    peer.end()
}
