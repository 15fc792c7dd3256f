//! The end of a section. Its address is free last of all: what is known by that alone is forgotten before another section may be there.

use super::{SLICE, Section, Shorter, State, passers};
use crate::domain::Domain;
use crate::machine::machine;
use crate::sched::{self, Progress};
use crate::task::Task;
use crate::view;
use crate::{post, text};

use abi::section::kind;
use abi::{Error, Rights};
use alloc::sync::Arc;
use arch::cpu;
use arch::shown::MACHINE;
use core::sync::atomic::Ordering;
use quota::Resource;
use spin::MutexGuard;

/// Structures that end with interrupts off.
const STRUCTURES_AT_ONCE: usize = 64;
/// Bindings of a text that end at a time.
const BINDINGS_AT_ONCE: usize = 8;

impl Section {
    /// Deletes the section for a domain that may: no access is possible any more when this is done. A long one becomes shorter first, by parts, between
    /// which others have their turns.
    pub fn delete_for(&self, by: &Domain) -> Result<Progress, Error> {
        if !self.is_text() && self.is_cut_first(&mut *self.lock_for(by, Rights::CHANGE_ACL)?) {
            // What is against that is not against its end.
            if let Ok(Progress::More) = self.resize(by, SLICE) {
                return Ok(Progress::More);
            }
            sched::breathe();
        }
        self.delete_if(by, || Ok(())).map(|()| Progress::Done)
    }

    /// Whether it is so long that it goes by parts while it is there yet. (A text is not before all have heard of its end: who is in it is to hear that,
    /// and nothing else.)
    fn is_cut_first(&self, state: &mut State) -> bool {
        let may_be = match self.kind() {
            kind::DATA | kind::STACK => true,
            kind::TEXT => self.is_dead() && self.is_over(),
            _ => false,
        };
        let is_long = state.len > SLICE && may_be;
        state.ending |= is_long;
        is_long
    }

    /// Of a task that ends, on the kernel's own behalf: a part of it goes, or all that is left, which does so with the running thread if it is much. Whether
    /// it was that. If it is a text all have heard of its end.
    pub fn lessen(&self, of: &Task) -> bool {
        let goes = |state: &mut State| !state.deleted && core::ptr::eq(&*state.owner, of) && self.is_cut_first(state);
        let mut state = self.state.lock();
        if !goes(&mut state) {
            drop(state);
            self.delete_of(of);
            return true;
        }
        let mut state = self.leave_many(state);
        // Others may have had it meanwhile.
        if goes(&mut state) {
            let mut len = state.cut_to(SLICE);
            let shorter = self.set_len_some(&mut state, &mut len);
            shorter.flush(self, state);
        }
        false
    }

    /// The same if nothing is against it, which is asked in one step with it: nobody else is deleting it then, nor will be.
    pub fn delete_if(&self, by: &Domain, may_go: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let mut state = self.lock_for(by, Rights::CHANGE_ACL)?;
        may_go()?;
        let owner = state.delete();
        drop(state);
        owner.into_iter().for_each(|_| self.dissolve());
        Ok(())
    }

    /// The section that this domain has just made, whose list names its text: not if that has ended meanwhile, and may have looked for who
    /// names it before.
    ///
    /// # Errors
    /// `Dead`.
    pub fn made_by(self: Arc<Section>, by: &Domain) -> Result<Arc<Section>, Error> {
        if by.text.is_dead() {
            self.delete();
            return Err(Error::Dead);
        }
        Ok(self)
    }

    /// Deletes it on the kernel's own behalf.
    pub fn delete(&self) {
        // Of several that delete it one goes on: by now another section may have this address, which must stay.
        let owner = self.state.lock().delete();
        owner.into_iter().for_each(|_| self.dissolve());
    }

    /// The same, if it is still this task's.
    pub fn delete_of(&self, task: &Task) {
        let owner = {
            let mut state = self.state.lock();
            if core::ptr::eq(&*state.owner, task) { state.delete() } else { None }
        };
        owner.into_iter().for_each(|_| self.dissolve());
    }

    /// Nobody reaches it any more when this is done. What it has goes by parts, if that is much, before the running thread leaves the kernel.
    fn dissolve(&self) {
        let lent_by = self.state.lock().lent_by.clone();
        // With the next call somebody would be told of addresses that are not the caller's any more.
        lent_by.iter().for_each(|binding| _ = binding.end());
        // Whoever ends its task may be at that, too, on another processor.
        loop {
            self.end_text();
            if self.is_over() {
                break;
            }
            sched::breathe();
            cpu::relax();
        }
        let state = self.state.lock();
        self.dead.store(true, Ordering::SeqCst);
        self.going.store(true, Ordering::SeqCst);
        for text in state.acl.entries().iter().filter_map(|entry| Section::find(entry.text)) {
            text.named_by.lock().remove(&self.base);
        }
        drop(state);
        if self.is_text() {
            self.give_up_keys();
        }
        view::leave_all(self);
        // Or each slice of it would be looked for in all of them.
        self.leave_for_good();
        let mut is_all = self.dissolve_some();
        if !is_all && sched::leaves_the_rest_of(self) {
            return;
        }
        while !is_all {
            sched::breathe();
            is_all = self.dissolve_some();
        }
        self.is_dissolved();
    }

