#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod cache;
mod class;
mod misses;
mod register;

pub use cache::{Called, Keys, Leaving, ON_NO_PAGE, Stats, Uses, Want};
pub use class::Class;
pub use misses::{EARN, IDLE};
pub use register::{CLASS_KEYS, KEYS, Key, OPEN, SHUT};

#[cfg(test)]
mod tests;
