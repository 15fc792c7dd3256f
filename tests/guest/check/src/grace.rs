//! What a killed caller leaves behind in those whom it has called, and these in the kernel.

use crate::memory::{await_word, data, load, store};
use crate::peer::{self, Peer, op};
use crate::report::{Check, Outcome, doing, in_time};
use crate::sched::leak;
use crate::sections::everybody;
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use musubi::abi::layout::PAGE;
use musubi::abi::task::{CALLEE_GRACE_NS, exit};
use musubi::command::Command;
use musubi::interfaces::pipes::PipesClient;
use musubi::interfaces::stream::StreamClient;
use musubi::rt::bound::result_of;
use musubi::rt::gate::{ANYBODY, Skeleton, Values};
use musubi::rt::{Bound, Gates, plain_call, section, task, thread, time};
use musubi::{Caller, Error, Rights, names};

pub const CHECKS: &[Check] = &[
    ("a_killed_callers_waits_leave_nothing", waits_leave_nothing),
    ("a_callee_has_its_time_when_its_callback_ends", callbacks_end),
    ("who_waits_in_a_server_for_who_has_ended", waits_in_a_server),
    ("two_texts_of_a_chain_end", two_end),
];

fn flags() -> Result<u64, String> {
    let flags = data(PAGE).map_err(doing("create"))?;
    section::grant(flags.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let base = flags.base();
    core::mem::forget(flags);
    Ok(base)
}

/// A callee whose caller is killed waits again and again, and is told each time. Nothing of that is left in the kernel, not even until the
/// callee's time is over.
fn waits_leave_nothing() -> Outcome {
    const WAITS: u64 = 20_000;
    let (peer, flag) = (leak(Peer::start()?), flags()?);
    let heap = || task::memory().map(|m| m.kernel_heap_used).map_err(doing("memory"));
    let round = |count: u64| -> Result<u64, String> {
        store(flag, 0);
        let call = move || {
            let _ = peer.call(op::NAP, &[flag, count]);
            thread::park();
        };
        let caller = thread::spawn(call, 0).map_err(doing("thread"))?;
        await_word(flag);
        caller.kill().map_err(doing("kill"))?;
        same!(caller.join(), Ok(Error::Killed.word()), "how the caller ended");
        same!(load(flag), 2, "how far the callee came");
        Ok(load(flag + 8))
    };
    round(10)?;
    let before = heap()?;
    let waits = round(WAITS)?;
    let grown = heap()?.saturating_sub(before);
    // A timer has more than twice as many. Where a wait takes long there are few, and the heap grows by that much for other reasons.
    holds!(grown < 16 * waits.max(1024), "the kernel's heap grew by {grown} bytes in {waits} waits that are over");
    peer.child.kill().map_err(doing("kill"))
}

/// A program calls another one, which calls it back in the middle of an update, and the thread or the program is killed there, or ends: the
/// other one hears of it, and puts its data in order (pitfalls, H12).
fn callbacks_end() -> Outcome {
    let (peer, flag) = (leak(Peer::start()?), flags()?);
    let own = peer::export().map_err(doing("gates"))?;
    let gate = own.address();
    for (n, what, how) in [(1, op::LOOP, "a thread that runs"), (2, op::SLEEP, "a thread that waits")] {
        [flag, flag + 8].into_iter().for_each(|word| store(word, 0));
        let call = move || {
            let _ = peer.call(op::CALL_BACK, &[n, gate, what, flag]);
            thread::park();
        };
        let caller = thread::spawn(call, 0).map_err(doing("thread"))?;
        await_word(flag);
        time::sleep_ns(3_000_000);
        caller.kill().map_err(doing("kill"))?;
        same!(caller.join(), Ok(Error::Killed.word()), "{how}: how it ended");
        same!(peer.pair(op::PAIR), Ok([n, n]), "{how}: the pair afterwards");
        same!(load(flag + 8), Error::Killed.word(), "{how}: what the callee heard");
    }
    let ways = [
        (3, op::LOOP, "a program that runs"),
        (4, op::SLEEP, "a program that waits"),
        (5, op::EXIT, "a program that exits"),
    ];
    for (n, what, how) in ways {
        [flag, flag + 8].into_iter().for_each(|word| store(word, 0));
        let [gate, n_word, what_word, flag_word] = [peer.gate, n, what, flag].map(|word| format!("{word:#x}"));
        let words = ["check", "as", "call-back", &gate, &n_word, &what_word, &flag_word];
        let child = Command::new(b"bin/check").args(words).spawn().map_err(doing("child"))?;
        if what != op::EXIT {
            await_word(flag);
            time::sleep_ns(3_000_000);
            child.kill().map_err(doing("kill"))?;
        }
        let ended = child.wait_for(20_000_000_000).map_err(doing("wait"))?;
        same!(ended.kind == exit::KILLED, what != op::EXIT, "{how}: how it ended: {}", ended.kind);
        same!(peer.pair(op::PAIR), Ok([n, n]), "{how}: the pair afterwards");
        same!(load(flag + 8), Error::Dead.word(), "{how}: what the callee heard");
    }
    peer.child.kill().map_err(doing("kill"))
}

/// A program that is called reads an empty pipe, and is killed there: its caller hears of that within some seconds, though nothing comes, and the
/// pipe is used as before.
fn waits_in_a_server() -> Outcome {
    let (peer, flag) = (leak(Peer::start()?), flags()?);
    let pipes = PipesClient::bind(names::lookup("pipes").map_err(doing("pipes"))?).map_err(doing("pipes"))?;
    let server = pipes.streams().map_err(doing("streams"))?;
    let streams = StreamClient::bind_with_args(server, PAGE).map_err(doing("streams"))?;
    let id = pipes.make().map_err(doing("a pipe"))?;
    let told = in_time(move || {
        let caller = thread::spawn(
            move || thread::exit(peer.call(op::READ, &[flag, server, id]).map_or_else(Error::word, |_| 0)),
            0,
        );
        await_word(flag);
        time::sleep_ns(20_000_000);
        let began = time::now_ns();
        let killed = peer.child.kill();
        killed.and_then(|()| caller?.join()).map(|heard| (heard, time::now_ns() - began))
    });
    let (heard, took) = told.ok_or("its caller waits for ever")?.map_err(doing("the caller"))?;
    same!(heard, Error::Dead.word(), "what its caller heard");
    holds!(took >= CALLEE_GRACE_NS, "it was given up after {took} ns");
    same!(streams.write(id + 1, b"x"), Ok(1), "writing afterwards");
    same!(streams.read(id, &mut [0; 8]), Ok(1), "reading afterwards");
    [id, id + 1].into_iter().try_for_each(|end| streams.close(end)).map_err(doing("closing"))
}

/// Calls a program at a gate of another one's, by that one, and loops when it has heard of it.
struct Loops;

impl Skeleton for Loops {
    fn dispatch(&self, _: &Caller, _: u64, &[relay, gate, flag, ..]: &[u64; 6]) -> Values {
        let said = plain_call(relay, [op::RELAY, gate, op::LOOP, flag, 0, 0]).and_then(result_of);
        store(flag + 8, said.map_or_else(Error::word, |_| 0));
        loop {
            core::hint::spin_loop();
        }
    }
}

/// Two programs that one thread is in calls of end, the inner one half a second before the outer one, and whom they have called does not come back: the
/// callers of both hear of it.
fn two_end() -> Outcome {
    let (outer, inner, flag) = (leak(Peer::start()?), leak(Peer::start()?), flags()?);
    let own = peer::export().map_err(doing("gates"))?;
    let between = Gates::export(Loops, 1).map_err(doing("gates"))?;
    between.admit(&ANYBODY).map_err(doing("gates"))?;
    let words = [between.address(), inner.gate, own.address(), flag];
    let told = in_time(move || {
        let call = move || thread::exit(outer.call(op::RELAY, &words).map_or_else(Error::word, |_| 0));
        let caller = thread::spawn(call, 0)?;
        await_word(flag);
        inner.child.kill()?;
        time::sleep_ns(CALLEE_GRACE_NS / 2);
        outer.child.kill()?;
        caller.join()
    });
    same!(load(flag + 8), Error::Dead.word(), "what the caller of the inner one heard");
    same!(told, Some(Ok(Error::Dead.word())), "what the caller of the outer one heard");
    Ok(())
}

/// Has the peer at `gate` call this program back.
pub fn call_back(gate: u64, n: u64, what: u64, flag: u64) -> i32 {
    let own = peer::export();
    match own.and_then(|own| Bound::bind(gate, 0)?.call(0, [op::CALL_BACK, n, own.address(), what, flag, 0])) {
        Ok(_) => 0,
        Err(e) => 100 + e.word() as i32,
    }
}
