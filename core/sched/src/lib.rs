#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod ring;
mod timers;

pub use ring::Ring;
pub use timers::{Key, Timers};

/// How long a thread runs before the next one's turn, in nanoseconds.
pub const QUANTUM_NS: u64 = 10_000_000;

#[cfg(test)]
mod tests;
