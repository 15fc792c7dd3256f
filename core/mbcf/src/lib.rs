#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod fifo;
pub mod registry;
pub mod signal;

#[cfg(test)]
mod tests;
