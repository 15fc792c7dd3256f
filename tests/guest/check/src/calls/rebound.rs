//! What a call under way was made by stays as it was, whatever its caller does in the meantime.

use crate::peer::{Peer, op};
use crate::report::{Outcome, doing};
use crate::same;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::rt::bound::result_of;
use musubi::rt::gate::{ANYBODY, Skeleton, Values};
use musubi::rt::{Bound, Gates, Trap};
use musubi::{Caller, Error};

static NUMBER: AtomicU64 = AtomicU64::new(0);
static OTHER: AtomicU64 = AtomicU64::new(0);
/// What came of the call in between: 1: `Busy`.
static CAME: AtomicU64 = AtomicU64::new(0);

struct Rebinds;

impl Skeleton for Rebinds {
    /// Takes back the binding by which this program has called, and binds other gates of the same program, which get its number.
    fn dispatch(&self, _: &Caller, _: u64, _: &[u64; 6]) -> Values {
        let rebound = || {
            let number = NUMBER.load(Ordering::SeqCst);
            stub::gate_unbind(&Trap, number)?;
            let other = Bound::bind(OTHER.load(Ordering::SeqCst), 0)?;
            if other.binding().number != number {
                return Err(Error::Changed);
            }
            let came = other.call(0, [op::ADD, 0, 0, 0, 0, 0]);
            CAME.store(if came == Err(Error::Busy) { 1 } else { 2 }, Ordering::SeqCst);
            Ok(number)
        };
        Values::of(rebound())
    }
}

/// The number is another binding's; the record is the call's, which says what the callee was told and how its faults are dealt with, until it is over
/// (pitfalls, H8).
pub fn in_a_call() -> Outcome {
    let peer = Peer::start()?;
    OTHER.store(peer.call(op::ON_CALLERS_STACK, &[]).map_err(doing("other gates"))?, Ordering::SeqCst);
    let gates = Gates::export(Rebinds, 1).map_err(doing("this program's gate"))?;
    gates.admit(&ANYBODY).map_err(doing("admit"))?;
    let slot = peer.call(op::BIND, &[gates.address()]).map_err(doing("binding back"))?;
    for round in 0..20 {
        let bound: &Bound = Box::leak(Box::new(Bound::bind(peer.gate, 0).map_err(doing("bind"))?));
        let number = bound.binding().number;
        NUMBER.store(number, Ordering::SeqCst);
        CAME.store(0, Ordering::SeqCst);
        // By the kernel at first, and by the gate when that has been earned.
        for _ in 0..round * 20 {
            bound.call(0, [op::ADD, 0, 0, 0, 0, 0]).map_err(doing("a call"))?;
        }
        let outcome = bound.call(0, [op::CALL_BOUND, slot, 0, 0, 0, 0]).and_then(result_of);
        same!(outcome, Ok(number), "the call, in round {round}");
        same!(
            CAME.load(Ordering::SeqCst),
            1,
            "whether one by the other binding was refused meanwhile, in round {round}"
        );
        stub::gate_unbind(&Trap, number).map_err(doing("unbinding the other one"))?;
    }
    peer.end()
}
