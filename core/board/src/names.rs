//! What is known by thread: a table with open addressing, which threads enter once.

use crate::terms::{Agreed, ENTRY, Terms};
use crate::{THREADS, USUAL};
use core::sync::atomic::{AtomicU64, Ordering};

const NAMES: usize = 2 * THREADS;
/// How often somebody has agreed on something, or ended who had.
const CHANGES: usize = NAMES + THREADS * ENTRY;
pub(crate) const WORDS: usize = CHANGES + 1;
/// How far from its place a thread may be.
const NEAR: usize = 16;

/// Priorities that were set, and what else was agreed on.
#[derive(Clone, Copy, Debug)]
pub struct Priorities<'a>(pub(crate) &'a [AtomicU64]);

/// What the table says about a thread.
pub(crate) struct Place<'a> {
    pub level: u64,
    pub agreed: Option<Agreed<'a>>,
}

impl<'a> Priorities<'a> {
    fn places(thread: u64) -> impl Iterator<Item = usize> {
        (0..NEAR).map(move |step| (thread as usize + step) % THREADS)
    }

    #[inline]
    fn at(&self, thread: u64) -> Option<usize> {
        Self::places(thread).find(|at| self.0[2 * at].load(Ordering::Acquire) == thread)
    }

    fn entry(&self, at: usize) -> Agreed<'a> {
        Agreed(&self.0[NAMES + at * ENTRY..][..ENTRY])
    }

    #[inline]
    pub(crate) fn find(&self, thread: u64) -> Place<'a> {
        let at = self.at(thread);
        let level = at.map_or(USUAL, |at| self.0[2 * at + 1].load(Ordering::Relaxed));
        Place { level, agreed: at.map(|at| self.entry(at)) }
    }

    /// The level of a thread.
    #[inline]
    pub fn of(&self, thread: u64) -> u64 {
        self.at(thread).map_or(USUAL, |at| self.0[2 * at + 1].load(Ordering::Relaxed))
    }

    /// What a thread has agreed on.
    #[inline]
    pub fn agreed(&self, thread: u64) -> Option<Agreed<'a>> {
        self.find(thread).agreed
    }

    /// Sets the level of a thread. Whether there was room; a new one takes the place of one of the usual level that has
    /// agreed on nothing.
    #[inline]
    pub fn set(&self, thread: u64, level: u64) -> bool {
        self.enter(thread, level).is_some()
    }

    fn enter(&self, thread: u64, level: u64) -> Option<usize> {
        let word = |at: usize| &self.0[2 * at];
        let free = |at: usize, there: u64| {
            there == 0 || self.0[2 * at + 1].load(Ordering::Relaxed) == USUAL && self.entry(at).terms() == Terms::Usual
        };
        let take =
            |at: usize, old: u64| word(at).compare_exchange(old, thread, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let found = self.at(thread).or_else(|| {
            let at = Self::places(thread).find(|at| {
                let there = word(*at).load(Ordering::Acquire);
                free(*at, there) && take(*at, there)
            })?;
            self.entry(at).agree(Terms::Usual, 0);
            Some(at)
        })?;
        self.0[2 * found + 1].store(level, Ordering::Release);
        Some(found)
    }

    /// A thread has agreed on this, at this level, and runs on these processors (bits; 0: all). Whether there was room.
    pub fn agree(&self, thread: u64, level: u64, terms: Terms, homes: u64) -> bool {
        let at = self.enter(thread, level);
        let agreed = at.inspect(|at| self.entry(*at).agree(terms, homes)).is_some();
        self.0[CHANGES].fetch_add(1, Ordering::AcqRel);
        agreed
    }

    /// Another number than before if [`Self::all`] may say something else.
    pub fn changes(&self) -> u64 {
        self.0[CHANGES].load(Ordering::Acquire)
    }

    /// Everybody that has agreed on something, with the level.
    pub fn all(self) -> impl Iterator<Item = (u64, u64, Agreed<'a>)> {
        let table = self;
        (0..THREADS).filter_map(move |at| {
            let thread = table.0[2 * at].load(Ordering::Acquire);
            let agreed = table.entry(at);
            let level = table.0[2 * at + 1].load(Ordering::Relaxed);
            (thread != 0 && agreed.terms() != Terms::Usual).then_some((thread, level, agreed))
        })
    }

    /// The thread has ended: its place is free.
    pub fn forget(&self, thread: u64) {
        if let Some(at) = self.at(thread) {
            let had = self.entry(at).terms() != Terms::Usual;
            self.entry(at).agree(Terms::Usual, 0);
            self.0[2 * at + 1].store(USUAL, Ordering::Relaxed);
            self.0[2 * at].store(0, Ordering::Release);
            self.0[CHANGES].fetch_add(had.into(), Ordering::AcqRel);
        }
    }
}
