//! Whose line it is (SSS-73): what several write to one stream is not mixed within a line. A part of a line is shown at once, a prompt for
//! instance; whoever else writes then waits, in the order in which they came, until that line has ended, or nobody has gone on with it for
//! a while. Nothing is kept back here, so who ends in the middle of a line loses nothing.

use alloc::collections::VecDeque;
use rt::{Condition, Error, Mutex, time};

/// So long a line that nobody goes on with is another's to begin after, in ns.
const PATIENCE_NS: u64 = 300_000_000;
/// So long anybody waits for one line at most, even if somebody goes on with it.
const MOST_NS: u64 = 2_000_000_000;

/// What the stream ends with.
#[derive(Debug, Default)]
struct Turn {
    /// Who has begun a line and not ended it; 0: it stands at the beginning of one.
    whose: u64,
    /// When that began, and when he went on with it last, or ended it.
    began: u64,
    last: u64,
    /// How often anybody has begun to write.
    times: u64,
    /// Somebody is writing.
    busy: bool,
    /// Who waits: numbers that were given out in their order.
    queue: VecDeque<u64>,
    given: u64,
}

impl Turn {
    const fn new() -> Turn {
        Turn { whose: 0, began: 0, last: 0, times: 0, busy: false, queue: VecDeque::new(), given: 0 }
    }

    /// How long somebody has to wait who has this place (0: none yet); `None`: he may write.
    fn left(&self, who: u64, place: u64, now: u64) -> Option<u64> {
        let is_next = self.queue.front().is_none_or(|first| *first == place);
        if self.whose == who && !self.busy || self.whose == 0 && is_next {
            return None;
        }
        // Who is next and does not come is not waited for either.
        let most = if self.whose == 0 { u64::MAX } else { self.began + MOST_NS };
        let until = (self.last + PATIENCE_NS).min(most);
        (until > now).then(|| until - now)
    }

    /// The place of one who waits: the last one, if he has lost his to somebody who was tired of waiting.
    fn waits(&mut self, place: u64) -> u64 {
        if place != 0 && self.queue.contains(&place) {
            return place;
        }
        self.given += 1;
        self.queue.push_back(self.given);
        self.given
    }

    /// Whether a line of somebody else's stands there.
    fn is_broken_by(&self, who: u64) -> bool {
        self.whose != 0 && self.whose != who
    }

    /// Who stood before him has not come.
    fn begins(&mut self, who: u64, place: u64, now: u64) {
        if let Some(at) = self.queue.iter().position(|one| *one == place) {
            self.queue.drain(..=at);
        }
        if self.whose != who {
            (self.whose, self.began) = (who, now);
        }
        (self.last, self.busy) = (now, true);
        self.times += 1;
    }

    /// What was typed ends the line, if it is still the one that stood there when so many had begun.
    fn is_ended_by_echo(&mut self, times: u64) {
        if self.times == times && !self.busy {
            self.whose = 0;
        }
    }

    /// He waits no more, and has not begun.
    fn leaves(&mut self, place: u64) {
        self.queue.retain(|one| *one != place);
    }

