//! Pages that are made invalid and valid again by light entry (SSS-41, 42): what is in them stays, and an access to one is a fault.

use super::{SLICE, Section, State};
use crate::domain::Domain;
use crate::machine::spare_heap_for;
use crate::processor::{Processor, here};
use crate::task::Task;
use crate::thread::{Inner, Thread};
use crate::view::{self, Stale};
use abi::layout::{PAGE, pages_up};
use abi::section::kind;
use abi::{Error, Rights};
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::Ordering;
use quota::Resource;

/// Sections that a thread keeps.
const KEPT: usize = 3;

/// A section that a thread has done this in, and in which domain it was found that it may (one of data or a text: it stays one of the two).
pub struct Last {
    section: Weak<Section>,
    base: u64,
    /// 0: none is kept here.
    reserve: u64,
    domain: u32,
    /// Of the section's list.
    changes: u64,
    /// The same for making pages invalid: [`NEVER`] where it is to be noted by whom, otherwise than of all others there.
    changes_if_invalid: u64,
}

/// No count of changes.
const NEVER: u64 = u64::MAX;

impl Last {
    const fn none() -> Last {
        Last { section: Weak::new(), base: 0, reserve: 0, domain: 0, changes: NEVER, changes_if_invalid: NEVER }
    }

    #[inline(always)]
    fn has(&self, address: u64) -> bool {
        address.wrapping_sub(self.base) < self.reserve
    }
}

/// The last sections whose pages a thread has made invalid or valid, the newest first.
pub struct Lasts([Last; KEPT]);

impl Lasts {
    pub const fn new() -> Lasts {
        Lasts([const { Last::none() }; KEPT])
    }

    /// By whom pages are made invalid is noted otherwise from now on.
    pub fn is_noted_otherwise(&mut self) {
        self.0.iter_mut().for_each(|last| last.changes_if_invalid = NEVER);
    }

    /// This is found of the section there. What is not kept any more is to be dropped without locks.
    #[must_use]
    fn keep(&mut self, base: u64, last: Option<Last>) -> Last {
        let Lasts(all) = self;
        let known = all.iter().position(|one| one.reserve > 0 && one.base == base);
        let Some(last) = last else {
            return known.map_or(Last::none(), |at| core::mem::replace(&mut all[at], Last::none()));
        };
        let at = known.unwrap_or_else(|| {
            let free = all.iter().position(|one| one.reserve == 0).unwrap_or(KEPT - 1);
            all[..=free].rotate_right(1);
            0
        });
        core::mem::replace(&mut all[at], last)
    }
}

/// What has come of doing it as if it were what the thread has done before.
pub enum Again {
    Done,
    /// It is done when others have forgotten. To be flushed without locks.
    Owed(Box<Stale>),
    /// It is something else: nothing was done.
    No,
}

/// The short way: a thread that does this again in one of the sections in which it has last done it, which only its own view has mapped. Nothing
/// is waited for here but the view's tables, since the thread's lock is held: who has the section's may want that of a thread.
#[inline(always)]
pub fn again<const VALID: bool>(me: &Processor, inner: &Inner, address: u64, len: u64) -> Again {
    let Lasts([first, others @ ..]) = &inner.last;
    if first.has(address) {
        return again_there::<VALID>(me, inner, first, address, len);
    }
    match others.iter().find(|last| last.has(address)) {
        Some(last) => again_there::<VALID>(me, inner, last, address, len),
        None => Again::No,
    }
}

#[inline(always)]
fn again_there<const VALID: bool>(me: &Processor, inner: &Inner, last: &Last, address: u64, len: u64) -> Again {
    let (domain, offset) = (&*inner.domain, address.wrapping_sub(last.base));
    if !(offset | len).is_multiple_of(PAGE) || len.wrapping_sub(1) >= SLICE || last.domain != domain.number {
        return Again::No;
    }
    let Some(section) = last.section.upgrade() else { return Again::No };
    let Some(mut guard) = section.state.try_lock() else { return Again::No };
    let state: &mut State = &mut guard;
    // (That it is to go is a change, too.)
    if state.acl.changes() != (if VALID { last.changes } else { last.changes_if_invalid }) || offset + len > state.len {
        return Again::No;
    }
    let [mapping] = &state.mapped[..] else { return Again::No };
    let Some(view) = mapping.own(domain, last.base) else { return Again::No };
    let (first, count) = (offset / PAGE, len / PAGE);
    if VALID {
        if state.replacing > 0 {
            return Again::No;
        }
        state.invalid.take(first, count);
        view.show(address, len);
        return Again::Done;
    }
    if state.invalid.pieces_for(first, count) > 0 {
        return Again::No;
    }
    state.invalid.put(first, count);
    match view.hide(me, address, len) {
        None => Again::Done,
        Some(stale) => Again::Owed(stale),
    }
}

