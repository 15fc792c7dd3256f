//! The genuine structures of a section, by offset: what is not in here is just memory, whatever it looks like (SSS-82, 108).

use crate::fifo::Fifo;
use crate::signal::Signal;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;

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
pub struct Registry(BTreeMap<u64, Structure>);

impl Registry {
    #[must_use]
    pub const fn new() -> Registry {
        Registry(BTreeMap::new())
    }

    /// Frames that are paid for.
    #[must_use]
    pub fn frames(&self) -> u64 {
        (self.0.len() as u64).div_ceil(PER_FRAME)
    }

    /// Frames to be paid for besides, for a structure there.
    #[must_use]
    pub fn frames_for(&self, offset: u64) -> u64 {
        let new = u64::from(!self.0.contains_key(&offset));
        (self.0.len() as u64 + new).div_ceil(PER_FRAME) - self.frames()
    }

    /// A structure begins to be one; one that was there is one no more.
    pub fn put(&mut self, offset: u64, structure: Structure) {
        self.0.insert(offset, structure);
    }

    #[must_use]
    pub fn get(&self, offset: u64) -> Option<&Structure> {
        self.0.get(&offset)
    }

    pub fn fifo(&mut self, offset: u64) -> Option<&mut Fifo> {
        match self.0.get_mut(&offset) {
            Some(Structure::Fifo(fifo)) => Some(fifo),
            _ => None,
        }
    }

    pub fn signal(&mut self, offset: u64) -> Option<&mut Signal> {
        match self.0.get_mut(&offset) {
            Some(Structure::Signal(signal)) => Some(signal),
            _ => None,
        }
    }

    /// The structure there is one no more. Frames that are not paid for any longer; `None`: there was none.
    pub fn take(&mut self, offset: u64) -> Option<u64> {
        let before = self.frames();
        self.0.remove(&offset)?;
        Some(before - self.frames())
    }

    /// The section (which begins at `base`) is `len` bytes long from now on: what does not lie in that altogether is no structure any more.
    /// Frames that are not paid for any longer.
    pub fn cut(&mut self, base: u64, len: u64) -> u64 {
        let before = self.frames();
        self.0.retain(|offset, structure| *offset < len && structure.end() <= base + len);
        before - self.frames()
    }
}
