//! The genuine structures of a section, by offset: what is not in here is just memory, whatever it looks like (SSS-82, 108).

use crate::fifo::Fifo;
use crate::signal::Signal;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};

/// Structures whose bookkeeping is paid for with one frame.
pub const PER_FRAME: u64 = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Structure {
    Fifo(Fifo),
    Signal(Box<Signal>),
}

impl Structure {
    /// Where what it writes to ends.
    fn end(&self) -> u64 {
        match self {
            Structure::Fifo(fifo) => fifo.end(),
            Structure::Signal(signal) => signal.end_of_buffer(),
        }
    }
}

#[derive(Debug, Default)]
pub struct Registry {
    all: BTreeMap<u64, Structure>,
    /// Where what each writes to ends, and its offset: those that are to end with the section's end are found there.
    ends: BTreeSet<(u64, u64)>,
}

impl Registry {
    #[must_use]
    pub const fn new() -> Registry {
        Registry { all: BTreeMap::new(), ends: BTreeSet::new() }
    }

    /// Frames that are paid for.
    #[must_use]
    pub fn frames(&self) -> u64 {
        (self.all.len() as u64).div_ceil(PER_FRAME)
    }

    /// Frames to be paid for besides, for a structure there.
    #[must_use]
    pub fn frames_for(&self, offset: u64) -> u64 {
        let new = u64::from(!self.all.contains_key(&offset));
        (self.all.len() as u64 + new).div_ceil(PER_FRAME) - self.frames()
    }

    /// A structure begins to be one; one that was there is one no more.
    pub fn put(&mut self, offset: u64, structure: Structure) {
        let end = structure.end();
        if let Some(before) = self.all.insert(offset, structure) {
            self.ends.remove(&(before.end(), offset));
        }
        self.ends.insert((end, offset));
    }

    #[must_use]
    pub fn get(&self, offset: u64) -> Option<&Structure> {
        self.all.get(&offset)
    }

    pub fn fifo(&mut self, offset: u64) -> Option<&mut Fifo> {
        match self.all.get_mut(&offset) {
            Some(Structure::Fifo(fifo)) => Some(fifo),
            _ => None,
        }
    }

    pub fn signal(&mut self, offset: u64) -> Option<&mut Signal> {
        match self.all.get_mut(&offset) {
            Some(Structure::Signal(signal)) => Some(signal),
            _ => None,
        }
    }

    /// The structure there is one no more. Frames that are not paid for any longer; `None`: there was none.
    pub fn take(&mut self, offset: u64) -> Option<u64> {
        let before = self.frames();
        self.end(offset)?;
        Some(before - self.frames())
    }

    fn end(&mut self, offset: u64) -> Option<()> {
        let structure = self.all.remove(&offset)?;
        self.ends.remove(&(structure.end(), offset));
        Some(())
    }

    /// The section (which begins at `base`) is to be `len` bytes long: what does not lie in that altogether is no structure any more, at most so many
    /// of them. Frames that are not paid for any longer, and whether that was all.
    pub fn cut(&mut self, base: u64, len: u64, at_most: usize) -> (u64, bool) {
        let before = self.frames();
        let is_all = (0..=at_most).any(|n| match self.beyond(base, len) {
            None => true,
            Some(offset) if n < at_most => {
                self.end(offset);
                false
            }
            Some(_) => false,
        });
        (before - self.frames(), is_all)
    }

    /// One that does not lie in that.
    fn beyond(&self, base: u64, len: u64) -> Option<u64> {
        let last = self.all.last_key_value().map(|(offset, _)| *offset).filter(|offset| *offset >= len);
        last.or_else(|| self.ends.last().filter(|(end, _)| *end > base + len).map(|(_, offset)| *offset))
    }
}
