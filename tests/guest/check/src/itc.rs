//! Threads of two programs that wait for each other in a section that they share: what they say arrives, whoever waits for a
//! dead one hears of it, and a wild one harms itself.

mod deaths;
mod places;
mod runs;

use crate::memory::{data, store};
use crate::report::{Check, Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::layout::PAGE;
use musubi::abi::sched::WATCHES_MAX;
use musubi::abi::task::state;
use musubi::command::{Child, Command};
use musubi::rt::itc::{Event, Here, Limit, Partners, Queue, Semaphore, Taken, partners};
use musubi::rt::{guard, probe, sched, section, task, thread, time};
use musubi::{Error, Rights};

pub const CHECKS: &[Check] = &[
    ("queues_block", || echoes("echo", FOR_EVER)),
    ("queues_are_polled", || echoes("echo-polling", Limit::Poll)),
    ("semaphores_block", || in_turn("semaphore", FOR_EVER)),
    ("semaphores_are_polled", || in_turn("semaphore-polling", Limit::Poll)),
    ("places_are_shared", || places::are_shared("places", FOR_EVER)),
    ("places_are_shared_by_polling", || places::are_shared("places-polling", Limit::Poll)),
    ("places_come_back_one_by_one", places::come_back_one_by_one),
    ("events_block", || ping_pong("events", FOR_EVER)),
    ("events_are_polled", || ping_pong("events-polling", Limit::Poll)),
    ("spins_while_the_partner_runs", runs::spins_while_the_partner_runs),
    ("sleeps_when_the_partner_does", runs::sleeps_when_the_partner_does),
    ("who_runs_is_told", runs::who_runs_is_told),
    ("watching", runs::watching),
    ("the_end_of_a_partner_ends_the_wait", the_end_of_a_partner_ends_the_wait),
    ("what_the_dead_one_held_is_marked", what_the_dead_one_held_is_marked),
    ("a_partner_that_overwrites_everything", a_partner_that_overwrites_everything),
    ("partners_die_under_load", deaths::partners_die_under_load),
    ("a_fault_under_guard_is_an_error", a_fault_under_guard_is_an_error),
];
/// What takes long.
pub const MANY: &[Check] = &[("ten_thousand_partners_die", deaths::ten_thousand_partners_die)];

const FOR_EVER: Limit = Limit::Sleep(u64::MAX);
const ROUNDS: u64 = 300;
const PLACES: u64 = 4;
/// How long a partner sleeps.
const ASLEEP_NS: u64 = 200_000_000;

/// What lies where in the shared section, in words.
const CALLS: usize = 0;
const ANSWERS: usize = 128;
const SEMAPHORE: usize = 256;
const THERE: usize = 288;
const BACK: usize = 320;
/// Plain words: a counter; where a program says something.
const COUNT: usize = 352;
const SAID: usize = 353;
/// The other one is watched: from now on it may end.
const WATCHED: usize = 354;
/// Of a program whose threads end in turn: which one it is, how many have been, how many there are to be.
const TURN: usize = 355;
const ENDED: usize = 356;
const ALL: usize = 357;

type Words = &'static [AtomicU64];

/// The objects in a section, as one thread sees them.
struct Objects<'a> {
    calls: Queue<'a, 2>,
    answers: Queue<'a, 2>,
    semaphore: Semaphore<'a>,
    there: Event<'a>,
    back: Event<'a>,
}

fn objects(words: Words, partners: &Partners) -> Result<Objects<'_>, Error> {
    let make = || {
        Some(Objects {
            calls: Queue::new(&words[CALLS..ANSWERS], PLACES, partners)?,
            answers: Queue::new(&words[ANSWERS..SEMAPHORE], PLACES, partners)?,
            semaphore: Semaphore::new(&words[SEMAPHORE..THERE], 1, partners)?,
            there: Event::new(&words[THERE..BACK], partners)?,
            back: Event::new(&words[BACK..COUNT], partners)?,
        })
    };
    make().ok_or(Error::TooBig)
}

/// Again and again where it is only tried.
fn until_had<R>(mut what: impl FnMut() -> Result<R, Error>) -> Result<R, Error> {
    loop {
        match what() {
            Err(Error::Busy) => thread::yield_now(),
            other => return other,
        }
    }
}

fn message(taken: Taken<2>) -> Result<[u64; 2], Error> {
    match taken {
        Taken::Message(message) => Ok(message),
        Taken::Left(_) => Err(Error::Dead),
    }
}

