//! What changes while others are between two programs: keys, rights, texts, threads (pitfalls: H3, H8, H12, and preemption
//! anywhere).

use super::asm::{TOUCHED, VICTIM};
use super::{Scene, ask, earn, has_keys, on_threads, op, record, without_keys};
use crate::memory::{await_word, data, load, store};
use crate::peer::{self, Peer, own};
use crate::report::{Check, Outcome, doing, in_time};
use crate::sections::{everybody, role as run_role};
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::layout::{GRANULE, PAGE};
use musubi::abi::task::{cause, exit};
use musubi::command::Command;
use musubi::rt::{Bound, section, task, thread, time};
use musubi::{AclEntry, Error, Rights};

pub const CHECKS: &[Check] = &[
    ("more_servers_than_keys", more_servers_than_keys),
    ("key_of_another_kept_open", key_kept_open),
    ("lists_that_name_what_never_was", names_of_nobody),
    ("grade_changes_during_calls", grade_changes),
    ("code_that_may_be_fetched_no_longer", fetched_no_longer),
    ("text_goes_while_threads_cross", text_goes),
    ("its_own_end_is_no_answer", own_end),
    ("killed_between_programs", killed_between),
    ("others_stay_bound", others_stay_bound),
    ("a_record_of_who_has_ended", super::reused::by_a_record),
];

/// More than there are keys for; not more than a program's quota has stacks for on several threads.
const SERVERS: usize = 24;

fn servers(count: usize) -> Result<&'static [Scene], alloc::string::String> {
    let all: Result<Vec<Scene>, _> = (0..count).map(|_| Scene::set()).collect();
    Ok(Vec::leak(all?))
}

fn end_all(servers: &[Scene]) -> Outcome {
    servers.iter().try_for_each(|scene| scene.victim.child.kill().map_err(doing("kill")))
}

/// Who binds to a server and unbinds, as often as it likes, takes nobody else's way there: this thread's record stays as it is, and the
/// gate goes on calling by it. That binding itself ends.
fn others_stay_bound() -> Outcome {
    const ROUNDS: u64 = 20;
    let scene = Scene::set()?;
    let is_direct = has_keys(&scene.victim.bound);
    if is_direct {
        earn(&scene.victim)?;
    }
    let [_, at] = ask(&scene.victim, [op::ENTRY, 0, 0, 0, 0, 0]).map_err(doing("the record"))?;
    for round in 0..ROUNDS {
        if round % 4 == 0 {
            let exit = run_role(&["attack", "binds", &format!("{:#x}", scene.victim.gate)])?;
            same!((exit.kind, exit.code), (exit::EXITED, 0), "round {round}: a program that binds and unbinds");
        }
        same!(binds(scene.victim.gate), 0, "round {round}: this one");
        let kept = record(at);
        same!((kept.gates > 0, kept.direct > 0), (true, is_direct), "round {round}: the record, and the gate's way");
        scene.holds("meanwhile")?;
    }
    scene.end()
}

/// Binds, calls and unbinds, ten times. Value: 0, if all went well.
pub fn binds(gate: u64) -> i32 {
    let once = || -> Result<(), Error> {
        let bound = Bound::bind(gate, 0)?;
        bound.call(0, [peer::op::ADD, 0, 0, 0, 0, 0])?;
        bound.unbind()
    };
    (0..10).find_map(|_| once().err()).map_or(0, |error| error.word() as i32)
}

/// Keys that classes of this task's view have lost to others.
pub fn evicted() -> u64 {
    let me = musubi::start().task();
    task::list().find(|info| info.task == me).map_or(0, |info| info.keys.evicted)
}