impl State {
    /// What was hidden in views is as it was, unless it leaves them in stretches: then it is not shown before it has, and who needs it comes by a fault.
    pub fn shows_again(&mut self, offset: u64, len: u64) {
        if self.replacing == 0 {
            view::show(&mut self.mapped, offset, len);
        }
    }

    /// Whether a page that is invalid is the affair of a task's pager first: it lies in the task's window, or the task has made it so itself.
    #[inline(always)]
    pub fn is_of_task(&self, task: &Task, page: u64, in_window: bool) -> bool {
        in_window || self.whose.is(task.number, page)
    }
}

/// `page_validate` and `page_invalidate`, of so many bytes from the beginning as one call may take.
///
/// # Errors
/// `BadAddress`: not a whole page, or not all of it within the section's length; `NotFound`; `NotSupported`: a device's, ports or a
/// post; a refusal without the right change-acl; `MemoryQuota`, `NoMemory`: for remembering it.
pub fn set(thread: &Thread, by: &Domain, address: u64, len: u64, valid: bool) -> Result<u64, Error> {
    let len = pages_up(len).filter(|len| *len > 0 && address.is_multiple_of(PAGE)).ok_or(Error::BadAddress)?;
    let pager = thread.task.paged.load(Ordering::SeqCst);
    // That the task itself does it: a text of its own, on one of its threads.
    let who = if pager != 0 && Arc::ptr_eq(&by.text.owner(), &thread.task) { thread.task.number } else { 0 };
    let section = Section::find(address).ok_or(Error::NotFound)?;
    let mut state = section.lock_again(&by.subject, Rights::CHANGE_ACL)?;
    if matches!(section.kind(), kind::DEVICE | kind::PORTS | kind::POST) {
        return Err(Error::NotSupported);
    }
    let offset = address - section.base;
    if state.len.checked_sub(offset).is_none_or(|rest| rest < len) {
        return Err(Error::BadAddress);
    }
    let len = view::at_once(&state.mapped, len.min(SLICE));
    let (first, count) = (offset / PAGE, len / PAGE);
    let stale = if valid {
        state.invalid.take(first, count);
        state.shows_again(offset, len);
        None
    } else {
        put(&mut state, who, first, count)?;
        view::hide(&mut state.mapped, offset, len)
    };
    // The short way is for what one view has mapped.
    let last = (state.mapped.len() == 1).then(|| {
        let changes = state.acl.changes();
        // (Another one's text may become the task's.)
        let is_alike = state.whose.all() == who && (who != 0 || pager == 0);
        let changes_if_invalid = if is_alike { changes } else { NEVER };
        Last { section: Arc::downgrade(&section), base: section.base, reserve: section.reserve, domain: by.number, changes, changes_if_invalid }
    });
    drop(state);
    if let Some(stale) = stale {
        // Others are to forget, which has to be waited for.
        here().away_from_user(|| stale.flush());
    }
    let _old = {
        let kept = &mut thread.inner.lock().last;
        // (When the task has another pager, or none, what is kept holds no more, and after that this is not kept.)
        kept.keep(section.base, last.filter(|_| thread.task.paged.load(Ordering::SeqCst) == pager))
    };
    Ok(len)
}

/// Pages of a section are made invalid, by this task if that is to be noted.
fn put(state: &mut State, who: u64, first: u64, count: u64) -> Result<(), Error> {
    let (all, kept) = (state.whose.all(), state.whose.pieces());
    if all != who && state.invalid.count() == 0 {
        let less = state.whose.begin(who);
        state.owner.release(Resource::Frames, less);
    }
    let pieces = state.invalid.pieces_for(first, count) + state.whose.pieces_for(who, first, count);
    let paid = if pieces > 0 { pay(&state.owner, pieces) } else { Ok(()) };
    if paid.is_ok() {
        state.invalid.put(first, count);
        state.whose.put(who, first, count);
    }
    if state.whose.all() != all {
        // By the short way nothing is noted.
        state.acl.changed();
    }
    if pieces > 0 || state.whose.pieces() != kept {
        state.count_lists();
    }
    paid
}

fn pay(owner: &Task, pieces: u64) -> Result<(), Error> {
    spare_heap_for(owner)?;
    owner.charge(Resource::Frames, pieces)
}
