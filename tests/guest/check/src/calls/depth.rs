//! Calls within calls, as deep as they go: the next one is an error, and all of them come back.

use crate::peer::{Peer, op};
use crate::refusals::lacks;
use crate::report::{Outcome, doing};
use crate::{holds, same};
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::gate::{DEPTH_MAX, grade};
use musubi::rt::bound::result_of;
use musubi::rt::gate::{ANYBODY, Skeleton, Values};
use musubi::rt::{Bound, Gates, plain_call, task};
use musubi::{Caller, Error, Rights};

/// a calls b calls a ...: the call that would be too deep is refused, and all others return.
pub fn recursion_ends() -> Outcome {
    let (a, b) = (Peer::start()?, Peer::start()?);
    for _ in 0..3 {
        let deep = a.call(op::BOUNCE, &[b.gate, a.gate, 1]);
        same!(deep, Ok(DEPTH_MAX as u64), "how deep it came");
    }
    same!(task::identity().depth, 0, "depth afterwards");
    same!(b.call(op::ADD, &[1]), Ok(1), "a call afterwards");
    a.end()?;
    b.end()
}

/// The same by bindings: with keys the gate makes all of them, and only the one too many is the kernel's affair.
pub fn recursion_by_bindings_ends() -> Outcome {
    let (a, b) = (Peer::start()?, Peer::start()?);
    same!([a.call(op::BIND, &[b.gate]), b.call(op::BIND, &[a.gate])], [Ok(0), Ok(0)], "binding them to each other");
    let by_kernel = || task::processors().map(|p| p.epc).sum::<u64>();
    // At first the kernel checks each binding, and what they use has yet to have keys. And others make calls, too.
    let mut least = u64::MAX;
    for _ in 0..10 {
        let before = by_kernel();
        same!(a.call(op::DEEP, &[1]), Ok(DEPTH_MAX as u64), "how deep it came");
        least = least.min(by_kernel() - before);
    }
    let direct = a.bound.binding().grade == grade::EPC_H;
    holds!(!direct || least < DEPTH_MAX as u64 / 4, "at least {least} calls by the kernel");
    same!(task::identity().depth, 0, "depth afterwards");
    same!(b.call(op::ADD, &[1]), Ok(1), "a call afterwards");
    a.end()?;
    b.end()
}

struct Down;
static DOWN: AtomicU64 = AtomicU64::new(0);

impl Skeleton for Down {
    fn dispatch(&self, _: &Caller, _: u64, w: &[u64; 6]) -> Values {
        if w[0] == 0 {
            return Values(0, 1);
        }
        let gate = DOWN.load(Ordering::Relaxed);
        Values::of(plain_call(gate, [w[0] - 1, 0, 0, 0, 0, 0]).and_then(result_of).map(|n| n + 1))
    }
}

/// A program may call its own gates: the fetch faults, as from outside.
pub fn bound_to_oneself() -> Outcome {
    let gates = Gates::export(Down, 1).map_err(doing("gate"))?;
    let own = musubi::start().text();
    lacks(Bound::bind(gates.address(), 0), own, Rights::CALL, "without the right to call oneself")?;
    gates.admit(&ANYBODY).map_err(doing("admit"))?;
    DOWN.store(gates.address(), Ordering::Relaxed);
    let bound = Bound::bind(gates.address(), 0).map_err(doing("bind"))?;
    same!(bound.call(0, [0; 6]).and_then(result_of), Ok(1), "one call");
    same!(bound.call(0, [20, 0, 0, 0, 0, 0]).and_then(result_of), Ok(21), "twenty deep");
    let too_deep = bound.call(0, [DEPTH_MAX as u64, 0, 0, 0, 0, 0]).and_then(result_of);
    same!(too_deep, Err(Error::TooDeep), "deeper than there is");
    gates.close().map_err(doing("close"))?;
    same!(bound.call(0, [0; 6]), Err(Error::Dead), "after the gate is gone");
    Ok(())
}
