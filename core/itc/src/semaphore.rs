//! Semaphores: so many may be inside at once. Each place has its holder's number on it.

use crate::atomic::{AtomicU64, Ordering};
use crate::partners::{Limit, PARTNERS_MAX, Partners, Threads};
use crate::waiters::{self, Waiters, Wake};
use abi::Error;

const WAITERS: usize = PARTNERS_MAX;

/// A semaphore, as this thread sees it.
#[derive(Debug)]
pub struct Semaphore<'a, T: Threads> {
    words: &'a [AtomicU64],
    places: usize,
    partners: &'a Partners<T>,
}

/// A place in a semaphore, given back when this value goes.
#[derive(Debug)]
#[must_use = "it is given back at once"]
pub struct Held<'a, T: Threads> {
    semaphore: Semaphore<'a, T>,
    place: usize,
    /// Who had ended while holding this place: what it guards may be half done.
    pub left: Option<u64>,
}

impl<'a, T: Threads> Semaphore<'a, T> {
    /// Words that it takes. All 0: nobody is inside.
    pub const WORDS: usize = WAITERS + waiters::WORDS;
    pub const PLACES_MAX: usize = PARTNERS_MAX;

    /// The semaphore in these words, with so many places (for all the same, at most [`Self::PLACES_MAX`]); `None` if they are too few.
    pub fn new(words: &'a [AtomicU64], places: usize, partners: &'a Partners<T>) -> Option<Self> {
        let fits = (1..=Self::PLACES_MAX).contains(&places);
        Some(Semaphore { words: words.get(..Self::WORDS)?, places, partners }).filter(|_| fits)
    }

    fn waiters(&self) -> Waiters<'a> {
        Waiters(&self.words[WAITERS..])
    }

    fn attempt(&self) -> Result<Option<(usize, Option<u64>)>, Error> {
        let me = self.partners.me();
        for (place, word) in self.words[..self.places].iter().enumerate() {
            let holder = word.load(Ordering::Acquire);
            let ended = holder != 0 && self.partners.has_ended(holder);
            if holder == 0 || ended {
                if word.compare_exchange(holder, me, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    return Ok(Some((place, ended.then_some(holder))));
                }
            } else if holder != me && !self.partners.has(holder) {
                return Err(Error::Changed);
            }
        }
        Ok(None)
    }

    /// Waits for a place.
    ///
    /// # Errors
    /// `Busy` ([`Limit::Poll`]), `TimedOut`, `Killed`; `Dead`: nobody is left who could give one back; `Changed`: the words
    /// make no sense.
    pub fn acquire(&self, limit: Limit) -> Result<Held<'a, T>, Error> {
        // Whoever else runs gives no place back.
        let holders = || self.words[..self.places].iter().map(|word| word.load(Ordering::Relaxed));
        let runs = || self.partners.runs(holders());
        let is_alone = || self.partners.is_alone();
        let wait = self.partners.wait_for(runs, self.waiters(), limit, Wake::default(), is_alone, || self.attempt());
        let Semaphore { words, places, partners } = *self;
        wait.map(|(place, left)| Held { semaphore: Semaphore { words, places, partners }, place, left })
    }
}

impl<T: Threads> Drop for Held<'_, T> {
    fn drop(&mut self) {
        let Semaphore { words, partners, .. } = &self.semaphore;
        // Whoever has overwritten it has it.
        let _ = words[self.place].compare_exchange(partners.me(), 0, Ordering::AcqRel, Ordering::Relaxed);
        self.semaphore.waiters().take(partners).now(partners);
    }
}
