#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod callers;
mod table;

pub use callers::{Callers, Change};
pub use table::{Block, GateTable};

#[cfg(test)]
mod tests;