/// Threads call servers in turn while keys change hands. A key that is still open for the one who had it before would show
/// one server's memory to another; a page with an old key would stop a good call.
fn more_servers_than_keys() -> Outcome {
    static WRONG: AtomicU64 = AtomicU64::new(0);
    let all = servers(SERVERS)?;
    let before = evicted();
    // Who may have another key by now, and who never had one: neither gets at what is another server's.
    let keeps_out = move |scene: &Scene| {
        all.iter().filter(|other| other.place != scene.place || other.secret != scene.secret).all(|other| {
            let got = scene.victim.call(peer::op::PEEK, &[other.place]);
            let is_denied = got == Err(Error::Faulted);
            if !is_denied {
                WRONG.store(got.map_or_else(Error::word, |_| u64::MAX), Ordering::SeqCst);
            }
            is_denied
        })
    };
    let right = move |thread: u64| {
        (0..2 * SERVERS).all(|round| {
            let scene = &all[(thread as usize * 7 + round) % SERVERS];
            // Long enough to earn a key now and then.
            let calls = if round % 5 == 0 { 400 } else { 3 };
            let all_good = (0..calls).all(|_| {
                let got = scene.victim.call(op::GET, &[]);
                let wrong = got != Ok(scene.secret);
                if wrong {
                    WRONG.store(got.map_or_else(Error::word, |_| u64::MAX), Ordering::SeqCst);
                }
                !wrong
            });
            all_good && (calls < 400 || keeps_out(scene))
        })
    };
    let outcome = (on_threads(3, right)?, WRONG.load(Ordering::SeqCst));
    let changed = evicted() - before;
    let keyed = has_keys(&all[0].victim.bound);
    end_all(all)?;
    holds!(!keyed || changed >= 10, "only {changed} keys have changed hands");
    same!(outcome, (0, 0), "threads that got a wrong answer, and the error");
    Ok(())
}

/// Lists name texts that never were, beside one that may: each page is there for that one, whatever keys it takes, and a server that reads
/// it comes back.
fn names_of_nobody() -> Outcome {
    let scene: &'static Scene = Box::leak(Box::new(Scene::set()?));
    for n in 1..=20u64 {
        let buffer = data(2 * PAGE).map_err(doing("create"))?.base();
        let of = |text| AclEntry { text, ..everybody(Rights::READ) };
        section::grant(buffer, &of(n * GRANULE)).map_err(doing("naming nobody"))?;
        section::grant(buffer, &of(scene.victim.text)).map_err(doing("naming the server"))?;
        // An access for whose key another one has to give it up, and the other way round, would never be made.
        let used = in_time(move || {
            store(buffer, n);
            let read = |at| scene.victim.call(peer::op::PEEK, &[at]);
            [read(buffer), read(buffer + PAGE), Ok(load(buffer + PAGE))]
        });
        same!(used, Some([Ok(n), Ok(0), Ok(0)]), "what the server reads, what it reads first, and what lies there");
    }
    scene.victim.child.kill().map_err(doing("kill"))
}

/// The register where no class's key is open.
const NOTHING_OPEN: u64 = 0xffff_fff8;

