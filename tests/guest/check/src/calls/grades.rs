//! What binding makes of a call: the best grade that the machine and both programs allow.

use crate::peer::{Peer, op, own, six};
use crate::refusals::lacks;
use crate::report::{Outcome, doing};
use crate::{holds, same};
use alloc::format;
use alloc::vec::Vec;
use musubi::abi::gate::{BINDINGS_MAX, grade, why};
use musubi::abi::layout::PAGE;
use musubi::rt::Bound;
use musubi::rt::bound::result_of;
use musubi::{Error, Rights};

/// One grade after the other becomes impossible, and binding takes the next one.
pub fn binding_takes_what_is_to_be_had() -> Outcome {
    let peer = Peer::start()?;
    let keys = peer.bound.binding().grade == grade::EPC_H;
    let call = |bound: &Bound, n| bound.call(0, six(op::ADD, &[n])).and_then(result_of);
    let grade_of = |bound: &Bound| (bound.binding().grade, bound.binding().why);
    let best = if keys { (grade::EPC_H, why::DIRECT) } else { (grade::EPC_S, why::NO_KEYS) };
    let bind = || Bound::bind(peer.gate, 0).map_err(doing("bind"));
    let first = bind()?;
    same!(grade_of(&first), best, "the best");
    same!(call(&first, 1), Ok(1), "a call");
    first.unbind().map_err(doing("unbind"))?;

    // The callee lets nobody fetch its code.
    same!(peer.call(op::OWN, &[own::BY_KERNEL, 0]), Ok(0), "by the kernel only");
    let second = bind()?;
    let by_kernel = if keys { (grade::EPC_S, why::NOT_EXECUTABLE) } else { best };
    same!(grade_of(&second), by_kernel, "where the code is closed");
    same!(call(&second, 1), Ok(2), "a call");
    second.unbind().map_err(doing("unbind"))?;
    same!(peer.call(op::OWN, &[own::OPEN, 0]), Ok(0), "open again");

    // The caller has as many bindings as a text may have.
    let mut all: Vec<Bound> = Vec::new();
    let plain = loop {
        let bound = bind()?;
        if bound.binding().grade == grade::PLAIN {
            break bound;
        }
        same!(grade_of(&bound), best, "binding {}", all.len());
        all.push(bound);
        holds!(all.len() as u64 <= BINDINGS_MAX, "more bindings than there are");
    };
    holds!(all.len() as u64 > BINDINGS_MAX - 100, "only {} bindings", all.len());
    same!(grade_of(&plain), (grade::PLAIN, why::NO_ROOM), "without a binding");
    same!([call(&plain, 1), call(&plain, 2)], [Ok(3), Ok(5)], "plain calls");
    same!(all.last().map(|last| call(last, 1)), Some(Ok(6)), "a call by the last binding");
    // What lends memory has to have one, and so does what is asked for by its name.
    same!(Bound::bind(peer.gate, PAGE).err(), Some(Error::TooBig), "with memory to lend");
    same!(Bound::bind_as(peer.gate, 0, grade::EPC_S).err(), Some(Error::TooBig), "EPC-S");
    // Who may not call has no plain call either.
    same!(peer.call(op::OWN, &[own::SHUT, 0]), Ok(0), "shut");
    lacks(Bound::bind(peer.gate, 0), peer.text, Rights::CALL, "a binding to who lets nobody in")?;

    // One place is free again.
    all.pop().map_or(Ok(()), Bound::unbind).map_err(doing("unbind"))?;
    let other = Peer::start().map_err(|e| format!("a peer that is bound with memory to lend: {e}"))?;
    same!(other.call(op::ADD, &[1]), Ok(1), "a call of it");
    let _ = peer.child.kill();
    other.end()
}
