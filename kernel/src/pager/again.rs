//! The short way to a pager and back (`arch/src/aside.S`): a fault like the one before, of the same thread in the same domain on the same
//! section, goes to the same pager by the same record. What was found then holds as long as nothing of it has changed, which everything here
//! counts; the rest is asked anew. Whatever is not as before goes the long way, and nothing was done. Nothing is waited for but locks
//! that are held for a moment.

use super::{Missed, Pager, Served};
use crate::aside::{self, Arrival};
use crate::domain::{Domain, Place};
use crate::epc::More;
use crate::machine::spare_heap_at_all_for;
use crate::processor::{Processor, count, here};
use crate::sched;
use crate::seat::NO_SEAT;
use crate::section::{Section, State};
use crate::task::Task;
use crate::thread::{Inner, Thread};
use crate::view;
use abi::gate::DEPTH_MAX;
use abi::layout::PAGE;
use abi::pager::{answer, flag, miss};
use abi::task::USER_SYSTEM;
use abi::Rights;
use ::pager::transit::Key;
use ::pager::who::Who;
use ::view::Access;
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use arch::context::{Area, Registers, Resume};
use arch::entry::page_fault::{FETCH, PRESENT, STORE, USER};
use arch::gate::{BY_KERNEL, is_gate};
use core::sync::atomic::Ordering;

/// A section whose pager was asked, and what its list said.
pub struct Seen {
    section: Weak<Section>,
    pager: Arc<Pager>,
    /// Its number, if it is the task's; otherwise 0.
    of_task: u64,
    base: u64,
    reserve: u64,
    domain: u32,
    /// What a pager is told is needed to load from there and to store there; 0: whoever misses pages may not.
    needed: [u64; 2],
    /// The pager may make pages valid.
    may_validate: bool,
    /// The record that leads to the pager, and the key register's value by it.
    record: u64,
    register: u32,
    /// Of the list, when it was asked.
    changes: u64,
}

/// Whom a thread has last asked, and, while that pager runs, what it was asked for.
pub struct Asked {
    seen: Seen,
    /// Other sections, where pages of the same program were asked for before that.
    before: [Option<Seen>; 2],
    /// The thread was in a call.
    in_call: bool,
    /// Where the thread is not, and what it runs there with: the pager's domain, or while that runs the one which it serves.
    other: Arc<Domain>,
    area: Area,
    /// The state of the thread's records when these led there.
    records: u64,
    away: Option<Away>,
}

/// A thread that has come to its pager by the short way.
struct Away {
    depth: usize,
    section: Arc<Section>,
    offset: u64,
    write: bool,
    /// The page that is in transit for this.
    key: Option<Key>,
    outer: u64,
    /// How it goes back: with which value of the key register, where it was seen there, and where the pager's stack was left.
    register: u32,
    seen: (usize, u64),
    left: u64,
}

impl Asked {
    /// Whether this call is the pager's, by the short way.
    pub fn serves(&self, depth: usize) -> bool {
        self.away.as_ref().is_some_and(|away| away.depth == depth)
    }

    /// What a thread has left that is in this call, if that is the pager's.
    pub fn left(&self, depth: usize) -> Option<&Registers> {
        self.serves(depth).then(|| self.area.registers())
    }

    /// The level of the pager that serves the thread now.
    pub fn level(&self) -> Option<u64> {
        self.away.as_ref().map(|_| self.seen.pager.level)
    }

    /// A section before this one is meant: now it is that one's turn. The offset there.
    #[cold]
    #[inline(never)]
    fn turns(&mut self, address: u64) -> Option<u64> {
        let meant = |one: &&mut Seen| address.wrapping_sub(one.base) < one.reserve;
        let before = self.before.iter_mut().flatten().find(meant).filter(|_| self.away.is_none())?;
        core::mem::swap(&mut self.seen, before);
        Some(address.wrapping_sub(self.seen.base))
    }

    /// How deep the call of the pager that serves the thread now is, and what was said as its time began.
    pub fn serving(&self) -> Option<(usize, u64)> {
        self.away.as_ref().map(|away| (away.depth, away.outer))
    }

