#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

mod ring;
mod stretch;

pub use ring::{Reader, Words, Writer};
pub use stretch::{Stretch, longest, note};

#[cfg(test)]
mod tests;
