//! What is left of a quantum that was interrupted. Without it a thread that is interrupted often enough, by threads of a higher
//! level, would begin a new quantum each time and keep the others of its level waiting for ever.

use crate::LEVELS;
use crate::terms::Position;

/// Less than this, in ns, is not worth a switch: the quantum is over.
const LEAST_NS: u64 = 200_000;

/// The quanta of one processor's threads, in ns.
#[derive(Clone, Debug)]
pub struct Quanta {
    whole: u64,
    /// The running thread, what it was given, and when.
    thread: u64,
    granted: u64,
    since: u64,
    /// The last one of each level that was interrupted, and what it had left.
    left: [(u64, u64); LEVELS],
    /// When a quantum was over here last.
    over: u64,
    /// The running thread, if it was raised, and to which level.
    lifted: Option<(u64, u64)>,
}

/// Of so many quanta one has ended, whatever threads do.
const OVERDUE: u64 = 3;

impl Quanta {
    /// All quanta are so long.
    #[must_use]
    pub const fn new(whole: u64) -> Quanta {
        Quanta { whole, thread: 0, granted: 0, since: 0, left: [(0, 0); LEVELS], over: 0, lifted: None }
    }

    /// A thread of this level is to run from now on: for how long.
    pub fn begin(&mut self, thread: u64, level: u64, now: u64) -> u64 {
        let left = &mut self.left[(level as usize).min(LEVELS - 1)];
        self.granted = if left.0 == thread { core::mem::take(left).1 } else { self.whole };
        (self.thread, self.since) = (thread, now);
        self.granted
    }

    /// The running thread goes on, at this level, with what it was given: what it had left when it was interrupted it is having.
    #[inline]
    pub fn goes_on(&mut self, thread: u64, level: u64) {
        let left = &mut self.left[(level as usize).min(LEVELS - 1)];
        if left.0 == thread {
            *left = (0, 0);
        }
    }

    /// A thread was taken from there in the queue, and is to run.
    #[inline]
    pub fn taken(&mut self, thread: u64, position: Position) {
        self.lifted = position.lifted.then_some((thread, position.level));
    }

    /// Where an interrupted thread that belongs at `position` goes on: who was raised stays so until its quantum is over. Otherwise those
    /// who interrupt it would go before it, it would stand before those who have waited longer, and neither would have a turn.
    #[inline]
    #[must_use]
    pub fn resumes(&self, thread: u64, position: Position) -> Position {
        match self.lifted {
            Some((raised, level)) if raised == thread && level < position.level => {
                Position { level, lifted: true, ..position }
            }
            _ => position,
        }
    }

    /// The running thread, of this level, was interrupted. Whether it has something left.
    pub fn interrupted(&mut self, thread: u64, level: u64, now: u64) -> bool {
        let level = self.resumes(thread, Position { level, ..Position::default() }).level;
        let left = self.granted.saturating_sub(now.saturating_sub(self.since));
        let has = left >= LEAST_NS;
        self.left[(level as usize).min(LEVELS - 1)] = if has { (thread, left) } else { (0, 0) };
        has
    }

    /// The running thread's quantum is over: nothing is left of it.
    pub fn end(&mut self, now: u64) {
        self.over = now;
        self.left.iter_mut().filter(|left| left.0 == self.thread).for_each(|left| *left = (0, 0));
    }

    /// Whether it is so long since one was over that those who wait have waited for one all the same: threads that wait for each other,
    /// or ask for another priority each time, never have a whole one.
    pub fn is_overdue(&self, now: u64) -> bool {
        now.saturating_sub(self.over) >= OVERDUE * self.whole
    }
}
