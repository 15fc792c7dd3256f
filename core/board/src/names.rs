//! What is known by thread: a table with open addressing, which threads enter once.

use crate::sync::{AtomicU64, Ordering};
use crate::terms::{Agreed, ENTRY, Terms};
use crate::{LEVELS, THREADS, USUAL};

const NAMES: usize = THREADS;
/// How often somebody has agreed on something, or ended who had.
const CHANGES: usize = NAMES + THREADS * ENTRY;
pub(crate) const WORDS: usize = CHANGES + 1;
/// How far from its place a thread may be.
const NEAR: usize = 16;

/// Who has a place, at which level, and whether it has agreed on something: one word, since the high levels of all processors change places at
/// once, and none may change what is another thread's by then.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Name(u64);

impl Name {
    const NOBODY: Name = Name(0);
    const LEVEL: u64 = 0x7f;
    const AGREED: u64 = 0x80;
    const THREAD: u32 = 8;

    fn new(thread: u64, level: u64, agreed: bool) -> Name {
        Name(thread << Self::THREAD | level.min(LEVELS as u64 - 1) | if agreed { Self::AGREED } else { 0 })
    }

    #[inline]
    fn thread(self) -> u64 {
        self.0 >> Self::THREAD
    }

    #[inline]
    fn level(self) -> u64 {
        self.0 & Self::LEVEL
    }

    fn has_agreed(self) -> bool {
        self.0 & Self::AGREED != 0
    }

    /// Whether somebody else may have the place: nothing is known there that is not so of everybody.
    fn is_free(self) -> bool {
        self == Self::NOBODY || self.level() == USUAL && !self.has_agreed()
    }
}

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
    fn name(&self, at: usize) -> Name {
        Name(self.0[at].load(Ordering::Acquire))
    }

    /// Whether a place was still as it was said to be, and now is otherwise.
    fn change(&self, at: usize, old: Name, new: Name) -> bool {
        self.0[at].compare_exchange(old.0, new.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn at(&self, thread: u64) -> Option<(usize, Name)> {
        Self::places(thread).map(|at| (at, self.name(at))).find(|(_, name)| name.thread() == thread)
    }

    fn entry(&self, at: usize) -> Agreed<'a> {
        Agreed(&self.0[NAMES + at * ENTRY..][..ENTRY])
    }

    #[inline]
    pub(crate) fn find(&self, thread: u64) -> Place<'a> {
        let found = self.at(thread);
        Place { level: found.map_or(USUAL, |(_, name)| name.level()), agreed: found.map(|(at, _)| self.entry(at)) }
    }

    /// The level of a thread.
    #[inline]
    pub fn of(&self, thread: u64) -> u64 {
        self.at(thread).map_or(USUAL, |(_, name)| name.level())
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
        self.enter(thread, |name| Name::new(thread, level, name.has_agreed())).is_some()
    }

    /// Sets the level that a thread wishes for, but none above `highest`; who stands there has that by what it has agreed on, and keeps it.
    pub fn wish(&self, thread: u64, level: u64, highest: u64) {
        self.enter(thread, |name| match name {
            Name::NOBODY => Name::new(thread, level.max(highest), false),
            _ if name.level() < highest => name,
            _ => Name::new(thread, level.max(highest), name.has_agreed()),
        });
    }

    /// Makes something else of what is said of a thread, or of nobody; where that is.
    fn enter(&self, thread: u64, change: impl Fn(Name) -> Name) -> Option<usize> {
        if thread == 0 || Name::new(thread, 0, false).thread() != thread {
            return None;
        }
        loop {
            let (at, there, name) = match self.at(thread) {
                Some((at, there)) => (at, there, there),
                None => {
                    let mut places = Self::places(thread).map(|at| (at, self.name(at)));
                    let (at, there) = places.find(|(_, there)| there.is_free())?;
                    (at, there, Name::NOBODY)
                }
            };
            if self.change(at, there, change(name)) {
                return Some(at);
            }
        }
    }

    /// A thread has agreed on this, at this level (`None`: the one that it has), and runs on these processors (bits; 0: all). Whether there was room.
    pub fn agree(&self, thread: u64, level: Option<u64>, terms: Terms, homes: u64) -> bool {
        let as_it_was = |name: Name| if name == Name::NOBODY { USUAL } else { name.level() };
        let with = |name, agreed| Name::new(thread, level.unwrap_or_else(|| as_it_was(name)), agreed);
        // While its words are written nobody else takes the place.
        let at = self.enter(thread, |name| with(name, true));
        if let Some(at) = at {
            self.entry(at).agree(terms, homes);
            if terms == Terms::Usual {
                self.enter(thread, |name| with(name, false));
            }
        }
        self.0[CHANGES].fetch_add(1, Ordering::AcqRel);
        at.is_some()
    }

    /// Another number than before if [`Self::all`] may say something else.
    pub fn changes(&self) -> u64 {
        self.0[CHANGES].load(Ordering::Acquire)
    }

    /// Everybody that has agreed on something, with the level.
    pub fn all(self) -> impl Iterator<Item = (u64, u64, Agreed<'a>)> {
        let table = self;
        (0..THREADS).filter_map(move |at| {
            let (name, agreed) = (table.name(at), table.entry(at));
            let is_one = name.has_agreed() && agreed.terms() != Terms::Usual;
            is_one.then(|| (name.thread(), name.level(), agreed))
        })
    }

    /// The levels of those that have agreed on nothing, where they are not the usual one.
    pub fn levels(self) -> impl Iterator<Item = (u64, u64)> {
        let table = self;
        let names = (0..THREADS).map(move |at| table.name(at));
        names.filter(|name| !name.is_free() && !name.has_agreed()).map(|name| (name.thread(), name.level()))
    }

    /// The thread has ended: its place is free.
    pub fn forget(&self, thread: u64) {
        while let Some((at, name)) = self.at(thread) {
            if name.has_agreed() {
                self.entry(at).agree(Terms::Usual, 0);
            }
            if self.change(at, name, Name::NOBODY) {
                self.0[CHANGES].fetch_add(name.has_agreed().into(), Ordering::AcqRel);
                return;
            }
        }
    }
}
