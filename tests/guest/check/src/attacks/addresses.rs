//! A method that waits goes on with the addresses that it was told. A kernel that gave them to somebody else as soon as the caller has
//! unbound would let him go round all addresses until the server's own next section comes to lie there, and have the method write into that
//! (pitfalls: H10).

use super::told;
use crate::anew::{begin_anew, is_given_out};
use crate::memory::{await_word, data, load};
use crate::peer::{self, Peer};
use crate::report::{Check, Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::string::String;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::gate::PASSED_FOR_WRITING;
use musubi::abi::layout::PAGE;
use musubi::abi::rights::principal;
use musubi::abi::section::{flag, kind};
use musubi::interfaces::pipes::PipesClient;
use musubi::interfaces::stream::StreamClient;
use musubi::names;
use musubi::rt::bound::result_of;
use musubi::rt::gate::{ANYBODY, Skeleton, Values};
use musubi::rt::later::Later;
use musubi::rt::{Answers, Bound, Gates, Trap, section, thread, time};
use musubi::{AclEntry, Caller, Error, Rights};

pub const CHECKS: &[Check] = &[
    ("addresses_of_a_call_that_waits", of_a_call_that_waits),
    ("addresses_lent_on_by_one_who_ends", lent_on_by_one_who_ends),
    ("addresses_that_were_deleted", that_were_deleted),
    ("addresses_that_were_passed", that_were_passed),
    ("addresses_passed_beside_a_refusal", told::beside_one_that_is_refused),
    ("addresses_passed_with_many_calls", told::with_many_calls),
    ("addresses_of_a_line", of_a_line),
    ("addresses_of_a_message", of_a_message),
    ("addresses_that_are_held", that_are_held),
    ("addresses_not_lent_any_more", that_are_not_lent_any_more),
];

/// The gate behind the peer's only method.
const OPENER: u64 = 1;

/// What the method writes when it goes on.
const MARK: u64 = 0x5a;

/// Rounds that threads have waited for in [`wait_and_store`]; and whether they go on.
static ROUNDS: AtomicU64 = AtomicU64::new(0);
static GO_ON: AtomicU64 = AtomicU64::new(0);
/// Who waits for no more than that.
static WAITING: AtomicU64 = AtomicU64::new(0);

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

/// Waits only.
pub fn wait() -> u64 {
    WAITING.fetch_add(1, Ordering::SeqCst);
    while GO_ON.load(Ordering::SeqCst) == 0 {
        time::sleep_ns(1_000_000);
    }
    WAITING.fetch_sub(1, Ordering::SeqCst)
}

pub fn waiting() -> u64 {
    WAITING.load(Ordering::SeqCst)
}

/// As the skeleton of a server asks of what is passed by pointer and lies in no argument section.
pub fn may_pass(at: u64) -> bool {
    stub::may_pass(&Trap, at, 8 | PASSED_FOR_WRITING, 0, 0, 0, 0) == Ok(1)
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
pub fn go_round(server: &Bound, wanted: u64) -> Result<bool, String> {
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
pub fn become_free(server: &Bound, args: u64) -> Outcome {
    let until = time::now_ns() + 20_000_000_000;
    while !go_round(server, args)? {
        holds!(time::now_ns() < until, "{args:#x} stays nobody's");
        time::sleep_ns(20_000_000);
    }
    Ok(())
}

/// Ends a peer whose binding has ended.
pub fn over(peer: &Peer) -> Outcome {
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

/// The same with a section that no binding has lent: its list lets everybody use it, and the server has asked whether the caller may, too.
fn that_were_passed() -> Outcome {
    let peer: &'static Peer = Box::leak(Box::new(Peer::start()?));
    let second = Bound::bind(peer.gate, 0).map_err(doing("bind"))?;
    let does = |what, words: &[u64]| second.call(0, peer::six(what, words)).and_then(result_of);
    let passed = data(PAGE).map_err(doing("create"))?.base();
    section::grant(passed, &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let (held, outcome) = peer::in_call(peer, super::op::WAIT_AND_STORE, passed, 1)?;
    same!(load(passed), 1, "the method waits");
    section::delete(passed).map_err(doing("delete"))?;
    same!(section::info(passed).map(|info| info.base), Err(Error::NotFound), "the section is gone");
    let taken = go_round(&second, passed)?;
    does(super::op::GO_ON, &[1]).map_err(doing("letting it go on"))?;
    held.join().map_err(doing("join"))?;
    if taken {
        same!(does(peer::op::PEEK, &[passed]), Ok(0), "a word of the server's own, at the address that was passed");
    }
    same!(outcome.load(Ordering::SeqCst), Error::Faulted.word(), "how the call ends");
    holds!(!taken, "somebody else was given addresses that were passed with a call under way");
    become_free(&second, passed)?;
    over(peer)?;
    second.unbind().map_err(doing("unbind"))
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

/// A line's calls are served on a thread of the server's, and the line itself lies in what its client has lent.
fn of_a_line() -> Outcome {
    let peer = Peer::start_with_lines()?;
    let second = Bound::bind(peer.gate, 0).map_err(doing("bind"))?;
    let does = |what, words: &[u64]| second.call(0, peer::six(what, words)).and_then(result_of);
    let line = Bound::bind_line(peer.gate, 2 * PAGE, OPENER).map_err(doing("a line"))?;
    let lent = line.binding().args + PAGE;
    let posted = Later::of(&line).begin(false, 0, peer::six(super::op::WAIT_AND_STORE, &[lent]), []);
    let posted = posted.map_err(doing("a call by the line"))?;
    await_word(lent);
    stub::gate_unbind(&Trap, line.binding().number).map_err(doing("unbind"))?;
    let taken = go_round(&second, line.binding().args)?;
    does(super::op::GO_ON, &[1]).map_err(doing("letting it go on"))?;
    if taken {
        // It looks whether it may go on each millisecond.
        time::sleep_ns(100_000_000);
        same!(does(peer::op::PEEK, &[lent]), Ok(0), "a word of the server's own, at the address that was lent");
    }
    holds!(!taken, "somebody else was given the addresses of a line's call that is under way");
    become_free(&second, line.binding().args)?;
    // Both would look into the line.
    core::mem::forget(posted);
    core::mem::forget(line);
    over(&peer)?;
    second.unbind().map_err(doing("unbind"))
}

/// A request by message waits in a server of the system's.
fn of_a_message() -> Outcome {
    let pipes = names::lookup("pipes").and_then(PipesClient::bind).map_err(doing("pipes"))?;
    let gate = pipes.streams().map_err(doing("streams"))?;
    for _ in 0..40 {
        if once_by_message(&pipes, gate)? {
            return Ok(());
        }
    }
    Err(String::from("no request came to its server in a tenth of a second, forty times"))
}

/// Whether the server had received the request when its section went.
fn once_by_message(pipes: &PipesClient, gate: u64) -> Result<bool, String> {
    let (id, other) = (pipes.make().map_err(doing("a pipe"))?, StreamClient::bind_with_args(gate, PAGE));
    let other = other.map_err(doing("bind"))?;
    let client = StreamClient::bind_with_args(gate, PAGE).map_err(doing("bind"))?;
    let answers = Answers::new().map_err(doing("a post for answers"))?;
    let args = client.bound().binding().args;
    let mut buffer = client.alloc(8).map_err(doing("a loan"))?;
    let posts = client.by_post(&answers).map_err(doing("by_post"))?;
    let read = posts.read(id, &mut buffer).map_err(doing("sending"))?;
    time::sleep_ns(100_000_000);
    stub::gate_unbind(&Trap, client.bound().binding().number).map_err(doing("unbind"))?;
    let taken = is_given_out(args)?;
    other.write(id + 1, b"12345678").map_err(doing("writing"))?;
    let outcome = read.wait();
    [id, id + 1].into_iter().try_for_each(|end| other.close(end)).map_err(doing("closing"))?;
    other.unbind().map_err(doing("unbind"))?;
    drop(buffer);
    core::mem::forget(client);
    if outcome == Err(Error::Refused) {
        return Ok(false);
    }
    same!(outcome, Err(Error::BadAddress), "what becomes of the request");
    holds!(!taken, "somebody else was given the addresses of a request that waits");
    // A receiver that waits for the next request holds nothing of this one.
    let until = time::now_ns() + 20_000_000_000;
    while !is_given_out(args)? {
        holds!(time::now_ns() < until, "{args:#x} stays nobody's");
    }
    Ok(true)
}

/// A text can keep what was lent to it, and nothing else from anybody.
fn that_are_held() -> Outcome {
    let me = musubi::start().task();
    let own = crate::memory::data(PAGE).map_err(doing("create"))?;
    same!(section::hold(own.base(), PAGE, me), Err(Error::NotFound), "a section that nobody has lent");
    own.delete().map_err(doing("delete"))?;
    let peer = Peer::start()?;
    let to_peer = peer.bound.binding().args;
    same!(section::hold(to_peer, PAGE, me), Err(Error::NotFound), "what is lent to somebody else");
    let gates = Gates::export(Answers42, 1).map_err(doing("export"))?;
    gates.admit(&ANYBODY).map_err(doing("admit"))?;
    let bound = Bound::bind(gates.address(), PAGE).map_err(doing("binding oneself"))?;
    let args = bound.binding().args;
    let reserve = section::info(args).map_err(doing("its reserve"))?.reserve;
    same!(section::hold(args, PAGE, me), Ok(()), "what is lent to this text");
    same!(section::hold(args, reserve, me), Ok(()), "all of it, again");
    same!(section::hold(args, reserve + 1, me), Err(Error::NotFound), "more than there is of it");
    same!(section::hold(args, PAGE, me + 1), Err(Error::NotFound), "as if it were somebody else's");
    same!(section::hold(args + PAGE, 0, me), Err(Error::NotFound), "an address that is no base");
    same!(section::hold(args, PAGE, me), Ok(()), "once more");
    let number = bound.binding().number;
    bound.unbind().map_err(doing("unbind"))?;
    holds!(!is_given_out(args)?, "somebody was given what is held");
    let again = Bound::bind(peer.gate, 0).map_err(doing("bind again"))?;
    holds!(again.binding().number != number, "a binding has the number {number} of one whose section is held");
    again.unbind().map_err(doing("unbind"))?;
    same!(section::hold(args, PAGE, me), Err(Error::NotFound), "what has gone");
    // That holds none, as every failure does.
    let until = time::now_ns() + 20_000_000_000;
    while !is_given_out(args)? {
        holds!(time::now_ns() < until, "{args:#x} stays nobody's");
    }
    peer.end()
}

/// Whoever has lent something and has put something of his own there since cannot have a server take that for what he has lent.
fn that_are_not_lent_any_more() -> Outcome {
    let pipes = names::lookup("pipes").and_then(PipesClient::bind).map_err(doing("pipes"))?;
    let gate = pipes.streams().map_err(doing("streams"))?;
    let id = pipes.make().map_err(doing("a pipe"))?;
    let other = StreamClient::bind_with_args(gate, PAGE).map_err(doing("bind"))?;
    other.write(id + 1, b"12345678").map_err(doing("writing"))?;
    let client = StreamClient::bind_with_args(gate, PAGE).map_err(doing("bind"))?;
    let answers = Answers::new().map_err(doing("a post for answers"))?;
    let posts = client.by_post(&answers).map_err(doing("by_post"))?;
    let args = client.bound().binding().args;
    stub::gate_unbind(&Trap, client.bound().binding().number).map_err(doing("unbind"))?;
    let own = loop {
        begin_anew(args)?;
        let own = loop {
            let own = section::Section::create(PAGE, 0, kind::DATA, flag::ANY_PRINCIPAL).map_err(doing("create"))?;
            if own.base() >= args {
                break own;
            }
            own.delete().map_err(doing("delete"))?;
        };
        if own.base() == args {
            break own;
        }
        own.delete().map_err(doing("delete"))?;
    };
    let streams = info_of_text(gate)?;
    section::grant(
        args,
        &AclEntry { principal: principal::ANY, rights: (Rights::READ | Rights::WRITE).bits(), id: 0, text: streams },
    )
    .map_err(doing("grant"))?;
    crate::memory::store(args, 0);
    // What the client's loan says lies there.
    let mut there = client.alloc(8).map_err(doing("a loan"))?;
    let outcome = posts.read(id, &mut there).and_then(|read| read.wait());
    same!(outcome, Err(Error::Refused), "a request with what is not lent any more");
    same!(load(args), 0, "what lies there");
    drop(there);
    own.delete().map_err(doing("delete"))?;
    core::mem::forget(client);
    [id, id + 1].into_iter().try_for_each(|end| other.close(end)).map_err(doing("closing"))?;
    other.unbind().map_err(doing("unbind"))
}

/// The text that answers at a gate.
fn info_of_text(gate: u64) -> Result<u64, String> {
    section::info(gate).map(|info| info.base).map_err(doing("whose gate it is"))
}

struct Answers42;

impl Skeleton for Answers42 {
    fn dispatch(&self, _: &Caller, _: u64, _: &[u64; 6]) -> Values {
        Values(0, 42)
    }
}
