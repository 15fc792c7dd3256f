#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod counts;
mod cpio;
mod figures;
mod kernel;
mod linux;
mod matrix;
mod program;

pub use figures::{About, Report, Skipped, Subject};
pub use linux::{Clock, Linux, System, linux};
pub use matrix::BENCHES;
