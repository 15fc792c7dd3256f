//! Memory that is lent for a call is the callee's while the call lasts, on the thread that makes it (pitfalls: H10). A kernel that lent to
//! the callee's text on whatever thread would let a callee that has returned, faulted or been left read what its caller prepares for
//! the next call, and change what it has been told.

use crate::memory::{data, load, store};
use crate::peer::{self, Peer, own};
use crate::report::{Check, Outcome, doing};
use crate::sections::{everybody, role as run_role};
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use musubi::abi::calls::stub;
use musubi::abi::layout::PAGE;
use musubi::abi::task::{cause, exit};
use musubi::rt::bound::result_of;
use musubi::rt::gate::Values;
use musubi::rt::{Bound, Mutex, Trap, section};
use musubi::{AclEntry, Error, Rights};

pub const CHECKS: &[Check] = &[
    ("lent_memory_after_the_call", after_the_call),
    ("lent_memory_on_a_strangers_thread", on_a_strangers_thread),
    ("lent_memory_after_the_callees_death", after_the_callees_death),
    ("lent_on_by_a_server", lent_on),
];

const WORD: u64 = 0x1e27;

/// A peer's own thread can use what was lent if it says `Exists`.
fn own_thread_may(peer: &Peer, at: u64) -> Result<u64, Error> {
    peer.call(peer::op::OWN, &[own::LOOK, at])
}

fn after_the_call() -> Outcome {
    let peer: &'static Peer = Box::leak(Box::new(Peer::start()?));
    let args = peer.bound.binding().args;
    store(args, WORD);
    same!(peer.call(peer::op::PEEK, &[args]), Ok(WORD & 0xff), "in the call");
    same!(own_thread_may(peer, args), Ok(0), "by the callee's own thread, while a call lasts");
    let (held, outcome) = peer::in_call(peer, peer::op::SLEEP, shared()?, 50_000_000)?;
    same!(own_thread_may(peer, args), Ok(0), "the same, while another thread is in it");
    held.join().map_err(doing("join"))?;
    same!(outcome.load(core::sync::atomic::Ordering::SeqCst), 0, "the long call");
    same!(peer.call(peer::op::FAULT, &[]), Err(Error::Faulted), "a call that fails");
    same!(own_thread_may(peer, args), Ok(0), "after it");
    // By its own load, and not by asking: it ends there.
    same!(peer.call(peer::op::OWN, &[own::TOUCH, args]), Err(Error::Dead), "its own thread touches it");
    let exit = peer.child.wait_for(20_000_000_000).map_err(doing("its end"))?;
    same!((exit.kind, exit.cause, exit.address), (exit::FAULT, cause::DENIED, args), "how it ended");
    same!(load(args), WORD, "what lies there");
    Ok(())
}

