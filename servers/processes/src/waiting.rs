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

    /// Keeps a request, or answers it `Quota` if this task, or its user, has as many here as it may.
    pub fn add(&self, by: By, whom: u64, request: Deferred) {
        let mut inside = self.0.lock();
        if !inside.shares.take(by.task, by.user) {
            drop(inside);
            return request.answer(Err(Error::Quota));
        }
        inside.all.push(Arc::new(One { by, whom, request: Mutex::new(Some(request)) }));
    }

    /// Answers those for whom `outcome` has something to say.
    pub fn look(&self, mut outcome: impl FnMut(By, u64) -> Option<Result<u64, Error>>) {
        let all = self.0.lock().all.clone();
        let mut over = false;
        for one in &all {
            let Some(outcome) = outcome(one.by, one.whom) else { continue };
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
