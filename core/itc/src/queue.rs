//! Bounded queues of messages, first in, first out, for any number of threads on both sides. A place says what is being
//! done with it and by whom, so that nobody has to wait for one who has ended in the middle.

use crate::atomic::{AtomicU64, Ordering};
use crate::partners::{Limit, Partners, Threads};
use crate::waiters::{self, Waiters, Wake};
use abi::Error;

// Words: the next place to be taken from; the next to be put into; places that somebody left in the middle; who waits for a
// message and who waits for room; then the places, each a state and a message. All 0: empty.
const HEAD: usize = 0;
const TAIL: usize = 8;
const LEFT: usize = 9;
const TAKERS: usize = 16;
const PUTTERS: usize = TAKERS + waiters::WORDS;
const PLACES: usize = PUTTERS + waiters::WORDS;

/// Attempts at a queue that changes all the time: honest partners do not make one lose so often.
const TRIES: u32 = if cfg!(test) { 200 } else { 10_000 };

// What is being done with a place, in the upper two bits of its state. Below are the lap, that is how often it was used
// before, and the thread that does it.
const FREE: u64 = 0;
const PUTTING: u64 = 1;
const FULL: u64 = 2;
const TAKING: u64 = 3;
const LAPS: u64 = 1 << 30;

const fn state(what: u64, lap: u64, thread: u64) -> u64 {
    (what << 62) | ((lap % LAPS) << 32) | (thread & u32::MAX as u64)
}

const fn read(state: u64) -> (u64, u64, u64) {
    (state >> 62, (state >> 32) & (LAPS - 1), state & u32::MAX as u64)
}

/// A queue of messages of `M` words, as this thread sees it.
#[derive(Debug)]
pub struct Queue<'a, T: Threads, const M: usize> {
    words: &'a [AtomicU64],
    /// Their number's logarithm.
    places: u32,
    partners: &'a Partners<T>,
}

/// What was taken out of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken<const M: usize> {
    Message([u64; M]),
    /// This thread had ended while it was putting a message here.
    Left(u64),
}

impl<'a, T: Threads, const M: usize> Queue<'a, T, M> {
    /// Words that a queue of so many places takes.
    pub const fn words(places: u64) -> usize {
        PLACES + places as usize * (M + 1)
    }

    /// The queue in these words, with so many places (for all the same, a power of two up to 2^20); `None` if they are too few.
    pub fn new(words: &'a [AtomicU64], places: u64, partners: &'a Partners<T>) -> Option<Self> {
        let fits = places.is_power_of_two() && places <= 1 << 20;
        let words = fits.then(|| words.get(..Self::words(places)))??;
        Some(Queue { words, places: places.trailing_zeros(), partners })
    }

    /// How many places were found whose holder had ended.
    pub fn left(&self) -> u64 {
        self.words[LEFT].load(Ordering::Relaxed)
    }

