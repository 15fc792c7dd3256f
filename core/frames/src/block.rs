//! 512 frames in a row.

use crate::list::Links;

/// Frames in a block: as many as a page of 2 MiB has.
pub const BLOCK: u64 = 512;
const WORD: u64 = u64::BITS as u64;
const WORDS: usize = (BLOCK / WORD) as usize;

#[derive(Debug, Default)]
pub(crate) struct Block {
    /// A bit for each frame that is free.
    bits: [u64; WORDS],
    free: u16,
    pub(crate) links: Links,
}

impl Block {
    /// How many of its frames are free.
    pub(crate) fn free(&self) -> u64 {
        u64::from(self.free)
    }

    /// Takes the first free ones. How many; the block's first frame is `base`.
    pub(crate) fn take(&mut self, base: u64, to: &mut [u64]) -> usize {
        let mut taken = 0;
        for (word, first) in self.bits.iter_mut().zip((base..).step_by(WORD as usize)) {
            while *word != 0 && taken < to.len() {
                to[taken] = first + u64::from(word.trailing_zeros());
                *word &= *word - 1;
                taken += 1;
            }
        }
        self.free -= taken as u16;
        taken
    }

    /// How many are free then.
    #[inline]
    pub(crate) fn give_one(&mut self, frame: u64) -> u64 {
        let (word, mask) = (&mut self.bits[(frame / WORD) as usize], 1 << (frame % WORD));
        assert!(*word & mask == 0, "a frame is given back twice");
        *word |= mask;
        self.free += 1;
        self.free()
    }

    pub(crate) fn give(&mut self, first: u64, count: u64) {
        for (word, mask) in masks(first, count) {
            assert!(self.bits[word] & mask == 0, "a frame is given back twice");
            self.bits[word] |= mask;
        }
        self.free += count as u16;
    }

    pub(crate) fn take_out(&mut self, first: u64, count: u64) {
        for (word, mask) in masks(first, count) {
            assert!(self.bits[word] & mask == mask, "a frame is taken twice");
            self.bits[word] &= !mask;
        }
        self.free -= count as u16;
    }

    /// The first of so many free frames in a row, a multiple of `align`.
    pub(crate) fn find(&self, count: u64, align: u64) -> Option<u64> {
        if self.free() < count {
            return None;
        }
        let mut first = 0;
        while first + count <= BLOCK {
            let taken = masks(first, count).find_map(|(word, mask)| {
                let taken = mask & !self.bits[word];
                // The last one: all before it is in vain.
                (taken != 0).then(|| word as u64 * WORD + u64::from(taken.ilog2()))
            });
            match taken {
                Some(taken) => first = (taken + 1).next_multiple_of(align),
                None => return Some(first),
            }
        }
        None
    }
}

/// The words that some frames lie in, and which bits of each they are.
fn masks(first: u64, count: u64) -> impl Iterator<Item = (usize, u64)> {
    let end = first + count;
    (first / WORD..end.div_ceil(WORD)).map(move |word| {
        let low = first.saturating_sub(word * WORD);
        let bits = (end - word * WORD).min(WORD) - low;
        (word as usize, (u64::MAX >> (WORD - bits)) << low)
    })
}
