#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod beds;
mod buffer;
mod called;
mod desk;
mod lent;
mod mail;
mod names;
mod proposal;
mod quantum;
mod queue;
mod sync;
mod terms;
mod wishes;

pub use beds::{Bed, Beds, Woken};
pub use buffer::{Buffer, Chosen, Step};
pub use called::Called;
pub use desk::{Asked, Call, Desk, Kind, reason};
pub use lent::{Lent, Loans};
pub use mail::Mail;
pub use names::Priorities;
pub use proposal::Proposals;
pub use quantum::Quanta;
pub use queue::{Latest, Offer, Over, Queue, Ready};
pub use terms::{Agreed, Order, Position, STRIDE, Terms, Why};
pub use wishes::Wishes;

use sync::AtomicU64;

/// Levels of priority; 0 is the highest.
pub const LEVELS: usize = 32;
/// The level of a thread that nobody has said anything about.
pub const USUAL: u64 = 16;
/// Processors that a board has room for.
pub const PROCESSORS: usize = 32;
/// Threads that may be ready on one processor, and threads with a priority of their own.
pub const THREADS: usize = 4096;
/// How long a thread runs before the next one's turn, in ns, if it has agreed on nothing else.
pub const QUANTUM_NS: u64 = 10_000_000;

const DESK: usize = desk::WORDS;
const PER_PROCESSOR: usize = DESK + buffer::WORDS + mail::WORDS + queue::WORDS;
const BEDS: usize = names::WORDS + proposal::WORDS;
const FIRST: usize = BEDS + beds::WORDS;
const ALL: usize = FIRST + PROCESSORS * PER_PROCESSOR;

/// What the section with the board is called that is the high level's alone.
pub const PRIVATE: &str = "sched private";

/// Bytes of a board.
pub const LEN: u64 = ALL as u64 * 8;

/// Words of a board for the first so many processors.
#[must_use]
pub const fn words(processors: usize) -> usize {
    FIRST + if processors < PROCESSORS { processors } else { PROCESSORS } * PER_PROCESSOR
}

/// A board, as whoever has been shown it sees it.
#[derive(Clone, Copy, Debug)]
pub struct Board<'a>(&'a [AtomicU64]);

/// What a board has of one processor. Whoever goes there often keeps it: then it is found without a question.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a>(&'a [AtomicU64; PER_PROCESSOR]);

impl<'a> Part<'a> {
    /// What the levels say to each other there.
    #[inline]
    pub fn desk(&self) -> Desk<'a> {
        Desk(part(self.0, 0))
    }

    /// The ready threads: see [`Board::queue`].
    #[inline]
    pub fn queue(&self) -> Queue<'a> {
        Queue(part(self.0, DESK + buffer::WORDS + mail::WORDS))
    }
}

#[inline]
fn part<const N: usize>(words: &[AtomicU64], from: usize) -> &[AtomicU64; N] {
    words[from..].first_chunk().expect("a board has whole parts")
}

impl<'a> Board<'a> {
    /// The board in these words, for as many processors as they have room for ([`words`]); `None` if that is none.
    pub fn new(words: &'a [AtomicU64]) -> Option<Board<'a>> {
        (words.len() >= self::words(1)).then(|| Board(&words[..words.len().min(ALL)]))
    }

    /// As it was at the beginning, for the first so many processors: before anybody else uses it.
    pub fn clear(&self, processors: usize) {
        let used = &self.0[..words(processors).min(self.0.len())];
        used.iter().for_each(|word| word.store(0, sync::Ordering::Relaxed));
    }

    /// Priorities by thread.
    #[inline]
    pub fn priorities(&self) -> Priorities<'a> {
        Priorities(&self.0[..names::WORDS])
    }

    /// Where threads sleep.
    #[inline]
    pub fn beds(&self) -> Beds<'a> {
        Beds(part(self.0, BEDS))
    }

    /// What is proposed to the policy.
    #[inline]
    pub fn proposals(&self) -> Proposals<'a> {
        Proposals(part(self.0, names::WORDS))
    }

    /// The weight of those who have agreed on nothing; 0: they take turns.
    #[inline]
    pub fn weight(&self) -> u64 {
        self.proposals().weight()
    }

    /// From now on everybody has a share, who has agreed on nothing this one.
    pub fn set_weight(&self, weight: u64) {
        self.proposals().set_weight(weight);
    }

    /// What there is of a processor.
    ///
    /// # Panics
    /// If there is no such processor.
    #[inline]
    pub fn of(&self, processor: usize) -> Part<'a> {
        Part(part(self.0, FIRST + processor * PER_PROCESSOR))
    }

    /// What the levels say to each other on a processor.
    ///
    /// # Panics
    /// If there is no such processor.
    #[inline]
    pub fn desk(&self, processor: usize) -> Desk<'a> {
        self.of(processor).desk()
    }

    /// Whether the high level has a thread on each of the first so many processors.
    pub fn has_high(&self, processors: usize) -> bool {
        (0..processors).all(|processor| self.desk(processor).high() != 0)
    }

    /// The event buffer of a processor, in the initial version.
    ///
    /// # Panics
    /// If there is no such processor.
    pub fn buffer(&self, processor: usize) -> Buffer<'a> {
        Buffer(part(self.of(processor).0, DESK))
    }

    /// The ready threads that others have left for a processor.
    ///
    /// # Panics
    /// If there is no such processor.
    #[inline]
    pub fn mail(&self, processor: usize) -> Mail<'a> {
        Mail(part(self.of(processor).0, DESK + buffer::WORDS))
    }

    /// The ready threads of a processor. Its fast scheduler changes them, everybody may read.
    ///
    /// # Panics
    /// If there is no such processor.
    #[inline]
    pub fn queue(&self, processor: usize) -> Queue<'a> {
        self.of(processor).queue()
    }

    /// Whom a processor, of the first so many, may take over from the one where most wait, so that busy ones even out. Stays in that queue,
    /// too: whoever names it first has it. Nobody who has to be elsewhere.
    pub fn spare_for(&self, processor: usize, processors: usize) -> Option<Ready> {
        let others = (0..processors).filter(|p| *p != processor).map(|p| self.queue(p));
        let fullest = others.max_by_key(Queue::len)?;
        let order = Order::new(*self, processor, || 0);
        fullest.spare(self.queue(processor).len(), |thread| order.elsewhere(thread).is_none())
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
#[path = "tests/balance.rs"]
mod tests_balance;
#[cfg(test)]
#[path = "tests/called.rs"]
mod tests_called;
#[cfg(test)]
#[path = "tests/race.rs"]
mod tests_race;
#[cfg(test)]
#[path = "tests/terms.rs"]
mod tests_terms;
