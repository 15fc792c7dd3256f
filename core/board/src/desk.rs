//! What the two levels say to each other on one processor. Words that the fast one writes, and words that the high one does.

use crate::queue::Ready;
use crate::sync::{AtomicU64, Ordering};
use abi::sched::event;

// Written by the fast level.
const TURN: usize = 0;
const ASKED: usize = 1;
const WAITED: usize = 3;
const ABSENT: usize = 4;
const COUNTS: usize = 8;
const UNKNOWN: usize = 16;
const EVENTS: usize = 24;
const SENT: usize = 40;
const SLOTS: usize = 64;
const SLOT: usize = 2;
const SLOTS_LEN: u64 = 16;
const CALLS: usize = 96;
const CALL: usize = 3;
const CALLS_KEPT: u64 = 16;
// Written by the high level.
const HIGH: usize = 48;
const DONE: usize = 49;
const RAISE: usize = 50;
const TAKEN: usize = 51;
const LEVEL: usize = 52;
// Written by threads that call the scheduler themselves, one at a time.
const ENTERED: usize = 56;

/// Why the high level is called (CUBIX-54): these two and no others.
pub mod reason {
    pub const PRIORITY: u64 = 1;
    pub const QUANTUM: u64 = 2;
}

/// A priority that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    pub thread: u64,
    pub level: u64,
}

/// Why and when the fast level has called the high one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// One of [`reason`].
    pub why: u64,
    /// Whose priority is to change, or whose quantum has ended.
    pub thread: u64,
    /// In ns since boot.
    pub when: u64,
}

/// Words of a desk.
pub(crate) const WORDS: usize = CALLS + CALLS_KEPT as usize * CALL;

/// The desk of a processor.
#[derive(Clone, Copy, Debug)]
pub struct Desk<'a>(pub(crate) &'a [AtomicU64; WORDS]);

