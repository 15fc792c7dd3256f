//! Whom a device's interrupt has called (SSS-28, 29): a thread that was given its message and has not run since, and one that is to receive it when it comes back. He
//! has the next turn, wherever he has become ready.

#[cfg(not(test))]
use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(test)]
use shuttle::sync::atomic::{AtomicU64, Ordering};

/// Of a thread: one more than the number of the line that has called it, and since when, in ns. 0: none has. With no moment: its message lies in the post, and is the
/// thread's to receive.
#[derive(Debug, Default)]
pub struct Called(AtomicU64);

const LINE_BITS: u32 = 8;
/// Lines have numbers below this.
pub const CALLING: usize = (1 << LINE_BITS) - 1;

fn of(word: u64) -> Option<(usize, u64)> {
    let line = (word & CALLING as u64).checked_sub(1)?;
    Some((line as usize, word >> LINE_BITS))
}

fn word(line: usize, since: u64) -> u64 {
    since << LINE_BITS | (line as u64 + 1)
}

impl Called {
    /// It was given the message of this line, at this moment. Whether it had run since it was given another one.
    pub fn calls(&self, line: usize, since: u64) -> bool {
        let before = self.0.swap(word(line, since), Ordering::SeqCst);
        before >> LINE_BITS == 0
    }

    /// The message of this line lies in the post, and was put there before this is said.
    pub fn hurries(&self, line: usize) {
        let next = |now| (now >> LINE_BITS == 0).then_some(word(line, 0));
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
    }

    /// Whether its turn is next. `lies`: whether a line's message lies in the post.
    pub fn is_next(&self, lies: impl Fn(usize) -> bool) -> bool {
        of(self.0.load(Ordering::SeqCst)).is_some_and(|(line, since)| since != 0 || lies(line))
    }

    /// Whether anything has called it.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst) != 0
    }

    /// It runs from now on. The line whose message it was given, and since when: it has seen that. What lies in the post it has not, before it receives there: if it is put
    /// out of its place until then it is next once more.
    pub fn goes_on(&self, lies: impl Fn(usize) -> bool) -> Option<(usize, u64)> {
        let now = self.0.load(Ordering::SeqCst);
        let (line, since) = of(now)?;
        if self.0.compare_exchange(now, 0, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return None;
        }
        // First it is forgotten, then it is looked: whoever leaves a message there says so in the other order.
        if lies(line) {
            let _ = self.0.compare_exchange(0, word(line, 0), Ordering::SeqCst, Ordering::SeqCst);
        }
        (since != 0).then_some((line, since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shuttle::sync::Arc;
    use shuttle::sync::atomic::AtomicBool;
    use shuttle::thread;

    const LINE: usize = 3;

    #[test]
    fn who_was_called_is_next_until_he_runs() {
        let run = || {
            let called = Called::default();
            let nothing = |_| false;
            assert!(!called.is_next(|_| true) && called.goes_on(nothing).is_none());
            assert!(called.calls(LINE, 7) && called.is_next(nothing));
            assert!(!called.calls(LINE + 1, 8), "he has not run since");
            assert_eq!(called.goes_on(nothing), Some((LINE + 1, 8)));
            assert!(!called.is_next(nothing) && !called.is_set());
            // One that is to receive is next as long as there is something.
            called.hurries(LINE);
            assert!(called.is_next(|line| line == LINE) && !called.is_next(nothing));
            assert!(called.calls(LINE, 9), "what he receives when he waits");
            assert_eq!(called.goes_on(nothing), Some((LINE, 9)));
        };
        shuttle::check_random(run, 1);
    }

    /// Another interrupt comes for who was called, before he runs, while he does, and after that: as long as its message lies there he is next when he is put out of his
    /// place, and what he was given is seen once.
    fn another_comes(calls: bool) {
        let (called, lies) = (Arc::new(Called::default()), Arc::new(AtomicBool::new(false)));
        if calls {
            called.calls(LINE, 7);
        } else {
            // One that he has received since.
            called.hurries(LINE);
        }
        let interrupt = {
            let (called, lies) = (called.clone(), lies.clone());
            thread::spawn(move || {
                lies.store(true, Ordering::SeqCst);
                called.hurries(LINE);
            })
        };
        let seen = called.goes_on(|_| lies.load(Ordering::SeqCst));
        assert_eq!(seen, calls.then_some((LINE, 7)));
        interrupt.join().unwrap();
        assert!(called.is_next(|_| lies.load(Ordering::SeqCst)), "it waits for an ordinary turn");
        // He comes back, receives it, and is put out of his place.
        lies.store(false, Ordering::SeqCst);
        assert!(!called.is_next(|_| lies.load(Ordering::SeqCst)));
    }

    #[test]
    fn who_has_not_come_back_is_next_again() {
        for calls in [true, false] {
            let scheduler = shuttle::scheduler::DfsScheduler::new(None, false);
            let ways = shuttle::Runner::new(scheduler, shuttle::Config::new()).run(move || another_comes(calls));
            assert!(ways >= 3, "{ways} interleavings");
        }
    }
}
