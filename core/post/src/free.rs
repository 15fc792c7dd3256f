//! Chains of things that are free, without a lock.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The chain: the number of its first element, and above it how often one was put there, so that one who was slow does not
/// take a chain for the one that it has seen.
#[derive(Debug, Default)]
pub(crate) struct Chain(AtomicU64);

const CHANGE: u64 = 1 << 32;

impl Chain {
    /// Puts element `number` in front, whose link is `next`.
    pub fn put(&self, number: u32, next: &AtomicU32) {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            next.store(seen as u32, Ordering::Relaxed);
            let new = (seen & !(CHANGE - 1)).wrapping_add(CHANGE) | u64::from(number);
            match self.0.compare_exchange(seen, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Takes the first element; `next` finds its link.
    pub fn take<'a>(&self, next: impl Fn(u32) -> &'a AtomicU32) -> Option<u32> {
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            let first = seen as u32;
            if first == 0 {
                return None;
            }
            // It may be gone by now, and in other hands: then the exchange fails.
            let second = next(first).load(Ordering::Relaxed);
            let new = seen & !(CHANGE - 1) | u64::from(second);
            match self.0.compare_exchange(seen, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(first),
                Err(now) => seen = now,
            }
        }
    }
}
