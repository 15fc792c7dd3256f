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
    /// The same of each range that is free, between two that are not.
    free: BTreeMap<u64, u64>,
    /// Of each GiB: how long the longest free range is that begins there. Who looks for room goes through these, and through what is free in the one
    /// that has it, however many ranges are free.
    longest: Vec<u64>,
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
        let mut longest: Vec<u64> = (base / GIB..end.div_ceil(GIB)).map(|_| 0).collect();
        if let Some(first) = longest.first_mut() {
            *first = end - base;
        }
        Slice {
            base,
            end,
            cursor: base,
            taken: BTreeMap::new(),
            free,
            longest,
            left: end - base,
            kept: BTreeMap::new(),
        }
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
            let Some(last) = alone.last() else { return };
            let last = self.part(*last);
            let around = self.free.range(..=extent.base).next_back().map_or(extent.base, |(&from, _)| from);
            alone.into_iter().for_each(|base| _ = self.cover(base, base + GRANULE));
            (self.part(around)..=last).for_each(|part| self.measure(part));
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

    /// In which GiB of the slice an address lies.
    fn part(&self, address: u64) -> usize {
        (address / GIB - self.base / GIB) as usize
    }

    /// The addresses of a GiB, as far as they lie in `[from, end)`.
    fn addresses(&self, part: usize, from: u64, end: u64) -> (u64, u64) {
        let begin = (self.base / GIB + part as u64) * GIB;
        (begin.max(from), begin.saturating_add(GIB).min(end))
    }

    /// A range is free that begins there.
    fn is_free(&mut self, from: u64, to: u64) {
        let part = self.part(from);
        self.longest[part] = self.longest[part].max(to - from);
    }

    /// Looks through what is free in a GiB.
    fn measure(&mut self, part: usize) {
        let (from, end) = self.addresses(part, self.base, self.end);
        self.longest[part] = self.free.range(from..end).map(|(from, to)| to - from).max().unwrap_or(0);
    }

    /// What was a free range, from one address to another, is none.
    fn was_free(&mut self, from: u64, to: u64) {
        let part = self.part(from);
        if self.longest[part] == to - from {
            self.measure(part);
        }
    }

    /// What was free is taken.
    fn occupy(&mut self, base: u64, end: u64) {
        if let Some((from, to)) = self.cover(base, end) {
            self.was_free(from, to);
        }
    }

    /// The same, and what was a free range until then: how much room is left in the GiB where it begins is looked at by the caller.
    fn cover(&mut self, base: u64, end: u64) -> Option<(u64, u64)> {
        let around = self.free.range(..=base).next_back().map(|(&from, &to)| (from, to));
        let (from, to) = around.filter(|(_, to)| *to >= end)?;
        self.free.remove(&from);
        for (from, to) in [(from, base), (end, to)].into_iter().filter(|(from, to)| from < to) {
            self.free.insert(from, to);
            self.is_free(from, to);
        }
        self.taken.insert(base, end);
        self.left -= end - base;
        Some((from, to))
    }

    /// What was taken is free, and one range with what is free beside it.
    fn vacate(&mut self, base: u64) {
        let Some(mut end) = self.taken.remove(&base) else { return };
        self.left += end - base;
        if let Some(behind) = self.free.remove(&end) {
            self.was_free(end, behind);
            end = behind;
        }
        let from = match self.free.range_mut(..base).next_back() {
            Some((&from, before)) if *before == base => {
                *before = end;
                from
            }
            _ => {
                self.free.insert(base, end);
                base
            }
        };
        self.is_free(from, end);
    }

    /// The first `unit`-aligned address in `[from, end)` with `len` free bytes after it.
    fn room(&self, from: u64, end: u64, len: u64, unit: u64) -> Option<u64> {
        let fits = |(&free, &until): (&u64, &u64)| {
            let base = round_up(free.max(from), unit)?;
            base.checked_add(len).filter(|&after| after <= until.min(end)).map(|_| base)
        };
        if from >= end {
            return None;
        }
        let there = self.free.range(..from).next_back().and_then(fits);
        let parts = || (self.part(from)..=self.part(end - 1)).filter(|&part| self.longest[part] >= len);
        there.or_else(|| {
            parts().find_map(|part| {
                let (from, end) = self.addresses(part, from, end);
                let mut free = self.free.range(from..end);
                // One as long as that reaches into the next part, and is the last one here. It may have no room behind a multiple of the unit.
                if len >= GIB { free.next_back().and_then(fits) } else { free.find_map(fits) }
            })
        })
    }
}

#[cfg(test)]
mod tests;
