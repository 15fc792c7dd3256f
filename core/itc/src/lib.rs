#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

mod event;
mod lane;
mod partners;
mod queue;
mod semaphore;
mod waiters;

pub use event::Event;
pub use lane::{Putter, Taker, lane_words};
pub use partners::{Limit, PARTNERS_MAX, Partners, Threads};
pub use queue::{Queue, Taken};
pub use semaphore::{Held, Semaphore};
pub use waiters::Wake;

/// The words that partners share: `shuttle`'s in tests, which then run under very many of its interleavings (not all).
#[cfg(not(test))]
mod atomic {
    pub use core::sync::atomic::{AtomicU64, Ordering, fence};
}
#[cfg(test)]
mod atomic {
    pub use shuttle::sync::atomic::{AtomicU64, Ordering, fence};
}

#[cfg(test)]
mod tests;
