//! How long an interrupt takes to its handler: one is caused, and the handler notes when it begins.

use core::sync::atomic::{AtomicU64, Ordering};
use musubi::Error;
use musubi::rt::{thread, time};

/// An interrupt that has not come by then will not.
const PATIENCE_NS: u64 = 20_000_000_000;

/// It is nobody's turn.
const IDLE: u64 = u64::MAX;
/// It is somebody's, who waits for nothing.
const CAME: u64 = 1;

/// See [`Probe::turn`].
pub struct Turn<'a> {
    probe: &'a Probe,
    since: u64,
}

impl Turn<'_> {
    /// Ticks from before `cause` until the handler.
    ///
    /// # Errors
    /// `TimedOut`, or what causing it answers.
    pub fn run(&self, cause: impl FnOnce() -> Result<(), Error>) -> Result<u64, Error> {
        self.probe.came.store(0, Ordering::Release);
        let began = time::ticks();
        cause()?;
        self.probe.wait(self.since + PATIENCE_NS).map(|came| came - began)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Who was too long at it may have lost it to another one.
        if self.probe.since.load(Ordering::Acquire) == self.since {
            self.probe.came.store(IDLE, Ordering::Release);
        }
    }
}

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

    /// The controller is this thread's until the value is dropped. The same request may be served once more before the first time is over: who asks is not refused
    /// for that, but waits.
    ///
    /// # Errors
    /// `Busy`: others have had it all the time.
    pub fn turn(&self) -> Result<Turn<'_>, Error> {
        let until = time::now_ns() + 2 * PATIENCE_NS;
        loop {
            let (now, since) = (time::now_ns(), self.since.load(Ordering::Relaxed));
            // Who had it may have been ended in here.
            let is_free = self.came.load(Ordering::Acquire) == IDLE || now > since + PATIENCE_NS;
            if is_free && self.since.compare_exchange(since, now, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                self.came.store(CAME, Ordering::Release);
                return Ok(Turn { probe: self, since: now });
            }
            if now > until {
                return Err(Error::Busy);
            }
            thread::yield_now();
        }
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
