//! A table of records with changing owners.

use crate::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::record;
use alloc::boxed::Box;
use spin::Once;

/// Whether anything is told of objects once they are there.
const TOLD: bool = !cfg!(feature = "untold");

/// Words of a page.
const PAGE: usize = (abi::layout::PAGE / 8) as usize;

/// Words of the table's head (`abi::info::layout::Table`).
const USED: usize = 3;
const LEFT_OUT: usize = 4;

/// Places that are kept ready for who comes, at the least: as many as processors may make objects at once, each after it has seen that there are so many.
const AHEAD: usize = 32;

/// Records of `N` words each, a power of two, in pages that come as they are needed.
#[derive(Debug)]
pub struct Table<const N: usize> {
    /// As many as there may be. Those that there are come first.
    pages: Box<[Once<&'static [AtomicU64; PAGE]>]>,
    ready: AtomicUsize,
    /// A bit for each place: somebody has it.
    taken: Box<[AtomicU64]>,
    /// Before this word of it there is hardly a place that nobody has.
    first: AtomicUsize,
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
    const EACH: usize = PAGE / N;

    /// A table of at most so many records, which has no page yet. `head`: the words of its `layout::Table`. `nowhere`: words that nobody reads.
    ///
    /// # Panics
    /// If `N` is no power of two from 2 to a page, or `head` too short.
    pub fn new(most: usize, head: &'static [AtomicU64], nowhere: &'static [AtomicU64; N]) -> Table<N> {
        assert!(N.is_power_of_two() && (2..=PAGE).contains(&N) && head.len() > LEFT_OUT);
        let pages: Box<[_]> = (0..most.div_ceil(Self::EACH)).map(|_| Once::new()).collect();
        let taken = (0..(pages.len() * Self::EACH).div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Table { pages, ready: AtomicUsize::new(0), taken, first: AtomicUsize::new(0), head, nowhere }
    }

    /// Places that there may be.
    pub fn room(&self) -> usize {
        self.pages.len() * Self::EACH
    }

    /// Pages that it may have.
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// The page that it wants next, so that who comes finds a place; `None`: there are enough, or as many as there may be.
    #[inline]
    pub fn wants(&self) -> Option<usize> {
        let ready = self.ready.load(Ordering::Acquire);
        let is_short = self.used() as usize + AHEAD.max(Self::EACH) > ready * Self::EACH;
        (is_short && ready < self.pages.len()).then_some(ready)
    }

    /// Gives it the page that it [wants](Table::wants), which readers find from now on. One at a time.
    pub fn grows(&self, page: &'static [AtomicU64; PAGE]) {
        let ready = self.ready.load(Ordering::Acquire);
        if let Some(next) = self.pages.get(ready) {
            next.call_once(|| page);
            self.ready.store(ready + 1, Ordering::Release);
        }
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
        self.pages.get(at / Self::EACH)?.get()?.as_chunks::<N>().0.get(at % Self::EACH)
    }

    /// The first place that nobody has, or nearly.
    fn take(&self) -> Option<usize> {
        let room = self.ready.load(Ordering::Acquire) * Self::EACH;
        let words = room.div_ceil(64);
        let first = self.first.load(Ordering::Relaxed).min(words);
        // Somebody may have given one back before that while another one was looking behind it.
        (first..words).chain(0..first).find_map(|at| self.take_in(at, room))
    }

    /// One of those of a word of bits, of so many in all.
    fn take_in(&self, at: usize, room: usize) -> Option<usize> {
        let word = &self.taken[at];
        let mut bits = word.load(Ordering::Relaxed);
        loop {
            let place = at * 64 + (!bits).trailing_zeros() as usize;
            if bits == u64::MAX || place >= room {
                return None;
            }
            // What was stored there before it was given back comes before what its next owner stores.
            match word.compare_exchange(bits, bits | 1 << (place % 64), Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => {
                    self.first.store(at, Ordering::Relaxed);
                    return Some(place);
                }
                Err(now) => bits = now,
            }
        }
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
        self.table.first.fetch_min(at / 64, Ordering::Relaxed);
    }
}
