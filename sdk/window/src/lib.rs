#![doc = include_str!("../README.md")]
#![no_std]

extern crate alloc;

pub mod foreign;
pub mod memory;
mod section;

pub use section::Section;

use rt::abi::calls::stub;
use rt::{Error, Rights, Trap};

/// Makes `[offset, offset + len)` of a section appear in the window of `task`, in place of what was there.
///
/// # Errors
/// What the kernel answers.
pub fn map(task: u64, address: u64, section: &Section, offset: u64, len: u64, rights: Rights) -> Result<(), Error> {
    stub::window_map(&Trap, task, address, section.base(), offset, len, u64::from(rights.bits())).map(drop)
}

/// Removes what appears in a range of the window.
///
/// # Errors
/// What the kernel answers.
pub fn unmap(task: u64, address: u64, len: u64) -> Result<(), Error> {
    stub::window_unmap(&Trap, task, address, len).map(drop)
}

/// Changes the protection of what appears in a range of the window.
///
/// # Errors
/// What the kernel answers.
pub fn protect(task: u64, address: u64, len: u64, rights: Rights) -> Result<(), Error> {
    stub::window_protect(&Trap, task, address, len, u64::from(rights.bits())).map(drop)
}
