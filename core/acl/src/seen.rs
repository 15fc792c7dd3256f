//! What a list said, kept for as long as it has not changed: told without the lock that the list lies behind.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

/// Counts the changes of a list, and tells those who have seen it.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    count: u64,
    /// The count for those; made when somebody first wants to know.
    told: Option<Arc<AtomicU64>>,
}

/// A list as it was.
#[derive(Clone, Debug)]
pub struct Seen {
    count: u64,
    now: Arc<AtomicU64>,
}

/// No count.
const GONE: u64 = u64::MAX;

impl Changes {
    pub const fn new() -> Changes {
        Changes { count: 0, told: None }
    }

    #[inline(always)]
    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn bump(&mut self) {
        self.count += 1;
        if let Some(told) = &self.told {
            told.store(self.count, Ordering::Release);
        }
    }

    pub fn seen(&mut self) -> Seen {
        let now = self.told.get_or_insert_with(|| Arc::new(AtomicU64::new(self.count))).clone();
        Seen { count: self.count, now }
    }
}

/// Of a copy nobody has seen anything.
impl Clone for Changes {
    fn clone(&self) -> Changes {
        Changes { count: self.count, told: None }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        if let Some(told) = &self.told {
            told.store(GONE, Ordering::Release);
        }
    }
}

impl Seen {
    /// Whether nothing has changed. Something may by the time that this is known, as after a lock is given back.
    #[must_use]
    #[inline(always)]
    pub fn is_as_before(&self) -> bool {
        self.now.load(Ordering::Acquire) == self.count
    }
}
