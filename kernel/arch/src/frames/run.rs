//! Frames in a row.

use super::{CACHES, Frame, MACHINE, PAGE, POOL, direct, give_up, wipe};
use core::sync::atomic::Ordering;

/// Frames in a row that nobody has had since they were taken; those that are left go back when this is dropped.
#[derive(Debug)]
pub struct Run {
    /// Number of the next one.
    next: u64,
    left: u64,
}

/// Why there is no such run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Not so many frames are free beside those that are to be left.
    TooFew,
    /// They are, but not in a row.
    Scattered,
}

impl Run {
    /// Takes so many frames, of which the first lies at a multiple of `align` frames, a power of two, and leaves `left` at least.
    ///
    /// # Errors
    /// [`Why`]; nothing was taken.
    pub fn take(count: u64, align: u64, left: u64) -> Result<Run, Why> {
        let try_it = || {
            let mut pool = POOL.lock();
            if MACHINE.free.load(Ordering::Relaxed) < count.saturating_add(left) {
                return Err(Why::TooFew);
            }
            let next = pool.take_run(count, align).ok_or(Why::Scattered)?;
            // Under the lock: of two that ask for the last at once one hears of it.
            MACHINE.free.fetch_sub(count, Ordering::Relaxed);
            Ok(Run { next, left: count })
        };
        match try_it() {
            Err(Why::Scattered) => {
                // What processors have at hand may be what is wanting.
                CACHES.iter().for_each(|cache| give_up(&mut cache.lock(), 0));
                try_it()
            }
            other => other,
        }
    }

    /// Its frames are the caller's from now on, who [gives them back](Run::of_address): the physical address of the first one.
    pub(crate) fn into_address(self) -> u64 {
        let first = self.next * PAGE;
        core::mem::forget(self);
        first
    }

    /// So many frames in a row that are the caller's.
    pub(crate) fn of_address(first: u64, count: u64) -> Run {
        Run { next: first / PAGE, left: count }
    }

    /// How many are left.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The next one, of zeroes.
    pub fn next_zeroed(&mut self) -> Option<Frame> {
        self.left = self.left.checked_sub(1)?;
        let frame = self.next * PAGE;
        self.next += 1;
        wipe(direct(frame));
        Some(Frame { tagged: frame })
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.left > 0 {
            // In this order: who takes them at once finds as many counted.
            MACHINE.free.fetch_add(self.left, Ordering::Relaxed);
            POOL.lock().give(self.next, self.left);
        }
    }
}
