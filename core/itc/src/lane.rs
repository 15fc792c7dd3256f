//! Lanes: bounded queues between two threads only, one that puts and one that takes. Each knows its own position without
//! reading it, so a message costs the other's position and no locked instruction.

use crate::atomic::{AtomicU64, Ordering, fence};
use crate::partners::{Limit, Partners, Threads};
use crate::waiters::{Bell, Wake};
use abi::Error;
use core::cell::Cell;

// Words: how many messages were put; how many were taken, and whether the taker waits; then the places. All 0: empty.
const PUT: usize = 0;
const TAKEN: usize = 8;
const BELL: usize = 9;
const PLACES: usize = 16;

/// Words that a lane of so many places takes, for messages of `M` words.
#[must_use]
pub const fn lane_words<const M: usize>(places: u64) -> usize {
    PLACES + places as usize * M
}

/// The words of a lane, and how many messages this end has put or taken.
#[derive(Debug)]
struct End<'a, const M: usize> {
    words: &'a [AtomicU64],
    places: u64,
    position: Cell<u64>,
}

impl<'a, const M: usize> End<'a, M> {
    fn new(words: &'a [AtomicU64], places: u64) -> Option<Self> {
        let fits = places.is_power_of_two() && places <= 1 << 20;
        let words = fits.then(|| words.get(..lane_words::<M>(places)))??;
        Some(End { words, places, position: Cell::new(0) })
    }

    /// The place for a position. Whatever that is, there is one.
    #[inline]
    fn place(&self, position: u64) -> &'a [AtomicU64] {
        let at = PLACES + (position & (self.places - 1)) as usize * M;
        &self.words[at..at + M]
    }

    fn bell(&self) -> Bell<'a> {
        Bell(&self.words[BELL])
    }
}

/// The end of a lane that puts messages in. There is one.
#[derive(Debug)]
pub struct Putter<'a, const M: usize>(End<'a, M>);

/// The end of a lane that takes messages out. There is one.
#[derive(Debug)]
pub struct Taker<'a, const M: usize>(End<'a, M>);

impl<'a, const M: usize> Putter<'a, M> {
    /// An end of a new lane in these words (all 0), with so many places (for both the same, a power of two up to 2^20); `None`
    /// if they are too few.
    #[must_use]
    pub fn new(words: &'a [AtomicU64], places: u64) -> Option<Self> {
        End::new(words, places).map(Putter)
    }

    /// Puts a message in. The taker, if it waits, is still to be woken: it is the first of the partners.
    ///
    /// # Errors
    /// `Busy`: there is no room; `Changed`: the words make no sense.
    #[inline]
    pub fn put(&self, message: &[u64; M]) -> Result<Wake, Error> {
        let Putter(end) = self;
        let position = end.position.get();
        let left = position.wrapping_sub(end.words[TAKEN].load(Ordering::Acquire));
        if left >= end.places {
            return Err(if left == end.places { Error::Busy } else { Error::Changed });
        }
        end.place(position).iter().zip(message).for_each(|(word, value)| word.store(*value, Ordering::Relaxed));
        end.position.set(position.wrapping_add(1));
        end.words[PUT].store(position.wrapping_add(1), Ordering::Release);
        Ok(end.bell().ring())
    }
}

impl<'a, const M: usize> Taker<'a, M> {
    /// As [`Putter::new`].
    #[must_use]
    pub fn new(words: &'a [AtomicU64], places: u64) -> Option<Self> {
        End::new(words, places).map(Taker)
    }

    /// The next message, if there is one.
    #[inline]
    fn next(&self) -> Result<Option<[u64; M]>, Error> {
        let Taker(end) = self;
        let position = end.position.get();
        match end.words[PUT].load(Ordering::Acquire).wrapping_sub(position) {
            0 => return Ok(None),
            ready if ready > end.places => return Err(Error::Changed),
            _ => {}
        }
        let place = end.place(position);
        let message = core::array::from_fn(|at| place[at].load(Ordering::Relaxed));
        end.position.set(position.wrapping_add(1));
        end.words[TAKEN].store(position.wrapping_add(1), Ordering::Release);
        Ok(Some(message))
    }

    /// Takes a message out, waiting for one, having first to wake `wake`: if there is no message yet, the processor goes from
    /// this thread to that one in one step.
    ///
    /// # Errors
    /// `Busy` ([`Limit::Poll`]), `TimedOut`, `Killed`; `Dead`: the partner has ended, and all that it had put is taken; `Changed`:
    /// the words make no sense.
    #[inline]
    pub fn take_after<T: Threads>(&self, partners: &Partners<T>, wake: Wake, limit: Limit) -> Result<[u64; M], Error> {
        partners.wait(self.0.bell(), limit, wake, || partners.has_lost(), || self.next())
    }
}

impl Bell<'_> {
    /// What is waited for has changed just before: whether somebody is to be woken.
    #[inline]
    fn ring(self) -> Wake {
        fence(Ordering::SeqCst);
        if self.0.load(Ordering::Relaxed) == 0 {
            return Wake::default();
        }
        // Who waits is woken after this, so it does not matter whether he has just written there again.
        self.0.store(0, Ordering::Relaxed);
        Wake::first()
    }
}
