//! Who was passed addresses in a section, with calls by other bindings than the one that it is lent by, if it is. A method that waits goes on with the addresses that it was told; if the section is gone by
//! then, nobody else is at them until the call is over (decision 13; pitfalls, H10).

use super::{Section, State};
use crate::gate::lent;
use crate::machine::{machine, spare_heap_beside, spare_heap_for};
use crate::sched::{self, Timeout};
use crate::task::Task;
use crate::thread::{Inner, Thread};
use abi::Error;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use arch::time;
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};

/// Of one section, whose owner pays for them. Where more are under way at one time, it is not written down any more which.
const CALLS_MAX: usize = 64;
/// So many are in the first piece of their list, which is counted with the section (promise.rs): for these its owner has the room that he was promised.
const FIRST_CALLS: usize = 11;
/// Whenever so many were not written down it is looked for room again.
const LOOKS_EVERY: u64 = 64;

/// How often a call was not counted.
static UNCOUNTED: AtomicU64 = AtomicU64::new(0);

/// A thread, and how deep its call is.
type Place = (u64, usize);

/// The record of the last call at a place: one before it is over. Whoever is there again is taken for the same.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Call {
    record: u64,
    /// Noted so many notes after the first one.
    stamp: u64,
}

#[derive(Default)]
pub struct Passers {
    calls: BTreeMap<Place, Call>,
    notes: u64,
    /// There were too many: it may be any call as well whose thread knows that it was not counted ([`Inner::uncounted`]).
    is_any: bool,
    /// How many were not since it was last looked for room.
    skipped: u64,
    /// The section has ended: none of those that were not counted since has anything to do with it.
    ended: Option<u64>,
    looks: u32,
}

/// Addresses in the section are passed with this call; the thread may know already that it is `uncounted`. Call with the section's lock, which says that they
/// may be.
///
/// # Errors
/// `Busy`: [`make_room`], without the lock. `NoMemory`.
pub fn note(state: &mut State, thread: &Thread, (depth, record): (usize, u64), uncounted: bool) -> Result<(), Error> {
    let Passers { calls, notes, is_any, .. } = &mut state.passers;
    *notes += 1;
    let (place, call) = ((thread.number, depth), Call { record, stamp: *notes });
    if let Some(last) = calls.get_mut(&place) {
        *last = call;
    } else if calls.len() >= CALLS_MAX || has_no_room(&state.owner, calls.len(), thread) {
        return if *is_any && uncounted { Ok(()) } else { Err(Error::Busy) };
    } else {
        calls.insert(place, call);
        if state.passers.beyond_first() > 0 {
            state.count_lists();
        }
    }
    Ok(())
}

/// (More than the first ones strangers may make, and nobody is to lose by that what he was promised.)
fn has_no_room(owner: &Task, calls: usize, thread: &Thread) -> bool {
    if calls < FIRST_CALLS { spare_heap_for(owner).is_err() } else { spare_heap_beside(&thread.task).is_err() }
}

/// Forgets the calls that are over; where there is none, this one is not counted, and its thread knows. Whether that is so. Call without locks.
///
/// # Errors
/// `NoMemory`.
pub fn make_room(section: &Section, thread: &Thread, (depth, record): (usize, u64)) -> Result<bool, Error> {
    let calls = {
        let state = &mut *section.state.lock();
        let passers = &mut state.passers;
        passers.skipped += 1;
        if passers.is_any && passers.skipped < LOOKS_EVERY {
            Vec::new()
        } else {
            passers.skipped = 0;
            // Nobody's answer of before is remembered: who passes addresses there once more has it noted once more.
            state.acl.changed();
            state.passers.all()
        }
    };
    if forget_over(section, &calls) < calls.len() {
        return Ok(false);
    }
    spare_heap_for(&thread.task)?;
    let uncounted = &mut thread.inner.lock().uncounted;
    uncounted.split_off(&(depth + 1));
    // Since the first time: what it was passed then it has still.
    if uncounted.get(&depth).is_none_or(|(last, _)| *last != record) {
        uncounted.insert(depth, (record, UNCOUNTED.fetch_add(1, Ordering::SeqCst)));
    }
    section.state.lock().passers.is_any = true;
    Ok(true)
}

impl Passers {
    /// So many are charged by themselves.
    pub fn beyond_first(&self) -> usize {
        self.calls.len().saturating_sub(FIRST_CALLS)
    }

    fn all(&self) -> Vec<(Place, Call)> {
        self.calls.iter().map(|(place, call)| (*place, *call)).collect()
    }
}

/// Those of the calls that are over are none of the section's any more, unless they were noted again. How many are not.
fn forget_over(section: &Section, calls: &[(Place, Call)]) -> usize {
    let mut under_way = 0;
    sched::in_stretches(calls, |(place, call)| {
        if is_under_way(*place, call.record) {
            under_way += 1;
            return;
        }
        let state = &mut *section.state.lock();
        let is_charged = state.passers.beyond_first() > 0;
        let calls = &mut state.passers.calls;
        if calls.get(place) == Some(call) {
            calls.remove(place);
            if is_charged {
                state.count_lists();
            }
        }
    });
    under_way
}

fn is_under_way((thread, depth): Place, record: u64) -> bool {
    machine().threads.find(thread).is_some_and(|thread| thread.inner.lock().is_in_call(depth, record))
}

impl Inner {
    fn is_in_call(&self, depth: usize, record: u64) -> bool {
        self.depth() >= depth && self.gate.frame(depth).record == record
    }
}

/// The section is empty, and nobody finds it. Its addresses are free, or will be when none of those calls is under way any more. Its owner pays for them so long.
/// Call without locks.
pub fn let_go(section: &Section, owner: &Arc<Task>) {
    let (calls, ended) = {
        let passers = &mut section.state.lock().passers;
        let ended = passers.is_any.then(|| *passers.ended.get_or_insert_with(|| UNCOUNTED.load(Ordering::SeqCst)));
        (passers.all(), ended)
    };
    let is_needed = forget_over(section, &calls) > 0 || ended.is_some_and(is_any_uncounted);
    match is_needed.then(|| machine().sections.find(section.base)).flatten() {
        Some(section) => {
            let looks = {
                let looks = &mut section.state.lock().passers.looks;
                *looks = looks.saturating_add(1);
                *looks - 1
            };
            sched::at(time::now() + lent::look_in(looks), Timeout::Passed(section));
        }
        None => section.let_go(owner),
    }
}

/// Whether a call is under way that was not counted before then. It may have been passed anything that could not count it.
fn is_any_uncounted(before: u64) -> bool {
    let any = Cell::new(false);
    let threads = machine().threads.all().into_iter().take_while(|_| !any.get());
    sched::in_stretches(threads, |thread| {
        let inner = thread.inner.lock();
        any.set(inner.uncounted.iter().any(|(depth, (record, stamp))| *stamp < before && inner.is_in_call(*depth, *record)));
    });
    any.get()
}
