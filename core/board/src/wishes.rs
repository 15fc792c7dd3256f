//! Priorities that were asked for and for which the desk has no room yet. Of each thread the latest is kept, where its first one stood: so there is room for
//! one of each that the board has room for, however often they ask.

use crate::{Asked, THREADS};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

const PLACES_BITS: u32 = (2 * THREADS).ilog2();
const PLACES: usize = 1 << PLACES_BITS;
/// How far from its place a thread's wish may be noted.
const NEAR: usize = 16;
const NOWHERE: u64 = u64::MAX;

/// The wishes of one processor's threads, the oldest first. Takes no memory once it is made.
#[derive(Clone, Debug)]
pub struct Wishes {
    waiting: VecDeque<Asked>,
    /// How many were taken out so far.
    taken: u64,
    /// Where a thread's wish stands, counted from the first one ever, at one of the places near its number. Only where all of those are others' it
    /// may stand twice, the latest last.
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
        // Memory is had by touching it.
        let mut waiting = VecDeque::with_capacity(THREADS);
        waiting.resize(THREADS, Asked { thread: u64::MAX, level: u64::MAX });
        waiting.clear();
        Wishes { waiting, taken: 0, places: alloc::vec![(0, NOWHERE); PLACES] }
    }

    /// One more. Whether there was room.
    pub fn put(&mut self, asked: Asked) -> bool {
        let stands = |place: &(u64, u64)| place.1 != NOWHERE && place.1 >= self.taken;
        let first = home(asked.thread);
        let places = || (0..NEAR).map(|step| (first + step) % PLACES);
        let own = places().find(|at| self.places[*at].0 == asked.thread && stands(&self.places[*at]));
        if let Some(own) = own {
            self.waiting[(self.places[own].1 - self.taken) as usize].level = asked.level;
            return true;
        }
        if self.waiting.len() == THREADS {
            return false;
        }
        let at = places().find(|at| !stands(&self.places[*at])).unwrap_or(first);
        self.places[at] = (asked.thread, self.taken + self.waiting.len() as u64);
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

/// Where a thread's places begin: numbers are given in turn, and those that follow each other are not to stand in each other's way.
fn home(thread: u64) -> usize {
    (thread.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PLACES_BITS)) as usize
}
