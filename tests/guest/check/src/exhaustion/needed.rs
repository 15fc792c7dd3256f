//! What comes to objects that are there, where the kernel's heap has nothing left for it (docs/decisions/0020): whoever needs it is told, with the error of
//! what was tried; the machine stays up, and when there is some again it is had. The kernel was told to refuse this to persons' programs as early as
//! new objects (`needed=`): they cannot come so far otherwise.

use crate::memory::data;
use crate::pagers::{self, Does};
use crate::peer::{Peer, op};
use crate::report::{Outcome, doing};
use crate::two_users::memory::room;
use crate::{holds, same};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use musubi::Error;
use musubi::abi::calls::stub;
use musubi::abi::layout::PAGE;
use musubi::rt::section::invalidate;
use musubi::rt::{Section, Trap, fault, sync, thread, time};

const ROUNDS: usize = 2;
/// Longer than this nothing takes.
const PATIENCE_NS: u64 = 60_000_000_000;

/// How many calls the other thread is to have made, how many it has, and what the last one said.
static WANTED: AtomicU32 = AtomicU32::new(0);
static MADE: AtomicU32 = AtomicU32::new(0);
static TOLD: AtomicU64 = AtomicU64::new(0);

/// A thread that calls another program when it is told to; for the first time alone, and then each two times.
fn caller() -> Result<(thread::Thread, Vec<Arc<Peer>>), String> {
    let peers: Result<Vec<_>, String> = (0..=ROUNDS).map(|_| Peer::start().map(Arc::new)).collect();
    let peers = peers?;
    let called = peers.clone();
    [&WANTED, &MADE].into_iter().for_each(|count| count.store(0, Ordering::SeqCst));
    let body = move || {
        for n in 0..=2 * ROUNDS as u32 {
            while WANTED.load(Ordering::SeqCst) <= n {
                let _ = sync::wait(&WANTED, n, u64::MAX);
            }
            let said = called[n.div_ceil(2) as usize].call(op::ADD, &[1]);
            TOLD.store(said.err().map_or(0, Error::word), Ordering::SeqCst);
            MADE.store(n + 1, Ordering::SeqCst);
        }
    };
    Ok((thread::spawn(body, 0).map_err(doing("thread"))?, peers))
}

/// What the next call says. Nothing here takes memory that was not touched before.
fn next_call() -> u64 {
    let n = WANTED.fetch_add(1, Ordering::SeqCst) + 1;
    sync::wake(&WANTED, 1);
    let until = time::now_ns() + PATIENCE_NS;
    while MADE.load(Ordering::SeqCst) < n && time::now_ns() < until {
        thread::yield_now();
    }
    if MADE.load(Ordering::SeqCst) == n { TOLD.load(Ordering::SeqCst) } else { u64::MAX }
}

/// Why a word cannot be loaded.
fn refusal(address: u64) -> Option<Error> {
    // SAFETY: a section of the check's own; if it cannot be read that is an error, not undefined.
    let bytes = unsafe { core::slice::from_raw_parts(address as *const u8, 8) };
    fault::copy_in(bytes).err()
}

pub fn needs() -> Outcome {
    let mut sections = room();
    // A page is there, and mapped nowhere.
    let there = || {
        let section = data(PAGE)?;
        stub::identity(&Trap, section.base()).map(|_| section)
    };
    let untouched: Result<Vec<_>, Error> = (0..ROUNDS).map(|_| there()).collect();
    let untouched = untouched.map_err(doing("sections"))?;
    // One pager was asked before, and may be by the short way. The others need room.
    let (asked, first) = pagers::paged(1, Does::Validate, 0)?;
    let others: Result<Vec<_>, String> = (0..ROUNDS).map(|_| pagers::paged(1, Does::Validate, 0)).collect();
    let others = others?;
    for section in others.iter().map(|(section, _)| section).chain([&asked]) {
        invalidate(section.base(), PAGE).map_err(doing("invalidate"))?;
    }
    same!((pagers::read(asked.base()), first.calls()), (Some(1), 1), "a pager that is asked beforehand");
    let (caller, peers) = caller()?;
    same!(next_call(), 0, "a call beforehand");
    // A fault is dealt with as those to come.
    let gone = data(PAGE).map_err(doing("a section"))?;
    let nowhere = gone.base();
    gone.delete().map_err(doing("delete"))?;
    same!(refusal(nowhere), Some(Error::BadAddress), "an access to nothing");
    for round in 0..ROUNDS {
        let why = fill(&mut sections);
        let count = sections.len();
        let (other, own) = &others[round];
        let found = (refusal(untouched[round].base()), next_call(), pagers::read(other.base()), own.calls());
        // First what was taken goes back: what is said about it needs room.
        sections.drain(..).try_for_each(Section::delete).map_err(doing("giving back"))?;
        same!(why, Some(Error::NoMemory), "the refusal of sections after {count}");
        holds!(count > 64, "only {count} sections");
        let wanted = (Some(Error::NoMemory), Error::NoMemory.word(), None, 0);
        same!(
            found,
            wanted,
            "a page to be mapped, a call, a page that its pager has, and what that was asked, round {round}"
        );
        same!(refusal(untouched[round].base()), None, "the page afterwards");
        same!(next_call(), 0, "the call afterwards");
        same!((pagers::read(other.base()), own.calls()), (Some(1), 1), "the pager's page afterwards");
    }
    caller.join().map_err(doing("join"))?;
    for peer in peers {
        Arc::into_inner(peer).ok_or("somebody else has it")?.end()?;
    }
    let paged = others.into_iter().map(|(section, _)| section).chain([asked]);
    untouched.into_iter().chain(paged).try_for_each(Section::delete).map_err(doing("delete"))
}

/// Sections until there are no more, and why.
fn fill(sections: &mut Vec<Section>) -> Option<Error> {
    while sections.len() < sections.capacity() {
        match data(PAGE) {
            Ok(section) => sections.push(section),
            Err(error) => return Some(error),
        }
    }
    None
}