/// A server waits in user mode, with the key register that it has, until its key has become another's, and loads what is
/// that one's.
fn key_kept_open() -> Outcome {
    // Before all servers, so that it has a key: who touches what has none lives apart, with nothing open.
    let flags = data(PAGE).map_err(doing("create"))?.base();
    section::grant(flags, &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    store(flags, 0);
    let all = servers(SERVERS)?;
    let keyed = has_keys(&all[0].victim.bound);
    if keyed {
        earn(&all[0].victim)?;
    }
    let says = move |n: usize| flags + 8 * n as u64;
    static OUTCOMES: [AtomicU64; SERVERS] = [const { AtomicU64::new(0) }; SERVERS];
    // All are in the first server, and each wants what is another one's: whoever gets that one's key is among them.
    let waiters: Result<Vec<_>, _> = (1..SERVERS)
        .map(|n| {
            let body = move || {
                let outcome = all[0].victim.call(op::SPIN_AND_LOAD, &[flags, all[n].place, says(n)]);
                OUTCOMES[n].store(outcome.map_or_else(Error::word, |_| 0), Ordering::SeqCst);
            };
            thread::spawn(body, 0)
        })
        .collect();
    let waiters = waiters.map_err(doing("thread"))?;
    for n in 1..SERVERS {
        await_word(says(n));
        holds!(!keyed || load(says(n)) != NOTHING_OPEN, "waiter {n} has no key open");
    }
    let before = evicted();
    // All others earn keys; that of the first one is idle.
    for _ in 0..2 {
        for scene in &all[1..] {
            for _ in 0..400 {
                same!(scene.victim.call(op::GET, &[]), Ok(scene.secret), "a server that wants a key");
            }
        }
    }
    let changed = evicted() - before;
    holds!(!keyed || changed >= 14, "only {changed} keys have changed hands");
    store(flags, 1);
    for waiter in waiters {
        waiter.join().map_err(doing("join"))?;
    }
    for outcome in &OUTCOMES[1..] {
        same!(outcome.load(Ordering::SeqCst), Error::Faulted.word(), "a load of what is another server's");
    }
    end_all(all)
}

/// The right to execute comes and goes while threads are in the middle of calls: each call is made, by whatever way, or
/// says that something has changed.
fn grade_changes() -> Outcome {
    let scene: &'static Scene = Box::leak(Box::new(Scene::set()?));
    static GOOD: AtomicU64 = AtomicU64::new(0);
    static STOP: AtomicU64 = AtomicU64::new(0);
    static WHY: AtomicU64 = AtomicU64::new(0);
    let call = move |n: u64| {
        if n == 0 {
            let changed = (0..60).all(|round| {
                let what = if round % 2 == 0 { own::BY_KERNEL } else { own::OPEN };
                time::sleep_ns(500_000);
                loop {
                    match scene.victim.call(peer::op::OWN, &[what]) {
                        Err(Error::Busy) => {}
                        outcome => break outcome == Ok(0),
                    }
                }
            });
            STOP.store(1, Ordering::SeqCst);
            return changed;
        }
        while STOP.load(Ordering::SeqCst) == 0 {
            match scene.victim.call(peer::op::ADD, &[1]) {
                Ok(_) => _ = GOOD.fetch_add(1, Ordering::SeqCst),
                Err(Error::Busy) => {}
                Err(error) => {
                    WHY.store(error.word(), Ordering::SeqCst);
                    return false;
                }
            }
        }
        true
    };
    same!((on_threads(4, call)?, WHY.load(Ordering::SeqCst)), (0, 0), "threads with a failed call, and why");
    let sum = scene.victim.call(peer::op::ADD, &[0]);
    same!(sum, Ok(GOOD.load(Ordering::SeqCst)), "the sum of the calls that were made");
    scene.holds("afterwards")?;
    scene.victim.child.kill().map_err(doing("kill"))
}

/// Runs a server's code, or asks it first to let nobody do so any more.
pub fn touch(gate: u64, code: u64, shut: u64) -> i32 {
    let Ok(bound) = Bound::bind(gate, 0) else { return 3 };
    let Ok([_, place]) = bound.call(0, [op::PLACE, 0, 0, 0, 0, 0]) else { return 3 };
    VICTIM.store(place, Ordering::SeqCst);
    // The page is there for whoever is in the view.
    let is_run = || bound.call(0, peer::six(peer::op::RUN, &[code])).is_ok_and(|values| values[0] == 0);
    if !is_run() {
        return 3;
    }
    if shut != 0 && bound.call(0, [peer::op::OWN, own::BY_KERNEL, 0, 0, 0, 0]) != Ok([0, 0]) {
        return 4;
    }
    // Calls are made all the same.
    if !is_run() || bound.call(0, [op::PLACE, 0, 0, 0, 0, 0]) != Ok([0, place]) {
        return 5;
    }
    crate::memory::call(code);
    TOUCHED
}

/// Keys do not concern fetches: a page of code that is there can be executed by all who are in the view. One whose right is
/// taken away must not find it there.
fn fetched_no_longer() -> Outcome {
    let scene = Scene::set()?;
    if !has_keys(&scene.victim.bound) {
        scene.end()?;
        return without_keys();
    }
    // A function that does nothing but return, in the victim's text as in this one.
    let offset = nothing as *const () as u64 - musubi::start().text();
    let code = scene.victim.text + offset;
    let words = |shut| [format!("{:#x}", scene.victim.gate), format!("{code:#x}"), format!("{shut}")];
    for (shut, wanted) in [(0, (exit::EXITED, TOUCHED as u64)), (1, (exit::FAULT, 0))] {
        let [gate, code_at, shut] = words(shut);
        let exit = run_role(&["attack", "touch", &gate, &code_at, &shut])?;
        same!((exit.kind, exit.code), wanted, "running a server's code");
        if exit.kind == exit::FAULT {
            same!((exit.cause, exit.address), (cause::DENIED, code), "the fault");
        }
    }
    scene.end()
}

extern "C" fn nothing() {}

/// The callee is deleted while threads are at every point of calls to it: all of them come out, with what is true.
fn text_goes() -> Outcome {
    let scene = Scene::set()?;
    for round in 0..6 {
        let peer: &'static Peer = Box::leak(Box::new(Peer::start()?));
        let body = move |n: u64| {
            if n == 0 {
                time::sleep_ns(3_000_000 + round * 700_000);
                return if round % 2 == 0 {
                    peer.child.kill().is_ok()
                } else {
                    matches!(peer.call(peer::op::OWN, &[own::DELETE_TEXT]), Ok(0) | Err(Error::Dead))
                };
            }
            for _ in 0..u64::MAX {
                match peer.call(peer::op::ADD, &[1]) {
                    Ok(_) | Err(Error::Busy) => {}
                    Err(error) => return [Error::Dead, Error::NotFound].contains(&error),
                }
            }
            false
        };
        same!(on_threads(4, body)?, 0, "threads that came out with something else in round {round}");
        let _ = peer.child.kill();
        scene.holds("after that")?;
    }
    scene.end()
}

/// A server ends while its callers' threads call on from it, each time by the kernel. What they are told there of its end, for as long as they still
/// go on in it, is no answer of the server's: its callers hear of that end, as they would a moment later.
fn own_end() -> Outcome {
    const CALLERS: u64 = 3;
    let scene = Scene::set()?;
    let there = scene.victim.call(peer::op::ON_CALLERS_STACK, &[]).map_err(doing("gates for callers' stacks"))?;
    let flag = data(PAGE).map_err(doing("create"))?.base();
    section::grant(flag, &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    for round in 0..12 {
        let peer: &'static Peer = Box::leak(Box::new(Peer::start()?));
        store(flag, 0);
        let body = move |n: u64| {
            if n > 0 {
                return ask(peer, peer::six(op::CALL_ON, &[there, flag])) == Err(Error::Dead);
            }
            while load(flag) < CALLERS {
                thread::yield_now();
            }
            time::sleep_ns(1_000_000 + round * 370_000);
            if round % 2 == 0 {
                peer.child.kill().is_ok()
            } else {
                matches!(peer.call(peer::op::OWN, &[own::DELETE_TEXT]), Ok(0) | Err(Error::Dead))
            }
        };
        same!(on_threads(1 + CALLERS, body)?, 0, "threads that heard something else in round {round}");
        let _ = peer.child.kill();
        scene.holds("after that")?;
    }
    scene.end()
}

/// The server: calls on from there.
pub fn call_on(gate: u64, flag: u64) -> Result<u64, Error> {
    let bound = Bound::bind_on_own_stack(gate, 0);
    crate::memory::word(flag).fetch_add(1, Ordering::SeqCst);
    let bound = bound?;
    loop {
        bound.call(0, peer::six(peer::op::ADD, &[0]))?;
    }
}

/// A program with several threads, all of them between programs most of the time, is killed at any moment.
fn killed_between() -> Outcome {
    let scene: &'static Scene = Box::leak(Box::new(Scene::set()?));
    let flags = data(PAGE).map_err(doing("create"))?.base();
    section::grant(flags, &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    for round in 0..15u64 {
        store(flags, 0);
        let words = [format!("{:#x}", scene.victim.gate), format!("{flags:#x}")];
        let child = Command::new(b"bin/check")
            .args(["check", "as", "attack", "cross", &words[0], &words[1]])
            .spawn()
            .map_err(doing("child"))?;
        while load(flags) < 50 {
            thread::yield_now();
        }
        time::sleep_ns(round * 130_000);
        child.kill().map_err(doing("kill"))?;
        let exit = child.wait_for(20_000_000_000).map_err(doing("its end"))?;
        holds!(exit.kind == exit::KILLED, "{exit:x?}");
        scene.holds("after that")?;
        // What the killed ones had in hand is whole, and nobody has kept the lock.
        let is_whole = in_time(move || scene.victim.call(peer::op::OWN_SECTION, &[]).is_ok());
        same!(is_whole, Some(true), "what the server's lock guards");
        same!(ask(&scene.victim, [peer::op::ADD, 0, 0, 0, 0, 0]).is_ok(), true, "a call");
    }
    scene.holds("afterwards")?;
    scene.victim.child.kill().map_err(doing("kill"))
}

/// The program that is killed: says at `flag` how many calls it has made.
pub fn cross(gate: u64, flag: u64) -> i32 {
    let Ok(bound) = Bound::bind(gate, 0) else { return 3 };
    let bound: &'static Bound = Box::leak(Box::new(bound));
    let body = move || {
        loop {
            // Something that is half done for a while, with a lock in hand.
            if bound.call(0, peer::six(peer::op::WORK_LOCKED, &[flag + 64, 10_000])).is_ok()
                && bound.call(0, [op::GET, 0, 0, 0, 0, 0]).is_ok()
            {
                crate::memory::word(flag).fetch_add(1, Ordering::SeqCst);
            }
        }
    };
    for _ in 0..3 {
        let _ = thread::spawn(body, 0);
    }
    body();
    0
}
