//! Handing out the addresses of one node's slice (CUBIX-1, 2).

use crate::{GIB, round_up};
use abi::layout::GRANULE;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

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
    /// The same of each range that is free, between two that are not: who looks for room goes through these, not through all that is taken.
    free: BTreeMap<u64, u64>,
    /// Bytes that are free.
    left: u64,
    /// Granules that stay taken when the range in which they are is given back: how many want that, and whether it is so.
    kept: BTreeMap<u64, (u32, bool)>,
}

impl Slice {
    /// An empty slice of the whole granules in `[base, base + len)`.
    pub fn new(base: u64, len: u64) -> Slice {
        let end = base.saturating_add(len) & !(GRANULE - 1);
        let base = round_up(base, GRANULE).unwrap_or(end).min(end);
        let free = if base < end { [(base, end)].into() } else { BTreeMap::new() };
        Slice { base, end, cursor: base, taken: BTreeMap::new(), free, left: end - base, kept: BTreeMap::new() }
    }

    /// Takes `len` bytes, rounded up to whole granules, at an address that has not been taken since the search last
    /// went round the slice. A range of a GiB or more begins at a multiple of a GiB. `None` if there is no room for it,
    /// or if `len` is 0.
    pub fn take(&mut self, len: u64) -> Option<Extent> {
        let len = round_up(len, GRANULE).filter(|&len| len > 0)?;
        let unit = if len >= GIB { GIB } else { GRANULE };
        let base = self.room(self.cursor, self.end, len, unit).or_else(|| self.room(self.base, self.end, len, unit))?;
        self.occupy(base, base + len);
        self.cursor = base + len;
        Some(Extent { base, len })
    }

    /// The same if a part of all, one in so many, is free afterwards.
    pub fn take_beside(&mut self, len: u64, part: u64) -> Option<Extent> {
        let leaves = self.left.checked_sub(round_up(len, GRANULE)?)?;
        if leaves < (self.end - self.base) / part { None } else { self.take(len) }
    }

    /// Takes exactly `[base, base + len)`, if it consists of whole free granules of the slice. The cursor stays.
    pub fn take_at(&mut self, base: u64, len: u64) -> Option<Extent> {
        let end = base.checked_add(len)?;
        let whole = len > 0 && base.is_multiple_of(GRANULE) && len.is_multiple_of(GRANULE);
        let is_free = self.free.range(..=base).next_back().is_some_and(|(_, free)| *free >= end);
        if !whole || !is_free {
            return None;
        }
        self.occupy(base, end);
        Some(Extent { base, len })
    }

    /// Gives back a range exactly as it was taken. Anything else is a mistake of the caller and changes nothing.
    pub fn give(&mut self, extent: Extent) {
        let known = self.taken.get(&extent.base).is_some_and(|&end| end - extent.base == extent.len);
        debug_assert!(known, "{extent:x?} was not taken");
        if known {
            self.vacate(extent.base);
            let kept = self.kept.range_mut(extent.base..extent.base + extent.len);
            let alone = kept.map(|(&base, (_, is_alone))| {
                *is_alone = true;
                base
            });
            let alone: Vec<u64> = alone.collect();
            alone.into_iter().for_each(|base| self.occupy(base, base + GRANULE));
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
            let is_alone = *is_alone;
            self.kept.remove(&base);
            if is_alone {
                self.vacate(base);
            }
        }
    }

    /// Whether somebody keeps the granule at `base`.
    pub fn is_kept(&self, base: u64) -> bool {
        self.kept.contains_key(&base)
    }

    /// What was free is taken.
    fn occupy(&mut self, base: u64, end: u64) {
        let around = self.free.range(..=base).next_back().map(|(&from, &to)| (from, to));
        let Some((from, to)) = around.filter(|(_, to)| *to >= end) else { return };
        self.free.remove(&from);
        self.free.extend([(from, base), (end, to)].into_iter().filter(|(from, to)| from < to));
        self.taken.insert(base, end);
        self.left -= end - base;
    }

    /// What was taken is free, and one range with what is free beside it.
    fn vacate(&mut self, base: u64) {
        let Some(mut end) = self.taken.remove(&base) else { return };
        self.left += end - base;
        if let Some(behind) = self.free.remove(&end) {
            end = behind;
        }
        match self.free.range_mut(..base).next_back() {
            Some((_, before)) if *before == base => *before = end,
            _ => drop(self.free.insert(base, end)),
        }
    }

    /// The first `unit`-aligned address in `[from, end)` with `len` free bytes after it.
    fn room(&self, from: u64, end: u64, len: u64, unit: u64) -> Option<u64> {
        let there = self.free.range(..from).next_back().filter(|(_, free)| **free > from);
        there.into_iter().chain(self.free.range(from..end)).find_map(|(&free, &until)| {
            let base = round_up(free.max(from), unit)?;
            base.checked_add(len).filter(|&after| after <= until.min(end)).map(|_| base)
        })
    }
}

#[cfg(test)]
mod tests;
