//! Pages that go from section to section, as pagers need them: supplied where a page is missing, and taken back (SSS-57, 59). Only between
//! sections of data, so no frame that can be executed is ever among them (pitfalls, H6); what clones share stays shared.

use super::{Section, State};
use crate::claim::{self, Present};
use crate::domain::Domain;
use crate::machine::spare_heap_for;
use crate::view::{self, Change, Stale};
use abi::layout::PAGE;
use abi::pager::{page, supply as flag};
use abi::section::kind;
use abi::{Error, Rights};
use alloc::sync::Arc;
use arch::frames::Frame;
use quota::Resource;
use spin::MutexGuard;

/// A page of a section of data that a program names.
struct Named {
    section: Arc<Section>,
    page: u64,
}

impl Named {
    fn new(address: u64) -> Result<Named, Error> {
        if !address.is_multiple_of(PAGE) {
            return Err(Error::BadAddress);
        }
        let section = Section::find(address).ok_or(Error::NotFound)?;
        let page = (address - section.base) / PAGE;
        Ok(Named { section, page })
    }

    /// Its section's lock, for who has the rights, while the section is one of data and as long as that.
    fn lock(&self, by: &Domain, rights: Rights) -> Result<MutexGuard<'_, State>, Error> {
        let state = self.section.lock_for(by, rights)?;
        if self.section.kind() != kind::DATA {
            return Err(Error::NotSupported);
        }
        if self.page >= state.len / PAGE {
            return Err(Error::BadAddress);
        }
        if state.sealing || state.cloning || state.replacing > 0 {
            return Err(Error::Busy);
        }
        Ok(state)
    }

    /// Takes the page out; nobody can reach it when what is returned was flushed.
    fn take(&self, state: &mut State) -> Option<(Arc<Frame>, Stale)> {
        let frame = state.pages.take_one(self.page)?;
        let stale = view::change(&mut state.mapped, self.page * PAGE, PAGE, Change::Unmap);
        if state.charged > 0 {
            state.charged -= 1;
            state.owner.release(Resource::Frames, 1);
            state.show_charged();
        }
        state.paged.clean.take(self.page, 1);
        Some((frame, stale))
    }

    /// Puts a page there that was paid for. What was there goes when what is returned was flushed.
    fn put(&self, state: &mut State, frame: Arc<Frame>) -> Stale {
        let old = state.pages.supply(self.page, frame);
        let mut stale = Stale::default();
        match old {
            Some(old) => {
                stale = view::change(&mut state.mapped, self.page * PAGE, PAGE, Change::Unmap);
                stale.frames.push(old);
                // There was one to be paid for already.
                state.owner.release(Resource::Frames, 1);
            }
            None => state.charged += 1,
        }
        state.invalid.take(self.page, 1);
        state.show_charged();
        stale
    }
}

/// `page_supply`.
///
/// # Errors
/// `BadAddress`, `NotFound`, `NotSupported`; a refusal without the right change-acl there, or read and write at the source (for a copy:
/// read); `Exists`: a page is there and valid; `Absent`: there is none at the source; `Busy`: one of the two is being cloned or sealed;
/// `MemoryQuota`, `NoMemory`. Nothing has moved then.
pub fn supply(by: &Domain, address: u64, from: u64, flags: u64) -> Result<u64, Error> {
    if flags & !flag::ALL != 0 {
        return Err(Error::BadArgument);
    }
    spare_heap_for(&by.text.owner())?;
    let to = Named::new(address)?;
    let is_free = |state: &State| state.pages.get(to.page).is_none() || state.invalid.has(to.page);
    let clean = flags & flag::CLEAN != 0;
    if from == 0 {
        let mut state = to.lock(by, Rights::CHANGE_ACL)?;
        if state.pages.get(to.page).is_some() {
            return Err(Error::Exists);
        }
        mark(&mut state, to.page, clean)?;
        let made = claim::present(&mut state, to.page, false);
        let Present { frame, stale } = made.inspect_err(|_| state.paged.clean.take(to.page, 1))?;
        drop(frame);
        state.invalid.take(to.page, 1);
        drop(state);
        stale.flush();
        return Ok(0);
    }
    let source = Named::new(from)?;
    if Arc::ptr_eq(&source.section, &to.section) {
        return Err(Error::BadArgument);
    }
    {
        let mut state = to.lock(by, Rights::CHANGE_ACL)?;
        if !is_free(&state) {
            return Err(Error::Exists);
        }
        state.owner.charge(Resource::Frames, 1)?;
        let marked = mark(&mut state, to.page, clean);
        marked.inspect_err(|_| state.owner.release(Resource::Frames, 1))?;
    }
    let undo = |state: &mut State| {
        state.owner.release(Resource::Frames, 1);
        state.paged.clean.take(to.page, 1);
    };
    let copy = flags & flag::COPY != 0;
    let given = give(by, &source, copy).inspect_err(|_| undo(&mut to.section.state.lock()))?;
    let mut state = match to.lock(by, Rights::CHANGE_ACL) {
        Ok(state) if is_free(&state) => state,
        other => {
            let error = other.err().unwrap_or(Error::Exists);
            undo(&mut to.section.state.lock());
            if !copy {
                give_back(&source, given);
            }
            return Err(error);
        }
    };
    let stale = to.put(&mut state, given);
    drop(state);
    stale.flush();
    Ok(0)
}

