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
    match image.musubi_version()? {
        Some(ABI_VERSION) => native::read(&image).map(Program::Native),
        Some(other) => Err(Refusal::AbiVersion(other)),
        None => linux::read(&image).map(Program::Linux),
    }
}

#[cfg(test)]
mod tests;
