//! Pages that go from section to section, as pagers need them: supplied where a page is missing, and taken back (SSS-57, 59). Only between
//! sections of data, so no frame that can be executed is ever among them (pitfalls, H6); what clones share stays shared.

use super::{Section, State};
use crate::claim::{self, Present};
use crate::domain::Domain;
use crate::machine::spare_heap_for;
use crate::promise;
use crate::view::{self, Change, Stale};
use abi::layout::PAGE;
use abi::pager::{page, supply as flag};
use abi::section::kind;
use abi::{Error, Rights};
use alloc::sync::Arc;
use crate::sched;
use crate::task::Task;
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
        self.check(&state)?;
        Ok(state)
    }

    /// That a page may come there and go: the section is one of data, as long as that, and does not become something else.
    fn check(&self, state: &State) -> Result<(), Error> {
        if self.section.kind() != kind::DATA {
            return Err(Error::NotSupported);
        }
        if self.page >= state.len / PAGE {
            return Err(Error::BadAddress);
        }
        if state.sealing || state.cloning || state.replacing > 0 {
            return Err(Error::Busy);
        }
        Ok(())
    }

    /// The lock once more, for who has the rights still, while the section is what it was when that was paid.
    fn lock_again(&self, by: &Domain, rights: Rights, paid: &Paid) -> Result<MutexGuard<'_, State>, Error> {
        let state = self.lock(by, rights)?;
        if paid.is_by(&state.owner) { Ok(state) } else { Err(Error::Busy) }
    }

    /// Who pays for the page, if frames are so few that it matters. Call without locks.
    fn payer_where_short(&self) -> Option<Arc<Task>> {
        if promise::are_frames_plenty(1) { None } else { Some(self.section.owner()) }
    }

    /// Takes the page out; nobody can reach it when what is returned was flushed.
    fn take(&self, state: &mut State) -> Option<(Given, Stale)> {
        let frame = state.pages.take_one(self.page)?;
        let stale = view::change_first(&mut state.mapped, self.page * PAGE, PAGE, Change::Unmap);
        let paid = (state.charged > 0).then(|| Paid(Some(state.owner.clone())));
        state.charged -= u64::from(paid.is_some());
        state.show_charged();
        state.paged.clean.take(self.page, 1);
        let was_invalid = state.invalid.has(self.page);
        state.invalid.take(self.page, 1);
        Some((Given { frame, paid, was_invalid }, stale))
    }

    /// Every processor has forgotten it, and no view has it. Lets go of the section's lock.
    fn flush(&self, state: MutexGuard<State>, stale: Stale) {
        if stale.rest.is_some() {
            claim::settle(&self.section, state, stale);
        } else {
            drop(state);
            stale.flush();
        }
    }

    /// Puts a page there. What was there goes when what is returned was flushed.
    fn put(&self, state: &mut State, frame: Arc<Frame>, paid: Paid) -> Stale {
        let old = state.pages.supply(self.page, frame);
        let mut stale = Stale::default();
        match old {
            Some(old) => {
                stale = view::change_first(&mut state.mapped, self.page * PAGE, PAGE, Change::Unmap);
                stale.frames.push(old);
                // There was one to be paid for already.
                drop(paid);
            }
            None => state.charged += paid.spend(),
        }
        state.invalid.take(self.page, 1);
        state.show_charged();
        stale
    }

    /// It could not go where it was to go: it is where it was, unless something else is there, or its section is not what it was (H6: no page
    /// comes to a text that nobody has looked through), or its owner may not have it any more.
    fn give_back(&self, given: Given) {
        let mut state = loop {
            let state = self.section.state.lock();
            match self.check(&state) {
                // For a while.
                Err(Error::Busy) if !state.sealing && !state.deleted => {}
                Ok(()) if !state.deleted && state.pages.get(self.page).is_none() => break state,
                _ => return,
            }
            drop(state);
            sched::breathe();
        };
        if given.was_invalid && state.invalid.pieces_for(self.page, 1) > 0 {
            // Room for the mark was there since it was made: the section was cut short meanwhile, and this page with it.
            return;
        }
        let paid = given.paid.filter(|paid| paid.is_by(&state.owner)).map_or_else(|| Paid::by(&state.owner, None), Ok);
        if let Ok(paid) = paid {
            let stale = self.put(&mut state, given.frame, paid);
            if given.was_invalid {
                state.invalid.put(self.page, 1);
            }
            self.flush(state, stale);
        }
    }
}

/// A frame that a task has paid for, and has back unless it is spent.
struct Paid(Option<Arc<Task>>);

impl Paid {
    /// `from`: who pays for the page so far, if that matters.
    fn by(owner: &Arc<Task>, from: Option<&Task>) -> Result<Paid, Error> {
        owner.charge_shared(1, 0, from)?;
        Ok(Paid(Some(owner.clone())))
    }

    fn is_by(&self, owner: &Arc<Task>) -> bool {
        self.0.as_ref().is_some_and(|payer| Arc::ptr_eq(payer, owner))
    }

