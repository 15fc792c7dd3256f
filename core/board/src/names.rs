//! Priorities by thread: a table with open addressing, which threads enter once.

use crate::{THREADS, USUAL};
use core::sync::atomic::{AtomicU64, Ordering};

pub(crate) const WORDS: usize = 2 * THREADS;
/// How far from its place a thread may be.
const NEAR: usize = 16;

/// Priorities that were set.
#[derive(Clone, Copy, Debug)]
pub struct Priorities<'a>(pub(crate) &'a [AtomicU64]);

impl Priorities<'_> {
    fn places(thread: u64) -> impl Iterator<Item = usize> {
        (0..NEAR).map(move |step| 2 * ((thread as usize + step) % THREADS))
    }

    /// The level of a thread.
    pub fn of(&self, thread: u64) -> u64 {
        let place = Self::places(thread).find(|at| self.0[*at].load(Ordering::Acquire) == thread);
        place.map_or(USUAL, |at| self.0[at + 1].load(Ordering::Relaxed))
    }

    /// Sets the level of a thread. Whether there was room; a new one takes the place of one of the usual level.
    pub fn set(&self, thread: u64, level: u64) -> bool {
        let swap =
            |at: usize, old: u64| self.0[at].compare_exchange(old, thread, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        for at in Self::places(thread) {
            let there = self.0[at].load(Ordering::Acquire);
            let usual = there == 0 || self.0[at + 1].load(Ordering::Relaxed) == USUAL;
            if there == thread || (usual && swap(at, there)) {
                self.0[at + 1].store(level, Ordering::Release);
                return true;
            }
        }
        false
    }

    /// The thread has ended: its place is free.
    pub fn forget(&self, thread: u64) {
        if let Some(at) = Self::places(thread).find(|at| self.0[*at].load(Ordering::Acquire) == thread) {
            self.0[at + 1].store(USUAL, Ordering::Relaxed);
            self.0[at].store(0, Ordering::Release);
        }
    }
}
