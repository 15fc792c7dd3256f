//! Blocks in a list, linked by their numbers.

use crate::block::Block;

/// No block.
pub(crate) const NONE: u32 = u32::MAX;

/// What a block is between.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    pub(crate) next: u32,
    before: u32,
}

impl Default for Links {
    fn default() -> Self {
        Links { next: NONE, before: NONE }
    }
}

#[derive(Debug)]
pub(crate) struct List {
    first: u32,
    last: u32,
}

impl List {
    pub(crate) const EMPTY: List = List { first: NONE, last: NONE };

    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    pub(crate) fn last(&self) -> u32 {
        self.last
    }

    /// Puts a block at the beginning.
    pub(crate) fn put(&mut self, blocks: &mut [Block], at: u32) {
        blocks[at as usize].links = Links { next: self.first, before: NONE };
        match self.first {
            NONE => self.last = at,
            first => blocks[first as usize].links.before = at,
        }
        self.first = at;
    }

    pub(crate) fn remove(&mut self, blocks: &mut [Block], at: u32) {
        let Links { next, before } = core::mem::take(&mut blocks[at as usize].links);
        match before {
            NONE => self.first = next,
            before => blocks[before as usize].links.next = next,
        }
        match next {
            NONE => self.last = before,
            next => blocks[next as usize].links.before = before,
        }
    }
}
