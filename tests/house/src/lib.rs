#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod arrows;
pub mod classes;
pub mod guest_checks;
pub mod info;
pub mod invariants;
pub mod kept;
pub mod ledger_rows;
pub mod light;
pub mod manifests;
pub mod mechanism;
pub mod names;
pub mod processes;
pub mod reading;
pub mod segments;
pub mod shown;
pub mod sizes;
pub mod skeletons;
pub mod source;
pub mod tree;
pub mod unsafety;

#[cfg(test)]
mod tests;

/// What a check found: one line each, with the place and what to do about it.
pub type Problems = Vec<String>;