/// The page is clean from now on, or not.
fn mark(state: &mut State, page: u64, clean: bool) -> Result<(), Error> {
    if clean {
        let pieces = state.paged.clean.pieces_for(page, 1);
        state.owner.charge(Resource::Frames, pieces)?;
        state.paged.clean.put(page, 1);
    } else {
        state.paged.clean.take(page, 1);
    }
    Ok(())
}

/// A page out of its section, or one more reference to it: nobody can store to it any more.
fn give(by: &Domain, source: &Named, copy: bool) -> Result<Arc<Frame>, Error> {
    let rights = if copy { Rights::READ } else { Rights::READ | Rights::WRITE };
    let mut state = source.lock(by, rights)?;
    if state.misses(source.page).is_some() {
        return Err(Error::Absent);
    }
    let (frame, stale) = if copy {
        let frame = state.pages.share(source.page).ok_or(Error::Absent)?;
        (frame, view::change(&mut state.mapped, source.page * PAGE, PAGE, Change::WriteProtect))
    } else {
        source.take(&mut state).ok_or(Error::Absent)?
    };
    drop(state);
    stale.flush();
    Ok(frame)
}

/// It could not go where it was to go: it is where it was, unless something else is there or the owner may not have it any more.
fn give_back(source: &Named, frame: Arc<Frame>) {
    let mut state = source.section.state.lock();
    if !state.deleted && source.page < state.len / PAGE && state.pages.get(source.page).is_none() && state.owner.charge(Resource::Frames, 1).is_ok() {
        let stale = source.put(&mut state, frame);
        drop(state);
        stale.flush();
    }
}

/// `page_take`. Value: one of `abi::pager::page`.
///
/// # Errors
/// As for [`supply`], the other way round.
pub fn take(by: &Domain, address: u64, to: u64) -> Result<u64, Error> {
    let source = Named::new(address)?;
    spare_heap_for(&by.text.owner())?;
    let target = if to == 0 { None } else { Some(Named::new(to)?) };
    if target.as_ref().is_some_and(|target| Arc::ptr_eq(&target.section, &source.section)) {
        return Err(Error::BadArgument);
    }
    if let Some(target) = &target {
        let state = target.lock(by, Rights::READ | Rights::WRITE)?;
        if state.paged.pager.is_some() {
            return Err(Error::NotSupported);
        }
        state.owner.charge(Resource::Frames, 1)?;
    }
    let undo = || target.iter().for_each(|target| target.section.state.lock().owner.release(Resource::Frames, 1));
    let taken = source.lock(by, Rights::CHANGE_ACL).map(|mut state| {
        let dirty = !state.paged.clean.has(source.page);
        if state.pages.get(source.page).is_none() {
            return (page::ABSENT, None);
        }
        if target.is_none() && dirty {
            // Nobody would have it any more.
            return (page::DIRTY, None);
        }
        let taken = source.take(&mut state);
        state.invalid.take(source.page, 1);
        (if dirty { page::DIRTY } else { page::CLEAN }, taken)
    });
    let (was, taken) = taken.inspect_err(|_| undo())?;
    let Some((frame, stale)) = taken else {
        undo();
        return Ok(was);
    };
    let Some(target) = target.as_ref() else {
        let mut stale = stale;
        stale.frames.push(frame);
        stale.flush();
        return Ok(was);
    };
    stale.flush();
    let mut state = target.section.state.lock();
    if state.deleted || target.page >= state.len / PAGE {
        state.owner.release(Resource::Frames, 1);
        drop(state);
        give_back(&source, frame);
        return Err(Error::Busy);
    }
    let stale = target.put(&mut state, frame);
    drop(state);
    stale.flush();
    Ok(was)
}
