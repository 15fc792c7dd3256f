//! The gates of one text section.

use abi::Error;
use abi::gate::{GATE_STEP, GATES_MAX, flag};
use alloc::collections::BTreeMap;

/// Gates that lie side by side and enter their text at the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Where the text is entered.
    pub entry: u64,
    /// How many gates the block has.
    pub count: u64,
    /// Handed to the text on each entry.
    pub cookie: u64,
    /// Union of `abi::gate::flag`.
    pub flags: u64,
}

/// The blocks of gates that a text exports.
#[derive(Clone, Debug)]
pub struct GateTable {
    first_address: u64,
    /// By the number of a block's first gate; they never overlap.
    blocks: BTreeMap<u64, Block>,
    /// Where the next search starts.
    cursor: u64,
}

impl GateTable {
    /// No gates yet; the first will have the address `first_address`.
    pub const fn new(first_address: u64) -> GateTable {
        GateTable { first_address, blocks: BTreeMap::new(), cursor: 0 }
    }

    /// Exports a block and returns the address of its first gate.
    ///
    /// # Errors
    /// `BadArgument`: no gates, or an unknown flag. `TooBig`: there is no room for so many gates side by side.
    pub fn create(&mut self, block: Block) -> Result<u64, Error> {
        if block.count == 0 || block.flags & !flag::OF_GATES != 0 {
            return Err(Error::BadArgument);
        }
        let first = self.room(self.cursor, block.count).or_else(|| self.room(0, block.count)).ok_or(Error::TooBig)?;
        self.blocks.insert(first, block);
        self.cursor = first + block.count;
        Ok(self.first_address + first * GATE_STEP)
    }

    /// Takes the block back whose first gate has this address.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn delete(&mut self, address: u64) -> Result<Block, Error> {
        let number = self.number(address).ok_or(Error::NotFound)?;
        self.blocks.remove(&number).ok_or(Error::NotFound)
    }

    /// Their text is gone: none of them leads anywhere. What they were kept in, for the caller to free.
    pub fn end(&mut self) -> BTreeMap<u64, Block> {
        core::mem::take(&mut self.blocks)
    }

    /// The block that the gate at exactly this address belongs to, and the gate's index in it.
    pub fn find(&self, address: u64) -> Option<(Block, u64)> {
        let number = self.number(address)?;
        let (&first, &block) = self.blocks.range(..=number).next_back()?;
        let index = number - first;
        (index < block.count).then_some((block, index))
    }

    /// The number of the gate that would have this address.
    fn number(&self, address: u64) -> Option<u64> {
        let offset = address.checked_sub(self.first_address)?;
        (offset.is_multiple_of(GATE_STEP) && offset / GATE_STEP < GATES_MAX).then_some(offset / GATE_STEP)
    }

    /// The first `count` free numbers in a row from `from` on.
    fn room(&self, from: u64, count: u64) -> Option<u64> {
        let mut first = from;
        loop {
            let end = first.checked_add(count).filter(|&end| end <= GATES_MAX)?;
            match self.blocks.range(..end).next_back() {
                Some((&other, block)) if other + block.count > first => first = other + block.count,
                _ => return Some(first),
            }
        }
    }
}