    fn takers(&self) -> Waiters<'a> {
        Waiters(&self.words[TAKERS..PUTTERS])
    }

    fn putters(&self) -> Waiters<'a> {
        Waiters(&self.words[PUTTERS..PLACES])
    }

    /// State and message of the place for a position. Whatever that is, there is one.
    fn place(&self, position: u64) -> (&'a AtomicU64, &'a [AtomicU64]) {
        let at = PLACES + (position & ((1 << self.places) - 1)) as usize * (M + 1);
        (&self.words[at], &self.words[at + 1..at + 1 + M])
    }

    /// How often the place for a position was used before.
    fn lap(&self, position: u64) -> u64 {
        (position >> self.places) % LAPS
    }

    fn change(word: &AtomicU64, from: u64, to: u64) -> bool {
        word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// A place to put a message into, at a position; `None` if all are full.
    pub(crate) fn claim(&self) -> Result<Option<u64>, Error> {
        let tail = &self.words[TAIL];
        for _ in 0..TRIES {
            let position = tail.load(Ordering::Acquire);
            let lap = self.lap(position);
            let (place, _) = self.place(position);
            let found = place.load(Ordering::Acquire);
            match read(found) {
                (FREE, at, 0) if at == lap => {
                    if Self::change(place, found, state(PUTTING, lap, self.partners.me())) {
                        Self::change(tail, position, position.wrapping_add(1));
                        return Ok(Some(position));
                    }
                }
                // Somebody was faster and has not said so yet.
                (_, at, _) if at == lap || at == (lap + 1) % LAPS => {
                    Self::change(tail, position, position.wrapping_add(1));
                }
                (TAKING, at, by) if (at + 1) % LAPS == lap && self.partners.has_ended(by) => {
                    self.clear(place, found, lap);
                }
                (what, at, _) if tail.load(Ordering::Acquire) == position => {
                    return if what != FREE && (at + 1) % LAPS == lap { Ok(None) } else { Err(Error::Changed) };
                }
                _ => {}
            }
        }
        Err(Error::Changed)
    }

    /// A place whose holder has ended is free for the next lap, and counted. Whether this thread found it first.
    fn clear(&self, place: &AtomicU64, found: u64, lap: u64) -> bool {
        let first = Self::change(place, found, state(FREE, lap, 0));
        if first {
            self.words[LEFT].fetch_add(1, Ordering::Relaxed);
        }
        first
    }

    /// Puts the message into a place that was claimed.
    pub(crate) fn fill(&self, position: u64, message: &[u64; M]) -> Result<(), Error> {
        let (place, words) = self.place(position);
        words.iter().zip(message).for_each(|(word, value)| word.store(*value, Ordering::Relaxed));
        let (lap, me) = (self.lap(position), self.partners.me());
        let done = Self::change(place, state(PUTTING, lap, me), state(FULL, lap, me));
        if done { Ok(()) } else { Err(Error::Changed) }
    }

    /// Takes the next message into this thread's hands, from a position.
    pub(crate) fn begin(&self) -> Result<Option<Result<u64, u64>>, Error> {
        let (head, me) = (&self.words[HEAD], self.partners.me());
        for _ in 0..TRIES {
            let position = head.load(Ordering::Acquire);
            let lap = self.lap(position);
            let next = || Self::change(head, position, position.wrapping_add(1));
            let (place, _) = self.place(position);
            let found = place.load(Ordering::Acquire);
            match read(found) {
                (FULL, at, _) if at == lap => {
                    if Self::change(place, found, state(TAKING, lap, me)) {
                        next();
                        return Ok(Some(Ok(position)));
                    }
                }
                (PUTTING | TAKING, at, by) if at == lap && self.partners.has_ended(by) => {
                    if self.clear(place, found, lap + 1) {
                        next();
                        return Ok(Some(Err(by)));
                    }
                }
                (TAKING, at, _) if at == lap => {
                    next();
                }
                // The round before is not over here: there cannot be a message yet.
                (TAKING, at, by) if (at + 1) % LAPS == lap => {
                    if !self.partners.has_ended(by) {
                        let known = by == me || self.partners.has(by);
                        return if known { Ok(None) } else { Err(Error::Changed) };
                    }
                    if self.clear(place, found, lap) {
                        // Who waits for room may not have known that one, and nothing is taken here.
                        self.putters().take(self.partners).now(self.partners);
                    }
                }
                (_, at, _) if at == (lap + 1) % LAPS => {
                    next();
                }
                (what, at, by) if head.load(Ordering::Acquire) == position => {
                    let is_coming = what == PUTTING && self.partners.has(by);
                    return if at == lap && (what == FREE || is_coming) { Ok(None) } else { Err(Error::Changed) };
                }
                _ => {}
            }
        }
        Err(Error::Changed)
    }

    /// The message from a place that was taken.
    pub(crate) fn empty(&self, position: u64) -> Result<[u64; M], Error> {
        let (place, words) = self.place(position);
        let message = core::array::from_fn(|at| words[at].load(Ordering::Relaxed));
        let lap = self.lap(position);
        let done = Self::change(place, state(TAKING, lap, self.partners.me()), state(FREE, lap + 1, 0));
        if done { Ok(message) } else { Err(Error::Changed) }
    }

    /// Puts a message in, waiting for room. Whoever waits for it is still to be woken.
    ///
    /// # Errors
    /// `Busy` ([`Limit::Poll`]), `TimedOut`, `Killed`; `Dead`: a partner has ended; `Changed`: the words make no sense.
    pub fn put_quietly(&self, message: &[u64; M], limit: Limit) -> Result<Wake, Error> {
        let lost = || self.partners.has_lost();
        let position = match self.claim()? {
            Some(position) => position,
            None => self.partners.wait(self.putters(), limit, Wake::default(), lost, || self.claim())?,
        };
        self.fill(position, message)?;
        Ok(self.takers().take(self.partners))
    }

    /// Puts a message in, waiting for room.
    ///
    /// # Errors
    /// As [`Queue::put_quietly`].
    pub fn put(&self, message: &[u64; M], limit: Limit) -> Result<(), Error> {
        self.put_quietly(message, limit)?.now(self.partners);
        Ok(())
    }

    /// Takes a message out, waiting for one.
    ///
    /// # Errors
    /// As [`Queue::put_quietly`].
    pub fn take(&self, limit: Limit) -> Result<Taken<M>, Error> {
        self.take_after(Wake::default(), limit)
    }

    /// The same, having first to wake `wake`: if there is no message yet, the processor goes from this thread to that one
    /// in one step.
    ///
    /// # Errors
    /// As [`Queue::put_quietly`].
    pub fn take_after(&self, wake: Wake, limit: Limit) -> Result<Taken<M>, Error> {
        let lost = || self.partners.has_lost();
        let taken = match self.partners.wait(self.takers(), limit, wake, lost, || self.begin())? {
            Ok(position) => Taken::Message(self.empty(position)?),
            Err(thread) => Taken::Left(thread),
        };
        self.putters().take(self.partners).now(self.partners);
        Ok(taken)
    }
}
