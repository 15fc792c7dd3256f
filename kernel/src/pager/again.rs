//! The short way to a pager and back: a fault like the one before, of the same thread in the same domain on the same section, goes to the same
//! pager by the same record. What was found then holds as long as nothing of it has changed, which everything here counts; the rest is
//! asked anew. Whatever is not as before goes the long way, and nothing was done.

use super::{Missed, Pager, Served};
use crate::aside::{self, Arrival};
use crate::domain::{Domain, Place};
use crate::epc::More;
use crate::processor::{Processor, count};
use crate::seat::NO_SEAT;
use crate::section::{Section, State};
use crate::thread::{Inner, Thread};
use crate::{trace, view};
use abi::gate::DEPTH_MAX;
use abi::layout::PAGE;
use abi::pager::{flag, miss};
use abi::trace::kind as event;
use ::pager::transit::Key;
use ::pager::who::Who;
use ::view::Access;
use alloc::sync::{Arc, Weak};
use arch::context::Resume;
use arch::entry::page_fault::{FETCH, PRESENT, STORE, USER};
use arch::gate::{BY_KERNEL, is_doorstep, is_gate};
use core::sync::atomic::Ordering;

/// What the list said of an access.
pub struct Seen {
    section: Weak<Section>,
    base: u64,
    reserve: u64,
    domain: u32,
    write: bool,
    may_change: bool,
    /// Of the list, when it was asked.
    changes: u64,
}

/// Whom a thread has last asked.
pub struct Asked {
    seen: Seen,
    pager: Arc<Pager>,
    /// The thread was in a call.
    in_call: bool,
    /// The pager's domain, the record that leads there and the key register's value by it, and the records' changes when it was found to.
    callee: Arc<Domain>,
    record: u64,
    register: u32,
    records: u64,
}

/// How a thread goes back from a pager: into which domain, with which value of the key register, and where it was seen there; where the
/// pager's stack was left. It holds as long as the records' changes are the same and the thread is where it came by this record.
pub struct Way {
    into: Arc<Domain>,
    register: u32,
    seen: (usize, u64),
    left: u64,
    record: u64,
    records: u64,
}

impl Seen {
    /// What is to be remembered of an access by which a page was missed, if the section's list alone allows it.
    pub fn of(domain: &Domain, place: &Place, access: Access, may_change: bool, state: &State) -> Option<Seen> {
        let write = match access {
            Access::Read => false,
            Access::Write => true,
            Access::Execute => return None,
        };
        let is_by_list = state.acl.rights(&domain.subject).contains(access.needs());
        let section = &place.section;
        (is_by_list && place.window.is_none() && !domain.in_window && !domain.supervisor).then(|| Seen {
            section: Arc::downgrade(section),
            base: section.base,
            reserve: section.reserve,
            domain: domain.number,
            write,
            may_change,
            changes: state.acl.changes(),
        })
    }
}

/// The thread has just entered a pager for this, unless it waits.
pub fn remember(thread: &Thread, seen: Seen) {
    let inner = &mut *thread.inner.lock();
    let depth = inner.depth();
    let Some((at, More::Served(served))) = inner.more.last() else { return };
    if *at != depth || served.who != Who::Section || served.missed.section.base != seen.base {
        return;
    }
    let (pager, record) = (served.pager.clone(), inner.gate.frame(depth).record);
    let Some((callee, register)) = inner.gate.lead(record) else { return };
    let Ok(callee) = inner.domain_number(callee) else { return };
    inner.asked = Some(Asked { seen, pager, in_call: depth > 1, callee, record, register, records: inner.gate.changes() });
}

/// A page fault of the running thread, if it is like the one before. `None`: nothing was done.
#[inline(always)]
pub fn again(here: &Processor, address: u64, error: u64) -> Option<Resume> {
    if error & (PRESENT | USER | FETCH) != USER || arch::percpu::must_attend_here() {
        return None;
    }
    let local = here.local.lock();
    let thread = local.current.as_ref()?;
    let inner = &mut *thread.inner.lock();
    inner.asked.as_ref()?;
    enter(here, thread, inner, address, error & STORE != 0)
}

