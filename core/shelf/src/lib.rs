#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

/// Sizes go by steps of so many bytes, which is also how objects are aligned.
pub const STEP: usize = 16;
/// Greatest size of an object that is kept, bytes.
pub const SIZE_MAX: usize = 512;
/// Sizes that there are.
const SIZES: usize = SIZE_MAX / STEP;
/// Most objects of one size that a shelf keeps.
const COUNT_MAX: usize = 16;
/// Most bytes of one size; of the greatest size there are as many objects as these hold.
const BYTES_MAX: usize = 4096;

/// A size of objects that shelves keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(usize);

impl Size {
    /// The size for an object of `size` bytes aligned to `align`; `None` if it is none of a shelf's.
    #[inline]
    pub const fn of(size: usize, align: usize) -> Option<Size> {
        if size == 0 || size > SIZE_MAX || align > STEP { None } else { Some(Size((size - 1) / STEP)) }
    }

    /// What the shared heap is asked for, bytes.
    #[inline]
    pub const fn bytes(self) -> usize {
        (self.0 + 1) * STEP
    }

    /// So many are kept at most.
    const fn room(self) -> usize {
        let fit = BYTES_MAX / self.bytes();
        if fit < COUNT_MAX { fit } else { COUNT_MAX }
    }

    /// So many go from or to the shared heap at once: half of what is kept, so that neither a row of allocations nor one of
    /// releases goes there each time, nor an allocation and a release in turn.
    pub const fn batch(self) -> usize {
        self.room() / 2
    }
}

/// What one processor keeps, by sizes.
pub struct Shelf {
    kept: [[usize; COUNT_MAX]; SIZES],
    counts: [u8; SIZES],
}

impl Shelf {
    /// An empty one.
    pub const fn new() -> Shelf {
        Shelf { kept: [[0; COUNT_MAX]; SIZES], counts: [0; SIZES] }
    }

    /// An object of this size, if one is there.
    #[inline]
    pub fn take(&mut self, size: Size) -> Option<usize> {
        let left = self.counts[size.0].checked_sub(1)?;
        self.counts[size.0] = left;
        Some(self.kept[size.0][usize::from(left)])
    }

    /// Keeps an object of this size; `false` if there is no room.
    #[inline]
    pub fn put(&mut self, size: Size, object: usize) -> bool {
        let count = self.counts[size.0];
        if usize::from(count) >= size.room() {
            return false;
        }
        self.kept[size.0][usize::from(count)] = object;
        self.counts[size.0] = count + 1;
        true
    }
}

impl Default for Shelf {
    fn default() -> Shelf {
        Shelf::new()
    }
}

#[cfg(test)]
mod tests;
