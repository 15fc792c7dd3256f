#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod entry;
mod gone;
mod hide;
mod map;
mod split;
mod tables;
mod unmap;

pub use entry::Prot;
pub use gone::Gone;
pub use map::{MapError, Mapped};
pub use split::Touched;
pub use tables::{TableMem, Tables};
pub use unmap::Unmapped;

#[cfg(test)]
mod tests;
