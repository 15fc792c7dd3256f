#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

mod beds;
mod buffer;
mod desk;
mod names;
mod queue;

pub use beds::{Bed, Beds, Woken};
pub use buffer::{Buffer, Chosen};
pub use desk::{Asked, Desk, reason};
pub use names::Priorities;
pub use queue::{Queue, Ready};

use core::sync::atomic::AtomicU64;

/// Levels of priority; 0 is the highest.
pub const LEVELS: usize = 32;
/// The level of a thread that nobody has said anything about.
pub const USUAL: u64 = 16;
/// Processors that a board has room for.
pub const PROCESSORS: usize = 32;
/// Threads that may be ready on one processor, and threads with a priority of their own.
pub const THREADS: usize = 2048;

const DESK: usize = 128;
const PER_PROCESSOR: usize = DESK + buffer::WORDS + queue::WORDS;
const SHARED: usize = names::WORDS + beds::WORDS;
const ALL: usize = SHARED + PROCESSORS * PER_PROCESSOR;

/// Bytes of a board.
pub const LEN: u64 = ALL as u64 * 8;

/// Words of a board.
pub const WORDS: usize = ALL;

/// A board, as whoever has been shown it sees it.
#[derive(Clone, Copy, Debug)]
pub struct Board<'a>(&'a [AtomicU64]);

impl<'a> Board<'a> {
    /// The board in these words; `None` if they are too few.
    pub fn new(words: &'a [AtomicU64]) -> Option<Board<'a>> {
        words.get(..ALL).map(Board)
    }

    /// As it was at the beginning: before anybody else uses it.
    pub fn clear(&self) {
        self.0.iter().for_each(|word| word.store(0, core::sync::atomic::Ordering::Relaxed));
    }

    /// Priorities by thread.
    pub fn priorities(&self) -> Priorities<'a> {
        Priorities(&self.0[..names::WORDS])
    }

    /// Where threads sleep.
    pub fn beds(&self) -> Beds<'a> {
        Beds(&self.0[names::WORDS..SHARED])
    }

    fn part(&self, processor: usize) -> &'a [AtomicU64] {
        &self.0[SHARED + processor * PER_PROCESSOR..][..PER_PROCESSOR]
    }

    /// What the levels say to each other on a processor.
    ///
    /// # Panics
    /// If there is no such processor.
    pub fn desk(&self, processor: usize) -> Desk<'a> {
        Desk(&self.part(processor)[..DESK])
    }

    /// The event buffer of a processor, in the initial version.
    ///
    /// # Panics
    /// If there is no such processor.
    pub fn buffer(&self, processor: usize) -> Buffer<'a> {
        Buffer(&self.part(processor)[DESK..][..buffer::WORDS])
    }

    /// The ready threads of a processor. Its fast scheduler changes them, everybody may read.
    ///
    /// # Panics
    /// If there is no such processor.
    pub fn queue(&self, processor: usize) -> Queue<'a> {
        Queue(&self.part(processor)[DESK + buffer::WORDS..])
    }
}

#[cfg(test)]
mod tests;
