//! Who may do what to a section: asked under its lock, so that what follows is done with a right that is still there; and
//! changing its ACL.

use super::{Section, StackOf, State};
use crate::domain::Domain;
use crate::machine::{machine, spare_heap_for};
use crate::post;
use crate::view::{self, Change, Stale};
use abi::rights::principal;
use abi::section::kind;
use abi::{AclEntry, Error, Rights};
use ::acl::{Acl, Subject};
use spin::MutexGuard;

impl State {
    /// Whether an access must wait for a clone that is being made: a store, or one that would make a page that the clone
    /// has not been charged for. Or for a page that is being replaced.
    #[inline]
    pub fn must_wait(&self, page: u64, write: bool) -> bool {
        self.sealing || self.replacing > 0 || self.cloning && (write || self.pages.get(page).is_none())
    }

    /// Whether the page can be used like that at once: nobody is waited for, and nothing has to be forgotten.
    pub fn is_there(&self, page: u64, write: bool) -> bool {
        let is_ready = if write { self.pages.writable(page) } else { self.pages.get(page).is_some() };
        is_ready && !self.must_wait(page, write)
    }
}

impl Section {
    /// Refuses a domain that lacks any of `needed` here.
    ///
    /// # Errors
    /// `NoRight`, with what is missing.
    pub fn check(&self, domain: &Domain, needed: Rights) -> Result<(), Error> {
        self.state.lock().acl.check(self.base, &domain.subject, needed)
    }

    /// The same for one that has none of `enough`; `named` is the right to ask for.
    pub fn check_any(&self, domain: &Domain, enough: Rights, named: Rights) -> Result<(), Error> {
        self.state.lock().acl.check_any(self.base, &domain.subject, enough, named)
    }

