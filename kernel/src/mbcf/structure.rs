//! Structures in a program's memory that are genuine: those that the section's registry knows. The words there are a picture that is drawn
//! after every change and never looked at, so whoever can write them deceives nobody but readers of his own.

use super::pair::{is_still, prepare_needed, put_words};
use crate::domain::Domain;
use crate::machine::spare_heap_for;
use crate::section::{Section, State};
use crate::view::Stale;
use ::mbcf::registry::Structure;
use abi::mbcf::STRUCTURE_ALIGN;
use abi::section::kind;
use abi::{Error, Rights};
use alloc::sync::Arc;
use quota::Resource;

/// A place for a structure.
pub struct Site {
    pub section: Arc<Section>,
    pub offset: u64,
}

impl Site {
    pub fn new(address: u64) -> Result<Site, Error> {
        if !address.is_multiple_of(STRUCTURE_ALIGN) {
            return Err(Error::BadAddress);
        }
        let section = Section::find(address).ok_or(Error::NotFound)?;
        let offset = address - section.base;
        Ok(Site { section, offset })
    }

    /// Whether a domain may use what lies there, with its section locked.
    pub fn check(&self, d: &Domain, state: &State, needed: Rights) -> Result<(), Error> {
        state.acl.check(self.section.base, &d.subject, needed)?;
        if state.deleted {
            return Err(Error::NotFound);
        }
        is_still(state)
    }

    /// Whether a range lies in the section, and not on the structure itself.
    pub fn may_use(&self, state: &State, start: u64, end: u64) -> bool {
        let base = self.section.base;
        let own = base + self.offset;
        let inside = start >= base && start <= end && end <= base + state.len && self.offset + STRUCTURE_ALIGN <= state.len;
        inside && (end <= own || own + STRUCTURE_ALIGN <= start)
    }

    /// The structure begins to be one, at the owner's cost. `Some`: a page is to be settled first.
    pub fn register(&self, state: &mut State, structure: Structure) -> Result<Option<Stale>, Error> {
        if self.section.kind() != kind::DATA {
            return Err(Error::NotSupported);
        }
        spare_heap_for(&state.owner)?;
        if let Some(stale) = prepare_needed(&self.section, state, self.offset, STRUCTURE_ALIGN)? {
            return Ok(Some(stale));
        }
        let frames = state.structures.frames_for(self.offset);
        if frames > 0 {
            state.owner.charge(Resource::Frames, frames)?;
        }
        state.structures.put(self.offset, structure);
        if frames > 0 {
            state.count_lists();
        }
        show(state, self.offset)?;
        Ok(None)
    }
}

/// Draws it, where its page is prepared.
pub fn show(state: &mut State, offset: u64) -> Result<(), Error> {
    match state.structures.get(offset) {
        Some(Structure::Fifo(fifo)) => {
            let words = fifo.words();
            put_words(state, offset, &[words.start, words.end, words.read, words.flags, words.write])
        }
        Some(Structure::Signal(signal)) => {
            let words = signal.words();
            put_words(state, offset, &[words.kinds, words.entry, words.buffer, words.buffer_end, words.thread, words.under_way, words.flags])
        }
        None => Ok(()),
    }
}

/// `structure_end`.
pub fn end(d: &Domain, address: u64) -> Result<u64, Error> {
    let site = Site::new(address)?;
    let mut state = site.section.lock_for(d, Rights::CHANGE_ACL)?;
    let frames = state.structures.take(site.offset).ok_or(Error::NotFound)?;
    state.owner.release(Resource::Frames, frames);
    state.count_lists();
    Ok(0)
}
