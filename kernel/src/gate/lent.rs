//! Argument sections of programs that are called themselves: lent on to what they call, on threads of whoever called them, and taken
//! back when no such call is under way any more (decision 13; pitfalls, H10).

use super::{Binding, lent};
use crate::domain::Domain;
use crate::machine::machine;
use crate::processor::{self, Scope};
use crate::sched::{self, Timeout};
use crate::section::{Section, passers};
use crate::thread::{Inner, Thread};
use crate::wait;
use abi::rights::principal;
use abi::{AclEntry, Error};
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use arch::gate::{binding_of, domain_of, is_loose, records};
use arch::time;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};
use spin::Mutex;

/// How long after a call by a task an argument section may stay lent to it, ns. The next call then goes by the kernel once more.
const LENT_NS: u64 = 250_000_000;
/// Whether the addresses of a binding that has ended are of use to anybody is asked again after so long, ns, and then each time after four
/// times as long, up to a second.
const LOOK_NS: u64 = 1_000_000;
const LOOKS_MAX: u32 = 5;
/// Bindings that are looked at before a processor goes on with something else.
const AT_ONCE: usize = 8;

/// What is to be looked at: by whoever is about to leave the kernel, or idles, and holds no lock. A task may have many threads, and interrupts are
/// let in between them.
static DUE: Mutex<Vec<Due>> = Mutex::new(Vec::new());
static IS_ANY_DUE: AtomicBool = AtomicBool::new(false);

/// What is looked at.
enum Due {
    /// Whether this task still needs what is lent to it.
    Task(Arc<Binding>, u64),
    /// Whether the addresses of the argument section, which has gone, are of use to nobody any more.
    Addresses(Arc<Binding>),
    /// Likewise of another one.
    Passed(Arc<Section>),
}

/// Tasks that a binding has lent to: its own from the beginning, others for a while.
#[derive(Default)]
pub struct Tasks {
    all: Mutex<BTreeMap<u64, Lent>>,
    /// It is looked at whether its own needs it: a call has gone wrong while another one was under way.
    is_own_due: AtomicBool,
}

