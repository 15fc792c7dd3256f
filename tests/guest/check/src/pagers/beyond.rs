//! Pagers that have called somebody who does not come back: he has the time of a killed caller's callee, then the access is an error.

use super::{read, soon};
use crate::memory::{await_word, data, load, store};
use crate::peer::{Peer, op};
use crate::report::{Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use musubi::abi::layout::PAGE;
use musubi::abi::task::{CALLEE_GRACE_NS, cause, exit};
use musubi::command::Command;
use musubi::interfaces::clock::ClockClient;
use musubi::interfaces::pager::{Pager, pager_serve};
use musubi::interfaces::pipes::PipesClient;
use musubi::interfaces::stream::StreamClient;
use musubi::rt::pager::{self, answer, why};
use musubi::rt::post::Post;
use musubi::rt::section::{self, invalidate, validate};
use musubi::rt::{Section, plain_call, task, thread, time};
use musubi::{Error, Rights, names};

/// Goes somewhere the first time, and only makes pages valid from then on.
struct Goes<F> {
    to: F,
    has_gone: AtomicBool,
}

impl<F: Fn() + Send + Sync> Pager for Goes<F> {
    fn fault(&self, section: u64, offset: u64, _: u64, _: u64) -> Result<u64, Error> {
        if !self.has_gone.swap(true, Ordering::SeqCst) {
            (self.to)();
        }
        validate(section + offset / PAGE * PAGE, PAGE).map(|()| answer::DONE)
    }
}

/// A section of one page, which holds 1 and is not valid, and a pager of this program for it.
fn paged(level: u64, to: impl Fn() + Send + Sync + 'static) -> Result<Section, String> {
    let section = data(PAGE).map_err(doing("create"))?;
    store(section.base(), 1);
    let goes: &'static Goes<_> = Box::leak(Box::new(Goes { to, has_gone: AtomicBool::new(false) }));
    let gates = pager_serve(goes).map_err(doing("gates"))?;
    pager::set(section.base(), gates.address(), level, 0).map_err(doing("pager"))?;
    invalidate(section.base(), PAGE).map_err(doing("invalidate"))?;
    Ok(section)
}

/// Calls a peer that stays there, having said at `flag` that it has come.
fn stays(gate: u64, what: u64, flag: u64) {
    let _ = plain_call(gate, [what, flag, u64::MAX, 0, 0, 0]);
}

/// A program whose pager calls a peer that stays.
pub fn role(gate: u64, flag: u64) -> i32 {
    let Ok(section) = paged(1, move || stays(gate, op::SLEEP, flag)) else { return 2 };
    load(section.base());
    3
}

/// A peer that loops, one that sleeps, and another pager that is asked again and again, and answers each time. Who waits for the page asks for it then.
pub fn late() -> Outcome {
    let peer = Peer::start()?;
    let gate = peer.gate;
    let flags = data(PAGE).map_err(doing("create"))?;
    section::grant(flags.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let flag = |n: u64| flags.base() + 8 * n;
    let words = ["check", "as", "beyond-its-pager", &format!("{gate}"), &format!("{}", flag(3))];
    let child = Command::new(b"bin/check").args(words).spawn().map_err(doing("a program"))?;
    let [loops, sleeps, asks] = [0, 1, 2].map(flag);
    let again = move || {
        let Ok((below, _)) = super::paged(1, super::Does::Late, 0) else { return };
        loop {
            let _ = invalidate(below.base(), PAGE);
            // (Nothing with a lock: it is left in the middle of this.)
            store(asks, load(below.base()));
        }
    };
    let sections = [
        paged(1, move || stays(gate, op::LOOP, loops))?,
        paged(1, move || stays(gate, op::SLEEP, sleeps))?,
        paged(2, again)?,
    ];
    let bases = sections.each_ref().map(Section::base);
    let began = time::now_ns();
    let all: Result<Vec<_>, _> = (0..6)
        .map(|n| {
            let base = bases[n % 3];
            if n >= 3 {
                await_word(flag(n as u64 - 3));
            }
            thread::spawn(move || thread::exit(read(base).unwrap_or(0)), 0)
        })
        .collect();
    let all = all.map_err(doing("threads"))?;
    let found = soon(move || all.into_iter().map(|one| one.join()).collect::<Result<Vec<_>, _>>())?;
    let took = time::now_ns() - began;
    same!(found, Ok([0, 0, 0, 1, 1, 1].to_vec()), "what those who asked, and those who waited, have read");
    holds!(took >= pager::TIME_NS + CALLEE_GRACE_NS, "it was given up after {took} ns");
    let how = child.wait_for(60_000_000_000).map_err(doing("the program's end"))?;
    same!((how.kind, how.cause, how.code), (exit::FAULT, cause::PAGER, why::TIMED_OUT), "how the program ended");
    same!(peer.call(op::ADD, &[1]), Ok(1), "the peer afterwards");
    sections.into_iter().try_for_each(Section::delete).map_err(doing("delete"))?;
    flags.delete().map_err(doing("delete"))?;
    peer.end()
}

/// Pagers that read an empty pipe, and that wait for a moment which never comes, in servers of the system's, again and again whatever they hear: the
/// servers do not wait on, and the pagers do not come to call once more. Whoever uses the pipe then does so as before.
pub fn in_a_server() -> Outcome {
    let gate = |name: &str| names::lookup(name).map_err(doing(name));
    let pipes = PipesClient::bind(gate("pipes")?).map_err(doing("pipes"))?;
    let clock = ClockClient::bind(gate("clock")?).map_err(doing("the clock"))?;
    let server = pipes.streams().map_err(doing("streams"))?;
    let bind = || StreamClient::bind_with_args(server, PAGE).map_err(doing("streams"));
    let (streams, reader) = (bind()?, bind()?);
    let id = pipes.make().map_err(doing("a pipe"))?;
    let flags = data(PAGE).map_err(doing("create"))?;
    let [reads, waits] = [0, 1].map(|n| flags.base() + 8 * n);
    let sections = [
        paged(1, move || {
            store(reads, 1);
            loop {
                let _ = reader.read(id, &mut [0; 8]);
            }
        })?,
        paged(1, move || {
            store(waits, 1);
            loop {
                let _ = clock.wait_until(u64::MAX);
            }
        })?,
    ];
    let bases = sections.each_ref().map(Section::base);
    let began = time::now_ns();
    let all: Result<Vec<_>, _> = (0..4)
        .map(|n| {
            if n >= 2 {
                await_word([reads, waits][n % 2]);
            }
            let base = bases[n % 2];
            thread::spawn(move || thread::exit(read(base).unwrap_or(0)), 0)
        })
        .collect();
    let all = all.map_err(doing("threads"))?;
    let found = soon(move || all.into_iter().map(|one| one.join()).collect::<Result<Vec<_>, _>>())?;
    let took = time::now_ns() - began;
    same!(found, Ok([0, 0, 1, 1].to_vec()), "what those who asked, and those who waited, have read");
    holds!(took >= pager::TIME_NS + CALLEE_GRACE_NS, "it was given up after {took} ns");
    same!(streams.write(id + 1, b"x"), Ok(1), "writing afterwards");
    same!(streams.read(id, &mut [0; 8]), Ok(1), "reading afterwards");
    [id, id + 1].into_iter().try_for_each(|end| streams.close(end)).map_err(doing("closing"))?;
    sections.into_iter().try_for_each(Section::delete).map_err(doing("delete"))?;
    flags.delete().map_err(doing("delete"))
}

/// A program with much memory is killed in a pager of this one that does not come back: who waits for its page has that before all of the memory is given back.
pub fn of_who_ends() -> Outcome {
    const MUCH: u64 = 320 << 20;
    const TRIES: u64 = 4;
    let post = Post::any().map_err(doing("post"))?;
    post.allow(&everybody(Rights::CALL)).map_err(doing("its list"))?;
    let flag = data(PAGE).map_err(doing("create"))?;
    let at = flag.base();
    // It is stored to on the other one's thread.
    section::grant(at, &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let mut least = u64::MAX;
    for n in 1..=TRIES {
        let section = paged(1, move || {
            store(at, n);
            loop {
                core::hint::spin_loop();
            }
        })?;
        let base = section.base();
        section::grant(base, &everybody(Rights::READ)).map_err(doing("grant"))?;
        let words = ["check", "as", "hoard", &format!("{}", post.0), "3", &format!("{MUCH}"), &format!("{base}")];
        let child = Command::new(b"bin/check").args(words).spawn().map_err(doing("a program"))?;
        post.receive(20_000_000_000).map_err(doing("a program with much memory"))?;
        let until = time::now_ns() + 20_000_000_000;
        while load(at) < n {
            holds!(time::now_ns() < until, "its pager was not asked");
            time::sleep_ns(1_000_000);
        }
        let free = || task::memory().map_or(0, |memory| memory.free);
        let waits = thread::spawn(move || thread::exit(if read(base) == Some(1) { free() } else { 0 }), 0);
        let waits = waits.map_err(doing("a thread"))?;
        thread::yield_now();
        let before = free();
        child.kill().map_err(doing("kill"))?;
        let found = waits.join().map_err(doing("join"))?;
        holds!(found > 0, "who has waited does not read the page");
        child.wait_for(60_000_000_000).map_err(doing("the program's end"))?;
        least = least.min(found.saturating_sub(before));
        section.delete().map_err(doing("delete"))?;
    }
    holds!(least < MUCH - (8 << 20), "who waits has the page when {least} bytes were given back, of {MUCH}");
    post.free(true).and_then(|()| flag.delete()).map_err(doing("free"))
}
