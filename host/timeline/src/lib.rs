#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod chrome;
mod picture;
mod record;
mod spans;
mod svg;

pub use chrome::chrome;
pub use picture::picture;
pub use record::Record;

#[cfg(test)]
mod tests;
