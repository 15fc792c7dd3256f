#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod answer;
pub mod level;
pub mod transit;
pub mod who;

#[cfg(test)]
mod tests;