    /// From now on a section counts it.
    fn spend(mut self) -> u64 {
        self.0 = None;
        1
    }
}

impl Drop for Paid {
    fn drop(&mut self) {
        self.0.iter().for_each(|payer| payer.release(Resource::Frames, 1));
    }
}

/// A page on its way, and if it was taken out what its section's owner has paid for it: he goes on paying until it is somewhere else.
struct Given {
    frame: Arc<Frame>,
    paid: Option<Paid>,
    was_invalid: bool,
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
    let copy = flags & flag::COPY != 0;
    let from = if copy { None } else { source.payer_where_short() };
    let paid = {
        let mut state = to.lock(by, Rights::CHANGE_ACL)?;
        if !is_free(&state) {
            return Err(Error::Exists);
        }
        let paid = Paid::by(&state.owner, from.as_deref())?;
        if clean && state.paged.clean.pieces_for(to.page, 1) > 0 {
            // Room for the mark is paid for and made; it is set when the page is there.
            mark(&mut state, to.page, true)?;
            state.paged.clean.take(to.page, 1);
        }
        paid
    };
    let given = give(by, &source, copy)?;
    let free = to.lock_again(by, Rights::CHANGE_ACL, &paid).and_then(|state| if is_free(&state) { Ok(state) } else { Err(Error::Exists) });
    // (Whoever has cut the section short meanwhile has had the room for the mark back, and it is paid for anew.)
    let marked = free.and_then(|mut state| mark(&mut state, to.page, clean).map(|()| state));
    let mut state = match marked {
        Ok(state) => state,
        Err(error) => {
            if !copy {
                source.give_back(given);
            }
            return Err(error);
        }
    };
    let stale = to.put(&mut state, given.frame, paid);
    to.flush(state, stale);
    Ok(0)
}

/// The page is clean from now on, or not.
fn mark(state: &mut State, page: u64, clean: bool) -> Result<(), Error> {
    if clean {
        let pieces = state.paged.clean.pieces_for(page, 1);
        state.owner.charge(Resource::Frames, pieces)?;
        state.paged.clean.put(page, 1);
        state.count_lists();
    } else {
        state.paged.clean.take(page, 1);
    }
    Ok(())
}

/// A page out of its section, or one more reference to it: nobody can store to it any more.
fn give(by: &Domain, source: &Named, copy: bool) -> Result<Given, Error> {
    let rights = if copy { Rights::READ } else { Rights::READ | Rights::WRITE };
    let mut state = source.lock(by, rights)?;
    if source.section.live {
        return Err(Error::NotSupported);
    }
    if state.misses(source.page).is_some() {
        return Err(Error::Absent);
    }
    let (given, stale) = if copy {
        let frame = state.pages.share(source.page).ok_or(Error::Absent)?;
        (Given { frame, paid: None, was_invalid: false }, view::change_first(&mut state.mapped, source.page * PAGE, PAGE, Change::WriteProtect))
    } else {
        source.take(&mut state).ok_or(Error::Absent)?
    };
    if copy && stale.is_remembered() {
        // Whoever stores there gets a page of his own: not before nobody stores by what he remembers.
        claim::settle(&source.section, state, stale);
    } else {
        source.flush(state, stale);
    }
    Ok(given)
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
    let from = source.payer_where_short();
    let reserve = |target: &Named| Paid::by(&without_pager(target.lock(by, Rights::READ | Rights::WRITE))?.owner, from.as_deref());
    let paid = target.as_ref().map(reserve).transpose()?;
    let (was, given) = {
        let mut state = source.lock(by, Rights::CHANGE_ACL)?;
        if source.section.live {
            return Err(Error::NotSupported);
        }
        let dirty = !state.paged.clean.has(source.page);
        if state.pages.get(source.page).is_none() {
            return Ok(page::ABSENT);
        }
        if target.is_none() && dirty {
            // Nobody would have it any more.
            return Ok(page::DIRTY);
        }
        let Some((given, stale)) = source.take(&mut state) else { return Ok(page::ABSENT) };
        // (The frame is held until then.)
        source.flush(state, stale);
        (if dirty { page::DIRTY } else { page::CLEAN }, given)
    };
    let (Some(target), Some(paid)) = (target.as_ref(), paid) else { return Ok(was) };
    let mut state = match without_pager(target.lock_again(by, Rights::READ | Rights::WRITE, &paid)) {
        Ok(state) => state,
        Err(error) => {
            source.give_back(given);
            return Err(error);
        }
    };
    let stale = target.put(&mut state, given.frame, paid);
    target.flush(state, stale);
    Ok(was)
}

/// Only a section without a pager: another one's pages come from that alone.
fn without_pager(state: Result<MutexGuard<State>, Error>) -> Result<MutexGuard<State>, Error> {
    state.and_then(|state| if state.paged.pager.is_some() { Err(Error::NotSupported) } else { Ok(state) })
}
