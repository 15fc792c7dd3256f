//! Who waits by message: answered when there is something to say, by whoever hears of it.

use crate::table::By;
use alloc::sync::Arc;
use alloc::vec::Vec;
use musubi::Error;
use musubi::rt::Mutex;
use musubi::rt::serve::{Deferred, Shares};

/// Waits of one task at a time, and of all.
const EACH: usize = 256;
const MOST: usize = 16384;

struct One {
    by: By,
    whom: u64,
    /// When it is told that nobody has ended; `u64::MAX`: never.
    until: u64,
    request: Mutex<Option<Deferred>>,
}

struct Inside {
    all: Vec<Arc<One>>,
    shares: Shares,
}

pub struct Waiting(Mutex<Inside>);

impl Waiting {
    pub const fn new() -> Waiting {
        Waiting(Mutex::new(Inside { all: Vec::new(), shares: Shares::new(EACH, MOST) }))
    }

    /// Keeps a request until then, or answers it `Quota` if this task, or its user, has as many here as it may. Whether no other one is to be told
    /// as soon as this.
    pub fn add(&self, by: By, whom: u64, until: u64, request: Deferred) -> bool {
        let mut inside = self.0.lock();
        if !inside.shares.take(by.task, by.user) {
            drop(inside);
            request.answer(Err(Error::Quota));
            return false;
        }
        let is_next = inside.all.iter().all(|one| one.until > until);
        inside.all.push(Arc::new(One { by, whom, until, request: Mutex::new(Some(request)) }));
        is_next
    }

    /// When the next one is to be told that its time is over; `u64::MAX`: nobody is.
    pub fn next(&self) -> u64 {
        self.0.lock().all.iter().map(|one| one.until).min().unwrap_or(u64::MAX)
    }

    /// Answers those for whom `outcome` has something to say, and those whose time is over by `now`.
    pub fn look(&self, now: u64, mut outcome: impl FnMut(By, u64) -> Option<Result<u64, Error>>) {
        let all = self.0.lock().all.clone();
        let mut over = false;
        for one in &all {
            let late = || (one.until <= now).then_some(Err(Error::TimedOut));
            let Some(outcome) = outcome(one.by, one.whom).or_else(late) else { continue };
            over = true;
            // Not with the lock in hand.
            let request = one.request.lock().take();
            request.into_iter().for_each(|request| request.answer(outcome));
        }
        if over {
            let Inside { all, shares } = &mut *self.0.lock();
            all.retain(|one| {
                let waits = one.request.lock().is_some();
                if !waits {
                    shares.give(one.by.task);
                }
                waits
            });
        }
    }
}
