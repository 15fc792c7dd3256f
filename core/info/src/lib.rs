#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

use abi::task::USER_SYSTEM;

mod record;
mod table;

pub use record::{fields, read, write};
pub use table::{Slot, Table};

/// Whether a program of the user `asker` is told what belongs to one of `user` in particular: names, addresses, memory (docs/decisions/0017). The
/// system is told everything, and what is the system's is told everybody.
#[must_use]
pub const fn tells(user: u64, asker: u64) -> bool {
    user == asker || user == USER_SYSTEM || asker == USER_SYSTEM
}

/// Words of memory: `shuttle`'s in tests, which then run under very many of its interleavings.
#[cfg(not(test))]
mod atomic {
    pub use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
}
#[cfg(test)]
mod atomic {
    pub use shuttle::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
}

#[cfg(test)]
mod tests;
