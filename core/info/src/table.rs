//! A table of records with changing owners.

use crate::atomic::{AtomicU64, Ordering};
use crate::record;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Whether anything is told of objects once they are there.
const TOLD: bool = !cfg!(feature = "untold");

/// Words of a page.
const PAGE: usize = (abi::layout::PAGE / 8) as usize;

/// Words of the table's head (`abi::info::layout::Table`).
const USED: usize = 3;
const LEFT_OUT: usize = 4;

/// Records of `N` words each, a power of two.
#[derive(Debug)]
pub struct Table<const N: usize> {
    pages: Vec<&'static [AtomicU64; PAGE]>,
    /// A bit for each place: somebody has it.
    taken: Box<[AtomicU64]>,
    room: usize,
    head: &'static [AtomicU64],
    /// Where stores go of who has no place.
    nowhere: &'static [AtomicU64; N],
}

/// Whose an object's record is: its place, or nowhere.
#[derive(Debug)]
pub struct Slot<const N: usize> {
    table: &'static Table<N>,
    at: Option<usize>,
    record: &'static [AtomicU64; N],
}

impl<const N: usize> Table<N> {
    /// A table in these pages, of which nobody has a place. `head`: the words of its `layout::Table`. `nowhere`: words that nobody reads.
    ///
    /// # Panics
    /// If `N` is no power of two from 2 to a page, or `head` too short.
    pub fn new(
        pages: Vec<&'static [AtomicU64; PAGE]>,
        head: &'static [AtomicU64],
        nowhere: &'static [AtomicU64; N],
    ) -> Table<N> {
        assert!(N.is_power_of_two() && (2..=PAGE).contains(&N) && head.len() > LEFT_OUT);
        let room = pages.len() * (PAGE / N);
        let taken = (0..room.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Table { pages, taken, room, head, nowhere }
    }

    /// Places that there are.
    pub fn room(&self) -> usize {
        self.room
    }

    /// No place behind so many was ever had.
    pub fn used(&self) -> u64 {
        self.head[USED].load(Ordering::Acquire)
    }

    /// Objects that there are and that had no room.
    pub fn left_out(&self) -> u64 {
        self.head[LEFT_OUT].load(Ordering::Relaxed)
    }

    /// A place for a new object, which `fill` describes in the words behind the first; all others are 0.
    pub fn claim(&'static self, fill: impl FnOnce(&[AtomicU64])) -> Slot<N> {
        let at = self.take();
        let Some(record) = at.and_then(|at| self.record(at)) else {
            self.head[LEFT_OUT].fetch_add(1, Ordering::Relaxed);
            return Slot { table: self, at: None, record: self.nowhere };
        };
        record::write(record, |record| {
            record[1..].iter().for_each(|word| word.store(0, Ordering::Relaxed));
            fill(record);
        });
        // Only now: who reads so many finds it.
        self.head[USED].fetch_max(at.map_or(0, |at| at as u64 + 1), Ordering::Release);
        Slot { table: self, at, record }
    }

    fn record(&self, at: usize) -> Option<&'static [AtomicU64; N]> {
        let each = PAGE / N;
        self.pages.get(at / each)?.as_chunks::<N>().0.get(at % each)
    }

    /// The first place that nobody has.
    fn take(&self) -> Option<usize> {
        for (at, word) in self.taken.iter().enumerate() {
            let mut bits = word.load(Ordering::Relaxed);
            loop {
                let free = (!bits).trailing_zeros() as usize;
                if free == 64 || at * 64 + free >= self.room {
                    break;
                }
                // What was stored there before it was given back comes before what its next owner stores.
                match word.compare_exchange(bits, bits | 1 << free, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => return Some(at * 64 + free),
                    Err(now) => bits = now,
                }
            }
        }
        None
    }
}

impl<const N: usize> Slot<N> {
    /// A live word.
    #[inline(always)]
    pub fn set(&self, word: usize, value: u64) {
        if !TOLD {
            return;
        }
        self.record[word].store(value, Ordering::Relaxed);
    }

    /// Live words one after the other, each read by itself: the record is looked for once.
    #[inline(always)]
    pub fn set_each<const M: usize>(&self, words: [(usize, u64); M]) {
        if TOLD {
            let record = self.record;
            words.into_iter().for_each(|(word, value)| record[word].store(value, Ordering::Relaxed));
        }
    }

    /// Adds to a live word that one at a time adds to.
    #[inline(always)]
    pub fn count(&self, word: usize, by: u64) {
        if TOLD {
            let word = &self.record[word];
            word.store(word.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
        }
    }

    /// Adds to a live word that several may add to.
    #[inline(always)]
    pub fn add(&self, word: usize, value: u64) {
        if !TOLD {
            return;
        }
        self.record[word].fetch_add(value, Ordering::Relaxed);
    }

    /// Fixed words. One writer at a time.
    #[inline]
    pub fn write(&self, change: impl FnOnce(&[AtomicU64])) {
        if TOLD && self.at.is_some() {
            record::write(self.record, change);
        }
    }

    /// Its object is no more, though some may still store what they know of it. As [`Slot::write`].
    pub fn hide(&self) {
        self.write(|record| record[1].store(0, Ordering::Relaxed));
    }

    /// Which place it is, if any.
    pub fn place(&self) -> Option<usize> {
        self.at
    }

    /// Whether it is to be seen.
    pub fn has_place(&self) -> bool {
        self.at.is_some()
    }
}

impl<const N: usize> Drop for Slot<N> {
    fn drop(&mut self) {
        let Some(at) = self.at else {
            self.table.head[LEFT_OUT].fetch_sub(1, Ordering::Relaxed);
            return;
        };
        self.hide();
        self.table.taken[at / 64].fetch_and(!(1 << (at % 64)), Ordering::Release);
    }
}