fn shared() -> Result<u64, alloc::string::String> {
    let shared = data(PAGE).map_err(doing("create"))?.base();
    section::grant(shared, &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    Ok(shared)
}

/// The callee has a friend, who calls it from a task of his own.
fn on_a_strangers_thread() -> Outcome {
    let peer = Peer::start()?;
    let args = peer.bound.binding().args;
    store(args, WORD);
    same!(peer.call(peer::op::PEEK, &[args]), Ok(WORD & 0xff), "in a call of one's own");
    let call = |what: u64, with: u64| {
        run_role(&["call", &format!("{:#x}", peer.gate), &format!("{what}"), &format!("{args:#x}"), &format!("{with}")])
    };
    let faulted = 100 + Error::Faulted.word();
    for what in [peer::op::PEEK, peer::op::POKE] {
        let exit = call(what, 0)?;
        same!((exit.kind, exit.code), (exit::EXITED, faulted), "op {what} in a friend's call");
    }
    same!(load(args), WORD, "what lies there");
    // The friend's call as such is good.
    same!(call(peer::op::WHO, 0)?.code, 0, "a call without it");
    peer.end()
}

fn entries(base: u64) -> Result<Vec<AclEntry>, Error> {
    let mut list = alloc::vec![AclEntry { principal: 0, rights: 0, id: 0, text: 0 }; 64];
    let count = stub::acl_read(&Trap, base, list.as_mut_ptr() as u64, list.len() as u64)?;
    list.truncate(count as usize);
    Ok(list)
}

/// However it ends: what it may do goes with it, and nobody at its address inherits that.
fn after_the_callees_death() -> Outcome {
    for how in [peer::op::EXIT, peer::op::OWN, 0] {
        let peer = Peer::start()?;
        let args = peer.bound.binding().args;
        store(args, WORD);
        let names_it = |list: Vec<AclEntry>| list.iter().any(|entry| entry.text == peer.text);
        same!(entries(args).map(names_it), Ok(true), "before");
        match how {
            0 => peer.child.kill().map_err(doing("kill"))?,
            peer::op::OWN => same!(peer.call(how, &[own::DELETE_TEXT]).is_ok_and(|v| v == 0), false, "its text goes"),
            _ => same!(peer.call(how, &[1]), Err(Error::Dead), "it ends"),
        }
        peer.child
            .wait_for(20_000_000_000)
            .or_else(|_| peer.child.kill().and_then(|()| peer.child.wait_for(1_000_000_000)))
            .map_err(doing("its end"))?;
        same!(entries(args).map(names_it), Ok(false), "afterwards, by way {how}");
        same!(load(args), WORD, "what lies there");
        peer.bound.unbind().map_err(doing("unbind"))?;
    }
    Ok(())
}

/// The server's side of [`lent_on`].
pub fn lend_on(gate: u64) -> Values {
    static BOUND: Mutex<Option<&'static Bound>> = Mutex::new(None);
    let bind = || Bound::bind(gate, PAGE).map(|bound| &*Box::leak(Box::new(bound)));
    let known = *BOUND.lock();
    let Ok(bound) = known.map_or_else(bind, Ok) else { return Values(0, 0) };
    *BOUND.lock() = Some(bound);
    let args = bound.binding().args;
    store(args, WORD);
    let got = bound.call(0, peer::six(peer::op::PEEK, &[args])).and_then(result_of);
    let seen_by_own = bound.call(0, peer::six(peer::op::OWN, &[own::LOOK, args])).and_then(result_of) != Ok(0);
    let count = entries(args).map_or(u64::MAX, |list| list.len() as u64);
    Values(if got == Ok(WORD & 0xff) && !seen_by_own { 0 } else { Error::Refused.word() }, count)
}

/// A server that is called by many tasks lends on to another one: each call works, the other one's own threads get nothing, and the
/// list does not grow with tasks that are gone.
fn lent_on() -> Outcome {
    let (server, other) = (Peer::start()?, Peer::start()?);
    let words = [format!("{:#x}", server.gate), format!("{}", super::op::LEND_ON), format!("{:#x}", other.gate)];
    for round in 0..40 {
        let exit = run_role(&["attack", "lend-on", &words[0], &words[2]])?;
        same!((exit.kind, exit.code), (exit::EXITED, 0), "task {round}, which calls by {}", words[1]);
    }
    same!(server.bound.call(0, peer::six(super::op::LEND_ON, &[other.gate])).map(|v| v[0]), Ok(0), "this task");
    let count = server.bound.call(0, peer::six(super::op::LEND_ON, &[other.gate])).map_or(u64::MAX, |v| v[1]);
    holds!(count < 40, "{count} entries");
    other.end()?;
    server.end()
}

/// A client of the server's.
pub fn role(gate: u64, other: u64) -> i32 {
    let Ok(bound) = Bound::bind(gate, 0) else { return 3 };
    let call = || bound.call(0, peer::six(super::op::LEND_ON, &[other]));
    // The second time by what the first one has made known.
    i32::from((0..2).any(|_| call().map(|values| values[0]) != Ok(0)))
}