    /// A part of what one has that is deleted goes. Whether that was all.
    pub fn dissolve_some(&self) -> bool {
        // What this text was bound to ends with it; argument sections belong to the bound task.
        for _ in 0..BINDINGS_AT_ONCE {
            let Some(binding) = self.bindings.lock().pop() else { break };
            binding.iter().for_each(|binding| _ = binding.end());
        }
        let is_free = !self.is_text() || text::forget_some_names(self);
        let is_bound = !self.bindings.lock().is_empty();
        let mut state = self.state.lock();
        if state.len == 0 {
            return !is_bound && is_free;
        }
        let mut len = state.cut_to(0);
        let shorter = self.set_len_some(&mut state, &mut len);
        shorter.flush(self, state);
        len == 0 && !is_bound && is_free
    }

    /// Nothing is left of what it had.
    pub fn is_dissolved(&self) {
        // Who was in the middle of a fault.
        self.leave_for_good();
        let mut state = self.state.lock();
        let (owner, lent_by) = (state.owner.clone(), state.lent_by.take());
        owner.release(Resource::Frames, state.charged);
        owner.counts_list(state.listed.0, 0);
        owner.counts_shared(state.shared, 0);
        (state.charged, state.listed.0, state.shared) = (0, 0, 0);
        state.shown.hide();
        let entries = state.acl.end();
        drop(state);
        // Whoever is bound to it, or has a mapping of it, may know of it for long: not of these.
        drop((entries, self.gates.lock().end(), core::mem::take(&mut *self.bindings.lock())));
        match lent_by {
            Some(binding) => binding.let_go(),
            None => passers::let_go(self, &owner),
        }
        owner.unused();
    }

    /// No view is registered with it any more, and nothing of it is mapped in any. In stretches; call without locks, when it is dead.
    fn leave_for_good(&self) {
        loop {
            let mut state = self.state.lock();
            let stale = view::disown(self, &mut state);
            let is_last = state.mapped.is_empty();
            drop(state);
            stale.flush();
            if is_last {
                return;
            }
            sched::breathe();
        }
    }

    /// Locked for another length by a domain that may change it. Where it becomes shorter, and many views map it, they leave it before, in stretches, and
    /// come by faults again, which wait meanwhile: so there is little to be taken out of each when its pages go. `None`: somebody has a page of it leave many
    /// views; the call is made again.
    pub(super) fn lock_for_length(&self, by: &Domain, len: u64) -> Result<Option<MutexGuard<'_, State>>, Error> {
        let mut have_left = false;
        loop {
            // (The right may have been taken away meanwhile.)
            let state = self.lock_for(by, Rights::CHANGE_ACL)?;
            if state.replacing > 0 {
                // What leaves views in stretches is not to come back before it has.
                return Ok(None);
            }
            if have_left || len >= state.len || state.mapped.len() as u64 <= view::FEW_TABLES {
                return Ok(Some(state));
            }
            drop(self.leave_many(state));
            have_left = true;
        }
    }

    /// Where many views map it they leave it, with the lock let go meanwhile.
    fn leave_many<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if state.mapped.len() as u64 <= view::FEW_TABLES {
            return state;
        }
        state.replacing += 1;
        drop(state);
        view::leave_all(self);
        let mut state = self.state.lock();
        state.replacing -= 1;
        state
    }

    /// Sets the length; where there are many structures beyond it some of them end, and it stays as it is, which `len` says then.
    pub(super) fn set_len_some(&self, state: &mut State, len: &mut u64) -> Shorter {
        if self.cut_structures(state, *len) {
            return self.set_len(state, *len);
        }
        *len = state.len;
        Shorter::default()
    }

    /// Structures that do not lie in `len` bytes are none any more, as many as there is time for with interrupts off. Whether that was all.
    pub fn cut_structures(&self, state: &mut State, len: u64) -> bool {
        let (paid, is_all) = state.structures.cut(self.base, len, STRUCTURES_AT_ONCE);
        state.owner.release(Resource::Frames, paid);
        state.count_lists();
        is_all
    }

    /// Its addresses are free.
    pub fn let_go(&self, owner: &Arc<Task>) {
        owner.sections.lock().remove(&self.base);
        machine().sections.remove(self.base, self.reserve);
        if self.kind() == kind::POST {
            // First the name, then the number: who gets that finds the name free.
            post::deleted(self);
        }
        if self.kind() == kind::STACK {
            // Its thread has it in hand until that is gone, too, and is counted itself.
            owner.release(Resource::Reserve, self.charged_reserve);
        } else {
            self.hold.was(owner, self.charged_reserve);
        }
        owner.release(Resource::Sections, 1);
        MACHINE.sections.fetch_sub(1, Ordering::Relaxed);
    }
}
