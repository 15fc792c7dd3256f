//! A permit that others have put out of its place (`core/post/src/face.rs`): the short way looks for it there only.

use super::pool;
use super::short::{ANSWER, CALL, RECEIVE, SEND};
use abi::Rights;
use arch::pass::Card;
use arch::post::{Frame, Way};

/// A permit that is needed is not in its place: if another one's has put it out, it is put back, and the call is made once more. Of what is refused nothing was done: the
/// kernel proper says why.
#[cold]
#[inline(never)]
pub(super) fn look_further(frame: &mut Frame, domain: u32, own: &'static Card) -> ! {
    let Frame { rax: call, rdi: first, rsi: second, .. } = *frame;
    let (to, at) = match call {
        SEND | CALL => (first, second),
        RECEIVE if second == 1 => (0, first),
        ANSWER => (0, second),
        // These look everywhere.
        _ => (0, 0),
    };
    let needed = [(to, Rights::CALL), (at, Rights::READ)].into_iter().filter(|(name, _)| *name != 0);
    let put_back = pool().known(own.record(), domain, arch::percpu::index()).and_then(|by| {
        let each = needed.map(|(name, right)| by.put_back(name, right));
        each.reduce(|one, other| Some(one? | other?)).flatten()
    });
    if put_back == Some(true) { frame.call_again() } else { Way::Refused.go(frame) }
}
