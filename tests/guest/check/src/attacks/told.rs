//! Addresses that a method was told by pointer, from sections that nobody has lent, in harder cases than one call at a time (pitfalls: H10).

use super::addresses::{become_free, go_round, over};
use super::op;
use crate::memory::{await_word, data, load, store};
use crate::peer::{self, Peer, op as peer_op, six};
use crate::report::{Outcome, doing};
use crate::sched::leak;
use crate::sections::everybody;
use crate::{holds, same};
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::calls::number;
use musubi::abi::gate::PASSED_FOR_WRITING;
use musubi::abi::layout::PAGE;
use musubi::rt::bound::result_of;
use musubi::rt::gate::Values;
use musubi::rt::{Bound, plain_call, section, thread, time};
use musubi::{Error, Rights};

fn shared() -> Result<u64, String> {
    let base = data(PAGE).map_err(doing("create"))?.base();
    section::grant(base, &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    Ok(base)
}

fn by(bound: &Bound, what: u64, words: &[u64]) -> Result<u64, Error> {
    bound.call(0, six(what, words)).and_then(result_of)
}

/// Between two calls by the same binding, with the same address, stands one by another binding, in which that address was passed beside one that may not
/// be. The second call's answer is the first one's, but it is under way.
pub fn beside_one_that_is_refused() -> Outcome {
    let peer: &'static Peer = leak(Peer::start()?);
    let bind = || Bound::bind(peer.gate, 0).map_err(doing("bind"));
    let (control, other): (Bound, &'static Bound) = (bind()?, leak(bind()?));
    let (passed, words, begun) = (shared()?, shared()?, leak(AtomicU64::new(0)));
    [passed, 8 | PASSED_FOR_WRITING, 0x1000, 8, 0, 0].iter().zip(0..).for_each(|(word, n)| store(words + 8 * n, *word));
    by(&control, op::GO_ON, &[1]).map_err(doing("nobody waits"))?;
    let body = move || {
        let calls = || peer.call(op::WAIT_AND_STORE, &[passed, 1]) == Ok(0);
        let is_refused = || by(other, op::KERNEL, &[number("may_pass"), words]) == Ok(0);
        // What is remembered of records is the same from the second time on.
        let as_it_should = (0..3).all(|_| calls() && is_refused()) && by(other, op::GO_ON, &[0]).is_ok();
        // As it was before anybody called: who looks at it sees the last call, not one of these.
        store(passed, 0);
        begun.store(if as_it_should { 1 } else { 2 }, Ordering::SeqCst);
        calls();
    };
    let held = thread::spawn(body, 0).map_err(doing("thread"))?;
    while begun.load(Ordering::SeqCst) == 0 {
        time::sleep_ns(1_000_000);
    }
    same!(begun.load(Ordering::SeqCst), 1, "the calls before");
    await_word(passed);
    section::delete(passed).map_err(doing("delete"))?;
    let taken = go_round(&control, passed)?;
    by(&control, op::GO_ON, &[1]).map_err(doing("letting it go on"))?;
    held.join().map_err(doing("join"))?;
    if taken {
        same!(
            by(&control, peer_op::PEEK, &[passed]),
            Ok(0),
            "a word of the server's own, at the address that was passed"
        );
    }
    holds!(!taken, "somebody else was given addresses that were passed with a call under way");
    become_free(&control, passed)?;
    over(peer)?;
    control.unbind().map_err(doing("unbind"))
}

/// Threads, and how deep each of them is: more calls than a section writes down.
const THREADS: usize = 48;
const DEEP: u64 = 5;

/// The server's side: passes the address on, so deep, to the gates at `to` and from there to those at `back`, and waits there.
pub fn pass_down(at: u64, deep: u64, to: u64, back: u64) -> Values {
    if !super::addresses::may_pass(at) {
        return Values(Error::Refused.word(), 0);
    }
    if deep == 0 {
        return Values(0, super::addresses::wait());
    }
    let below = plain_call(to, [op::PASS_DOWN, at, deep - 1, back, to, 0]).and_then(result_of);
    Values(below.map_or_else(Error::word, |_| 0), 0)
}

/// In so many calls under way a section is passed that not all of them can be written down: none is refused for that, and its addresses are nobody else's as
/// long as any of them lasts, the uncounted ones, too.
pub fn with_many_calls() -> Outcome {
    let start = || Ok::<&'static Peer, String>(leak(Peer::start()?));
    let (a, b, last) = (start()?, start()?, start()?);
    let control = Bound::bind(last.gate, 0).map_err(doing("bind"))?;
    let passed = shared()?;
    let failed: &'static AtomicU64 = leak(AtomicU64::new(0));
    let body = move || {
        if let Err(why) = a.call(op::PASS_DOWN, &[passed, DEEP, b.gate, a.gate]) {
            failed.store(why.word(), Ordering::SeqCst);
        }
    };
    let crowd: Result<Vec<_>, _> = (0..THREADS).map(|_| thread::spawn(body, 0)).collect();
    let crowd = crowd.map_err(doing("a crowd"))?;
    let until = time::now_ns() + 60_000_000_000;
    while b.call(op::WAITING, &[]) != Ok(THREADS as u64) {
        same!(failed.load(Ordering::SeqCst), 0, "a call in the crowd");
        holds!(time::now_ns() < until, "{:?} of {THREADS} wait", b.call(op::WAITING, &[]));
        time::sleep_ns(1_000_000);
    }
    let (held, outcome) = peer::in_call(last, op::WAIT_AND_STORE, passed, 1)?;
    same!(load(passed), 1, "one more waits");
    section::delete(passed).map_err(doing("delete"))?;
    let taken = go_round(&control, passed)?;
    b.call(op::GO_ON, &[1]).map_err(doing("letting the crowd go on"))?;
    for one in crowd {
        one.join().map_err(doing("join"))?;
    }
    same!(failed.load(Ordering::SeqCst), 0, "a call in the crowd");
    // It is looked at again some time.
    time::sleep_ns(2_500_000_000);
    let taken = taken || go_round(&control, passed)?;
    by(&control, op::GO_ON, &[1]).map_err(doing("letting the last one go on"))?;
    held.join().map_err(doing("join"))?;
    holds!(!taken, "somebody else was given addresses that were passed with a call under way");
    same!(outcome.load(Ordering::SeqCst), Error::Faulted.word(), "how the last call ends");
    become_free(&control, passed)?;
    [a, b, last].into_iter().try_for_each(over)?;
    control.unbind().map_err(doing("unbind"))
}
