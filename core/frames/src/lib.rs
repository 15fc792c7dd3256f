#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod block;
mod list;

use alloc::vec::Vec;
use block::Block;
use list::{List, NONE};

pub use block::BLOCK;

/// Blocks that are broken into and are looked at for a run that is shorter than a block.
const LOOKED_AT: usize = 32;

/// The free frames of a machine.
#[derive(Debug)]
pub struct Pool {
    blocks: Vec<Block>,
    /// Blocks of which some frames are free.
    some: List,
    /// Blocks that are free as a whole.
    whole: List,
}

impl Default for Pool {
    fn default() -> Self {
        Pool::new()
    }
}

impl Pool {
    /// Without any memory.
    #[must_use]
    pub const fn new() -> Pool {
        Pool { blocks: Vec::new(), some: List::EMPTY, whole: List::EMPTY }
    }

    /// With room for frames below `end`, none of which is free.
    #[must_use]
    pub fn below(end: u64) -> Pool {
        let mut blocks = Vec::new();
        blocks.resize_with(end.div_ceil(BLOCK) as usize, Block::default);
        Pool { blocks, ..Pool::new() }
    }

    /// Takes up to `to.len()` frames, one by one. How many there were.
    pub fn take(&mut self, to: &mut [u64]) -> usize {
        let mut taken = 0;
        while taken < to.len() {
            let at = match self.some.first() {
                NONE => match self.whole.first() {
                    NONE => break,
                    at => at,
                },
                at => at,
            };
            let before = self.blocks[at as usize].free();
            taken += self.blocks[at as usize].take(u64::from(at) * BLOCK, &mut to[taken..]);
            self.file(at, before);
        }
        taken
    }

    /// Adds a range of frames that nobody has had yet. Those that are added last are taken first, and of a range the first ones.
    ///
    /// # Panics
    /// As for [`Pool::give`].
    pub fn add(&mut self, first: u64, count: u64) {
        let mut end = first + count;
        while end > first {
            let from = first.max((end - 1) / BLOCK * BLOCK);
            self.give(from, end - from);
            end = from;
        }
    }

    /// Gives one frame back.
    ///
    /// # Panics
    /// As for [`Pool::give`].
    #[inline]
    pub fn give_one(&mut self, frame: u64) {
        let at = frame / BLOCK;
        let free = self.blocks[at as usize].give_one(frame % BLOCK);
        if free == 1 || free == BLOCK {
            self.file(at as u32, free - 1);
        }
    }

    /// Gives frames in a row back.
    ///
    /// # Panics
    /// If one of them is free, or none of the pool's.
    pub fn give(&mut self, first: u64, count: u64) {
        self.each_part(first, count, Block::give);
    }

    /// Takes `count` frames in a row, of which the first is a multiple of `align`, a power of two. `None`: there are none. (A run that is shorter than a
    /// block lies within one; of those that are broken into, not all are looked at.)
    pub fn take_run(&mut self, count: u64, align: u64) -> Option<u64> {
        let first = if count == 0 {
            None
        } else if count < BLOCK && align < BLOCK {
            self.find_short(count, align)
        } else if count <= BLOCK && align <= BLOCK {
            let last = self.whole.last();
            (last != NONE).then_some(u64::from(last) * BLOCK)
        } else {
            self.find_long(count, align)
        }?;
        self.each_part(first, count, Block::take_out);
        Some(first)
    }

    fn find_short(&self, count: u64, align: u64) -> Option<u64> {
        let mut at = self.some.first();
        for _ in 0..LOOKED_AT {
            if at == NONE {
                break;
            }
            if let Some(offset) = self.blocks[at as usize].find(count, align) {
                return Some(u64::from(at) * BLOCK + offset);
            }
            at = self.blocks[at as usize].links.next;
        }
        let whole = self.whole.last();
        (whole != NONE).then_some(u64::from(whole) * BLOCK)
    }

    /// From the end of memory on: single frames are first taken from its beginning.
    fn find_long(&self, count: u64, align: u64) -> Option<u64> {
        let (count, step) = (count.div_ceil(BLOCK), align.div_ceil(BLOCK));
        let mut first = (self.blocks.len() as u64).checked_sub(count)? / step * step;
        loop {
            let taken = (first..first + count).find(|at| self.blocks[*at as usize].free() != BLOCK);
            let Some(taken) = taken else { return Some(first * BLOCK) };
            // None that the block which is not whole lies in.
            first = taken.checked_sub(count)? / step * step;
        }
    }

    /// Does the same to each block of a range, for the frames there.
    fn each_part(&mut self, first: u64, count: u64, change: impl Fn(&mut Block, u64, u64)) {
        let (mut at, end) = (first, first + count);
        while at < end {
            let until = end.min((at / BLOCK + 1) * BLOCK);
            let index = at / BLOCK;
            let block = &mut self.blocks[index as usize];
            let before = block.free();
            change(block, at % BLOCK, until - at);
            self.file(index as u32, before);
            at = until;
        }
    }

    /// Puts a block into the list that it belongs in now; before, so many of its frames were free.
    fn file(&mut self, at: u32, before: u64) {
        let now = self.blocks[at as usize].free();
        let list = |free| match free {
            0 => 0,
            BLOCK => 2,
            _ => 1,
        };
        if list(before) == list(now) {
            return;
        }
        match list(before) {
            1 => self.some.remove(&mut self.blocks, at),
            2 => self.whole.remove(&mut self.blocks, at),
            _ => {}
        }
        match list(now) {
            1 => self.some.put(&mut self.blocks, at),
            2 => self.whole.put(&mut self.blocks, at),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
