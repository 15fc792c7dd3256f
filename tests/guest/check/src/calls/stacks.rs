//! Whose stack a callee is on, and what it can do to its caller there.

use crate::peer::{Peer, op};
use crate::raw::kind;
use crate::report::{Outcome, doing};
use crate::same;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::gate::GATE_BASE;
use musubi::abi::layout::PAGE;
use musubi::abi::rights::principal;
use musubi::rt::bound::result_of;
use musubi::rt::gate::{ANYBODY, Skeleton, Values};
use musubi::rt::{Bound, Gates, plain_call, section, task};
use musubi::{AclEntry, Caller, Error, Rights};

/// Where the kernel has that, in two pages (kernel/arch/src/gate/plain.rs).
const KEPT: u64 = GATE_BASE + (1 << 30) + 0x4000;

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

/// What the kernel keeps for a plain call of its caller's registers nobody reads: not the callee, and not whoever the thread is in afterwards.
pub fn kept_is_nobodys() -> Outcome {
    let peer = Peer::start()?;
    for round in 0..2 {
        same!(peer.plain(op::ADD, &[1]), Ok(1 + round), "a plain call");
        for at in [KEPT, KEPT + 8, KEPT + PAGE] {
            same!(peer.plain(op::PEEK, &[at]), Err(Error::Faulted), "a load at {at:#x} in a plain call");
            same!(peer.call(op::PEEK, &[at]), Err(Error::Faulted), "a load there in a bound one");
        }
    }
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

/// What else the callee had on the stack stays as it was, and what it has for the call is gone with it; however the call ends.
pub fn callees_entry() -> Outcome {
    let peer = Peer::start()?;
    let gate = peer.call(op::ON_CALLERS_STACK, &[]).map_err(doing("gate"))?;
    let bound = Bound::bind_on_own_stack(gate, 0).map_err(doing("bind"))?;
    let on_stack = AtomicU64::new(6);
    let at = core::ptr::from_ref(&on_stack) as u64;
    let stack = section::info(at).map_err(doing("the own stack"))?.base;
    let me = task::identity().thread;
    let like = AclEntry { principal: principal::THREAD, rights: 0, id: me, text: peer.text };
    let given =
        || section::acl(stack).map(|all| all.iter().find(|e| (e.id, e.text) == (me, peer.text)).map(|e| e.rights));
    let call = |words| bound.call(0, words).and_then(result_of);
    for rights in [Rights::empty(), Rights::READ, Rights::CHANGE_ACL, Rights::READ | Rights::WRITE] {
        section::grant(stack, &AclEntry { rights: rights.bits(), ..like }).map_err(doing("grant"))?;
        let there = (!rights.is_empty()).then_some(rights.bits());
        same!(given(), Ok(there), "what it has");
        same!(call([op::POKE, at, 7, 0, 0, 0]), Ok(0), "a store to the caller's stack");
        same!(given(), Ok(there), "what it has after a call");
        same!(call([op::FAULT, 0, 0, 0, 0, 0]), Err(Error::Faulted), "a fault on the caller's stack");
        same!(given(), Ok(there), "what it has after a fault");
        let stored = if rights.contains(Rights::WRITE) { Ok(0) } else { Err(Error::Faulted) };
        same!(peer.call(op::POKE, &[at, 10]), stored, "a store by a call on the callee's own stack");
    }
    section::grant(stack, &like).map_err(doing("grant"))?;
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

/// Of [`callbacks`]: the peer, by its gate for callers' stacks and by the ordinary one, and its binding back to this program.
struct Back {
    on_mine: Bound,
    apart: Bound,
    slot: AtomicU64,
}

/// What a callback and all below it come to: see [`Back::dispatch`].
const fn sum(deep: u64) -> u64 {
    if deep == 0 { 1 } else { sum(deep - 1) + deep * 100 + 7 }
}

impl Back {
    fn call_back(&self, bound: &Bound, deep: u64) -> Result<u64, Error> {
        bound.call(0, [op::CALL_BOUND, self.slot.load(Ordering::SeqCst), deep, 0, 0, 0]).and_then(result_of)
    }
}

impl Skeleton for &'static Back {
    /// Uses much of its stack, and calls the peer again, by each way: its frames lie above, on the same stack, and must be as they were.
    fn dispatch(&self, _: &Caller, _: u64, w: &[u64; 6]) -> Values {
        let deep = w[0];
        let much = core::hint::black_box([deep; 1024]);
        let below = || {
            if deep == 0 {
                return Ok(1);
            }
            let again = self.call_back(if deep.is_multiple_of(2) { &self.on_mine } else { &self.apart }, deep - 1)?;
            // The peer's own stack, while it is also on this one.
            let other = self
                .apart
                .call(0, [op::WHO, 0, 0, 0, 0, 0])
                .and_then(|values| if values[1] == 0 { Err(Error::Changed) } else { Ok(7) })?;
            Ok(again + other)
        };
        Values::of(below().and_then(|n: u64| {
            let whole = core::hint::black_box(&much).iter().all(|word| *word == deep);
            if whole { Ok(n + deep * 100) } else { Err(Error::Changed) }
        }))
    }
}

/// Whoever runs on its caller's stack may call it back, to any depth: that begins below.
pub fn callbacks() -> Outcome {
    let peer = Peer::start()?;
    let gate = peer.call(op::ON_CALLERS_STACK, &[]).map_err(doing("gate"))?;
    let bind = |bound: Result<Bound, Error>| bound.map_err(doing("bind"));
    let (on_mine, apart) = (bind(Bound::bind_on_own_stack(gate, 0))?, bind(Bound::bind(peer.gate, 0))?);
    let back: &'static Back = Box::leak(Box::new(Back { on_mine, apart, slot: AtomicU64::new(0) }));
    let gates = Gates::export(back, 1).map_err(doing("this program's gate"))?;
    gates.admit(&ANYBODY).map_err(doing("admit"))?;
    let slot = peer.call(op::BIND, &[gates.address()]).map_err(doing("binding back"))?;
    back.slot.store(slot, Ordering::SeqCst);
    // Until the gate would make all calls that it may.
    for round in 0..300 {
        let deep = round % 9;
        same!(back.call_back(&back.on_mine, deep), Ok(sum(deep)), "round {round}, {deep} deep");
        same!(back.call_back(&back.apart, deep), Ok(sum(deep)), "round {round}, {deep} deep, on the peer's stack");
        // The second time a gate might go on by itself, where it did the first time.
        let plainly = back.on_mine.call(0, [op::CALL_BACK_PLAINLY, gates.address(), deep, 0, 0, 0]).and_then(result_of);
        same!(plainly, Ok(sum(deep)), "round {round}, {deep} deep, by plain calls");
        same!(task::identity().depth, 0, "depth afterwards");
    }
    peer.end()
}
