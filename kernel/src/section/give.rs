//! Sections that become another task's.

use super::Section;
use crate::domain::Domain;
use crate::post;
use crate::promise;
use crate::task::Task;
use abi::refusal::Object;
use abi::task::USER_SYSTEM;
use abi::{Error, Rights};
use alloc::sync::Arc;
use quota::Resource;

impl Section {
    /// Gives the section and its charge to another task.
    pub fn give(&self, by: &Domain, to: &Arc<Task>) -> Result<(), Error> {
        to.about.makes_room(Some(to));
        let giver = by.text.owner().user;
        let mut state = self.lock_for(by, Rights::CHANGE_ACL)?;
        if self.is_dead() {
            return Err(Error::NotFound);
        }
        if state.sealing || state.ending {
            return Err(Error::Busy);
        }
        // A text acts as the task that owns it: nobody makes a stranger, least of all the system, the author of his code.
        if self.is_text() && giver != USER_SYSTEM && giver != to.user {
            return Err(by.subject.refused(Object::Task(to.number)));
        }
        if to.is_dead() {
            return Err(Error::Dead);
        }
        let frames = state.charged + state.invalid.pieces() + state.paged.clean.pieces() + state.whose.pieces() + state.structures.frames();
        promise::look_for_given(to, &state.owner, state.listed.0, frames - state.shared)?;
        to.charge(Resource::Sections, 1)?;
        let undo_section = || to.release(Resource::Sections, 1);
        to.charge(Resource::Reserve, self.charged_reserve).inspect_err(|_| undo_section())?;
        to.charge_shared(frames, state.shared, Some(&state.owner)).inspect_err(|_| {
            to.release(Resource::Reserve, self.charged_reserve);
            undo_section();
        })?;
        to.counts_list(0, state.listed.0);
        let from = &state.owner;
        from.counts_list(state.listed.0, 0);
        from.counts_shared(state.shared, 0);
        let bill = [(Resource::Sections, 1), (Resource::Reserve, self.charged_reserve), (Resource::Frames, frames)];
        bill.into_iter().for_each(|(what, amount)| from.release(what, amount));
        state.owner.sections.lock().remove(&self.base);
        to.sections.lock().insert(self.base);
        state.owner = to.clone();
        state.moved(self);
        drop(state);
        post::given(self);
        if to.is_finished() {
            // It ended meanwhile and may not have seen this section.
            self.delete_of(to);
            return Err(Error::Dead);
        }
        Ok(())
    }
}
