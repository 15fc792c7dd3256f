//! The clock's server: waiting, and ticks.

use interfaces::clock::{ClockClient, ClockLater, ClockService};
use rt::later::Answer;
use rt::{Answers, Error, Once, time};

static CLIENT: Once<ClockService> = Once::new();

fn client() -> Result<&'static ClockService, Error> {
    CLIENT.get_or_try(|| crate::names::server("clock").map(ClockService::new))
}

/// Nanoseconds since boot, and since 1970 (UTC).
///
/// # Errors
/// What the kernel answers.
pub fn now() -> Result<(u64, u64), Error> {
    client()?.now()
}

/// Waits until a moment, in ns since boot. Value: what time it is then.
///
/// # Errors
/// `Killed`, or what the kernel answers.
pub fn wait_until(at: u64) -> Result<u64, Error> {
    client()?.wait_until(at)
}

/// Waits for so many ns.
///
/// # Errors
/// As [`wait_until`].
pub fn sleep(ns: u64) -> Result<(), Error> {
    wait_until(time::now_ns().saturating_add(ns)).map(drop)
}

/// A message to these answers at each moment of a series, as long as somebody asks for the next one.
#[derive(Debug)]
pub struct Ticks<'a> {
    later: ClockLater<'a>,
    every: u64,
    at: u64,
    coming: Option<Answer<'a, u64>>,
}

impl<'a> Ticks<'a> {
    /// Every `every` ns from `at` on (ns since boot).
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn new(clock: &'a ClockClient, answers: &'a Answers, at: u64, every: u64) -> Result<Ticks<'a>, Error> {
        let mut ticks = Ticks { later: clock.by_post(answers)?, every: every.max(1), at, coming: None };
        ticks.coming = Some(ticks.later.wait_until(at)?);
        Ok(ticks)
    }

    /// Waits for the next tick. Value: how many have come since the one before; more than one, if nobody waited for long.
    ///
    /// # Errors
    /// `Dead`: the clock was stopped, and the next call asks the next clock; what the kernel answers.
    pub fn wait(&mut self) -> Result<u64, Error> {
        let coming = match self.coming.take() {
            Some(coming) => coming,
            None => self.later.wait_until(self.at)?,
        };
        let now = coming.wait()?;
        let came = 1 + now.saturating_sub(self.at) / self.every;
        self.at = self.at.saturating_add(came.saturating_mul(self.every));
        self.coming = Some(self.later.wait_until(self.at)?);
        Ok(came)
    }
}
