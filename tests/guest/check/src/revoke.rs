//! Revocation: when a call that takes a right away returns, nobody uses it any more, on whatever processor.

use crate::memory::{data, load, store};
use crate::peer::{Peer, op};
use crate::report::{Check, Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::layout::PAGE;
use musubi::abi::rights::principal;
use musubi::abi::section::kind;
use musubi::rt::{Section, Trap, section, thread, time};
use musubi::{AclEntry, Error, Rights};

pub const CHECKS: &[Check] = &[
    ("revoked_write_is_gone_everywhere", || revoked(take_entry)),
    ("sealed_text_is_written_no_more", || revoked(seal)),
    ("deleted_while_others_read", || watched(true)),
    ("revoked_read_is_gone_everywhere", || watched(false)),
    ("clone_is_cut_off_while_others_write", clone_while_written),
    ("resized_while_others_write", || revoked(shrink)),
    ("clone_sees_nothing_written_after_its_right_is_gone", clone_after_revocation),
];

const ROUNDS: usize = 8;
const CLONE_ROUNDS: usize = 300;
const BOTH: Rights = Rights::READ.union(Rights::WRITE);

/// Threads that are inside the peer, doing `what` with the target and the counter, until they fault.
struct Inside {
    threads: Vec<thread::Thread>,
    faulted: &'static AtomicU64,
}

impl Inside {
    fn start(count: usize, peer: &'static Peer, what: u64, target: u64, counter: u64) -> Result<Inside, String> {
        let faulted: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
        store(counter, 0);
        let body = move || {
            if peer.call(what, &[target, counter]) == Err(Error::Faulted) {
                faulted.fetch_add(1, Ordering::SeqCst);
            }
        };
        let threads = (0..count).map(|_| thread::spawn(body, 0)).collect::<Result<_, _>>().map_err(doing("thread"))?;
        while load(counter) < 100 {
            thread::yield_now();
        }
        Ok(Inside { threads, faulted })
    }

    fn end(self) -> Outcome {
        let count = self.threads.len() as u64;
        for thread in self.threads {
            thread.join().map_err(doing("join"))?;
        }
        same!(self.faulted.load(Ordering::SeqCst), count, "threads that were stopped");
        Ok(())
    }
}

fn stage() -> Result<(&'static Peer, Section, u64), String> {
    let peer: &'static Peer = Box::leak(Box::new(Peer::start()?));
    let counter = data(PAGE).map_err(doing("create"))?;
    section::grant(counter.base(), &everybody(BOTH)).map_err(doing("grant"))?;
    let target = Section::create(2 * PAGE, 4 * PAGE, kind::DATA, 0).map_err(doing("create"))?;
    section::grant(target.base(), &entry(peer, BOTH)).map_err(doing("grant"))?;
    Ok((peer, target, counter.base()))
}

fn entry(peer: &Peer, rights: Rights) -> AclEntry {
    AclEntry { principal: principal::ANY, rights: rights.bits(), id: 0, text: peer.text }
}

fn take_entry(peer: &Peer, base: u64) -> Result<(), Error> {
    section::grant(base, &entry(peer, Rights::READ))
}

fn seal(_: &Peer, base: u64) -> Result<(), Error> {
    stub::section_seal(&Trap, base).map(drop)
}

/// Cut to nothing and grown again: the old memory is out of reach, the new one is for reading only.
fn shrink(peer: &Peer, base: u64) -> Result<(), Error> {
    let resize = |len| stub::section_resize(&Trap, base, len);
    resize(0)?;
    take_entry(peer, base)?;
    resize(2 * PAGE)?;
    if load(base) == 0 { Ok(()) } else { Err(Error::Changed) }
}

/// The word is counted up by others without pause; after the taking call it never changes again.
fn revoked(take: fn(&Peer, u64) -> Result<(), Error>) -> Outcome {
    for round in 0..ROUNDS {
        let (peer, target, counter) = stage()?;
        let at = target.base();
        let inside = Inside::start(3, peer, op::HAMMER, at, counter)?;
        take(peer, at).map_err(doing("taking the right"))?;
        let then = load(at);
        for _ in 0..8 {
            thread::yield_now();
            same!(load(at), then, "round {round}: the word after the right was taken");
        }
        inside.end()?;
        same!(load(at), then, "round {round}: the word at the end");
        target.delete().map_err(doing("delete"))?;
        peer.child.kill().map_err(doing("kill"))?;
        peer.child.wait().map_err(doing("wait"))?;
    }
    Ok(())
}

/// Readers count after each load: when the call returns, each has at most one count to make.
fn watched(delete: bool) -> Outcome {
    for round in 0..ROUNDS {
        let (peer, target, counter) = stage()?;
        let inside = Inside::start(3, peer, op::WATCH, target.base(), counter)?;
        if delete {
            target.delete().map_err(doing("delete"))?;
        } else {
            section::grant(target.base(), &entry(peer, Rights::empty())).map_err(doing("remove"))?;
        }
        let then = load(counter);
        time::sleep_ns(3_000_000);
        inside.end()?;
        let after = load(counter) - then;
        holds!(after <= 3, "round {round}: {after} loads by 3 threads after the right was taken");
        peer.child.kill().map_err(doing("kill"))?;
        peer.child.wait().map_err(doing("wait"))?;
    }
    Ok(())
}

/// A clone is one state: what others write meanwhile is in the original only, and two words that are always written in
/// one order are never seen in the other.
fn clone_while_written() -> Outcome {
    let (peer, target, _) = stage()?;
    let at = target.base();
    let inside = Inside::start(3, peer, op::HAMMER, at, at + PAGE)?;
    for round in 0..30 {
        let clone = Section::clone_of(at, 0, 0, 0).map_err(doing("clone"))?;
        let (first, second) = (load(clone.base()), load(clone.base() + PAGE));
        holds!(first >= second, "round {round}: {first} counted first, {second} counted second");
        holds!(first - second <= 3, "round {round}: {first} and {second} are too far apart");
        for _ in 0..4 {
            thread::yield_now();
        }
        same!((load(clone.base()), load(clone.base() + PAGE)), (first, second), "round {round}: the clone afterwards");
        clone.delete().map_err(doing("delete"))?;
    }
    let before = load(at);
    time::sleep_ns(2_000_000);
    thread::yield_now();
    while load(at) == before {
        thread::yield_now();
    }
    section::grant(at, &entry(peer, Rights::empty())).map_err(doing("remove"))?;
    inside.end()
}

/// A clone that is being made when the right to read is taken away shows at most what was there before.
fn clone_after_revocation() -> Outcome {
    static OVER: AtomicU64 = AtomicU64::new(0);
    static MADE: AtomicU64 = AtomicU64::new(0);
    static SEEN: AtomicU64 = AtomicU64::new(0);
    let section = data(PAGE).map_err(doing("create"))?;
    let base = section.base();
    let cloner = move || {
        while OVER.load(Ordering::SeqCst) == 0 {
            if let Ok(clone) = Section::clone_of(base, 0, 0, 0) {
                SEEN.fetch_add(u64::from(load(clone.base()) != 0), Ordering::SeqCst);
                MADE.fetch_add(1, Ordering::SeqCst);
                let _ = clone.delete();
            }
        }
    };
    let thread = thread::spawn(cloner, 0).map_err(doing("thread"))?;
    // From here only this thread has all rights, and the other one none.
    let text = musubi::start().text();
    let of = |id, rights: Rights| AclEntry { principal: principal::THREAD, rights: rights.bits(), id, text };
    let first = section::acl(base).map_err(doing("acl"))?.pop().ok_or("a new section has no entry")?;
    let mine = of(musubi::rt::task::identity().thread, Rights::from_bits_truncate(first.rights));
    section::grant(base, &mine).map_err(doing("grant"))?;
    section::grant(base, &AclEntry { rights: 0, ..first }).map_err(doing("the first entry"))?;
    for _ in 0..CLONE_ROUNDS {
        store(base, 0);
        section::grant(base, &of(thread.number(), Rights::READ)).map_err(doing("grant"))?;
        let before = MADE.load(Ordering::SeqCst);
        while MADE.load(Ordering::SeqCst) < before + 2 {
            thread::yield_now();
        }
        section::grant(base, &of(thread.number(), Rights::empty())).map_err(doing("take away"))?;
        store(base, 0x5ec7);
    }
    OVER.store(1, Ordering::SeqCst);
    thread.join().map_err(doing("join"))?;
    same!(SEEN.load(Ordering::SeqCst), 0, "clones with what was written after the right was gone");
    Ok(())
}
