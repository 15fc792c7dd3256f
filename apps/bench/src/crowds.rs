//! Crowds: many threads that wait for the same, where one call has to do with all of them (SSS-24).

use crate::handlers::{Done, PATIENCE_NS, say};
use crate::memory::viewer;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use musubi::abi::layout::PAGE;
use musubi::abi::rights::principal;
use musubi::abi::section::kind;
use musubi::rt::gate::ANYBODY;
use musubi::rt::post::Post;
use musubi::rt::{Section, Trap, probe, section, sync, task, thread, time};
use musubi::{AclEntry, Error, Rights};

/// Threads that wait for the same.
const CROWD: usize = 48;
/// Threads that wait at a post where they may no more.
const WAITING: usize = 500;
/// Threads that sleep until the same moment: of each processor's timers many are due at once.
const SLEEPERS: usize = 400;
/// Programs that have the same pages in their views, and those pages.
const VIEWERS: usize = 40;
const VIEWED: u64 = 500;

/// By the clock of an emulator each is as many times slower as there are of them.
fn processors() -> u64 {
    task::processors().count() as u64
}

/// Until all that were started have begun to wait.
pub fn settle(ns: u64) {
    time::sleep_ns(ns * processors());
}

/// Many that wait at a post, and many that have asked there: it is given back, and before its list changes.
pub fn askers() -> Done {
    let [waits, asks] = [say("a post", Post::any())?, say("a post", Post::any())?];
    let entry = |rights: Rights| AclEntry { principal: principal::THREAD, rights: rights.bits(), id: 1, text: 0 };
    let mut crowd = Vec::new();
    for n in 0..CROWD * 2 {
        let body = move || match n % 2 {
            0 => drop(waits.receive(PATIENCE_NS)),
            _ => drop(asks.ask(1, [7; 6], PATIENCE_NS)),
        };
        crowd.push(say("a thread", thread::spawn(body, 0))?);
    }
    settle(20_000_000);
    for post in [waits, asks] {
        say("an entry", section::grant(post.0, &entry(Rights::READ)))?;
        say("taking it away", section::grant(post.0, &entry(Rights::empty())))?;
        say("freeing", post.free(true))?;
    }
    crowd.into_iter().for_each(|one| _ = one.join());
    turned_away()
}

/// Many that wait where they may no more: each of them is woken, by whoever changes the list and by whoever gives the post back.
fn turned_away() -> Done {
    let me = task::identity();
    let rights = Rights::CALL | Rights::CHANGE_ACL;
    let entry = AclEntry { principal: principal::TASK, rights: rights.bits(), id: me.task, text: me.text };
    for by_list in [true, false] {
        let post = say("a post", Post::any())?;
        let wait = || thread::spawn(move || _ = post.receive(PATIENCE_NS), 0);
        let crowd: Vec<_> = (0..WAITING).map(|_| say("a thread", wait())).collect::<Result<_, _>>()?;
        settle(50_000_000);
        if by_list {
            say("taking the right to wait", section::grant(post.0, &entry))?;
            crowd.into_iter().for_each(|one| _ = one.join());
            say("freeing", post.free(false))?;
        } else {
            say("freeing", post.free(true))?;
            crowd.into_iter().for_each(|one| _ = one.join());
        }
    }
    Ok(())
}

/// Many that wait for a word, and for a thread's end.
pub fn crowds() -> Done {
    static WORD: AtomicU32 = AtomicU32::new(0);
    static HERE: AtomicU64 = AtomicU64::new(0);
    let leaves = Arc::new(AtomicBool::new(false));
    let until = leaves.clone();
    let body = move || {
        while !until.load(Ordering::SeqCst) {
            time::sleep_ns(1_000_000);
        }
    };
    let last = say("a thread", thread::spawn(body, 0))?;
    let waits_for = last.number();
    let mut crowd = Vec::new();
    for n in 0..CROWD * 2 {
        let waits = move || {
            HERE.fetch_add(1, Ordering::SeqCst);
            if n % 2 == 0 {
                let _ = sync::wait(&WORD, 0, PATIENCE_NS);
            } else {
                let _ = musubi::abi::calls::stub::thread_join(&Trap, waits_for, PATIENCE_NS);
            }
        };
        crowd.push(say("a thread", thread::spawn(waits, 0))?);
    }
    while HERE.load(Ordering::SeqCst) < 2 * CROWD as u64 {
        time::sleep_ns(1_000_000);
    }
    settle(10_000_000);
    WORD.store(1, Ordering::SeqCst);
    sync::wake(&WORD, u64::MAX);
    leaves.store(true, Ordering::SeqCst);
    // (So many have ended that the code of the first ones is forgotten.)
    crowd.into_iter().chain([last]).for_each(|one| _ = one.join());
    Ok(())
}

/// Many that sleep until the same moment.
pub fn sleepers() -> Done {
    let until = time::now_ns() + processors() * 400_000_000;
    let late = Arc::new(AtomicU64::new(0));
    let mut crowd = Vec::new();
    for _ in 0..SLEEPERS {
        let late = late.clone();
        let sleeps = move || match until.checked_sub(time::now_ns()) {
            Some(ns) => time::sleep_ns(ns),
            None => _ = late.fetch_add(1, Ordering::SeqCst),
        };
        crowd.push(say("a thread", thread::spawn(sleeps, 0))?);
    }
    crowd.into_iter().for_each(|one| _ = one.join());
    // Else they have not slept together.
    if late.load(Ordering::SeqCst) > 0 { Err(("sleeping together", Error::TimedOut)) } else { Ok(()) }
}

/// Many programs that have the same pages in their views, which these leave: where the section becomes shorter, and where what is shared with a clone is
/// stored to.
pub fn viewers() -> Done {
    let len = VIEWED * PAGE;
    let mut pages = say("a section", Section::create(len, len, kind::DATA, 0))?;
    let base = pages.base();
    let stored = |count| (0..count).for_each(|page| probe::write(base + page * PAGE));
    stored(VIEWED);
    say("its list", section::grant(base, &AclEntry { rights: Rights::READ.bits(), ..ANYBODY }))?;
    let seen = say("a post", Post::any())?;
    say("its list", seen.allow(&AclEntry { rights: Rights::CALL.bits(), ..ANYBODY }))?;
    let looks = |_| viewer(seen, base, len).map_err(|_| ("a program that looks at pages", Error::Refused));
    let crowd: Vec<_> = (0..VIEWERS).map(looks).collect::<Result<_, _>>()?;
    say("making shorter", pages.resize(len / 2))?;
    let clone = say("cloning", Section::clone_of(base, 0, 0, 0))?;
    stored(VIEWED / 2);
    say("deleting a clone", clone.delete())?;
    for one in crowd {
        say("killing", one.kill())?;
        say("its end", one.wait())?;
    }
    say("freeing", seen.free(true))?;
    say("deleting", pages.delete())
}
