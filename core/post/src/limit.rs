//! Waits with a limit of time. A thread has one timer for all of them, which stays set when a message has come first: so a wait takes none and gives none
//! back, as long as the one that is set comes before its own end. When it comes it is set for the end of the wait that the thread is in by then.

use crate::pool::{Pool, Woken};
use crate::receiver::Receiver;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use abi::Error;

/// Of the record of a thread.
#[derive(Debug, Default)]
pub(crate) struct Limit {
    /// When a wait is to end, 0: there is none such, and which; only its own thread says so, and the timer reads it meanwhile.
    until: AtomicU64,
    ticket: AtomicU32,
    /// When the timer comes; 0: it is not set.
    timer: AtomicU64,
}

/// What becomes of a timer that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rung {
    /// It is needed no more.
    Nothing,
    /// It is to be set for then ([`Pool::timer_is_set`]).
    Later(u64),
    /// It was time.
    Over(Woken),
}

impl Receiver {
    /// The wait that begins next ends at this moment at the latest. Whether the timer comes before; otherwise it is to be set, when the thread waits
    /// ([`Pool::timer_wanted`]).
    #[inline]
    pub(crate) fn limit(&self, until: u64) -> bool {
        self.limit.until.store(until, Ordering::Relaxed);
        self.limit.ticket.store(self.next_ticket(), Ordering::Relaxed);
        self.has_timer(until)
    }

    /// There was no wait: what was said of it holds for none that begins later.
    pub(crate) fn no_limit(&self) {
        self.limit.until.store(0, Ordering::Relaxed);
    }

    /// Whether the timer comes until then. To be asked once more when it waits: it may have come between the two.
    #[inline]
    pub(crate) fn has_timer(&self, until: u64) -> bool {
        (1..=until).contains(&self.limit.timer.load(Ordering::SeqCst))
    }

    /// The wait with a limit that it is in, and that limit. What is of a later wait does not end this one: first the ticket, then the limit.
    fn limited(&self) -> Option<(u32, u64)> {
        let ticket = self.waits()?;
        let is_of_this = self.limit.ticket.load(Ordering::Relaxed) == ticket;
        let until = self.limit.until.load(Ordering::Relaxed);
        (is_of_this && until != 0).then_some((ticket, until))
    }
}

impl Pool {
    /// The next wait of the thread with this record ends at `until` at the latest.
    pub fn limit(&self, receiver: u32, until: u64) {
        self.receiver(receiver).limit(until);
    }

    /// Whether the timer comes before the end of the wait that the thread is in, which has one.
    #[inline]
    pub fn timer_is_early(&self, receiver: u32) -> bool {
        let one = self.receiver(receiver);
        one.has_timer(one.limit.until.load(Ordering::Relaxed))
    }

    /// The call for whose wait the thread with this record said a limit was refused, or has come to something without a wait: the next one has a limit
    /// of its own, or none.
    pub fn no_limit(&self, receiver: u32) {
        self.receiver(receiver).no_limit();
    }

    /// What the timer is to be set for, if the thread is in a wait before whose end it does not come.
    pub fn timer_wanted(&self, receiver: u32) -> Option<u64> {
        let one = self.receiver(receiver);
        one.limited().map(|(_, until)| until).filter(|until| !one.has_timer(*until))
    }

    /// It is set for then.
    pub fn timer_is_set(&self, receiver: u32, at: u64) {
        self.receiver(receiver).limit.timer.store(at, Ordering::SeqCst);
    }

    /// It has come, at `now`.
    pub fn rings(&self, receiver: u32, now: u64) -> Rung {
        let one = self.receiver(receiver);
        // First it is not set, then it is looked who waits. A thread first waits, then looks whether it is set: one of them finds the other.
        one.limit.timer.store(0, Ordering::SeqCst);
        match one.limited() {
            Some((_, until)) if until > now => Rung::Later(until),
            Some((ticket, _)) => self.interrupt(receiver, ticket, Error::TimedOut).map_or(Rung::Nothing, Rung::Over),
            None => Rung::Nothing,
        }
    }
}
