//! A permit that is not at hand, but further away (`core/post/src/further.rs`): the short way looks there only where another one's has its place.

use super::pool;
use super::short::{ANSWER, CALL, RECEIVE, SEND};
use crate::machine::machine;
use ::post::{Known, Permit};
use abi::Rights;
use abi::post::number;
use arch::pass::Card;
use arch::post::{Frame, Way};

/// A permit that is needed is not at hand: if it is kept, it is fetched, and the call is made once more. Of what is refused nothing was done: the kernel proper says why.
#[cold]
#[inline(never)]
pub(super) fn look_further(frame: &mut Frame, domain: u32, own: &'static Card) -> ! {
    let Frame { rax: call, rdi: first, rsi: second, .. } = *frame;
    let (to, at) = match call {
        SEND | CALL => (first, second),
        RECEIVE if second == 1 => (0, first),
        ANSWER => (0, second),
        // These find them where they are.
        _ => (0, 0),
    };
    let needed = [(to, Rights::CALL), (at, Rights::READ)].into_iter().filter(|(name, _)| *name != 0);
    let is_fetched = pool().known(own.record(), domain, arch::percpu::index()).and_then(|by| {
        let mut each = needed.map(|(name, right)| by.fetch((number(machine().node, name)?, name), right));
        each.try_fold(false, |any, one| Some(any | one?))
    });
    if is_fetched == Some(true) { frame.call_again() } else { Way::Refused.go(frame) }
}

/// The permit to receive at one of several posts, which may have one place.
#[cold]
#[inline(never)]
pub(super) fn further(by: &Known, name: u64) -> Option<Permit> {
    by.permit_further(number(machine().node, name)?, Rights::READ)
}
