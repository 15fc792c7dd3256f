//! Priorities that were asked for and for which the desk has no room yet. Of each thread the latest is kept, where its first one stood: so there is room for
//! one of each that the board has room for, however often they ask.

use crate::{Asked, THREADS};
use alloc::collections::VecDeque;
use hashbrown::HashTable;

/// The wishes of one processor's threads, the oldest first. Takes no memory once it is made.
#[derive(Clone, Debug)]
pub struct Wishes {
    waiting: VecDeque<Asked>,
    /// How many were taken out so far.
    taken: u64,
    /// Where each thread's wish stands, counted from the first one ever.
    places: HashTable<u64>,
}

impl Default for Wishes {
    fn default() -> Wishes {
        Wishes::new()
    }
}

impl Wishes {
    #[must_use]
    pub fn new() -> Wishes {
        // Memory is had by touching it. The table has places enough for what is taken out to be cleared away without more.
        let mut waiting = VecDeque::with_capacity(THREADS);
        waiting.resize(THREADS, Asked { thread: u64::MAX, level: u64::MAX });
        waiting.clear();
        let mut places = HashTable::with_capacity(2 * THREADS);
        for n in 0..2 * THREADS as u64 {
            places.insert_unique(spread(n), n, |n| spread(*n));
        }
        places.clear();
        Wishes { waiting, taken: 0, places }
    }

    /// One more. Whether there was room.
    pub fn put(&mut self, asked: Asked) -> bool {
        let Wishes { waiting, taken, places } = self;
        let thread = |at: &u64| waiting[(at - *taken) as usize].thread;
        if let Some(at) = places.find(spread(asked.thread), |at| thread(at) == asked.thread) {
            waiting[(at - *taken) as usize].level = asked.level;
            return true;
        }
        if waiting.len() == THREADS {
            return false;
        }
        places.insert_unique(spread(asked.thread), *taken + waiting.len() as u64, |at| spread(thread(at)));
        waiting.push_back(asked);
        true
    }

    /// The oldest, which stays.
    pub fn first(&self) -> Option<Asked> {
        self.waiting.front().copied()
    }

    /// Takes the oldest out.
    pub fn pop(&mut self) {
        let Some(asked) = self.first() else { return };
        if let Ok(place) = self.places.find_entry(spread(asked.thread), |at| *at == self.taken) {
            place.remove();
        }
        self.waiting.pop_front();
        self.taken += 1;
    }
}

/// Numbers are given in turn: those that follow each other are not to stand in each other's way, and the table looks at the upper bits too.
fn spread(thread: u64) -> u64 {
    let mixed = thread.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 32
}