    /// What the long way keeps of it; the thread has left the call.
    pub fn unfold(self) -> Option<Served> {
        let Asked { seen, area, away, .. } = self;
        let (who, pager) = (seen.who(), seen.pager);
        let Away { section, offset, write, key, outer, .. } = away?;
        let address = section.base + offset;
        let missed = Missed { section, offset, address, access: if write { Access::Write } else { Access::Read }, in_window: false, call: None };
        Some(Served { area, pager, missed, who, key, outer })
    }
}

impl Seen {
    fn who(&self) -> Who {
        if self.of_task != 0 { Who::Task } else { Who::Section }
    }

    /// What is to be remembered of an access by which a page was missed, if the section's list alone allows it.
    pub fn of(task: &Task, domain: &Domain, place: &Place, access: Access, state: &State) -> Option<Seen> {
        let rights = state.acl.rights(&domain.subject);
        let is_by_list = access != Access::Execute && rights.contains(access.needs());
        let section = &place.section;
        // (The fault's address is then that in the section.)
        let is_plain = is_by_list && place.window.is_none() && !domain.in_window && !domain.supervisor && !domain.is_secret();
        if !is_plain {
            return None;
        }
        let page = place.offset / PAGE;
        let is_tasks = state.misses(page) == Some(miss::INVALID) && state.is_of_task(task, page, false);
        let of_task = if is_tasks { task.pager.lock().clone() } else { None };
        let (of_task, pager) = match of_task {
            Some(pager) => (pager.number, pager),
            None => (0, state.paged.pager.clone()?),
        };
        Some(Seen {
            section: Arc::downgrade(section),
            pager,
            of_task,
            base: section.base,
            reserve: section.reserve,
            domain: domain.number,
            needed: [Access::Read, Access::Write].map(|access| if rights.contains(access.needs()) { access.right().bits().into() } else { 0 }),
            may_validate: false,
            record: 0,
            register: 0,
            changes: state.acl.changes(),
        })
    }
}


/// The thread has just entered a pager for this, unless it waits.
pub fn remember(thread: &Thread, mut seen: Seen) {
    let inner = &mut *thread.inner.lock();
    let depth = inner.depth();
    let Some((at, More::Served(served))) = inner.more.last() else { return };
    // A task's pager by this way only outside of calls, where nothing else is asked about it.
    let is_it = served.who == seen.who() && (served.who == Who::Section || depth == 1) && Arc::ptr_eq(&served.pager, &seen.pager) && served.missed.section.base == seen.base;
    if *at != depth || !is_it {
        return;
    }
    // Before it the page becomes valid only where that was asked, which it is by the long way.
    if seen.of_task != 0 && seen.pager.flags & flag::VALID_BEFORE != 0 && served.key.is_some() {
        return;
    }
    // One that runs is not forgotten. Where there is no room to remember it, all go by the long way.
    if inner.asked.as_ref().is_some_and(|asked| asked.away.is_some()) || spare_heap_at_all_for(&thread.task).is_err() {
        return;
    }
    let record = inner.gate.frame(depth).record;
    let Some((callee, register)) = inner.gate.lead(record) else { return };
    (seen.record, seen.register) = (record, register);
    let Ok(other) = inner.domain_number(callee) else { return };
    // (Who touches secrets later changes the records.)
    if other.supervisor || inner.domain.is_secret() || other.is_secret() {
        return;
    }
    seen.may_validate = {
        let state = served.missed.section.state.lock();
        state.acl.changes() == seen.changes && state.acl.rights(&other.subject).contains(Rights::CHANGE_ACL)
    };
    let records = inner.gate.changes();
    let (area, before) = match inner.asked.take() {
        None => (Area::spare(&mut inner.areas), [None, None]),
        Some(old) => {
            let is_same = old.records == records && old.seen.domain == seen.domain && Arc::ptr_eq(&old.other, &other);
            let Asked { seen: last, before: [one, two], area, .. } = *old;
            let mut others = [Some(last), one, two].into_iter().flatten().filter(|other| is_same && other.base != seen.base);
            (area, [others.next(), others.next()])
        }
    };
    inner.asked = Some(Box::new(Asked { seen, before, in_call: depth > 1, other, area, records, away: None }));
}

