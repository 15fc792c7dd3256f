#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod directory;
mod slice;

pub use directory::{Directory, Overlap};
pub use slice::{Extent, Slice};

/// Sections of this length or more begin at multiples of it, so that the directory holds them in one place for each GiB.
const GIB: u64 = 1 << 30;

/// `value` rounded up to a multiple of `unit`, a power of two; `None` if that does not fit 64 bits.
fn round_up(value: u64, unit: u64) -> Option<u64> {
    Some(value.checked_add(unit - 1)? & !(unit - 1))
}
