//! Addresses and numbers that are given out again: nobody who knew the one before takes the next one for it.

use crate::memory::data;
use crate::peer::{Peer, op, six};
use crate::report::{Check, Outcome, doing};
use crate::sched::leak;
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::Error;
use musubi::abi::layout::{COMMON_LEN, GRANULE, PAGE, RESERVE_MAX, SLICE_LEN};
use musubi::abi::section::kind;
use musubi::rt::section::{self, Section};
use musubi::rt::{Bound, Mutex, thread};

pub const CHECKS: &[Check] = &[
    ("who_binds_anew_calls_whom_it_has_bound", binds_anew),
    ("nobody_comes_to_lie_where_a_clones_original_was", original),
    ("an_address_that_is_taken_stays_its_owners", taken),
];

/// A thread calls by a binding that another one ends, and binds to somebody else in that moment: with the same number, for it is free.
fn binds_anew() -> Outcome {
    const ROUNDS: u64 = 3000;
    let peers: &'static [Peer; 2] = leak([Peer::start()?, Peer::start()?]);
    // The binding that is called by, and how often that was done.
    let (shared, called) = (leak(Mutex::new(None::<Arc<Bound>>)), leak(AtomicU64::new(0)));
    let who = |bound: &Bound| bound.call(0, six(op::WHO, &[])).map(|values| values[1]);
    let caller = move || {
        for round in 1..=ROUNDS {
            let first = loop {
                if let Some(bound) = shared.lock().take() {
                    break bound;
                }
                thread::yield_now();
            };
            let answer = who(&first);
            drop(first);
            called.store(round, Ordering::SeqCst);
            // At each moment of the other's end of it.
            (0..round % 64 * 8).for_each(|_| core::hint::spin_loop());
            let Ok(second) = Bound::bind(peers[1].gate, 0) else { thread::exit(round) };
            let other = who(&second);
            if answer != Ok(peers[0].text) || other != Ok(peers[1].text) || second.unbind().is_err() {
                thread::exit(round);
            }
        }
        thread::exit(0)
    };
    let caller = thread::spawn(caller, 0).map_err(doing("thread"))?;
    for round in 1..=ROUNDS {
        let bound = Arc::new(Bound::bind(peers[0].gate, PAGE).map_err(doing("bind"))?);
        *shared.lock() = Some(bound.clone());
        while called.load(Ordering::SeqCst) < round {
            // (It may be done, and over, since.)
            if thread::info(caller.number()).is_none() && called.load(Ordering::SeqCst) < round {
                return Err(format!("in round {:?} somebody else was called", caller.join()));
            }
            thread::yield_now();
        }
        let bound = Arc::into_inner(bound).ok_or("somebody still has the binding")?;
        bound.unbind().map_err(doing("unbind"))?;
    }
    same!(caller.join(), Ok(0), "the round in which somebody else was called");
    Ok(())
}

/// Lists name clones by the address of what they are clones of: as long as there is one, that address is nobody else's, however often
/// addresses are given out meanwhile.
fn original() -> Outcome {
    let text = data(PAGE).map_err(doing("create"))?.seal().map_err(doing("seal"))?;
    let clone = Section::clone_of(text, 0, 0, 0).map_err(doing("clone"))?;
    section::delete(text).map_err(doing("delete"))?;
    holds!(!is_given_out(text)?, "another section lay at {text:#x}");
    clone.delete().map_err(doing("delete"))?;
    holds!(is_given_out(text)?, "{text:#x} was not given out again");
    Ok(())
}

/// Has all addresses of the slice given out once, from where that goes on to the one that was last. Whether this one was.
pub fn is_given_out(at: u64) -> Result<bool, String> {
    begin_anew(at)?;
    loop {
        let base = given(GRANULE)?;
        if base >= at {
            return Ok(base == at);
        }
    }
}

fn given(len: u64) -> Result<u64, String> {
    let section = Section::create(PAGE, len, kind::DATA, 0).map_err(doing("create"))?;
    let base = section.base();
    section.delete().map_err(doing("delete"))?;
    Ok(base)
}

/// Has all addresses given out that are left to persons in the slice in which `at` is: the next ones are the lowest that are free.
pub fn begin_anew(at: u64) -> Result<(), String> {
    const GIB: u64 = 1 << 30;
    let end = at / SLICE_LEN * SLICE_LEN + COMMON_LEN;
    let mut from = given(GRANULE)? + GRANULE;
    while from < end {
        // From a GiB on at multiples of a GiB.
        let whole = (end - from.next_multiple_of(GIB).min(end)).min(RESERVE_MAX) / GIB * GIB;
        let len = if whole > 0 { whole } else { (end - from).min(GIB - GRANULE) };
        from = given(len)? + len;
    }
    Ok(())
}

/// Who asks for an address where he has something already is refused, and that is still his: it ends with him.
fn taken() -> Outcome {
    let room = Section::create_at(PAGE, GRANULE, kind::DATA, 0, 0, 2 * GRANULE).map_err(doing("create"))?;
    let at = room.base() + GRANULE;
    let beside = Section::create_at(PAGE, GRANULE, kind::DATA, 0, at, 0).map_err(doing("create beside"))?;
    let again = Section::create_at(PAGE, GRANULE, kind::DATA, 0, at, 0).map(|section| section.base());
    holds!(matches!(again, Err(Error::Exists | Error::BadAddress)), "the same address again: {again:?}");
    // What is not its program's any more would be no place to have another one beside.
    let third =
        Section::create_at(PAGE, GRANULE, kind::DATA, 0, at + GRANULE, 0).map_err(doing("create beside that"))?;
    for section in [third, beside, room] {
        section.delete().map_err(doing("delete"))?;
    }
    Ok(())
}
