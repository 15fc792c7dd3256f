//! How long an interrupt takes to its handler: one is caused, and the handler notes when it begins.

use core::sync::atomic::{AtomicU64, Ordering};
use musubi::Error;
use musubi::rt::{thread, time};

/// An interrupt that has not come by then will not.
const PATIENCE_NS: u64 = 20_000_000_000;

/// It is nobody's turn.
const IDLE: u64 = 0;
/// Beside the time at which a turn began: its handler is waited for.
const WAITS: u64 = 1 << 63;
/// The handler has begun.
const CAME: u64 = 1 << 62;
const SINCE: u64 = CAME - 1;

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
        self.expect()?;
        let began = time::ticks();
        cause()?;
        loop {
            if let Some(came) = self.look()? {
                // Somebody's key was faster than the cause.
                return came.checked_sub(began).ok_or(Error::TimedOut);
            }
            if time::now_ns() > self.since + PATIENCE_NS {
                return Err(Error::TimedOut);
            }
            thread::yield_now();
        }
    }

    /// What comes from now on is for this turn.
    ///
    /// # Errors
    /// `TimedOut`: it is another one's by now.
    fn expect(&self) -> Result<(), Error> {
        let waits = self.since | WAITS;
        let begun = self.probe.turn.compare_exchange(self.since, waits, Ordering::AcqRel, Ordering::Relaxed);
        begun.map(drop).map_err(|_| Error::TimedOut)
    }

    /// When the handler began, if it has.
    ///
    /// # Errors
    /// As [`Turn::expect`].
    fn look(&self) -> Result<Option<u64>, Error> {
        let turn = || self.probe.turn.load(Ordering::Acquire);
        // What is read in between is this turn's only if that is so before and after.
        let (before, came, after) = (turn(), self.probe.came.load(Ordering::Acquire), turn());
        if after & SINCE != self.since {
            return Err(Error::TimedOut);
        }
        Ok((before == after && after & CAME != 0).then_some(came))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Who was too long at it may have lost it to another one.
        let end = |turn: u64| (turn & SINCE == self.since).then_some(IDLE);
        let _ = self.probe.turn.fetch_update(Ordering::AcqRel, Ordering::Relaxed, end);
    }
}

pub struct Probe {
    /// Whose turn it is, by the time at which it began, in ns; and what has come of it. In one word, which is changed only from what it was
    /// known to be: who has lost his turn changes nothing of another one's.
    turn: AtomicU64,
    /// When the handler began that was waited for last.
    came: AtomicU64,
}

impl Probe {
    pub const fn new() -> Probe {
        Probe { turn: AtomicU64::new(IDLE), came: AtomicU64::new(0) }
    }

    /// First thing in the handler.
    #[inline]
    pub fn came(&self) {
        let turn = self.turn.load(Ordering::Relaxed);
        if turn & WAITS != 0 {
            self.came.store(time::ticks(), Ordering::Release);
            let _ = self.turn.compare_exchange(turn, turn ^ (WAITS | CAME), Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// The controller is this thread's until the value is dropped. The same request may be served once more before the first time is over: who asks is not refused
    /// for that, but waits.
    ///
    /// # Errors
    /// `Busy`: others have had it all the time; `Killed`.
    pub fn turn(&self) -> Result<Turn<'_>, Error> {
        let until = time::now_ns() + 2 * PATIENCE_NS;
        loop {
            let now = time::now_ns();
            if let Some(turn) = self.take(now) {
                return Ok(turn);
            }
            if thread::is_killed() {
                return Err(Error::Killed);
            }
            if now > until {
                return Err(Error::Busy);
            }
            thread::yield_now();
        }
    }

    fn take(&self, now: u64) -> Option<Turn<'_>> {
        let turn = self.turn.load(Ordering::Relaxed);
        // Who had it may have been ended in here.
        let is_free = turn == IDLE || now > (turn & SINCE) + PATIENCE_NS;
        let is_taken = is_free && self.turn.compare_exchange(turn, now, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        is_taken.then(|| Turn { probe: self, since: now })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After which somebody who has begun at 1 has lost his turn.
    const LATE: u64 = PATIENCE_NS + 2;

    #[test]
    fn one_after_the_other() {
        let probe = Probe::new();
        for since in [1, 2] {
            let turn = probe.take(since).unwrap();
            assert!(probe.take(since + 1).is_none());
            probe.came();
            assert_eq!(turn.look(), Ok(None), "nobody waited for that");
            turn.expect().unwrap();
            assert_eq!(turn.look(), Ok(None));
            let before = time::ticks();
            probe.came();
            let came = turn.look().unwrap().unwrap();
            assert!(came >= before);
            probe.came();
            assert_eq!(turn.look(), Ok(Some(came)), "the first one counts");
        }
    }

    #[test]
    fn who_has_lost_his_turn_changes_nothing() {
        // Before he waits, while he does, and when it has come.
        for step in 0..3 {
            let probe = Probe::new();
            let lost = probe.take(1).unwrap();
            if step > 0 {
                lost.expect().unwrap();
            }
            if step > 1 {
                probe.came();
            }
            assert!(probe.take(LATE - 1).is_none());
            let turn = probe.take(LATE).unwrap();
            assert_eq!((lost.expect(), lost.look()), (Err(Error::TimedOut), Err(Error::TimedOut)));
            turn.expect().unwrap();
            assert_eq!((lost.expect(), turn.look()), (Err(Error::TimedOut), Ok(None)));
            probe.came();
            assert_eq!(lost.look(), Err(Error::TimedOut), "that is another one's");
            drop(lost);
            assert!(matches!(turn.look(), Ok(Some(_))));
            assert!(probe.take(LATE + 1).is_none(), "nor does his end give it to a third one");
            drop(turn);
            assert!(probe.take(LATE + 1).is_some());
        }
    }

    /// The handler has seen who waits, and another one's turn has come since.
    #[test]
    fn what_comes_late_is_nobodys() {
        let probe = Probe::new();
        let lost = probe.take(1).unwrap();
        lost.expect().unwrap();
        let seen = probe.turn.load(Ordering::Relaxed);
        let turn = probe.take(LATE).unwrap();
        turn.expect().unwrap();
        probe.came.store(7, Ordering::Release);
        assert!(probe.turn.compare_exchange(seen, seen ^ (WAITS | CAME), Ordering::AcqRel, Ordering::Relaxed).is_err());
        assert_eq!((turn.look(), lost.look()), (Ok(None), Err(Error::TimedOut)));
    }
}
