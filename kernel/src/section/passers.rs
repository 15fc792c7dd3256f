//! Who was passed addresses in a section, with calls by other bindings than the one that it is lent by, if it is. A method that waits goes on with the addresses that it was told; if the section is gone by
//! then, nobody else is at them until the call is over (decision 13; pitfalls, H10).

use super::Section;
use crate::gate::lent;
use crate::machine::machine;
use crate::sched::{self, Timeout};
use crate::task::Task;
use crate::thread::Thread;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use arch::time;
use core::cell::Cell;

/// Of one section. Calls of more threads that live, so deep, are refused what lies there.
const PASSERS_MAX: usize = 1024;
/// How many of the others are looked at whenever one more comes: who has ended is forgotten.
const LOOKED_AT: usize = 4;

/// A thread, and how deep its call is.
type Place = (u64, usize);

#[derive(Default)]
pub struct Passers {
    /// The record of the last call at each place: one before it is over. Whoever is there again is taken for the same.
    calls: BTreeMap<Place, u64>,
    looked_at: Place,
    looks: u32,
}

impl Passers {
    /// Addresses are passed with this call. Whether there is room. Call with the section's lock, which says that they may be.
    pub fn note(&mut self, thread: &Thread, depth: usize, record: u64) -> bool {
        let place = (thread.number, depth);
        if let Some(last) = self.calls.get_mut(&place) {
            *last = record;
            return true;
        }
        self.look_at_others();
        let has_room = self.calls.len() < PASSERS_MAX;
        if has_room {
            self.calls.insert(place, record);
        }
        has_room
    }

    fn look_at_others(&mut self) {
        let next: Vec<Place> = self.calls.range(self.looked_at..).take(LOOKED_AT + 1).map(|call| *call.0).collect();
        for place in next.iter().take(LOOKED_AT) {
            if machine().threads.find(place.0).is_none() {
                self.calls.remove(place);
            }
        }
        self.looked_at = next.get(LOOKED_AT).copied().unwrap_or_default();
    }
}

/// The section is empty, and nobody finds it. Its addresses are free, or will be when none of those calls is under way any more. Its owner pays for them so long.
/// Call without locks.
pub fn let_go(section: &Section, owner: &Arc<Task>) {
    let calls: Vec<(Place, u64)> = section.state.lock().passers.calls.iter().map(|(place, record)| (*place, *record)).collect();
    let is_any = Cell::new(false);
    sched::in_stretches(calls.into_iter().take_while(|_| !is_any.get()), |((thread, depth), record)| {
        let under_way = machine().threads.find(thread).is_some_and(|thread| {
            let inner = thread.inner.lock();
            inner.depth() >= depth && inner.gate.frame(depth).record == record
        });
        is_any.set(under_way);
    });
    let still_there = is_any.get().then(|| machine().sections.find(section.base)).flatten();
    match still_there {
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