/// A page fault of the running thread, if it is like the one before. `None`: nothing was done.
#[inline(always)]
pub fn again(error: u64, address: u64) -> Option<Resume> {
    if error & (PRESENT | USER | FETCH) != USER {
        return None;
    }
    let here = here();
    let resume = {
        let local = here.local.hold();
        let thread = local.current.as_ref()?;
        let inner = &mut *thread.inner.lock();
        let mut asked = inner.asked.take()?;
        let resume = enter(thread, inner, &mut asked, address, error & STORE != 0);
        put_back(inner, asked);
        resume?
    };
    count(&here.counters.faults);
    // Somebody is to look whether it comes back, and the processor's alarm is to be set for that.
    if arch::percpu::must_attend_here() { Some(attends(here)) } else { Some(resume) }
}

#[cold]
#[inline(never)]
fn attends(here: &Processor) -> Resume {
    here.left_user();
    sched::leave()
}

#[inline(always)]
fn enter(thread: &Arc<Thread>, inner: &mut Inner, asked: &mut Asked, address: u64, write: bool) -> Option<Resume> {
    let rip = inner.area.as_saved().rip;
    if is_gate(rip) || rip & BY_KERNEL != 0 {
        return None;
    }
    inner.sync();
    let mut offset = address.wrapping_sub(asked.seen.base);
    if offset >= asked.seen.reserve {
        offset = asked.turns(address)?;
    }
    let (seen, caller, callee) = (&asked.seen, &*inner.domain, &*asked.other);
    let (pager, needed) = (&seen.pager, seen.needed[usize::from(write)]);
    let depth = inner.seen.0;
    let same = needed != 0
        && caller.number == seen.domain
        && depth < DEPTH_MAX
        && (depth > 0) == asked.in_call
        && asked.records == inner.gate.changes()
        && asked.away.is_none()
        && inner.more.is_empty()
        && inner.borrowed.is_empty()
        && thread.seat.load(Ordering::Relaxed) == NO_SEAT;
    if !same {
        return None;
    }
    let lives = !caller.text.is_dead() && !callee.text.is_dead() && callee.text.callers.generation() == pager.seen.load(Ordering::Relaxed);
    // (As the long way: nor does a thread of the system's wait for a stranger.)
    let must_know = asked.in_call || thread.task.user == USER_SYSTEM;
    if !lives || must_know && !super::is_known(&callee.text, caller, true) {
        return None;
    }
    // (Nobody's frames lie on another one's stack.)
    let left = if caller.number == callee.number { inner.area.as_saved().rsp } else { inner.gate.sp(callee.number) };
    let stack = aside::stack(callee, left).ok()?;
    let page = offset / PAGE;
    let section = seen.section.upgrade()?;
    let is_tasks = seen.of_task != 0;
    let (why, transit) = {
        let state = &mut *section.state.try_lock()?;
        // (That it is to go is a change, too.)
        let same = state.acl.changes() == seen.changes && offset < state.len && !state.must_wait(page, write);
        if !same || !is_tasks && !state.paged.pager.as_ref().is_some_and(|now| Arc::ptr_eq(now, pager)) {
            return None;
        }
        let why = state.misses(page)?;
        // The task's own pager comes first, for pages that the task has made invalid itself: mostly it has none.
        let is_first = why == miss::INVALID && (is_tasks || state.whose.is_any()) && state.is_of_task(&thread.task, page, false);
        let of_task = if is_first { thread.task.paged.load(Ordering::Relaxed) } else { 0 };
        if of_task != seen.of_task {
            return None;
        }
        if pager.flags & flag::VALID_BEFORE == 0 {
            let key = Key { page, of: if is_tasks { thread.task.number } else { 0 } };
            // (Where that is to be looked for it is done by the long way.)
            if !state.paged.transit.ask_if(key, arch::heap_is_plenty) {
                return None;
            }
            if !is_tasks {
                state.show_asked(super::ASKED);
            }
            (why, Some(key))
        } else {
            if why != miss::INVALID || state.pages.get(page).is_none() {
                return None;
            }
            validate(state, caller, seen.base, page);
            if !is_tasks {
                state.show_asked(super::ASKED);
            }
            (why, None)
        }
    };
    if is_tasks {
        thread.task.shows_asked(super::ASKED);
    }
    thread.has_faulted();
    let words = [section.base, offset, needed, why];
    let arrival = Arrival { depth, record: seen.record, entry: pager.block.entry, index: pager.index, left, stack };
    let (root, caller) = (callee.root(), caller.number);
    let outer = thread.served.begin();
    asked.away = Some(Away { depth: depth + 1, section, offset, write, key: transit, outer, register: inner.register, seen: inner.seen, left });
    let (other, at) = (&mut asked.other, (depth + 1, seen.record));
    let register = seen.register;
    aside::arrive(inner, caller, arrival, words, &mut asked.area, |inner| {
        core::mem::swap(&mut inner.domain, other);
        (inner.register, inner.seen) = (register, at);
    });
    Some(leave(thread, inner, root))
}

