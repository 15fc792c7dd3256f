//! Where waiting threads are found by those that wake them.

use crate::atomic::{AtomicU64, Ordering, fence};
use crate::partners::{PARTNERS_MAX, Partners, Threads};

pub(crate) const WORDS: usize = PARTNERS_MAX;

/// Where a thread is found that waits.
pub(crate) trait Found: Copy {
    /// From now on. Whether there was room, or it is there already.
    fn enter(self, me: u64) -> bool;
    fn leave(self, me: u64);
    /// Who was ended while it waited has not left.
    fn leave_out(self, _has_ended: impl Fn(u64) -> bool) {}
}

/// Where only one thread can wait: a word, 0 if it does not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bell<'a>(pub(crate) &'a AtomicU64);

impl Found for Bell<'_> {
    #[inline]
    fn enter(self, me: u64) -> bool {
        self.0.store(me, Ordering::Relaxed);
        true
    }

    #[inline]
    fn leave(self, _: u64) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// A list of waiting threads: a word each, in no order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiters<'a>(pub(crate) &'a [AtomicU64]);

impl Found for Waiters<'_> {
    fn enter(self, me: u64) -> bool {
        let free = |word: &AtomicU64| word.compare_exchange(0, me, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        self.0.iter().any(|word| word.load(Ordering::Relaxed) == me) || self.0.iter().any(free)
    }

    fn leave(self, me: u64) {
        for word in self.0 {
            if word.load(Ordering::Relaxed) == me {
                let _ = word.compare_exchange(me, 0, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }

    fn leave_out(self, has_ended: impl Fn(u64) -> bool) {
        for word in self.0 {
            let thread = word.load(Ordering::Relaxed);
            if thread != 0 && has_ended(thread) {
                let _ = word.compare_exchange(thread, 0, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }
}

impl Waiters<'_> {
    /// Takes all partners off the list, to be woken: what they wait for has changed just before. A word that names nobody
    /// that this thread deals with goes, too: whoever wrote it has no right to be there.
    pub(crate) fn take<T: Threads>(&self, partners: &Partners<T>) -> Wake {
        fence(Ordering::SeqCst);
        let mut wake = Wake::default();
        // Mostly nobody waits.
        if self.0.iter().fold(0, |any, word| any | word.load(Ordering::Relaxed)) == 0 {
            return wake;
        }
        for word in self.0 {
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let thread = word.swap(0, Ordering::AcqRel);
            wake.0 |= partners.find(thread).map_or(0, |at| 1 << at);
        }
        wake
    }
}

/// Partners to be woken, as bits.
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "they sleep until they are woken"]
pub struct Wake(u32);

impl Wake {
    /// The first of the partners.
    pub(crate) fn first() -> Wake {
        Wake(1)
    }

    /// Wakes them.
    pub fn now<T: Threads>(&mut self, partners: &Partners<T>) {
        let mut bits = core::mem::take(&mut self.0);
        while bits != 0 {
            partners.threads().wake_up(partners.number(bits.trailing_zeros()));
            bits &= bits - 1;
        }
    }

    /// The only one there is, to be woken by the caller.
    pub(crate) fn take_only<T: Threads>(&mut self, partners: &Partners<T>) -> Option<u64> {
        let only = self.0.is_power_of_two().then(|| partners.number(self.0.trailing_zeros()));
        if only.is_some() {
            self.0 = 0;
        }
        only
    }
}
