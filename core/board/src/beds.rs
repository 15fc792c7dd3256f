//! Where threads sleep that have called the scheduler by EPC: who wakes one that sleeps on the same processor needs no kernel.

use crate::THREADS;
use crate::sync::{AtomicU64, Ordering};

pub(crate) const WORDS: usize = 2 * THREADS;
/// How far from its place a thread may be.
const NEAR: usize = 16;

const AWAKE: u64 = 0;
/// It was woken before it slept.
const WOKEN: u64 = 1;
/// This and the processor.
const ASLEEP: u64 = 2;

/// What became of a wish to wake a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// It sleeps on this processor, and is now the waker's to queue.
    Here,
    /// It sleeps on another one, or is about to: the kernel has to call it back.
    Elsewhere,
    /// It does not sleep. The next time it will not.
    Awake,
    /// Nobody knows it here: it may sleep in the kernel.
    Unknown,
}

/// The beds of a board.
#[derive(Clone, Copy, Debug)]
pub struct Beds<'a>(pub(crate) &'a [AtomicU64; WORDS]);

/// One thread's.
#[derive(Clone, Copy, Debug)]
pub struct Bed<'a>(&'a AtomicU64);

impl<'a> Beds<'a> {
    fn places(thread: u64) -> impl Iterator<Item = usize> {
        (0..NEAR).map(move |step| 2 * ((thread as usize + step) % THREADS))
    }

    #[inline]
    fn find(&self, thread: u64) -> Option<Bed<'a>> {
        let first = 2 * (thread as usize % THREADS);
        // 0 is at places that nobody has.
        let is_there = thread != 0 && self.0[first].load(Ordering::Acquire) == thread;
        if is_there { Some(Bed(&self.0[first + 1])) } else { self.far(thread) }
    }

    #[cold]
    fn far(&self, thread: u64) -> Option<Bed<'a>> {
        let is_there = |at: &usize| thread != 0 && self.0[*at].load(Ordering::Acquire) == thread;
        Self::places(thread).find(is_there).map(|at| Bed(&self.0[at + 1]))
    }

    /// The bed of a thread, perhaps a new one; `None` if there is no room.
    #[inline]
    pub fn of(&self, thread: u64) -> Option<Bed<'a>> {
        self.find(thread).or_else(|| self.make(thread))
    }

    #[cold]
    fn make(&self, thread: u64) -> Option<Bed<'a>> {
        if thread == 0 {
            return None;
        }
        // Who wakes it may make one, too, just now. (What is left there by others wakes it for nothing at most.)
        let take = |at: &usize| match self.0[*at].compare_exchange(0, thread, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(there) => there == thread,
        };
        let place = Self::places(thread).find(take)?;
        Some(Bed(&self.0[place + 1]))
    }

    /// Wakes a thread, from this processor.
    #[inline]
    pub fn wake(&self, thread: u64, processor: usize) -> Woken {
        let Some(bed) = self.find(thread) else { return Woken::Unknown };
        match bed.0.swap(WOKEN, Ordering::AcqRel) {
            AWAKE | WOKEN => Woken::Awake,
            there if there == ASLEEP + processor as u64 => {
                bed.0.store(AWAKE, Ordering::Release);
                Woken::Here
            }
            _ => Woken::Elsewhere,
        }
    }

    /// A thread that was `Unknown` exists: the next time it does not sleep.
    pub fn note(&self, thread: u64) {
        if let Some(bed) = self.of(thread) {
            let _ = bed.0.compare_exchange(AWAKE, WOKEN, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// The thread has ended.
    pub fn forget(&self, thread: u64) {
        // Where somebody else's went in between there may be two.
        for at in Self::places(thread).filter(|at| self.0[*at].load(Ordering::Acquire) == thread) {
            self.0[at + 1].store(AWAKE, Ordering::Relaxed);
            self.0[at].store(0, Ordering::Release);
        }
    }
}

impl Bed<'_> {
    /// It is about to be put aside on this processor. Whether it has to: not if it was woken before.
    #[inline]
    pub fn lie_down(&self, processor: usize) -> bool {
        let asleep = ASLEEP + processor as u64;
        let lies = self.0.compare_exchange(AWAKE, asleep, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if !lies {
            self.0.store(AWAKE, Ordering::Release);
        }
        lies
    }

    /// It runs again, or has not been put aside after all. Whether somebody has woken it.
    #[inline]
    pub fn get_up(&self) -> bool {
        self.0.swap(AWAKE, Ordering::AcqRel) < ASLEEP
    }
}
