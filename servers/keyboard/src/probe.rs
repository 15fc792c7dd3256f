//! How long an interrupt takes to its handler: one is caused, and the handler notes when it begins.

use core::sync::atomic::{AtomicU64, Ordering};
use musubi::Error;
use musubi::rt::{thread, time};

/// An interrupt that has not come by then will not.
const PATIENCE_NS: u64 = 20_000_000_000;

/// Nobody waits.
const IDLE: u64 = u64::MAX;

pub struct Probe {
    /// When the handler began that is waited for; 0: not yet.
    came: AtomicU64,
    /// Since when it is waited for, in ns.
    since: AtomicU64,
}

impl Probe {
    pub const fn new() -> Probe {
        Probe { came: AtomicU64::new(IDLE), since: AtomicU64::new(0) }
    }

    /// First thing in the handler.
    #[inline]
    pub fn came(&self) {
        if self.came.load(Ordering::Relaxed) == 0 {
            self.came.store(time::ticks(), Ordering::Release);
        }
    }

    /// Ticks from before `cause` until the handler.
    ///
    /// # Errors
    /// `Busy` if somebody else waits, `TimedOut`, or what causing it answers.
    pub fn run(&self, cause: impl FnOnce() -> Result<(), Error>) -> Result<u64, Error> {
        let (now, since) = (time::now_ns(), self.since.load(Ordering::Relaxed));
        // Who waited may have been ended in here.
        let free = self.came.load(Ordering::Acquire) == IDLE || now > since + PATIENCE_NS;
        if !free || self.since.compare_exchange(since, now, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return Err(Error::Busy);
        }
        self.came.store(0, Ordering::Release);
        let began = time::ticks();
        let outcome = cause().and_then(|()| self.wait(now + PATIENCE_NS));
        self.came.store(IDLE, Ordering::Release);
        outcome.map(|came| came - began)
    }

    fn wait(&self, until: u64) -> Result<u64, Error> {
        loop {
            match self.came.load(Ordering::Acquire) {
                0 if time::now_ns() > until => return Err(Error::TimedOut),
                0 => thread::yield_now(),
                came => return Ok(came),
            }
        }
    }
}