/// As `page_validate` of a page by the pager. Mostly the thread's own view is the only one that maps the section.
#[inline(always)]
fn validate(state: &mut State, domain: &Domain, base: u64, page: u64) {
    state.invalid.take(page, 1);
    if let [mapping] = &state.mapped[..]
        && let Some(view) = mapping.own(domain, base)
    {
        return view.show(base + page * PAGE, PAGE);
    }
    view::show(&mut state.mapped, page * PAGE, PAGE);
}

/// The running thread is back at the doorstep, if that is from a pager that has done it, or says what is to be done. `None`: nothing was done that
/// the long way does not do as well.
#[inline(always)]
pub fn back(status: u64, value: u64) -> Option<Resume> {
    if status != 0 || value > answer::VALID {
        return None;
    }
    let local = here().local.hold();
    let thread = local.current.as_ref()?;
    let inner = &mut *thread.inner.lock();
    let mut asked = inner.asked.take()?;
    let resume = come_back(thread, inner, &mut asked, value == answer::VALID);
    put_back(inner, asked);
    resume
}

/// Where it was taken from, and nothing is left to be dropped.
#[inline(always)]
fn put_back(inner: &mut Inner, asked: Box<Asked>) {
    core::mem::forget(inner.asked.replace(asked));
}

#[inline(always)]
fn come_back(thread: &Arc<Thread>, inner: &mut Inner, asked: &mut Asked, valid: bool) -> Option<Resume> {
    let (away, into) = (asked.away.as_ref()?, &*asked.other);
    let depth = away.depth;
    let same = inner.seen == (depth, asked.seen.record)
        && inner.gate.is_at(depth, asked.seen.record)
        && asked.records == inner.gate.changes()
        && inner.more.is_empty()
        && !into.text.is_dead()
        && inner.has_no_faults()
        && !thread.due.is_any();
    if !same {
        return None;
    }
    if let Some(key) = away.key {
        let page = key.page;
        let state = &mut *away.section.state.try_lock()?;
        if valid {
            if state.replacing > 0 || !asked.seen.may_validate || state.acl.changes() != asked.seen.changes || away.offset >= state.len {
                return None;
            }
            validate(state, into, asked.seen.base, page);
        }
        let is_there = if valid { state.pages.get(page).is_some() } else { state.misses(page).is_none() };
        if !is_there || !state.paged.transit.answered_alone(key) {
            return None;
        }
        inner.patience.answered(true);
    }
    let Away { outer, register, seen, left, .. } = *away;
    asked.away = None;
    let from = inner.domain.number;
    inner.gate.set_sp(from, left);
    inner.gate.forget_frame(depth);
    inner.gate.set_top(depth - 1);
    core::mem::swap(&mut inner.domain, &mut asked.other);
    (inner.register, inner.seen) = (register, seen);
    aside::come_back(inner, &mut asked.area);
    thread.served.end(outer);
    let root = inner.domain.root();
    Some(leave(thread, inner, root))
}

/// The way out, into a domain with this root.
#[inline(always)]
fn leave(thread: &Thread, inner: &mut Inner, root: u64) -> Resume {
    thread.card.leaves(&inner.area, &inner.gate);
    arch::gate::load_root(root);
    arch::gate::set_register(inner.register);
    inner.area.resume(false)
}
