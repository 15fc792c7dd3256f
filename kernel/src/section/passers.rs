//! Who was passed addresses in a section, with calls by other bindings than the one that it is lent by, if it is. A method that waits goes on with the addresses that it was told; if the section is gone by
//! then, nobody else is at them until the call is over (decision 13; pitfalls, H10).

use super::Section;
use crate::gate::lent;
use crate::machine::machine;
use crate::sched::{self, Timeout};
use crate::task::Task;
use crate::thread::Thread;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use arch::time;
use core::cell::Cell;

/// Of one section. Calls of more threads that live are refused what lies there.
const PASSERS_MAX: usize = 1024;

/// A call: of this thread, so deep, by this record. Whoever is there again is taken for the same.
type Passer = (u64, usize, u64);

#[derive(Default)]
pub struct Passers {
    calls: BTreeSet<Passer>,
    looks: u32,
}

impl Passers {
    /// Addresses are passed with this call. Whether there is room. Call with the section's lock, which says that they may be.
    pub fn note(&mut self, thread: &Thread, depth: usize, record: u64) -> bool {
        let call = (thread.number, depth, record);
        if self.calls.contains(&call) {
            return true;
        }
        if self.calls.len() >= PASSERS_MAX {
            self.calls.retain(|(thread, ..)| machine().threads.find(*thread).is_some());
        }
        self.calls.len() < PASSERS_MAX && self.calls.insert(call)
    }
}

/// The section is empty, and nobody finds it. Its addresses are free, or will be when none of those calls is under way any more. Its owner pays for them so long.
/// Call without locks.
pub fn let_go(section: &Section, owner: &Arc<Task>) {
    let calls: Vec<Passer> = section.state.lock().passers.calls.iter().copied().collect();
    let is_any = Cell::new(false);
    sched::in_stretches(calls.into_iter().take_while(|_| !is_any.get()), |(thread, depth, record)| {
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
