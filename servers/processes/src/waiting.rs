//! Who waits by message: answered when there is something to say, by whoever hears of it.

use crate::table::By;
use alloc::sync::Arc;
use alloc::vec::Vec;
use musubi::Error;
use musubi::rt::Mutex;
use musubi::rt::serve::Deferred;

/// Waits of one task at a time.
const EACH: usize = 256;

struct One {
    by: By,
    whom: u64,
    request: Mutex<Option<Deferred>>,
}

pub struct Waiting(Mutex<Vec<Arc<One>>>);

impl Waiting {
    pub const fn new() -> Waiting {
        Waiting(Mutex::new(Vec::new()))
    }

    /// Keeps a request, or answers it `Quota` if this task has as many here as it may.
    pub fn add(&self, by: By, whom: u64, request: Deferred) {
        let mut all = self.0.lock();
        if all.iter().filter(|one| one.by.task == by.task).count() >= EACH {
            drop(all);
            return request.answer(Err(Error::Quota));
        }
        all.push(Arc::new(One { by, whom, request: Mutex::new(Some(request)) }));
    }

    /// Answers those for whom `outcome` has something to say.
    pub fn look(&self, mut outcome: impl FnMut(By, u64) -> Option<Result<u64, Error>>) {
        let all = self.0.lock().clone();
        let mut over = false;
        for one in &all {
            let Some(outcome) = outcome(one.by, one.whom) else { continue };
            over = true;
            // Not with the lock in hand.
            let request = one.request.lock().take();
            request.into_iter().for_each(|request| request.answer(outcome));
        }
        if over {
            self.0.lock().retain(|one| one.request.lock().is_some());
        }
    }
}