impl Desk<'_> {
    #[inline]
    fn get(&self, at: usize) -> u64 {
        self.0[at].load(Ordering::Acquire)
    }

    #[inline]
    fn set(&self, at: usize, value: u64) {
        self.0[at].store(value, Ordering::Release);
    }

    /// The high level's thread here; 0: none.
    #[inline]
    pub fn high(&self) -> u64 {
        self.get(HIGH)
    }

    /// The high level says which thread it is.
    pub fn set_high(&self, thread: u64) {
        self.set(HIGH, thread);
    }

    /// The fast level of whatever processor has heard that the high level's thread is ready. What is old news by now does
    /// not replace what is not.
    pub fn high_is_ready(&self, turn: u64) {
        self.0[TURN].fetch_max(turn, Ordering::AcqRel);
    }

    /// The high level's thread, if it is ready; it is now to be named.
    pub fn take_high(&self) -> Option<Ready> {
        let turn = self.0[TURN].swap(0, Ordering::AcqRel);
        (turn != 0).then(|| Ready { thread: self.high(), turn })
    }

    /// The fast level wants the high one to run.
    pub fn call(&self, Call { why, thread, when }: Call) {
        let asked = self.get(ASKED);
        let at = CALLS + (asked % CALLS_KEPT) as usize * CALL;
        [why, thread, when].into_iter().zip(at..).for_each(|(word, at)| self.set(at, word));
        self.set(COUNTS + why as usize, self.get(COUNTS + why as usize) + 1);
        self.set(ASKED, asked + 1);
    }

    /// The latest times that it did so, numbered, the oldest first.
    pub fn latest_calls(&self) -> impl Iterator<Item = (u64, Call)> {
        let asked = self.get(ASKED);
        let read = move |number: u64| {
            let at = CALLS + (number % CALLS_KEPT) as usize * CALL;
            let called = Call { why: self.get(at), thread: self.get(at + 1), when: self.get(at + 2) };
            // Another one comes to stand there before it is counted.
            (self.get(ASKED) < number + CALLS_KEPT).then_some((number, called))
        };
        (asked.saturating_sub(CALLS_KEPT)..asked).filter_map(read)
    }

    /// The fast level gives the high one up, having waited so long (ns); `absent`: it was not there to be named, in the end.
    pub fn give_up(&self, waited: u64, absent: bool) {
        self.set(ABSENT, absent.into());
        self.set(WAITED, waited);
    }

    /// How long the fast level had waited for the high one when it gave that up, and whether that was not even there; `None`: it has not.
    pub fn given_up(&self) -> Option<(u64, bool)> {
        let waited = self.get(WAITED);
        (waited != 0).then(|| (waited, self.get(ABSENT) != 0))
    }

    /// Whether it has been called and is not done.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.get(ASKED) != self.finished()
    }

    /// How often the high level was called for a reason.
    pub fn calls(&self, reason: u64) -> u64 {
        self.get(COUNTS + reason as usize)
    }

    /// The high level begins: what it was called for, so far.
    #[inline]
    pub fn begin(&self) -> u64 {
        self.get(ASKED)
    }

    /// Up to which call it has done everything.
    #[inline]
    pub fn finished(&self) -> u64 {
        self.get(DONE)
    }

    /// It has done everything up to there.
    pub fn done(&self, asked: u64) {
        self.set(DONE, asked);
    }

    /// Passes on that a priority was asked for. Whether there was room.
    pub fn send(&self, asked: Asked) -> bool {
        let sent = self.get(SENT);
        if sent.wrapping_sub(self.get(TAKEN)) >= SLOTS_LEN {
            return false;
        }
        let at = SLOTS + (sent % SLOTS_LEN) as usize * SLOT;
        self.set(at, asked.thread);
        self.set(at + 1, asked.level);
        self.set(SENT, sent + 1);
        true
    }

    /// The next priority that was asked for.
    pub fn receive(&self) -> Option<Asked> {
        let taken = self.get(TAKEN);
        if taken >= self.get(SENT) {
            return None;
        }
        let at = SLOTS + (taken % SLOTS_LEN) as usize * SLOT;
        let asked = Asked { thread: self.get(at), level: self.get(at + 1) };
        self.set(TAKEN, taken + 1);
        Some(asked)
    }

    /// The high level wants the first thread of each of these levels (bits) to be moved to `to`.
    pub fn raise(&self, levels: u64, to: u64) {
        self.set(LEVEL, to);
        self.0[RAISE].fetch_or(levels, Ordering::AcqRel);
    }

    /// The fast level does that now.
    #[inline]
    pub fn take_raise(&self) -> (u64, u64) {
        let levels = self.0[RAISE].swap(0, Ordering::AcqRel);
        (levels, self.get(LEVEL))
    }

    /// A thread has called the scheduler itself, on this processor.
    #[inline]
    pub fn enter(&self) {
        self.set(ENTERED, self.entered() + 1);
    }

    /// How often threads have.
    #[inline]
    pub fn entered(&self) -> u64 {
        self.get(ENTERED)
    }

    /// One event was seen, by the number of its kind; of a kind that is not known, if it has none of these.
    #[inline]
    pub fn saw(&self, kind: u32) -> Option<Kind> {
        let known = Kind::of(kind);
        let at = if known.is_some() { EVENTS + kind as usize } else { UNKNOWN };
        self.set(at, self.get(at) + 1);
        known
    }

    /// How many events of a kind were seen; 0: of unknown kinds.
    pub fn seen(&self, kind: u32) -> u64 {
        self.get(if kind == 0 { UNKNOWN } else { EVENTS + (kind as usize).min(15) })
    }
}

/// The kinds of events that there are (`abi::sched::event`). A fast level has a handler for each, and none for others: a kernel that has more is none of
/// its business (CUBIX-42).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    Ready = event::READY,
    Call = event::CALL,
    Interrupt = event::INTERRUPT,
    Exception = event::EXCEPTION,
    Tick = event::TICK,
    Ended = event::ENDED,
    Request = event::REQUEST,
    Handed = event::HANDED,
}

impl Kind {
    #[inline]
    fn of(number: u32) -> Option<Kind> {
        Some(match number {
            event::READY => Kind::Ready,
            event::CALL => Kind::Call,
            event::INTERRUPT => Kind::Interrupt,
            event::EXCEPTION => Kind::Exception,
            event::TICK => Kind::Tick,
            event::ENDED => Kind::Ended,
            event::REQUEST => Kind::Request,
            event::HANDED => Kind::Handed,
            _ => return None,
        })
    }
}
