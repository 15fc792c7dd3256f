//! A method that waits goes on with the addresses that it was told. A kernel that gave them to somebody else as soon as the caller has
//! unbound would let him go round all addresses until the server's own next section comes to lie there, and have the method write into that
//! (pitfalls: H10).

use crate::anew::begin_anew;
use crate::memory::load;
use crate::peer::{self, Peer};
use crate::report::{Check, Outcome, doing};
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::string::String;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::Error;
use musubi::abi::calls::stub;
use musubi::abi::layout::PAGE;
use musubi::abi::section::{flag, kind};
use musubi::rt::bound::result_of;
use musubi::rt::{Bound, Trap, section, thread, time};

pub const CHECKS: &[Check] = &[
    ("addresses_of_a_call_that_waits", of_a_call_that_waits),
    ("addresses_lent_on_by_one_who_ends", lent_on_by_one_who_ends),
    ("addresses_that_were_deleted", that_were_deleted),
];

/// What the method writes when it goes on.
const MARK: u64 = 0x5a;

/// Rounds that threads have waited for in [`wait_and_store`]; and whether they go on.
static ROUNDS: AtomicU64 = AtomicU64::new(0);
static GO_ON: AtomicU64 = AtomicU64::new(0);

/// The server's side: stores 1 there, waits, and stores something else.
pub fn wait_and_store(at: u64) -> u64 {
    crate::memory::store(at, 1);
    while GO_ON.load(Ordering::SeqCst) == 0 {
        ROUNDS.fetch_add(1, Ordering::SeqCst);
        time::sleep_ns(1_000_000);
    }
    crate::memory::store(at, MARK);
    0
}

/// From now on those who wait do not any more, or do. Value: rounds so far.
pub fn go_on(does: u64) -> u64 {
    let rounds = ROUNDS.load(Ordering::SeqCst);
    GO_ON.store(does, Ordering::SeqCst);
    rounds
}

/// Makes a section of the server's own, which stays if it lies at `wanted`. Value: where it lies.
pub fn take(wanted: u64) -> Result<u64, Error> {
    let own = section::Section::create(PAGE, PAGE, kind::DATA, flag::ANY_PRINCIPAL)?;
    let base = own.base();
    if base == wanted {
        crate::memory::store(base, 0);
    } else {
        own.delete()?;
    }
    Ok(base)
}

/// Goes round all addresses, and has the server take the lowest ones, up to `wanted`. Whether it got that.
fn go_round(server: &Bound, wanted: u64) -> Result<bool, String> {
    begin_anew(wanted)?;
    loop {
        let base =
            server.call(0, peer::six(super::op::TAKE, &[wanted])).and_then(result_of).map_err(doing("taking"))?;
        if base >= wanted {
            return Ok(base == wanted);
        }
    }
}

/// Nobody needs these addresses any more: soon somebody gets them.
fn become_free(server: &Bound, args: u64) -> Outcome {
    let until = time::now_ns() + 20_000_000_000;
    while !go_round(server, args)? {
        holds!(time::now_ns() < until, "{args:#x} stays nobody's");
        time::sleep_ns(20_000_000);
    }
    Ok(())
}

/// Ends a peer whose binding has ended.
fn over(peer: &Peer) -> Outcome {
    let _ = peer.child.kill();
    peer.child.wait_for(20_000_000_000).map(drop).map_err(doing("the peer's end"))
}

