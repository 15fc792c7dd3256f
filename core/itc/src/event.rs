//! Events: one thread says that something has happened, another one waits for it.

use crate::atomic::{AtomicU64, Ordering};
use crate::partners::{Limit, Partners, Threads};
use crate::waiters::{self, Waiters, Wake};
use abi::Error;

const FLAG: usize = 0;
const WAITERS: usize = 8;

/// An event: set, until one that waits has had it. As this thread sees it.
#[derive(Debug)]
pub struct Event<'a, T: Threads> {
    words: &'a [AtomicU64],
    partners: &'a Partners<T>,
}

impl<'a, T: Threads> Event<'a, T> {
    /// Words that it takes. All 0: not set.
    pub const WORDS: usize = WAITERS + waiters::WORDS;

    /// The event in these words; `None` if they are too few.
    pub fn new(words: &'a [AtomicU64], partners: &'a Partners<T>) -> Option<Self> {
        Some(Event { words: words.get(..Self::WORDS)?, partners })
    }

    fn waiters(&self) -> Waiters<'a> {
        Waiters(&self.words[WAITERS..])
    }

    /// It has happened: whoever waits is woken, and one of them gets it.
    pub fn set(&self) {
        self.words[FLAG].store(1, Ordering::Release);
        self.waiters().take(self.partners).now(self.partners);
    }

    /// Waits for it.
    ///
    /// # Errors
    /// `Busy` ([`Limit::Poll`]), `TimedOut`, `Killed`; `Dead`: a partner has ended; `Changed`: the words make no sense.
    pub fn wait(&self, limit: Limit) -> Result<(), Error> {
        let attempt = || match self.words[FLAG].compare_exchange(1, 0, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(Some(())),
            Err(0) => Ok(None),
            Err(_) => Err(Error::Changed),
        };
        self.partners.wait(self.waiters(), limit, Wake::default(), || self.partners.has_lost(), attempt)
    }
}
