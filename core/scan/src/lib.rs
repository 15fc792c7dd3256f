#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

mod encoding;
mod search;
mod summary;
mod why;

pub use encoding::{Encoding, Rules, UnknownState};
pub use search::{Found, find, find_across};
pub use summary::{Summary, borders, scan};
pub use why::{Why, judge};

/// Bytes of a page.
pub const PAGE: usize = abi::layout::PAGE as usize;

#[cfg(test)]
mod tests;
