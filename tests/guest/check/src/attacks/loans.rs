//! Memory that is lent for a call is the callee's while the call lasts, on the thread that makes it (pitfalls: H10). A kernel that lent to
//! the callee's text on whatever thread would let a callee that has returned, faulted or been left read what its caller prepares for
//! the next call, and change what it has been told.

pub mod messages;

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
use musubi::rt::{Bound, Mutex, Trap, section, thread, time};
use musubi::{AclEntry, Error, Rights};

pub const CHECKS: &[Check] = &[
    ("lent_memory_after_the_call", after_the_call),
    ("lent_memory_on_a_strangers_thread", on_a_strangers_thread),
    ("lent_memory_after_the_callees_death", after_the_callees_death),
    ("lent_on_by_a_server", lent_on),
    ("lent_on_until_the_call_is_over", until_it_is_over),
    ("lent_on_and_taken_back_under_load", under_load),
    ("a_stack_that_is_lent", messages::a_stack),
    ("lent_memory_lent_on_with_a_message", messages::by_a_callee),
    ("lent_for_writing_by_who_may_only_read", messages::of_what_is_only_read),
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
    let passed_on_the_side = || peer.plain(peer::op::PEEK, &[args]);
    same!(passed_on_the_side(), Err(Error::Faulted), "after it, on the caller's thread, by a call that lends nothing");
    same!(own_thread_may(peer, args), Ok(0), "after it, by the callee's own thread");
    same!(peer.call(peer::op::PEEK, &[args]), Ok(WORD & 0xff), "in the next call that does");
    // While another thread is in a call it stays the callee's; not for ever.
    let (held, _) = peer::in_call(peer, peer::op::SLEEP, args, 50_000_000)?;
    same!(peer.call(peer::op::FAULT, &[]), Err(Error::Faulted), "another one that fails");
    held.join().map_err(doing("join"))?;
    let until = time::now_ns() + 20_000_000_000;
    while passed_on_the_side() != Err(Error::Faulted) {
        holds!(time::now_ns() < until, "it still has what was lent for calls that are over");
        time::sleep_ns(10_000_000);
    }
    store(args, WORD);
    same!(peer.call(peer::op::PEEK, &[args]), Ok(WORD & 0xff), "once more in one that lends");
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

/// The server's side of [`lent_on`]: has the program at `gate` load from its argument section; or do `what` with it, if that is not 0.
/// Values: whether that was so, and how many entries the list of the section has; with `what`, status of the call and the section.
pub fn lend_on(gate: u64, what: u64) -> Values {
    static BOUND: Mutex<Option<&'static Bound>> = Mutex::new(None);
    let bind = || Bound::bind(gate, PAGE).map(|bound| &*Box::leak(Box::new(bound)));
    let known = *BOUND.lock();
    let Ok(bound) = known.map_or_else(bind, Ok) else { return Values(0, 0) };
    *BOUND.lock() = Some(bound);
    let args = bound.binding().args;
    store(args, WORD);
    if what != 0 {
        let status = bound.call(0, peer::six(what, &[args])).and_then(result_of).map_or_else(Error::word, |_| 0);
        return Values(status, args);
    }
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
    // What was lent to those that have ended is taken back soon.
    let count = || server.bound.call(0, peer::six(super::op::LEND_ON, &[other.gate])).map_or(u64::MAX, |v| v[1]);
    let until = time::now_ns() + 20_000_000_000;
    while count() > 4 {
        holds!(time::now_ns() < until, "{} entries", count());
        time::sleep_ns(50_000_000);
    }
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

/// The server's argument section is not the called program's any longer than the call takes, and a moment: not even on threads of the task
/// for which that call was made.
fn until_it_is_over() -> Outcome {
    let (server, other) = (Peer::start()?, Peer::start()?);
    let lends = |what: u64| server.bound.call(0, peer::six(super::op::LEND_ON, &[other.gate, what]));
    // Each time from the beginning: what was taken back is lent once more when it is needed.
    for round in 0..3 {
        let [status, args] = lends(peer::op::SUM_LIST).map_err(doing("a call"))?;
        same!(status, 0, "a call in round {round}");
        let until = time::now_ns() + 20_000_000_000;
        while other.call(peer::op::PEEK, &[args]) != Err(Error::Faulted) {
            holds!(time::now_ns() < until, "round {round}: it still has what was lent for a call that is over");
            time::sleep_ns(10_000_000);
        }
        same!(lends(0).map(|v| v[0]), Ok(0), "a further call, round {round}");
        // Of a call that goes wrong nothing is left when its error comes.
        same!(lends(peer::op::FAULT), Ok([Error::Faulted.word(), args]), "a call that faults");
        same!(other.call(peer::op::PEEK, &[args]), Err(Error::Faulted), "what was lent for it, round {round}");
    }
    other.end()?;
    server.end()
}

/// Calls that come just as what is lent is taken back are made as all others.
fn under_load() -> Outcome {
    let (server, other) = (Peer::start()?, Peer::start()?);
    let (server, other): (&'static Peer, &'static Peer) = (Box::leak(Box::new(server)), Box::leak(Box::new(other)));
    const BATCHES: u64 = 12;
    let calls = move || {
        for made in 0..BATCHES * 64 {
            let outcome = server.bound.call(0, peer::six(super::op::LEND_ON, &[other.gate, peer::op::SUM_LIST]));
            if outcome.map(|v| v[0]) != Ok(0) {
                return Err((made, outcome));
            }
            if made % 64 == 0 {
                // Long enough for it to be taken back, or just not.
                time::sleep_ns(200_000_000 + made / 64 % 7 * 10_000_000);
            }
        }
        Ok(())
    };
    let done: &'static Mutex<Vec<Result<(), (u64, Result<[u64; 2], Error>)>>> =
        Box::leak(Box::new(Mutex::new(Vec::new())));
    let body = move || {
        let outcome = calls();
        done.lock().push(outcome);
    };
    let threads: Result<Vec<_>, _> = (0..4).map(|_| thread::spawn(body, 0)).collect();
    for one in threads.map_err(doing("a thread"))? {
        one.join().map_err(doing("join"))?;
    }
    for outcome in done.lock().iter() {
        same!(outcome, &Ok(()), "how many calls were made, and what the next one has come to");
    }
    Ok(())
}
