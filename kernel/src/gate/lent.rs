//! Argument sections of programs that are called themselves: lent on to what they call, on threads of whoever called them, and taken
//! back when no such call is under way any more (decision 13; pitfalls, H10).

use super::{Binding, lent};
use crate::domain::Domain;
use crate::machine::machine;
use crate::processor::{self, Scope};
use crate::sched::{self, Timeout};
use crate::section::Section;
use crate::thread::{Inner, Thread};
use abi::rights::principal;
use abi::{AclEntry, Error};
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::sync::Arc;
use alloc::vec::Vec;
use arch::gate::{binding_of, is_loose, records};
use arch::time;
use core::sync::atomic::{AtomicBool, Ordering};
use spin::Mutex;

/// How long after a call by a task an argument section may stay lent to it, ns. The next call then goes by the kernel once more.
const LENT_NS: u64 = 250_000_000;

/// What is to be looked at: by whoever is about to leave the kernel, or idles, and holds no lock. A task may have many threads, and interrupts are
/// let in between them.
static DUE: Mutex<Vec<(Arc<Binding>, u64)>> = Mutex::new(Vec::new());
static IS_ANY_DUE: AtomicBool = AtomicBool::new(false);

/// Tasks that a binding has lent to besides its own.
#[derive(Default)]
pub struct Tasks(Mutex<BTreeMap<u64, Lent>>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lent {
    Lent,
    /// Somebody is about to make the entry, or to take it back if no call is under way. Nobody begins one meanwhile.
    Changing,
    /// It was taken back before its time. That will be looked at as well, and the next one need not have a time of its own.
    Back,
}

impl Binding {
    /// Lends the argument section to the callee while a thread of this caller's task executes it. Those of the task that has bound need no
    /// more. Errors: `TooBig`: as many tasks are there as a list has room for. `Dead`: the callee is gone. `Changed`: it is just being taken
    /// back; the call is to be made once more.
    pub fn lend(self: &Arc<Binding>, caller: &Domain) -> Result<(), Error> {
        let (Some(args), task) = (&self.args, caller.subject.task) else { return Ok(()) };
        if task == self.task {
            return Ok(());
        }
        let is_new = match self.lent.0.lock().entry(task) {
            Entry::Occupied(mut known) => match *known.get() {
                Lent::Lent => return Ok(()),
                Lent::Changing => return Err(Error::Changed),
                Lent::Back => {
                    known.insert(Lent::Changing);
                    false
                }
            },
            Entry::Vacant(place) => {
                place.insert(Lent::Changing);
                true
            }
        };
        let made = self.make_entry(args, task);
        {
            let tasks = &mut *self.lent.0.lock();
            match made {
                Ok(()) => tasks.insert(task, Lent::Lent),
                Err(_) if is_new => tasks.remove(&task),
                Err(_) => tasks.insert(task, Lent::Back),
            };
        }
        if is_new && made.is_ok() {
            sched::at(time::now() + LENT_NS, Timeout::Lent(Arc::downgrade(self), task));
        }
        made
    }

    fn make_entry(&self, args: &Section, task: u64) -> Result<(), Error> {
        // An entry for a text that is gone would be for whatever comes to lie there.
        if self.target.is_dead() {
            return Err(Error::Dead);
        }
        let entry = lent(principal::TASK, task, &self.target);
        args.set_entry(&entry)?;
        if self.target.is_dead() {
            // It may have gone before its name was in a list.
            args.set_entry(&AclEntry { rights: 0, ..entry })?;
            return Err(Error::Dead);
        }
        Ok(())
    }

    /// Whether calls of this caller may be made without asking: what is lent for them is.
    pub fn is_lent(&self, caller: &Domain) -> bool {
        let task = caller.subject.task;
        self.args.is_none() || task == self.task || self.lent.0.lock().get(&task) == Some(&Lent::Lent)
    }

    /// Some time ago it was lent to this task. In an interrupt: it is looked at soon.
    pub fn is_due(self: Arc<Binding>, task: u64) {
        DUE.lock().push((self, task));
        IS_ANY_DUE.store(true, Ordering::SeqCst);
    }

    fn look_at(self: &Arc<Binding>, task: u64) {
        if self.take_back(task) {
            let tasks = &mut *self.lent.0.lock();
            if tasks.get(&task).is_none_or(|state| *state == Lent::Back) {
                tasks.remove(&task);
                return;
            }
        }
        sched::at(time::now() + LENT_NS, Timeout::Lent(Arc::downgrade(self), task));
    }

    /// Takes back what is lent to this task, if none of its threads is in a call by this binding. Whether nothing is lent to it. Call
    /// without locks.
    pub fn take_back(&self, task: u64) -> bool {
        let Some(args) = &self.args else { return true };
        let state = self.lent.0.lock().get(&task).copied();
        if state != Some(Lent::Lent) {
            return state != Some(Lent::Changing);
        }
        if self.is_any_under_way(task) {
            return false;
        }
        match self.lent.0.lock().get_mut(&task) {
            Some(state @ Lent::Lent) => *state = Lent::Changing,
            Some(Lent::Changing) => return false,
            Some(Lent::Back) | None => return true,
        }
        // First nobody can begin a call any more: not by a record that was checked before, nor one who is between two programs.
        sched::in_stretches(threads_of(task), |thread| {
            let inner = &mut *thread.inner.lock();
            if let Some(record) = self.record(inner) {
                inner.gate.clear_record(record);
            }
        });
        processor::make_forget(u64::MAX, Scope::All);
        if self.is_any_under_way(task) {
            self.lent.0.lock().insert(task, Lent::Lent);
            return false;
        }
        // It may have ended, and its argument section with it: then there is no list.
        let _ = args.set_entry(&AclEntry { rights: 0, ..lent(principal::TASK, task, &self.target) });
        self.lent.0.lock().insert(task, Lent::Back);
        true
    }

    /// Whether a thread of this task is in a call by this binding.
    fn is_any_under_way(&self, task: u64) -> bool {
        let mut any = false;
        sched::in_stretches(threads_of(task), |thread| any = any || self.is_under_way(&thread.inner.lock()));
        any
    }

    /// The record by which a thread calls by this binding, if it has been in the text that has bound.
    fn record(&self, inner: &Inner) -> Option<u64> {
        inner.numbers.get(&self.text).map(|number| records(*number) + abi::gate::slot(self.number))
    }

    fn is_under_way(&self, inner: &Inner) -> bool {
        self.record(inner).is_some_and(|record| inner.gate.is_in_use(record))
    }
}

/// Looks at what is due. Call without locks.
#[inline]
pub fn look() {
    if IS_ANY_DUE.load(Ordering::Relaxed) {
        look_at_all();
    }
}

#[cold]
fn look_at_all() {
    IS_ANY_DUE.store(false, Ordering::SeqCst);
    loop {
        let due = DUE.lock().pop();
        let Some((binding, task)) = due else { return };
        binding.look_at(task);
    }
}

fn threads_of(task: u64) -> Vec<Arc<Thread>> {
    machine().tasks.find(task).map(|task| task.threads.lock().values().cloned().collect()).unwrap_or_default()
}

impl Inner {
    /// The binding of the present domain that a call went by whose frame had this record; plain calls have none.
    pub fn binding_by(&self, record: u64) -> Option<Arc<Binding>> {
        if is_loose(record) {
            return None;
        }
        self.domain.text.bindings.lock().get(binding_of(record) as usize).cloned().flatten()
    }
}
