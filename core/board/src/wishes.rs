//! Priorities that were asked for and for which the desk has no room yet. Of each thread the latest is kept, where its first one stood: so there is room for
//! one of each that the board has room for, however often they ask.

use crate::{Asked, THREADS};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

const PLACES: usize = 2 * THREADS;

/// The wishes of one processor's threads, the oldest first. Takes no memory once it is made.
#[derive(Clone, Debug)]
pub struct Wishes {
    waiting: VecDeque<Asked>,
    /// How many were taken out so far.
    taken: u64,
    /// Where a thread's wish stands, counted from the first one ever; of two threads that share a place one may stand twice, the latest last.
    places: Vec<(u64, u64)>,
}

impl Default for Wishes {
    fn default() -> Wishes {
        Wishes::new()
    }
}

impl Wishes {
    #[must_use]
    pub fn new() -> Wishes {
        Wishes { waiting: VecDeque::with_capacity(THREADS), taken: 0, places: alloc::vec![(0, 0); PLACES] }
    }

    /// One more. Whether there was room.
    pub fn put(&mut self, asked: Asked) -> bool {
        let place = &mut self.places[asked.thread as usize % PLACES];
        let stands = place.1.checked_sub(self.taken).filter(|_| place.0 == asked.thread);
        if let Some(there) = stands.and_then(|at| self.waiting.get_mut(at as usize)) {
            there.level = asked.level;
            return true;
        }
        if self.waiting.len() == THREADS {
            return false;
        }
        *place = (asked.thread, self.taken + self.waiting.len() as u64);
        self.waiting.push_back(asked);
        true
    }

    /// The oldest, which stays.
    pub fn first(&self) -> Option<Asked> {
        self.waiting.front().copied()
    }

    /// Takes the oldest out.
    pub fn pop(&mut self) {
        self.taken += u64::from(self.waiting.pop_front().is_some());
    }
}
