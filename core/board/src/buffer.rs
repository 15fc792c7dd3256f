//! The event buffer of the initial version (CUBIX-51): the fast level asks with what has happened, the high level answers
//! with a thread. All else the high level keeps to itself.

use crate::sync::{AtomicU64, Ordering};

const SENT: usize = 0;
const TAKEN: usize = 1;
/// The number of the last request, of the last answer, of the last answer that was carried out.
const REQUEST: usize = 2;
const ANSWER: usize = 3;
const CARRIED: usize = 4;
/// Steps that came out of order.
const WRONG: usize = 5;
/// Steps so far.
const STEPS: usize = 6;
const CHOSEN: usize = 8;
/// The number, and one more, of a processor that is to look around; 0: none.
const ROUSED: usize = 12;
const SLOTS: usize = 16;
const SLOT: usize = 4;
const SLOTS_LEN: u64 = 128;
const TRACE: usize = SLOTS + SLOTS_LEN as usize * SLOT;
/// Words of a step: its number and kind, and the thread.
const STEP: usize = 2;
const TRACE_LEN: u64 = 24;
const KINDS: u64 = 4;
pub(crate) const WORDS: usize = TRACE + TRACE_LEN as usize * STEP;

/// A step of one choice, in the order in which they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The fast level asks the high one to choose.
    Request,
    /// The high level puts its choice into the buffer.
    Answer { thread: u64 },
    /// The fast level names that thread to the kernel.
    Switch { thread: u64 },
    /// The kernel has told it to read something first: that thread does not run.
    Back { thread: u64 },
}

impl Step {
    fn words(self) -> [u64; STEP] {
        match self {
            Step::Request => [0, 0],
            Step::Answer { thread } => [1, thread],
            Step::Switch { thread } => [2, thread],
            Step::Back { thread } => [3, thread],
        }
    }

    fn of([kind, thread]: [u64; STEP]) -> Step {
        match kind {
            0 => Step::Request,
            1 => Step::Answer { thread },
            2 => Step::Switch { thread },
            _ => Step::Back { thread },
        }
    }

    /// Whether `self` may come right behind `before`.
    #[must_use]
    pub fn follows(self, before: Step) -> bool {
        match (before, self) {
            (Step::Request, Step::Answer { .. }) | (Step::Switch { .. } | Step::Back { .. }, Step::Request) => true,
            (Step::Answer { thread: chosen }, Step::Switch { thread }) => chosen == thread,
            (Step::Switch { thread: named }, Step::Back { thread }) => named == thread,
            _ => false,
        }
    }
}

/// What the high level has chosen: a thread (0: none), its turn, and for how long (0: as before; all ones: no limit).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    pub thread: u64,
    pub turn: u64,
    pub ns: u64,
}

/// The event buffer of a processor.
#[derive(Clone, Copy, Debug)]
pub struct Buffer<'a>(pub(crate) &'a [AtomicU64; WORDS]);

impl Buffer<'_> {
    fn get(&self, at: usize) -> u64 {
        self.0[at].load(Ordering::Acquire)
    }

    fn set(&self, at: usize, value: u64) {
        self.0[at].store(value, Ordering::Release);
    }

    /// Fast: an event for the next request. Whether there was room.
    pub fn send(&self, event: [u64; SLOT]) -> bool {
        let sent = self.get(SENT);
        if sent.wrapping_sub(self.get(TAKEN)) >= SLOTS_LEN {
            return false;
        }
        let at = SLOTS + (sent % SLOTS_LEN) as usize * SLOT;
        event.iter().enumerate().for_each(|(i, word)| self.set(at + i, *word));
        self.set(SENT, sent + 1);
        true
    }

    /// High: the next event.
    pub fn receive(&self) -> Option<[u64; SLOT]> {
        let taken = self.get(TAKEN);
        if taken >= self.get(SENT) {
            return None;
        }
        let at = SLOTS + (taken % SLOTS_LEN) as usize * SLOT;
        let event = core::array::from_fn(|i| self.get(at + i));
        self.set(TAKEN, taken + 1);
        Some(event)
    }

    /// Fast: asks the high level to choose.
    pub fn ask(&self) {
        self.set(REQUEST, self.get(REQUEST) + 1);
        self.trace(Step::Request);
    }

    /// Writes a step down, and whether it is out of order. One level at a time does: the other one waits for it.
    fn trace(&self, step: Step) {
        if self.last().is_some_and(|last| !step.follows(last)) {
            self.set(WRONG, self.get(WRONG) + 1);
        }
        let (n, [kind, thread]) = (self.get(STEPS) + 1, step.words());
        let at = TRACE + (n % TRACE_LEN) as usize * STEP;
        // Nothing while it is being written.
        self.set(at, 0);
        self.set(at + 1, thread);
        self.set(at, n * KINDS + kind);
        self.set(STEPS, n);
    }

    fn last(&self) -> Option<Step> {
        let n = self.get(STEPS);
        let at = TRACE + (n % TRACE_LEN) as usize * STEP;
        (n > 0).then(|| Step::of([self.get(at) % KINDS, self.get(at + 1)]))
    }

    /// The latest steps, each with its number. Whoever reads while others write may miss some.
    pub fn latest(&self) -> impl Iterator<Item = (u64, Step)> + use<'_> {
        let last = self.get(STEPS);
        let first = (last + 1).saturating_sub(TRACE_LEN).max(1);
        (first..=last).filter_map(|n| {
            let at = TRACE + (n % TRACE_LEN) as usize * STEP;
            let (head, thread) = (self.get(at), self.get(at + 1));
            (head / KINDS == n && self.get(at) == head).then(|| (n, Step::of([head % KINDS, thread])))
        })
    }

    /// Whether a request waits for its answer.
    pub fn is_asked(&self) -> bool {
        self.get(REQUEST) != self.get(ANSWER)
    }

    /// High: the answer.
    pub fn answer(&self, chosen: Chosen) {
        self.set(CHOSEN, chosen.thread);
        self.set(CHOSEN + 1, chosen.turn);
        self.set(CHOSEN + 2, chosen.ns);
        self.trace(Step::Answer { thread: chosen.thread });
        self.set(ANSWER, self.get(REQUEST));
    }

    /// High: that processor may have work from this one, and is to look around; said before the answer.
    pub fn rouse(&self, processor: usize) {
        self.set(ROUSED, processor as u64 + 1);
    }

    /// Fast: the processor that is to look around.
    pub fn take_roused(&self) -> Option<usize> {
        let roused = self.get(ROUSED);
        if roused != 0 {
            self.set(ROUSED, 0);
        }
        (roused as usize).checked_sub(1)
    }

    /// Fast: the answer to the last request, once, to be carried out now.
    pub fn take(&self) -> Option<Chosen> {
        let answer = self.get(ANSWER);
        if answer != self.get(REQUEST) || answer == self.get(CARRIED) {
            return None;
        }
        self.set(CARRIED, answer);
        let thread = self.get(CHOSEN);
        self.trace(Step::Switch { thread });
        Some(Chosen { thread, turn: self.get(CHOSEN + 1), ns: self.get(CHOSEN + 2) })
    }

    /// Fast: the kernel did not switch to the thread of the last answer.
    pub fn not_carried_out(&self, chosen: Chosen) {
        self.trace(Step::Back { thread: chosen.thread });
    }

    /// Requests, answers and answers carried out so far; and how many steps were not in their order, whichever level took them.
    pub fn steps(&self) -> ([u64; 3], u64) {
        ([REQUEST, ANSWER, CARRIED].map(|at| self.get(at)), self.get(WRONG))
    }
}