impl Tasks {
    /// It is lent to this one, whose own it is.
    pub fn of(task: u64) -> Tasks {
        Tasks { all: Mutex::new(BTreeMap::from([(task, Lent::Lent)])), is_own_due: AtomicBool::new(false) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lent {
    Lent,
    /// Somebody is about to make the entry, or to take it back if no call is under way. Nobody begins one meanwhile.
    Changing,
    /// It was taken back before its time. That will be looked at as well, and the next one need not have a time of its own.
    Back,
}

impl Binding {
    /// Lends the argument section to the callee while a thread of this caller's task executes it. Errors: `TooBig`: as many tasks are there as a list has room for. `Dead`: the callee is gone. `Changed`: it is just being taken
    /// back; the call is to be made once more.
    pub fn lend(self: &Arc<Binding>, caller: &Domain) -> Result<(), Error> {
        let (Some(args), task) = (&self.args, caller.subject.task) else { return Ok(()) };
        let is_new = match self.lent.all.lock().entry(task) {
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
            let tasks = &mut *self.lent.all.lock();
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
        self.args.is_none() || self.lent.all.lock().get(&caller.subject.task) == Some(&Lent::Lent)
    }

    /// Some time ago it was lent to this task. In an interrupt: it is looked at soon.
    pub fn is_due(self: Arc<Binding>, task: u64) {
        is_to_be_looked_at(Due::Task(self, task));
    }

    /// Some time ago it ended while a call was under way. In an interrupt.
    pub fn is_over_perhaps(self: Arc<Binding>) {
        is_to_be_looked_at(Due::Addresses(self));
    }

    /// It has ended, and its argument section is empty. A method that was called before, or asked by message, may wait, and write to these
    /// addresses by what it was told when it goes on: they are nobody else's, nor its number, until no such call is under way and no thread of
    /// the called program's holds them. Their owner pays for them. Call without locks.
    pub fn let_go(self: Arc<Binding>) {
        let Some(args) = &self.args else { return };
        // One that was taken back has nobody in a call, nor can begin one.
        let lent = self.lent.all.lock().iter().filter(|(_, state)| **state != Lent::Back).map(|(task, _)| *task).collect::<Vec<_>>();
        // Whoever ends it may still be about to clear its records.
        let begins = !self.over.load(Ordering::SeqCst);
        // Nobody executes a text of whose end all have heard.
        let is_held = args.state.lock().holders > 0 && !(self.target.is_dead() && self.target.is_over());
        if begins || is_held || lent.into_iter().any(|task| self.is_any_under_way(task)) {
            let looks = self.looks.fetch_add(1, Ordering::Relaxed);
            if is_held && looks == 0 {
                self.wake_holders(args);
            }
            sched::at(time::now() + look_in(looks), Timeout::Addresses(self));
            return;
        }
        // It may have been passed with other calls, too.
        passers::let_go(args, &args.owner());
        self.leave();
    }

    /// A call on a thread of this task has gone wrong: its callee keeps nothing that was lent to it, as soon as no other one is under way.
    pub fn has_gone_wrong(self: &Arc<Binding>, task: u64) {
        // Of other tasks than its own that is looked at anyway.
        if !self.take_back(task) && task == self.task && !self.lent.is_own_due.swap(true, Ordering::SeqCst) {
            sched::at(time::now() + LENT_NS, Timeout::Lent(Arc::downgrade(self), task));
        }
    }

    fn look_at(self: &Arc<Binding>, task: u64) {
        let is_own = task == self.task;
        if is_own {
            self.lent.is_own_due.store(false, Ordering::SeqCst);
        }
        if self.take_back(task) {
            if is_own {
                return;
            }
            let tasks = &mut *self.lent.all.lock();
            if tasks.get(&task).is_none_or(|state| *state == Lent::Back) {
                tasks.remove(&task);
                return;
            }
        }
        if !(is_own && self.lent.is_own_due.swap(true, Ordering::SeqCst)) {
            sched::at(time::now() + LENT_NS, Timeout::Lent(Arc::downgrade(self), task));
        }
    }

    /// Takes back what is lent to this task, if none of its threads is in a call by this binding. Whether nothing is lent to it. Call
    /// without locks.
    fn take_back(&self, task: u64) -> bool {
        let Some(args) = &self.args else { return true };
        let state = self.lent.all.lock().get(&task).copied();
        if state != Some(Lent::Lent) {
            return state != Some(Lent::Changing);
        }
        if self.is_any_under_way(task) {
            return false;
        }
        match self.lent.all.lock().get_mut(&task) {
            Some(state @ Lent::Lent) => *state = Lent::Changing,
            Some(Lent::Changing) => return false,
            Some(Lent::Back) | None => return true,
        }
        // First nobody can begin a call any more: not by a record that was checked before, nor one who is between two programs.
        with_threads_of(task, |thread| {
            let inner = &mut *thread.inner.lock();
            if let Some(record) = self.record(inner) {
                inner.gate.clear_record(record);
            }
            false
        });
        processor::make_forget(u64::MAX, Scope::All);
        if self.is_any_under_way(task) {
            self.lent.all.lock().insert(task, Lent::Lent);
            return false;
        }
        // It may have ended, and its argument section with it: then there is no list.
        let _ = args.set_entry(&AclEntry { rights: 0, ..lent(principal::TASK, task, &self.target) });
        self.lent.all.lock().insert(task, Lent::Back);
        true
    }

    /// Whether a thread of this task is in a call by this binding.
    fn is_any_under_way(&self, task: u64) -> bool {
        let mut any = false;
        with_threads_of(task, |thread| {
            any = self.is_under_way(&thread.inner.lock());
            any
        });
        any
    }

    /// Who sleeps until something comes to lie in the section would not hear that nothing can: a line is another program's to close.
    fn wake_holders(&self, args: &Section) {
        let mut holders = Vec::new();
        with_threads_of(self.target.owner().number, |thread| {
            let inner = thread.inner.lock();
            let domain = inner.numbers.get(&self.target.base).and_then(|number| inner.domain_number(*number).ok());
            let holds = domain.is_some_and(|domain| domain.held.lock().as_ref().is_some_and(|held| core::ptr::eq(held.as_ptr(), args)));
            drop(inner);
            if holds {
                holders.push(thread);
            }
            false
        });
        holders.iter().for_each(|thread| _ = wait::rouse(thread));
    }

    fn is_under_way(&self, inner: &Inner) -> bool {
        let is_by_this = |record| {
            let is_perhaps = binding_of(record) == self.number && !is_loose(record);
            is_perhaps && inner.domain_number(domain_of(record)).is_ok_and(|domain| Arc::as_ptr(&domain.text) == self.from.as_ptr())
        };
        (1..=inner.gate.depth()).any(|depth| is_by_this(inner.gate.frame(depth).record))
    }

    /// The record by which a thread calls by this binding, if it has been in the text that has bound.
    fn record(&self, inner: &Inner) -> Option<u64> {
        inner.numbers.get(&self.text).map(|number| records(*number) + abi::gate::slot(self.number))
    }
}

/// `section_hold`: the text uses what was lent to it by address on this thread, until it uses another one, or none (`base` 0).
pub fn hold(domain: &Domain, base: u64, len: u64, owner: u64) -> Result<u64, Error> {
    let next = if base == 0 { Ok(None) } else { held(domain, base, len, owner).map(Some) };
    let answer = next.as_ref().map(|_| 0).map_err(|error| *error);
    replace(domain, next.unwrap_or(None));
    answer
}

/// It uses none any more.
pub fn hold_none(domain: &Domain) {
    replace(domain, None);
}

fn replace(domain: &Domain, next: Option<Weak<Section>>) {
    let before = core::mem::replace(&mut *domain.held.lock(), next);
    // It may have gone, with those who held it not asked: when their text ended.
    before.and_then(|section| section.upgrade()).iter().for_each(|section| section.state.lock().holders -= 1);
}

/// Only what was lent by binding to this very text: nobody looks whether anything else is held when it ends. And only on its own threads:
/// others are in a call, and have to be let go.
fn held(domain: &Domain, base: u64, len: u64, owner: u64) -> Result<Weak<Section>, Error> {
    let text = &domain.text;
    if domain.subject.task != text.owner().number {
        return Err(Error::Refused);
    }
    let section = Section::named(base)?;
    let is_lent = {
        let mut state = section.state.lock();
        let is_lent = state.lent_by.as_ref().is_some_and(|binding| Arc::ptr_eq(&binding.target, text));
        let is_lent = is_lent && !state.deleted && state.owner.number == owner && len <= section.reserve;
        state.holders += usize::from(is_lent);
        is_lent
    };
    if is_lent { Ok(Arc::downgrade(&section)) } else { Err(Error::NotFound) }
}

/// Some time ago a section ended while a call was under way with which its addresses were passed. In an interrupt.
pub fn passed_perhaps(section: Arc<Section>) {
    is_to_be_looked_at(Due::Passed(section));
}

fn is_to_be_looked_at(due: Due) {
    DUE.lock().push(due);
    IS_ANY_DUE.store(true, Ordering::SeqCst);
}

/// When it is looked at again, having been so often already, ns from now.
pub fn look_in(looks: u32) -> u64 {
    LOOK_NS << (2 * looks.min(LOOKS_MAX))
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
    // So many at a time: there is other work.
    let due: Vec<_> = {
        let all = &mut *DUE.lock();
        let first = all.len().min(AT_ONCE);
        let some = all.drain(..first).collect();
        IS_ANY_DUE.store(!all.is_empty(), Ordering::SeqCst);
        some
    };
    for due in due {
        match due {
            Due::Task(binding, task) => binding.look_at(task),
            Due::Addresses(binding) => binding.let_go(),
            Due::Passed(section) => passers::let_go(&section, &section.owner()),
        }
    }
}

/// Does so with each thread of a task, until it says that this is enough.
fn with_threads_of(task: u64, mut does: impl FnMut(Arc<Thread>) -> bool) {
    let Some(task) = machine().tasks.find(task) else { return };
    let is_enough = Cell::new(false);
    sched::in_stretches(task.each_thread().take_while(|_| !is_enough.get()), |thread| is_enough.set(does(thread)));
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
