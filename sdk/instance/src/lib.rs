#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod asked;
pub mod image;
pub mod making;
pub mod manifest;
pub mod pack;
pub mod placement;
