#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod about;
mod benches;
mod figure;
pub mod found;
mod itc;
mod locks;
mod ours;
mod paper;
mod peer;
mod shares;
mod steps;
mod table;
mod untold;
mod ways;

pub use benches::{BENCHES, Bench, PROGRAMS};
pub use figure::{ASYNC, ASYNC_CALLS, Figure, MUSUBI, Source, count, of_one_call, unit};
pub use ours::{Ours, Setup, TOUCHED, TOUCHED_BY, executed};
pub use paper::Paper;
pub use peer::Peer;
pub use table::Table;