#[inline(never)]
fn enter(here: &Processor, thread: &Arc<Thread>, inner: &mut Inner, address: u64, write: bool) -> Option<Resume> {
    let rip = inner.area.registers().rip;
    if is_gate(rip) || rip & BY_KERNEL != 0 {
        return None;
    }
    inner.sync();
    let asked = inner.asked.as_ref()?;
    let (seen, pager, caller) = (&asked.seen, &asked.pager, &*inner.domain);
    let offset = address.wrapping_sub(seen.base);
    let depth = inner.depth();
    let same = offset < seen.reserve
        && write == seen.write
        && caller.number == seen.domain
        && !caller.is_secret()
        && depth < DEPTH_MAX
        && (depth > 0) == asked.in_call
        && asked.records == inner.gate.changes()
        && inner.more.is_empty()
        && inner.more.capacity() > 0
        && !inner.areas.is_empty()
        && thread.seat.load(Ordering::Relaxed) == NO_SEAT;
    if !same {
        return None;
    }
    let callee = &asked.callee;
    let lives = !callee.text.is_dead() && callee.text.callers.generation() == pager.seen.load(Ordering::Relaxed);
    if !lives || callee.is_secret() || callee.supervisor || !super::is_known(&callee.text, caller, asked.in_call) {
        return None;
    }
    let section = seen.section.upgrade()?;
    let left = aside::left_at(inner, caller, callee);
    let stack = aside::stack(callee, left).ok()?;
    let page = offset / PAGE;
    let (why, key) = {
        let mut guard = section.state.try_lock()?;
        let state: &mut State = &mut guard;
        let same = state.acl.changes() == seen.changes && !state.deleted && offset < state.len && !state.must_wait(page, write);
        if !same || !state.paged.pager.as_ref().is_some_and(|now| Arc::ptr_eq(now, pager)) {
            return None;
        }
        let why = state.misses(page)?;
        // The task's own pager comes first.
        if why == miss::INVALID && seen.may_change && thread.task.pager.lock().is_some() {
            return None;
        }
        let key = Key { page, of: 0 };
        if pager.flags & flag::VALID_BEFORE == 0 {
            if !state.paged.transit.ask(key) {
                return None;
            }
            (why, Some(key))
        } else {
            if why != miss::INVALID || state.pages.get(page).is_none() {
                return None;
            }
            state.invalid.take(page, 1);
            view::show(&mut state.mapped, page * PAGE, PAGE);
            (why, None)
        }
    };
    thread.has_faulted();
    count(&here.counters.faults);
    trace::note(event::PAGER, section.base, page * PAGE);
    let access = if write { Access::Write } else { Access::Read };
    let words = [section.base, offset, u64::from(access.right().bits()), why];
    let arrival = Arrival { record: asked.record, entry: pager.block.entry, index: pager.index, left, stack };
    let (pager, callee, register) = (pager.clone(), callee.clone(), asked.register);
    let (root, caller) = (callee.root(), caller.number);
    let (before, record) = ((inner.register, inner.seen), asked.record);
    let mut area = inner.areas.pop()?;
    let mut into = callee;
    aside::arrive(inner, caller, arrival, words, &mut area, |inner| {
        core::mem::swap(&mut inner.domain, &mut into);
        (inner.register, inner.seen) = (register, (depth + 1, record));
    });
    let way = Way { into, register: before.0, seen: before.1, left, record, records: inner.gate.changes() };
    let missed = Missed { section, offset, address, access, call: None };
    let outer = thread.served.begin();
    inner.more.push((depth + 1, More::Served(Served { area, pager, missed, who: Who::Section, key, outer, way: Some(way) })));
    Some(leave(here, thread, inner, root))
}

/// The running thread is back at the doorstep, if that is from a pager that has simply done it. `None`: nothing was done.
#[inline(always)]
pub fn back(here: &Processor) -> Option<Resume> {
    let local = here.local.lock();
    let thread = local.current.as_ref()?;
    let inner = &mut *thread.inner.lock();
    let r = inner.area.registers();
    if r.rdi != 0 || !is_doorstep(r.rip) || inner.more.is_empty() || arch::percpu::must_attend_here() {
        return None;
    }
    come_back(here, thread, inner)
}

#[inline(never)]
fn come_back(here: &Processor, thread: &Arc<Thread>, inner: &mut Inner) -> Option<Resume> {
    let [.., (depth, More::Served(Served { way: Some(way), missed, key, .. }))] = &inner.more[..] else { return None };
    let depth = *depth;
    let into = &way.into;
    let same = inner.seen == (depth, way.record)
        && inner.gate.is_at(depth, way.record)
        && way.records == inner.gate.changes()
        && !inner.domain.is_secret()
        && !into.is_secret()
        && !into.text.is_dead()
        && inner.stacks.is_empty()
        && inner.has_no_faults()
        && !thread.due.is_any()
        && inner.areas.is_empty();
    if !same {
        return None;
    }
    if let Some(key) = key {
        let state = &mut *missed.section.state.try_lock()?;
        if state.misses(key.page).is_some() || !state.paged.transit.answered_alone(*key) {
            return None;
        }
        inner.patience.answered(true);
    }
    trace::note(event::PAGED, missed.section.base, missed.offset / PAGE * PAGE);
    let (from, left) = (inner.domain.number, way.left);
    inner.gate.set_sp(from, left);
    inner.gate.forget_frame(depth);
    inner.gate.set_top(depth - 1);
    let Some((_, More::Served(Served { mut area, way: Some(way), outer, .. }))) = inner.more.pop() else { unreachable!("it was there") };
    let root = way.into.root();
    (inner.domain, inner.register, inner.seen) = (way.into, way.register, way.seen);
    aside::come_back(inner, &mut area);
    thread.served.end(outer);
    inner.areas.push(area);
    Some(leave(here, thread, inner, root))
}

/// The way out, into a domain with this root.
#[inline(always)]
fn leave(here: &Processor, thread: &Thread, inner: &mut Inner, root: u64) -> Resume {
    inner.gate.activate();
    thread.card.leaves(&inner.area, &inner.gate);
    arch::gate::load_root(root);
    arch::gate::set_register(inner.register);
    let resume = inner.area.resume(false);
    here.enter_user();
    resume
}
