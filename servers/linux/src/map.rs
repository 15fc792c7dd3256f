//! What a program has mapped where: the personality's own record of a window. Every address that a program passes is
//! checked here before anybody touches it, so the record, and not a page fault, is where `EFAULT` comes from.

use abi::Rights;
use abi::layout::{GRANULE, PAGE, WINDOW_END};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use rangemap::RangeMap;
use window::Section;

use crate::answer::{Errno, errno, fail};

/// Nothing is mapped below: a null pointer with an offset still faults.
pub const LOWEST: u64 = 0x1_0000;
/// The stack ends here, one granule below the end of the window.
pub const STACK_TOP: u64 = WINDOW_END - GRANULE;
/// Linux' usual limit. Pages get memory when they are touched.
pub const STACK_LEN: u64 = 8 << 20;
/// `mmap` looks for room downwards from here.
pub const MAP_TOP: u64 = STACK_TOP - (64 << 20);
/// Address space set aside for the heap that `brk` grows. Allocators use `mmap` when it is full.
pub const HEAP_RESERVE: u64 = 1 << 30;

/// A section behind mappings; deleted when the last of them goes.
#[derive(Debug)]
pub struct Backing {
    pub section: Section,
    /// The task whose it is, and with which it ends: its children may have it in their maps longer, and others something else at its address by then. So
    /// only a call of that task's does anything with the address.
    pub owner: u64,
    len: AtomicU64,
}

impl Backing {
    #[must_use]
    pub fn new(section: Section, owner: u64, len: u64) -> Arc<Backing> {
        Arc::new(Backing { section, owner, len: AtomicU64::new(len) })
    }

    #[must_use]
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn set_len(&self, len: u64) {
        self.len.store(len, Ordering::Relaxed);
    }
}

/// What lies behind a range of the window.
#[derive(Clone, Debug)]
pub struct Piece {
    pub backing: Arc<Backing>,
    /// Window address of the section's first byte (it need not be mapped, and may wrap round).
    pub origin: u64,
    pub rights: Rights,
    /// The most that `mprotect` may give.
    pub most: Rights,
    /// Whether a child has the same memory, and not a copy.
    pub shared: bool,
}

impl PartialEq for Piece {
    fn eq(&self, other: &Piece) -> bool {
        Arc::ptr_eq(&self.backing, &other.backing)
            && (self.origin, self.rights, self.most, self.shared)
                == (other.origin, other.rights, other.most, other.shared)
    }
}

impl Eq for Piece {}

impl Piece {
    /// Offset in the section of what lies at `address`.
    #[must_use]
    pub fn offset(&self, address: u64) -> u64 {
        address.wrapping_sub(self.origin)
    }
}

/// A range of a window that was checked: the only thing that window memory is read and written through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    address: u64,
    len: u64,
}

impl Granted {
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// `[offset, offset + len)` of this range, cut off at its end.
    #[must_use]
    pub fn part(&self, offset: u64, len: u64) -> Granted {
        let offset = offset.min(self.len);
        Granted { address: self.address + offset, len: len.min(self.len - offset) }
    }
}

/// The map of one window.
#[derive(Debug, Default)]
pub struct Map {
    pieces: RangeMap<u64, Piece>,
    /// The program break: where the heap begins, and its current end (not rounded).
    pub heap: Range<u64>,
}

impl Map {
    /// An empty one.
    #[must_use]
    pub fn with_heap(heap: Range<u64>) -> Map {
        Map { pieces: RangeMap::new(), heap }
    }

    /// All mapped ranges within `range`, cut to it, in order.
    #[must_use]
    pub fn pieces(&self, range: &Range<u64>) -> Vec<(Range<u64>, Piece)> {
        if range.is_empty() {
            return Vec::new();
        }
        let cut = |r: &Range<u64>| r.start.max(range.start)..r.end.min(range.end);
        self.pieces.overlapping(range).map(|(r, piece)| (cut(r), piece.clone())).collect()
    }

    /// All mapped ranges, for good.
    #[must_use]
    pub fn into_pieces(self) -> Vec<(Range<u64>, Piece)> {
        self.pieces.into_iter().collect()
    }

    /// All mapped ranges.
    pub fn iter(&self) -> impl Iterator<Item = (&Range<u64>, &Piece)> {
        self.pieces.iter()
    }

    /// What may be done at an address, if anything is mapped there.
    #[must_use]
    pub fn rights(&self, address: u64) -> Option<Rights> {
        self.pieces.get(&address).map(|piece| piece.rights)
    }

    #[must_use]
    pub fn is_free(&self, range: &Range<u64>) -> bool {
        range.is_empty() || !self.pieces.overlaps(range)
    }

    /// Whether every byte of the range is mapped.
    #[must_use]
    pub fn is_covered(&self, range: &Range<u64>) -> bool {
        range.is_empty() || self.pieces.gaps(range).next().is_none()
    }

    /// Room for `len` bytes (whole pages), as high as there is.
    #[must_use]
    pub fn find(&self, len: u64) -> Option<u64> {
        let outer = LOWEST..MAP_TOP;
        let gap = self.pieces.gaps(&outer).filter(|gap| gap.end - gap.start >= len).last()?;
        Some(gap.end - len)
    }

    /// Enters a mapping and gives back what it replaces.
    pub fn insert(&mut self, range: Range<u64>, piece: Piece) -> Vec<(Range<u64>, Piece)> {
        let replaced = self.pieces(&range);
        self.pieces.insert(range, piece);
        replaced
    }

    /// Removes what is mapped in a range and gives it back.
    pub fn remove(&mut self, range: Range<u64>) -> Vec<(Range<u64>, Piece)> {
        let removed = self.pieces(&range);
        if !range.is_empty() {
            self.pieces.remove(range);
        }
        removed
    }

    /// Whether to take a range out takes next to no memory: it holds few mappings, and none with parts on both sides of it.
    #[must_use]
    pub fn gives_back(&self, range: &Range<u64>) -> bool {
        const FEW: usize = 64;
        let splits = |piece: &Range<u64>| piece.start < range.start && range.end < piece.end;
        let mut pieces = self.pieces.overlapping(range).take(FEW + 1).enumerate();
        pieces.all(|(n, (piece, _))| n < FEW && !splits(piece))
    }

    /// Checks `[address, address + len)` for a right on all of it. An empty range is always good, as on Linux.
    ///
    /// # Errors
    /// `EFAULT`.
    pub fn grant(&self, address: u64, len: u64, need: Rights) -> Result<Granted, Errno> {
        let end = address.checked_add(len).filter(|&end| end <= WINDOW_END);
        let Some(end) = end else { return fail(errno::EFAULT) };
        let mut at = address;
        if at < end {
            for (range, piece) in self.pieces.overlapping(&(address..end)) {
                if range.start > at || !piece.rights.contains(need) {
                    return fail(errno::EFAULT);
                }
                at = range.end;
            }
        }
        if at < end { fail(errno::EFAULT) } else { Ok(Granted { address, len }) }
    }
}

/// `[address, address + len)` in whole pages, if it lies in the window.
///
/// # Errors
/// `EINVAL` if the address is not on a page or the range is empty, `ENOMEM` if it does not fit the window.
pub fn page_range(address: u64, len: u64) -> Result<Range<u64>, Errno> {
    if !address.is_multiple_of(PAGE) || len == 0 {
        return fail(errno::EINVAL);
    }
    let end = abi::layout::pages_up(len).and_then(|len| address.checked_add(len)).filter(|&end| end <= WINDOW_END);
    end.map(|end| address..end).ok_or(Errno(errno::ENOMEM))
}

#[cfg(test)]
mod tests;
