#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod dynamic;
mod image;
mod linux;
mod native;
mod refusal;

pub use linux::{Linux, PIE_BASE, Segment};
pub use native::Native;
pub use refusal::Refusal;

use image::Image;

/// The version of the contract between programs and kernel that a native program's note must name.
pub const ABI_VERSION: u32 = 1;

/// The type of the program header that says, a second time, that a program is for Musubi ("musu", from the range that
/// is left to operating systems).
pub const PT_MUSUBI: u32 = 0x6d75_7375;

/// What to load, and where.
#[derive(Clone, Debug)]
pub enum Program<'a> {
    /// A program for Musubi.
    Native(Native<'a>),
    /// A program for Linux.
    Linux(Linux<'a>),
}

/// Reads a file.
///
/// # Errors
/// The first reason that was found why it cannot be loaded.
pub fn read(file: &[u8]) -> Result<Program<'_>, Refusal> {
    let image = Image::read(file)?;
    // Two marks far from each other: damage to one does not turn a native program into one for Linux.
    match (image.is_marked(), image.musubi_version()?) {
        (true, Some(ABI_VERSION)) => native::read(&image).map(Program::Native),
        (true, Some(other)) => Err(Refusal::AbiVersion(other)),
        (false, None) => linux::read(&image).map(Program::Linux),
        (true, None) | (false, Some(_)) => Err(Refusal::BrokenMark),
    }
}

#[cfg(test)]
mod tests;