/// The other program.
pub fn role(what: &str, base: u64, other: u64) -> i32 {
    match partner(what, base, other) {
        Ok(()) => 0,
        Err(error) => 100 + error.word() as i32,
    }
}

fn partner(what: &str, base: u64, other: u64) -> Result<(), Error> {
    let words = sched::words(base)?;
    let partners = partners(&[other])?;
    let Objects { calls, answers, semaphore, there, back } = objects(words, &partners)?;
    // Four of two programs find each other.
    let finds = what.starts_with("places");
    while !finds && words[WATCHED].load(Ordering::SeqCst) == 0 {
        thread::yield_now();
    }
    let limit = if what.ends_with("polling") { Limit::Poll } else { FOR_EVER };
    // What it does, and how it ends.
    let (does, how) = what.split_once('+').unwrap_or((what, what));
    match does {
        "places" | "places-polling" => places::two(words, 2, limit)?,
        "echo" | "echo-polling" => {
            for _ in 0..ROUNDS {
                let [n, square] = message(until_had(|| calls.take(limit))?)?;
                until_had(|| answers.put(&[n + 1, square], limit))?;
            }
        }
        "semaphore" | "semaphore-polling" => {
            for _ in 0..ROUNDS {
                let held = until_had(|| semaphore.acquire(limit))?;
                add_slowly(words);
                drop(held);
            }
        }
        "events" | "events-polling" => {
            for _ in 0..ROUNDS {
                until_had(|| there.wait(limit))?;
                add_slowly(words);
                back.set();
            }
        }
        // Busy for a while, then says what the other was doing most of the time. (It may have had to make room for somebody else now and then.)
        "busy" => {
            there.set();
            let until = time::now_ns() + 100_000_000;
            let (mut looks, mut waited) = (0, 0);
            while time::now_ns() < until {
                looks += 1;
                waited += u64::from(task::threads().any(|t| t.thread == other && t.state == state::WAITING));
            }
            words[SAID].store(if 2 * waited > looks { state::WAITING } else { state::RUNNING }, Ordering::SeqCst);
            there.set();
        }
        // Busy for a while, then asleep.
        "sleep" => {
            there.set();
            let until = time::now_ns() + 20_000_000;
            while time::now_ns() < until {}
            time::sleep_ns(ASLEEP_NS);
            back.set();
        }
        // Each ends, or not, having said that it is there, while the other waits.
        "exit" | "fault" | "wild" | "stay" | "hold" | "claim" | "thread-exit" => {
            if does == "hold" {
                core::mem::forget(semaphore.acquire(FOR_EVER)?);
            }
            if does == "claim" {
                // As far as one that ends in the middle of `put` comes: the place is being put into, by this thread.
                words[CALLS + 32].store(1 << 62 | partners.me(), Ordering::SeqCst);
                words[CALLS + 8].store(1, Ordering::SeqCst);
            }
            there.set();
            time::sleep_ns(3_000_000);
            match how {
                "fault" => probe::write(8),
                "wild" => overwrite_the_stack(),
                "stay" => thread::park(),
                "thread-exit" => thread::exit(7),
                _ => {}
            }
        }
        // One thread after the other, each as far as the other one says.
        "threads" => {
            for turn in 0..words[ALL].load(Ordering::SeqCst) {
                let thread = thread::spawn(move || deaths::one_of_many(words, turn, other), 0)?;
                thread.join()?;
                words[ENDED].store(turn + 1, Ordering::SeqCst);
            }
        }
        // Writes whatever comes, wherever it may, and ends.
        "scribble" => {
            let until = time::now_ns() + 60_000_000;
            let mut n = 1u64;
            while time::now_ns() < until {
                for word in &words[..COUNT] {
                    n = n.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    word.store(if n >> 62 == 0 { n >> 60 } else { n }, Ordering::Relaxed);
                }
            }
        }
        _ => return Err(Error::BadArgument),
    }
    Ok(())
}

/// Not in one step: who does not exclude the other loses some.
fn add_slowly(words: Words) {
    let had = words[COUNT].load(Ordering::Relaxed);
    if had.is_multiple_of(16) {
        thread::yield_now();
    }
    words[COUNT].store(had + 1, Ordering::Relaxed);
}

/// All of it, from the top: where to return to, and what was saved.
fn overwrite_the_stack() {
    let here = 0u64;
    let Ok(stack) = section::info(core::ptr::from_ref(&here) as u64) else { return };
    let mut at = stack.base + stack.len;
    while at > stack.base + 2 * PAGE {
        at -= 8;
        store(at, 0xdead_beef_dead_beef);
    }
}