fn of_a_call_that_waits() -> Outcome {
    let peer: &'static Peer = Box::leak(Box::new(Peer::start()?));
    let second = Bound::bind(peer.gate, 0).map_err(doing("bind"))?;
    let does = |what, words: &[u64]| second.call(0, peer::six(what, words)).and_then(result_of);
    let args = peer.bound.binding().args;
    let (held, outcome) = peer::in_call(peer, super::op::WAIT_AND_STORE, args, 0)?;
    same!(load(args), 1, "the method waits");
    stub::gate_unbind(&Trap, peer.bound.binding().number).map_err(doing("unbind"))?;
    same!(section::info(args).map(|info| info.base), Err(Error::NotFound), "the argument section is gone");
    let taken = go_round(&second, args)?;
    // The number, too: calls under way are known by it.
    let third = Bound::bind(peer.gate, 0).map_err(doing("bind again"))?;
    let numbers = (third.binding().number, peer.bound.binding().number);
    does(super::op::GO_ON, &[1]).map_err(doing("letting it go on"))?;
    held.join().map_err(doing("join"))?;
    if taken {
        same!(does(peer::op::PEEK, &[args]), Ok(0), "a word of the server's own, at the address that was lent");
    }
    same!(outcome.load(Ordering::SeqCst), Error::Faulted.word(), "how the call ends");
    holds!(!taken, "somebody else was given the addresses of a call that is under way");
    holds!(numbers.0 != numbers.1, "a binding has the number of one by which a call is under way: {}", numbers.0);
    // What nobody can know any more is free.
    become_free(&second, args)?;
    over(peer)?;
    [second, third].into_iter().try_for_each(|bound| bound.unbind().map_err(doing("unbind")))
}

/// The same with a server that has lent on, and ends itself. Who has called it has a second then in what it has called.
fn lent_on_by_one_who_ends() -> Outcome {
    for _ in 0..40 {
        if once_lent_on()? {
            return Ok(());
        }
    }
    Err(String::from("nobody came round in a second, forty times"))
}

/// Whether there was time enough.
fn once_lent_on() -> Result<bool, String> {
    let (server, other) = (Peer::start()?, Peer::start()?);
    let server: &'static Peer = Box::leak(Box::new(server));
    let gate = other.gate;
    let lends = move |what: u64| server.bound.call(0, peer::six(super::op::LEND_ON, &[gate, what]));
    let [status, args] = lends(peer::op::SUM_LIST).map_err(doing("a call"))?;
    same!(status, 0, "a call that lends on");
    let held = thread::spawn(move || _ = lends(super::op::WAIT_AND_STORE), 0).map_err(doing("a thread"))?;
    let rounds = || other.call(super::op::GO_ON, &[0]);
    let until = time::now_ns() + 20_000_000_000;
    while rounds() == Ok(0) {
        holds!(time::now_ns() < until, "the method does not begin");
        time::sleep_ns(1_000_000);
    }
    server.child.kill().map_err(doing("kill"))?;
    server.child.wait_for(20_000_000_000).map_err(doing("the server's end"))?;
    let taken = go_round(&other.bound, args)?;
    let before = rounds();
    let until = time::now_ns() + 100_000_000;
    while rounds() == before && time::now_ns() < until {
        thread::yield_now();
    }
    let waits = rounds() != before;
    other.call(super::op::GO_ON, &[1]).map_err(doing("letting it go on"))?;
    held.join().map_err(doing("join"))?;
    stub::gate_unbind(&Trap, server.bound.binding().number).map_err(doing("unbind"))?;
    if taken && waits {
        same!(
            other.call(peer::op::PEEK, &[args]),
            Ok(0),
            "a word of the server's own, at the address that was lent on"
        );
    }
    holds!(!(taken && waits), "somebody else was given the addresses of a call that is under way");
    other.end()?;
    Ok(waits)
}

/// A binding does not outlive its argument section: with the next call the server would be told of addresses that are not its caller's.
fn that_were_deleted() -> Outcome {
    let peer = Peer::start()?;
    let args = peer.bound.binding().args;
    same!(peer.call(peer::op::PEEK, &[args]), Ok(0), "a call");
    section::delete(args).map_err(doing("delete"))?;
    same!(peer.call(peer::op::WHO, &[]), Err(Error::NotFound), "a call by a binding without its section");
    same!(stub::gate_unbind(&Trap, peer.bound.binding().number), Err(Error::NotFound), "its end");
    let second = Bound::bind(peer.gate, 0).map_err(doing("bind"))?;
    become_free(&second, args)?;
    over(&peer)?;
    second.unbind().map_err(doing("unbind"))
}
