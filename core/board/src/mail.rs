//! Ready threads that the fast level of one processor leaves to that of another: many put in, one takes out, nobody waits.

use crate::queue::Ready;
use crate::sync::{AtomicU64, Ordering};

const IN: usize = 0;
const OUT: usize = 1;
const FIRST: usize = 2;
const SLOT: usize = 3;
const SLOTS: u64 = 64;
pub(crate) const WORDS: usize = FIRST + SLOTS as usize * SLOT;

/// The mail of a processor.
#[derive(Clone, Copy, Debug)]
pub struct Mail<'a>(pub(crate) &'a [AtomicU64; WORDS]);

impl Mail<'_> {
    fn slot(number: u64) -> usize {
        FIRST + (number % SLOTS) as usize * SLOT
    }

    /// Leaves a thread here. Whether there was room.
    #[inline]
    pub fn put(&self, ready: Ready) -> bool {
        let mut number = self.0[IN].load(Ordering::Acquire);
        loop {
            if number.wrapping_sub(self.0[OUT].load(Ordering::Acquire)) >= SLOTS {
                return false;
            }
            match self.0[IN].compare_exchange_weak(number, number + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(there) => number = there,
            }
        }
        let at = Self::slot(number);
        self.0[at + 1].store(ready.thread, Ordering::Relaxed);
        self.0[at + 2].store(ready.turn, Ordering::Relaxed);
        // Only now it is there.
        self.0[at].store(number + 1, Ordering::Release);
        true
    }

    /// The next one, for the processor whose mail it is.
    #[inline]
    pub fn take(&self) -> Option<Ready> {
        let number = self.0[OUT].load(Ordering::Relaxed);
        let at = Self::slot(number);
        if self.0[at].load(Ordering::Acquire) != number + 1 {
            return None;
        }
        let ready =
            Ready { thread: self.0[at + 1].load(Ordering::Relaxed), turn: self.0[at + 2].load(Ordering::Relaxed) };
        self.0[OUT].store(number + 1, Ordering::Release);
        Some(ready)
    }
}