    /// `who` has written something that ends with this byte. If somebody else has begun since, it is his line.
    fn ends(&mut self, who: u64, last: Option<u8>, now: u64) {
        if self.whose != who {
            return;
        }
        (self.last, self.busy) = (now, false);
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
    #[must_use]
    pub const fn new() -> Order {
        Order { turn: Mutex::new(Turn::new()), ended: Condition::new() }
    }

    /// Has `write` write the bytes when it is the turn of `who` (not 0), without a lock in hand: that one may be ended meanwhile. It is told
    /// whether a line of somebody else's is to be ended first. If he has to wait, what `away` gives is kept until he writes.
    ///
    /// # Errors
    /// `Killed`, `Dead`: he is to end, or nobody waits for that any more, and he has written nothing; what `write` gives.
    pub fn write<A>(
        &self,
        who: u64,
        bytes: &[u8],
        away: impl FnOnce() -> A,
        write: impl FnOnce(bool) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let waits = self.turn.lock().left(who, 0, time::now_ns()).is_some();
        let away = waits.then(away);
        let broken = {
            let mut turn = self.turn.lock();
            let mut place = 0;
            while let Some(left) = turn.left(who, place, time::now_ns()) {
                place = turn.waits(place);
                if let Err(error @ (Error::Killed | Error::Dead)) = self.ended.wait(&mut turn, left) {
                    turn.leaves(place);
                    return Err(error);
                }
            }
            let broken = turn.is_broken_by(who);
            turn.begins(who, place, time::now_ns());
            broken
        };
        drop(away);
        let done = write(broken);
        self.turn.lock().ends(who, bytes.last().copied(), time::now_ns());
        self.ended.notify_all();
        done
    }

    /// Has `show` show what was typed, in whoever's line it is.
    pub fn echo(&self, bytes: &[u8], show: impl FnOnce()) {
        let times = {
            let turn = self.turn.lock();
            // Whoever is writing may show what he writes before this or behind it.
            if turn.busy { u64::MAX } else { turn.times }
        };
        show();
        if bytes.ends_with(b"\n") {
            self.turn.lock().is_ended_by_echo(times);
            self.ended.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(turn: &mut Turn, who: u64, bytes: &[u8], now: u64) {
        turn.begins(who, 0, now);
        turn.ends(who, bytes.last().copied(), now);
    }

    #[test]
    fn an_echo_ends_the_line_that_it_was_typed_in() {
        let mut turn = Turn::default();
        writes(&mut turn, 1, b"name? ", 5);
        let times = turn.times;
        turn.is_ended_by_echo(times);
        assert_eq!(turn.left(2, 0, 6), None);
        assert!(!turn.is_broken_by(2));
        // Somebody has begun another one meanwhile, or is about to.
        let times = turn.times;
        writes(&mut turn, 1, b"half", 7);
        turn.is_ended_by_echo(times);
        assert!(turn.is_broken_by(2));
        assert!(turn.left(2, 0, 8).is_some());
        turn.begins(1, 0, 9);
        turn.is_ended_by_echo(turn.times);
        assert!(turn.is_broken_by(2));
    }

    #[test]
    fn whole_lines_wait_for_nobody() {
        let mut turn = Turn::default();
        for who in 1..9 {
            assert_eq!(turn.left(who, 0, 5), None);
            writes(&mut turn, who, b"a line\n", 5);
            assert!(!turn.is_broken_by(who + 1));
        }
    }

    #[test]
    fn a_line_is_ended_first_by_who_began_it() {
        let mut turn = Turn::default();
        writes(&mut turn, 1, b"half", 10);
        assert_eq!(turn.left(1, 0, 11), None, "he goes on");
        assert_eq!(turn.left(2, 0, 11), Some(PATIENCE_NS - 1), "another one waits");
        let place = turn.waits(0);
        writes(&mut turn, 1, b" and more", 20);
        assert_eq!(turn.left(2, place, 21), Some(PATIENCE_NS - 1), "and longer");
        writes(&mut turn, 1, b" whole\n", 30);
        assert_eq!(turn.left(2, place, 31), None);
        assert!(!turn.is_broken_by(2));
    }

    #[test]
    fn who_waits_is_next() {
        let mut turn = Turn::default();
        writes(&mut turn, 1, b"half", 0);
        let (second, third) = (turn.waits(0), turn.waits(0));
        assert_eq!(turn.waits(second), second, "he has his place");
        writes(&mut turn, 1, b"\n", 5);
        assert!(turn.left(1, 0, 5).is_some(), "with a next line he waits, too");
        assert!(turn.left(3, third, 5).is_some() && turn.left(2, second, 5).is_none());
        turn.begins(2, second, 6);
        turn.ends(2, Some(b'\n'), 7);
        assert_eq!(turn.left(3, third, 8), None);
        turn.leaves(third);
        assert_eq!(turn.left(1, 0, 8), None);
        // The next one does not come: whoever is tired of waiting goes before him, and he goes to the end.
        let (lost, tired) = (turn.waits(0), turn.waits(0));
        assert_eq!(turn.left(5, tired, 7 + PATIENCE_NS), None);
        turn.begins(5, tired, 7 + PATIENCE_NS);
        assert_ne!(turn.waits(lost), lost);
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
        turn.begins(3, 0, now);
        assert_eq!(turn.left(3, 0, now + PATIENCE_NS), None);
        turn.begins(4, 0, now + PATIENCE_NS);
        turn.ends(3, Some(b'\n'), now + PATIENCE_NS);
        assert!(turn.is_broken_by(5), "it is not his line any more");
    }
}