/// A section with another program's thread at the other end. The section is this program's: it stays when the other is gone.
struct Pair {
    child: Child,
    other: u64,
    words: Words,
    base: u64,
}

impl Pair {
    fn start(what: &str) -> Result<Pair, String> {
        Pair::start_with(what, 0)
    }

    fn start_with(what: &str, count: u64) -> Result<Pair, String> {
        let shared = data(PAGE).map_err(doing("create"))?;
        store(shared.base() + 8 * ALL as u64, count);
        section::grant(shared.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
        let (base, me) = (format!("{}", shared.base()), format!("{}", task::identity().thread));
        let command = Command::new(b"bin/check").args(["check", "as", "itc", what, &base, &me]);
        let child = command.spawn().map_err(doing("partner"))?;
        let other = task::threads().find(|t| t.task == child.task).map_or(0, |t| t.thread);
        let words = sched::words(shared.base()).map_err(doing("words"))?;
        Ok(Pair { child, other, words, base: shared.base() })
    }

    fn with<R>(&self, what: impl FnOnce(Objects) -> Result<R, String>) -> Result<R, String> {
        let partners = partners(&[self.other]).map_err(doing("watching"))?;
        self.words[WATCHED].store(1, Ordering::SeqCst);
        what(objects(self.words, &partners).map_err(doing("objects"))?)
    }

    fn end(self, status: u64) -> Outcome {
        let exit = self.child.wait_for(60_000_000_000).map_err(doing("the partner's end"))?;
        section::delete(self.base).map_err(doing("delete"))?;
        same!(exit.code, status, "the partner's status");
        Ok(())
    }

    fn kill(self) -> Outcome {
        let _ = self.child.kill();
        self.child.wait_for(60_000_000_000).map_err(doing("the partner's end"))?;
        section::delete(self.base).map_err(doing("delete"))
    }
}

fn echoes(what: &str, limit: Limit) -> Outcome {
    let pair = Pair::start(what)?;
    pair.with(|o| {
        let (mut sent, mut got) = (0, 0);
        while got < ROUNDS {
            // As many under way as there is room for.
            while sent < ROUNDS && sent < got + 2 * PLACES {
                match o.calls.put(&[sent, sent * sent], Limit::Poll) {
                    Ok(()) => sent += 1,
                    Err(Error::Busy) => break,
                    Err(e) => return Err(format!("put {sent}: {e}")),
                }
            }
            let taken = until_had(|| o.answers.take(limit)).and_then(message).map_err(doing("take"))?;
            same!(taken, [got + 1, got * got], "answer {got}");
            got += 1;
        }
        Ok(())
    })?;
    pair.end(0)
}

fn in_turn(what: &str, limit: Limit) -> Outcome {
    let pair = Pair::start(what)?;
    pair.with(|o| {
        for _ in 0..ROUNDS {
            let held = until_had(|| o.semaphore.acquire(limit)).map_err(doing("acquire"))?;
            same!(held.left, None, "who had ended inside");
            add_slowly(pair.words);
            drop(held);
        }
        Ok(())
    })?;
    let exit = pair.child.wait_for(60_000_000_000).map_err(doing("the partner's end"))?;
    same!(exit.code, 0, "the partner's status");
    same!(pair.words[COUNT].load(Ordering::SeqCst), 2 * ROUNDS, "times that one of them was inside");
    section::delete(pair.base).map_err(doing("delete"))
}

fn ping_pong(what: &str, limit: Limit) -> Outcome {
    let pair = Pair::start(what)?;
    pair.with(|o| {
        for n in 0..ROUNDS {
            same!(pair.words[COUNT].load(Ordering::SeqCst), n, "rounds");
            o.there.set();
            until_had(|| o.back.wait(limit)).map_err(doing("wait"))?;
        }
        Ok(())
    })?;
    pair.end(0)
}

/// Waits in each way for partners that end in each way.
fn the_end_of_a_partner_ends_the_wait() -> Outcome {
    type Wait = fn(&Objects) -> Result<(), Error>;
    const WAITS: [(&str, Wait); 4] = [
        ("event", |o| o.back.wait(FOR_EVER)),
        ("event, spinning", |o| o.back.wait(Limit::Snoop(u64::MAX))),
        ("queue", |o| o.calls.take(FOR_EVER).map(drop)),
        ("full queue", |o| {
            for _ in 0..PLACES {
                o.answers.put(&[0, 0], Limit::Poll)?;
            }
            o.answers.put(&[0, 0], FOR_EVER)
        }),
    ];
    for what in ["exit", "fault", "wild", "thread-exit", "stay"] {
        for (name, wait) in WAITS {
            let pair = Pair::start(what)?;
            pair.with(|o| {
                o.there.wait(FOR_EVER).map_err(doing("the beginning"))?;
                if what == "stay" {
                    pair.child.kill().map_err(doing("kill"))?;
                }
                same!(wait(&o), Err(Error::Dead), "waiting ({name}) for one that ends ({what})");
                same!(wait(&o).err().is_some(), true, "waiting once more");
                Ok(())
            })?;
            pair.kill()?;
        }
    }
    Ok(())
}

/// In whatever way it has ended: nothing that the one who ends does by itself is needed for that.
fn what_the_dead_one_held_is_marked() -> Outcome {
    for how in ["exit", "fault", "wild", "thread-exit", "stay"] {
        what_one_held(how).map_err(|why| format!("{how}: {why}"))?;
    }
    Ok(())
}

fn what_one_held(how: &str) -> Outcome {
    let ends = |pair: &Pair| if how == "stay" { pair.child.kill().map_err(doing("kill")) } else { Ok(()) };
    let pair = Pair::start(&format!("hold+{how}"))?;
    pair.with(|o| {
        o.there.wait(FOR_EVER).map_err(doing("the beginning"))?;
        ends(&pair)?;
        let held = o.semaphore.acquire(FOR_EVER).map_err(doing("acquire"))?;
        same!(held.left, Some(pair.other), "who had ended inside");
        drop(held);
        same!(o.semaphore.acquire(Limit::Poll).map(|held| held.left), Ok(None), "the second time");
        Ok(())
    })?;
    pair.kill()?;
    let pair = Pair::start(&format!("claim+{how}"))?;
    pair.with(|o| {
        o.there.wait(FOR_EVER).map_err(doing("the beginning"))?;
        ends(&pair)?;
        same!(o.calls.take(FOR_EVER), Ok(Taken::Left(pair.other)), "the place that it was putting into");
        same!(o.calls.left(), 1, "places that were left");
        o.calls.put(&[1, 2], Limit::Poll).map_err(doing("put"))?;
        same!(o.calls.take(Limit::Poll), Ok(Taken::Message([1, 2])), "the next message");
        Ok(())
    })?;
    pair.kill()
}

/// Errors at worst, and no wait longer than the other lives.
fn a_partner_that_overwrites_everything() -> Outcome {
    for limit in [FOR_EVER, Limit::Snoop(u64::MAX), Limit::Poll] {
        let pair = Pair::start("scribble")?;
        let began = time::now_ns();
        pair.with(|o| {
            for _ in 0..50 {
                let _ = o.there.wait(limit);
                let _ = o.semaphore.acquire(limit);
                let _ = o.calls.take(limit);
                let _ = o.answers.put(&[1, 2], limit);
                o.back.set();
            }
            Ok(())
        })?;
        holds!(time::now_ns() - began < 30_000_000_000, "it took {} ms", (time::now_ns() - began) / 1_000_000);
        pair.end(0)?;
    }
    Ok(())
}

fn a_fault_under_guard_is_an_error() -> Outcome {
    let shared = data(PAGE).map_err(doing("create"))?;
    let words = sched::words(shared.base()).map_err(doing("words"))?;
    let (mut n, text) = (5, String::from("kept"));
    for round in 0..100 {
        same!(guard::run(|| n + text.len()), Ok(9), "what the body says");
        same!(guard::run(|| probe::write(8)), Err(Error::Faulted), "a body that faults");
        n = 5;
        // Guarded within guarded: the inner one ends, the outer one goes on.
        let nested = guard::run(|| (guard::run(|| probe::write(8)), guard::run(|| round)));
        same!(nested, Ok((Err(Error::Faulted), Ok(round))), "one in the other");
    }
    same!(guard::run(|| words[0].load(Ordering::SeqCst)), Ok(0), "a word of the section");
    shared.delete().map_err(doing("delete"))?;
    same!(guard::run(|| words[0].load(Ordering::SeqCst)), Err(Error::Faulted), "when the section is gone");
    // Nobody else gets his own function called: the gate is this text's first one.
    let gate = section::info(musubi::start().text()).map_err(doing("info"))?.gates;
    let peer = crate::peer::Peer::start()?;
    section::grant(musubi::start().text(), &musubi::rt::gate::ANYBODY).map_err(doing("grant"))?;
    let relayed = peer.call(crate::peer::op::RELAY, &[gate, 0x1000, 0x1000]);
    same!(relayed, Err(Error::Denied), "another program at the guard's gate");
    peer.end()
}
