//! Whose line it is (SSS-73): what several programs write to one stream is not mixed within a line. A part of a line is shown at once, a
//! prompt for instance; whoever else writes then waits until that line has ended, or nobody has gone on with it for a while. Nothing is
//! kept back here, so a program that ends in the middle of a line loses nothing.

use musubi::rt::serve::away;
use musubi::rt::{Condition, Mutex, time};
use musubi::{Caller, Error};

/// So long a line that nobody goes on with is another's to begin after, in ns.
const PATIENCE_NS: u64 = 300_000_000;
/// So long anybody waits at most, even for one who goes on with his line.
const MOST_NS: u64 = 2_000_000_000;

/// What the stream ends with.
#[derive(Debug, Default)]
pub struct Turn {
    /// Who has begun a line and not ended it; 0: it stands at the beginning of one.
    whose: u64,
    /// When he went on with it last, or began to.
    last: u64,
    /// Somebody is writing.
    busy: bool,
}

impl Turn {
    /// How long one who came at `began` has to wait; `None`: he may write.
    fn left(&self, who: u64, began: u64, now: u64) -> Option<u64> {
        if self.whose == 0 || self.whose == who && !self.busy {
            return None;
        }
        let until = (self.last + PATIENCE_NS).min(began + MOST_NS);
        (until > now).then(|| until - now)
    }

    /// Whether a line of somebody else's stands there.
    fn is_broken_by(&self, who: u64) -> bool {
        self.whose != 0 && self.whose != who
    }

    fn begins(&mut self, who: u64, now: u64) {
        *self = Turn { whose: who, last: now, busy: true };
    }

    /// `who` has written something that ends with this byte. If somebody else has begun since, it is his line.
    fn ends(&mut self, who: u64, last: Option<u8>, now: u64) {
        if self.whose != who {
            return;
        }
        self.busy = false;
        self.last = now;
        if last == Some(b'\n') {
            self.whose = 0;
        }
    }
}

/// A stream that stands in order.
#[derive(Debug, Default)]
pub struct Order {
    turn: Mutex<Turn>,
    ended: Condition,
}

impl Order {
    pub const fn new() -> Order {
        Order { turn: Mutex::new(Turn { whose: 0, last: 0, busy: false }), ended: Condition::new() }
    }

    /// Has `write` write the bytes when it is the caller's turn, without a lock in hand: a caller may be ended meanwhile. It is told whether
    /// a line of somebody else's is to be ended first.
    pub fn write(
        &self,
        caller: &Caller,
        bytes: &[u8],
        write: impl FnOnce(bool) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let began = time::now_ns();
        let waits = self.turn.lock().left(caller.task, began, began).is_some();
        // By a post, another thread serves meanwhile, if there is one to be had: it is not for long.
        let away = if waits { away(caller).ok() } else { None };
        let broken = {
            let mut turn = self.turn.lock();
            while let Some(left) = turn.left(caller.task, began, time::now_ns()) {
                if self.ended.wait(&mut turn, left) == Err(Error::Killed) {
                    return Err(Error::Killed);
                }
            }
            let broken = turn.is_broken_by(caller.task);
            turn.begins(caller.task, time::now_ns());
            broken
        };
        drop(away);
        let done = write(broken);
        self.turn.lock().ends(caller.task, bytes.last().copied(), time::now_ns());
        self.ended.notify_all();
        done
    }

    /// What was typed is shown, in whoever's line it is.
    pub fn echoed(&self, bytes: &[u8]) {
        if bytes.ends_with(b"\n") {
            self.turn.lock().whose = 0;
            self.ended.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(turn: &mut Turn, who: u64, bytes: &[u8], now: u64) {
        turn.begins(who, now);
        turn.ends(who, bytes.last().copied(), now);
    }

    #[test]
    fn whole_lines_wait_for_nobody() {
        let mut turn = Turn::default();
        for who in 1..9 {
            assert_eq!(turn.left(who, 5, 5), None);
            writes(&mut turn, who, b"a line\n", 5);
            assert!(!turn.is_broken_by(who + 1));
        }
    }

    #[test]
    fn a_line_is_ended_first_by_who_began_it() {
        let mut turn = Turn::default();
        writes(&mut turn, 1, b"half", 10);
        assert_eq!(turn.left(1, 11, 11), None, "he goes on");
        assert_eq!(turn.left(2, 11, 11), Some(PATIENCE_NS - 1), "another one waits");
        writes(&mut turn, 1, b" and more", 20);
        assert_eq!(turn.left(2, 11, 21), Some(PATIENCE_NS - 1), "and longer");
        writes(&mut turn, 1, b" whole\n", 30);
        assert_eq!(turn.left(2, 11, 31), None);
        assert!(!turn.is_broken_by(2));
    }

    #[test]
    fn nobody_waits_for_ever() {
        let mut turn = Turn::default();
        writes(&mut turn, 1, b"prompt> ", 0);
        assert_eq!(turn.left(2, 0, PATIENCE_NS), None, "nobody goes on with it");
        assert!(turn.is_broken_by(2));
        let mut now = 0;
        while let Some(left) = turn.left(2, 0, now) {
            assert!(left <= PATIENCE_NS && now < MOST_NS, "{now}");
            writes(&mut turn, 1, b".", now);
            now += PATIENCE_NS / 2;
        }
        assert_eq!(now, MOST_NS.next_multiple_of(PATIENCE_NS / 2));
        // Who ended in the middle of writing is not waited for either.
        turn.begins(3, now);
        assert_eq!(turn.left(3, now, now + PATIENCE_NS), None);
        turn.begins(4, now + PATIENCE_NS);
        turn.ends(3, Some(b'\n'), now + PATIENCE_NS);
        assert!(turn.is_broken_by(5), "it is not his line any more");
    }
}
