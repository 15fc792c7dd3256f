//! Pages that are made invalid and valid again by light entry (SSS-41, 42): what is in them stays, and an access to one is a fault.

use super::{SLICE, Section, State};
use crate::domain::Domain;
use crate::machine::spare_heap_for;
use crate::processor::{Processor, here};
use crate::thread::{Inner, Thread};
use crate::view::{self, Stale};
use abi::layout::{PAGE, pages_up};
use abi::section::kind;
use abi::{Error, Rights};
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use quota::Resource;

/// A section that a thread has done this in, of the last two, and in which domain it was found that it may (one of data or a text: it stays one of the two).
pub struct Last {
    section: Weak<Section>,
    base: u64,
    reserve: u64,
    domain: u32,
    /// Of the section's list.
    changes: u64,
}

impl Last {
    #[inline(always)]
    fn has(&self, address: u64) -> bool {
        address.wrapping_sub(self.base) < self.reserve
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

/// The short way: a thread that does this again in one of the two sections in which it has last done it, which only its own view has mapped. Nothing
/// is waited for here but the view's tables, since the thread's lock is held: who has the section's may want that of a thread.
#[inline(always)]
pub fn again<const VALID: bool>(me: &Processor, inner: &Inner, address: u64, len: u64) -> Again {
    match &inner.last {
        [Some(last), _] if last.has(address) => again_there::<VALID>(me, inner, last, address, len),
        [_, Some(last)] if last.has(address) => again_there::<VALID>(me, inner, last, address, len),
        _ => Again::No,
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
    if state.acl.changes() != last.changes || state.deleted || offset + len > state.len {
        return Again::No;
    }
    let [mapping] = &state.mapped[..] else { return Again::No };
    let Some(view) = mapping.own(domain, last.base) else { return Again::No };
    let (first, count) = (offset / PAGE, len / PAGE);
    if VALID {
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

/// `page_validate` and `page_invalidate`, of so many bytes from the beginning as one call may take.
///
/// # Errors
/// `BadAddress`: not a whole page, or not all of it within the section's length; `NotFound`; `NotSupported`: a device's, ports or a
/// post; a refusal without the right change-acl; `MemoryQuota`, `NoMemory`: for remembering it.
pub fn set(thread: &Thread, by: &Domain, address: u64, len: u64, valid: bool) -> Result<u64, Error> {
    let len = pages_up(len).filter(|len| *len > 0 && address.is_multiple_of(PAGE)).ok_or(Error::BadAddress)?;
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
        view::show(&mut state.mapped, offset, len);
        None
    } else {
        let pieces = state.invalid.pieces_for(first, count);
        if pieces > 0 {
            spare_heap_for(&state.owner)?;
            state.owner.charge(Resource::Frames, pieces)?;
        }
        state.invalid.put(first, count);
        if pieces > 0 {
            state.count_lists();
        }
        view::hide(&mut state.mapped, offset, len)
    };
    // The short way is for what one view has mapped.
    let changes = (state.mapped.len() == 1).then(|| state.acl.changes());
    drop(state);
    if let Some(stale) = stale {
        // Others are to forget, which has to be waited for.
        here().away_from_user(|| stale.flush());
    }
    let last = changes.map(|changes| Last { section: Arc::downgrade(&section), base: section.base, reserve: section.reserve, domain: by.number, changes });
    let _old = {
        let [first, second] = &mut thread.inner.lock().last;
        match first {
            // The other one's stays.
            Some(same) if same.base == section.base => core::mem::replace(first, last),
            _ => core::mem::replace(second, core::mem::replace(first, last)),
        }
    };
    Ok(len)
}
