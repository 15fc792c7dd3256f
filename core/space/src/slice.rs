//! Handing out the addresses of one node's slice (CUBIX-1, 2).

use crate::{GIB, round_up};
use abi::layout::GRANULE;
use alloc::collections::BTreeMap;

/// A range of addresses, `[base, base + len)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// First address.
    pub base: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Extent {
    /// The first address after the range.
    pub const fn end(self) -> u64 {
        self.base + self.len
    }
}

/// The allocator of a slice's addresses.
#[derive(Clone, Debug)]
pub struct Slice {
    base: u64,
    end: u64,
    /// Where the next search starts.
    cursor: u64,
    /// Base and end of each range that is taken; they never overlap.
    taken: BTreeMap<u64, u64>,
    /// Granules that stay taken when the range in which they are is given back: how many want that, and whether it is so.
    kept: BTreeMap<u64, (u32, bool)>,
}

impl Slice {
    /// An empty slice of the whole granules in `[base, base + len)`.
    pub fn new(base: u64, len: u64) -> Slice {
        let end = base.saturating_add(len) & !(GRANULE - 1);
        let base = round_up(base, GRANULE).unwrap_or(end).min(end);
        Slice { base, end, cursor: base, taken: BTreeMap::new(), kept: BTreeMap::new() }
    }

    /// Takes `len` bytes, rounded up to whole granules, at an address that has not been taken since the search last
    /// went round the slice. A range of a GiB or more begins at a multiple of a GiB. `None` if there is no room for it,
    /// or if `len` is 0.
    pub fn take(&mut self, len: u64) -> Option<Extent> {
        let len = round_up(len, GRANULE).filter(|&len| len > 0)?;
        let unit = if len >= GIB { GIB } else { GRANULE };
        let base = self.room(self.cursor, self.end, len, unit).or_else(|| self.room(self.base, self.end, len, unit))?;
        self.taken.insert(base, base + len);
        self.cursor = base + len;
        Some(Extent { base, len })
    }

    /// Takes exactly `[base, base + len)`, if it consists of whole free granules of the slice. The cursor stays.
    pub fn take_at(&mut self, base: u64, len: u64) -> Option<Extent> {
        let end = base.checked_add(len)?;
        let whole = len > 0 && base.is_multiple_of(GRANULE) && len.is_multiple_of(GRANULE);
        if !whole || base < self.base || end > self.end || self.taken_in(base, end).is_some() {
            return None;
        }
        self.taken.insert(base, end);
        Some(Extent { base, len })
    }

    /// Gives back a range exactly as it was taken. Anything else is a mistake of the caller and changes nothing.
    pub fn give(&mut self, extent: Extent) {
        let known = self.taken.get(&extent.base).is_some_and(|&end| end - extent.base == extent.len);
        debug_assert!(known, "{extent:x?} was not taken");
        if known {
            self.taken.remove(&extent.base);
            for (&base, (_, is_alone)) in self.kept.range_mut(extent.base..extent.base + extent.len) {
                self.taken.insert(base, base + GRANULE);
                *is_alone = true;
            }
        }
    }

    /// The granule at `base`, in a range that is taken, is nobody else's until as many [`Slice::let_go`] as there were of this.
    pub fn keep(&mut self, base: u64) {
        self.kept.entry(base).or_default().0 += 1;
    }

    /// One who has kept the granule at `base` wants it no more.
    pub fn let_go(&mut self, base: u64) {
        let Some((count, is_alone)) = self.kept.get_mut(&base) else { return };
        *count -= 1;
        if *count == 0 {
            if *is_alone {
                self.taken.remove(&base);
            }
            self.kept.remove(&base);
        }
    }

    /// Whether somebody keeps the granule at `base`.
    pub fn is_kept(&self, base: u64) -> bool {
        self.kept.contains_key(&base)
    }

    /// The first `unit`-aligned address in `[from, end)` with `len` free bytes after it.
    fn room(&self, from: u64, end: u64, len: u64, unit: u64) -> Option<u64> {
        let mut base = round_up(from, unit)?;
        loop {
            let after = base.checked_add(len).filter(|&after| after <= end)?;
            match self.taken_in(base, after) {
                None => return Some(base),
                // Nothing that begins before the end of what is in the way can be free.
                Some(blocked_until) => base = round_up(blocked_until, unit)?,
            }
        }
    }

    /// The end of the last taken range that overlaps `[base, end)`.
    fn taken_in(&self, base: u64, end: u64) -> Option<u64> {
        let (_, &last) = self.taken.range(..end).next_back()?;
        (last > base).then_some(last)
    }
}

#[cfg(test)]
mod tests;