    /// The section's lock, for a domain that has all of `needed` here: a right is not used any more when the call that
    /// took it away has returned.
    pub(crate) fn lock_for(&self, domain: &Domain, needed: Rights) -> Result<MutexGuard<'_, State>, Error> {
        let state = self.state.lock();
        // (Its list has ended with it.)
        state.acl.check(self.base, &domain.subject, needed).map_err(|error| if state.deleted { Error::NotFound } else { error })?;
        if state.deleted { Err(Error::NotFound) } else { Ok(state) }
    }

    /// The same for a subject that is likely to have asked before.
    #[inline(always)]
    pub(crate) fn lock_again(&self, subject: &Subject, needed: Rights) -> Result<MutexGuard<'_, State>, Error> {
        let mut state = self.state.lock();
        let checked = state.acl.check_again(self.base, subject, needed);
        checked.map_err(|error| if state.deleted { Error::NotFound } else { error })?;
        if state.deleted { Err(Error::NotFound) } else { Ok(state) }
    }

    /// What a domain may do here.
    pub fn rights(&self, domain: &Domain) -> Rights {
        self.state.lock().acl.rights(&domain.subject)
    }

    /// Sets one ACL entry for a domain that may; effective everywhere when this returns. Call without locks: where many views have the section,
    /// interrupts are let in between them.
    pub fn set_entry_for(&self, domain: &Domain, entry: &AclEntry) -> Result<(), Error> {
        self.set_entry_of(self.lock_for(domain, Rights::CHANGE_ACL)?, entry)
    }

    /// The same on the kernel's own behalf.
    pub fn set_entry(&self, entry: &AclEntry) -> Result<(), Error> {
        self.set_entry_of(self.living(entry)?, entry)
    }

    fn set_entry_of(&self, state: MutexGuard<'_, State>, entry: &AclEntry) -> Result<(), Error> {
        if state.mapped.len() as u64 <= view::FEW_TABLES {
            return self.set_entry_locked(state, entry, Acl::follows, Self::acl_changed).map(drop);
        }
        let mut is_for_all = false;
        let _until_all_have_left = self.set_entry_locked(state, entry, Acl::follows, |section, state, change| {
            let range = ::view::Invalidate::after(change, 0, section.reserve);
            is_for_all = range.is_some() && !state.deleted;
            Stale::default()
        })?;
        // The list is as it is to be, so nobody maps anything by the old one meanwhile.
        if is_for_all {
            view::leave_all(self);
        }
        Ok(())
    }

    /// Adds rights to an entry on the kernel's own behalf; those that it did not have, to be given to [`take_from_entry`](Self::take_from_entry). Nobody
    /// is made to forget anything, so a thread's lock may be held.
    pub fn add_to_entry(&self, entry: &AclEntry) -> Result<AclEntry, Error> {
        let state = self.living(entry)?;
        let had = state.acl.given(entry);
        let added = AclEntry { rights: entry.rights & !had, ..*entry };
        if added.rights != 0 {
            let all = AclEntry { rights: had | entry.rights, ..*entry };
            self.set_entry_locked(state, &all, |_, change, _| change, |_, _, _| Stale::default())?;
        }
        Ok(added)
    }

    /// Takes from an entry what was added to it. Call without locks: interrupts are let in, as there.
    pub fn take_from_entry(&self, added: &AclEntry) -> Result<(), Error> {
        let state = self.state.lock();
        let left = if state.deleted { 0 } else { state.acl.given(added) & !added.rights };
        self.set_entry_of(state, &AclEntry { rights: left, ..*added })
    }

    /// For who sets an entry: in the list of a section that has gone nobody would take it out of the text that it names.
    fn living(&self, entry: &AclEntry) -> Result<MutexGuard<'_, State>, Error> {
        let state = self.state.lock();
        if state.deleted && entry.rights != 0 { Err(Error::NotFound) } else { Ok(state) }
    }

    /// `follows`: what it means for others; `forget` sees to what was cached of the list before. If rights were taken away, that is under way until the value goes.
    fn set_entry_locked(
        &self,
        mut state: MutexGuard<'_, State>,
        entry: &AclEntry,
        follows: impl FnOnce(&Acl, ::acl::Change, &AclEntry) -> ::acl::Change,
        forget: impl FnOnce(&Section, &mut State, ::acl::Change) -> Stale,
    ) -> Result<Option<Taking<'_>>, Error> {
        // Whoever runs on a stack trusts the return addresses there (pitfalls, H11): one thread writes it.
        let may_write = Rights::from_bits_retain(entry.rights).contains(Rights::WRITE);
        let is_own = |of: StackOf| entry.principal == principal::THREAD && entry.id == of.thread;
        if may_write && state.stack.is_some_and(|of| !is_own(of)) {
            return Err(Error::NotSupported);
        }
        // What is there already takes no more room.
        if entry.rights != 0 && state.acl.given(entry) == 0 {
            spare_heap_for(&state.owner)?;
        }
        let plan = state.acl.check_set(entry)?;
        // One that has ended forgets only those who named it before.
        if entry.rights != 0 && !self.note_name(entry) {
            return Err(Error::Dead);
        }
        let change = state.acl.apply(plan);
        // Somebody may just be taking the same away, and not be done: whoever asks for it as well is not told before it is gone.
        let change = follows(&state.acl, change, entry);
        if entry.rights == 0
            && !state.acl.entries().iter().any(|other| other.text == entry.text)
            && let Some(text) = Section::find(entry.text)
        {
            text.named_by.lock().remove(&self.base);
        }
        state.count_lists();
        let taking = self.taking(&mut state, change);
        let stale = forget(self, &mut state, change);
        state.show(self);
        drop(state);
        self.list_changed(change);
        stale.flush();
        Ok(taking)
    }

    /// If that has taken rights away: it is under way until the value goes, without locks, when nobody can use them any more.
    pub(crate) fn taking(&self, state: &mut State, change: ::acl::Change) -> Option<Taking<'_>> {
        (change == ::acl::Change::Shrank).then(|| {
            state.acl.takes();
            Taking(self)
        })
    }

    /// What rests on the list. Call without locks.
    pub(crate) fn list_changed(&self, change: ::acl::Change) {
        if self.kind() == kind::POST && change == ::acl::Change::Shrank {
            post::list_changed(self);
        }
        self.changed();
    }

    /// What was cached of the ACL before it changed.
    pub(crate) fn acl_changed(&self, state: &mut State, change: ::acl::Change) -> Stale {
        match ::view::Invalidate::after(change, 0, self.reserve) {
            Some(range) => view::change(&mut state.mapped, range.base, range.len, Change::Unmap),
            None => Stale::default(),
        }
    }

    /// A text remembers who names it, so that its end finds them. Whether it will: not one that has ended.
    pub(super) fn note_name(&self, entry: &AclEntry) -> bool {
        machine().sections.find(entry.text).is_none_or(|text| {
            text.named_by.lock().insert(self.base);
            // Who ends it says so first, and looks at these then.
            !text.is_dead()
        })
    }
}

/// Rights in a section's list are being taken away.
pub(crate) struct Taking<'a>(&'a Section);

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        self.0.state.lock().acl.taken();
    }
}
