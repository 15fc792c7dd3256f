//! What threads have agreed on with the policy, and the fixed part of choosing that follows from it (CUBIX-53): where a
//! thread stands in the queue, how long it may go on, on which processors.

use crate::names::Place;
use crate::sync::{AtomicU64, Ordering};
use crate::{Board, QUANTUM_NS, USUAL};
use core::sync::atomic::fence;

/// What a thread has agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terms {
    /// Nothing: it has its level, and others of that level take turns with it.
    Usual,
    /// So many parts of the processor, where others have theirs.
    Share { weight: u64 },
    /// So much of each period, by a deadline after the period's beginning; all in ns.
    Periodic { period: u64, deadline: u64, budget: u64 },
    /// It belongs to this parallel job, whose threads run side by side.
    Job { job: u64 },
}

impl Terms {
    /// The number of its kind; also a bit in what a policy knows.
    pub fn kind(self) -> u64 {
        self.words()[0]
    }

    pub(crate) fn words(self) -> [u64; 4] {
        match self {
            Terms::Usual => [0; 4],
            Terms::Share { weight } => [1, weight, 0, 0],
            Terms::Periodic { period, deadline, budget } => [2, period, deadline, budget],
            Terms::Job { job } => [3, job, 0, 0],
        }
    }

    pub(crate) fn from_words([kind, a, b, c]: [u64; 4]) -> Terms {
        match kind {
            1 => Terms::Share { weight: a },
            2 => Terms::Periodic { period: a, deadline: b, budget: c },
            3 => Terms::Job { job: a },
            _ => Terms::Usual,
        }
    }
}

/// How far a turn takes a thread of weight 1 forward in the queue.
pub const STRIDE: u64 = 1 << 20;

// Words of an entry. The policy writes the first ones, the fast level the others.
const TERMS: usize = 0;
const HOMES: usize = 4;
const KEY: usize = 5;
const LEFT: usize = 6;
const BEGAN: usize = 7;
const AT: usize = 8;
const TURNS: usize = 9;
pub(crate) const ENTRY: usize = 10;

/// Why a thread is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is new here, or has waited.
    Came,
    /// It was running, and its quantum is not over.
    Interrupted,
    /// It has given way, or its quantum is over.
    Over,
}

/// Where a thread belongs in the queue: at a level, by ascending keys, before or after those of the same key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    pub level: u64,
    pub key: u64,
    pub first: bool,
    /// It was raised to that level, and its own is lower.
    pub lifted: bool,
}

/// A thread that has agreed on something.
#[derive(Clone, Copy, Debug)]
pub struct Agreed<'a>(pub(crate) &'a [AtomicU64]);

impl Agreed<'_> {
    #[inline]
    fn get(&self, at: usize) -> u64 {
        self.0[at].load(Ordering::Acquire)
    }

    #[inline]
    fn set(&self, at: usize, value: u64) {
        self.0[at].store(value, Ordering::Release);
    }

    pub fn terms(&self) -> Terms {
        Terms::from_words([0, 1, 2, 3].map(|at| self.get(TERMS + at)))
    }

    /// From now on. `homes`: the processors where it may run, as bits; 0: all.
    pub(crate) fn agree(&self, terms: Terms, homes: u64) {
        // While the words change it has agreed on nothing.
        self.set(TERMS, 0);
        self.set(HOMES, homes);
        self.set(KEY, 0);
        self.set(LEFT, Self::slice(terms));
        self.set(BEGAN, 0);
        self.set(AT, u64::MAX);
        self.set(TURNS, 0);
        let [kind, rest @ ..] = terms.words();
        (1..).zip(rest).for_each(|(at, word)| self.set(TERMS + at, word));
        self.set(TERMS, kind);
    }

    fn slice(terms: Terms) -> u64 {
        if let Terms::Periodic { budget, .. } = terms { budget } else { QUANTUM_NS }
    }

    /// Where it may run, as bits; 0: everywhere.
    pub fn homes(&self) -> u64 {
        self.get(HOMES)
    }

    /// It may run there from now on.
    pub fn set_homes(&self, homes: u64) {
        self.set(HOMES, homes);
    }

    /// Turns that it has had; of a periodic one: periods in which it needed more than its budget.
    pub fn turns(&self) -> u64 {
        self.get(TURNS)
    }

    /// How long it may go on.
    fn left(&self) -> u64 {
        self.get(LEFT)
    }

    fn ran(&self, ns: u64) {
        self.set(LEFT, self.left().saturating_sub(ns));
    }

    /// Its key from now on; `None`: it has had all that it has agreed on. `clock`: where the queue of processor `at` is.
    fn key(&self, why: Why, at: u64, clock: u64, now: impl FnOnce() -> u64) -> Option<u64> {
        let terms = self.terms();
        let mut key = self.get(KEY);
        let over = why == Why::Over || self.left() == 0;
        match terms {
            Terms::Share { weight } => {
                if over {
                    key += STRIDE / weight.max(1);
                    self.turn(terms);
                }
                if self.get(AT) != at {
                    // Keys of another queue say nothing here.
                    key = clock;
                } else if why == Why::Came {
                    // Who has waited has nothing saved up.
                    key = key.max(clock);
                }
                self.set(AT, at);
            }
            Terms::Periodic { period, deadline, .. } => {
                let began = self.get(BEGAN);
                if why == Why::Came || self.left() == 0 {
                    let now = now();
                    // A period begins when its work comes. A little early it counts as on time; late, from when it came, or
                    // others would have to make up for it.
                    let due = began + period;
                    if began == 0 || now + period / 8 >= due {
                        let next = if began == 0 { now } else { due.max(now) };
                        self.set(BEGAN, next);
                        self.set(LEFT, Self::slice(terms));
                        key = next + deadline;
                    } else if self.left() == 0 {
                        // More than was agreed on, until the next period, is as for anybody else.
                        self.set(TURNS, self.turns() + u64::from(key != 0));
                        self.set(KEY, 0);
                        return None;
                    }
                }
            }
            Terms::Usual | Terms::Job { .. } => key = 0,
        }
        self.set(KEY, key);
        Some(key)
    }

    fn turn(&self, terms: Terms) {
        self.set(LEFT, Self::slice(terms));
        self.set(TURNS, self.turns() + 1);
    }
}

/// What the fast level of one processor decides by itself.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    board: Board<'a>,
    processor: usize,
    /// Of nanoseconds. Asked for those only who have agreed on something.
    now: fn() -> u64,
}

impl<'a> Order<'a> {
    pub fn new(board: Board<'a>, processor: usize, now: fn() -> u64) -> Order<'a> {
        Order { board, processor, now }
    }

    #[inline]
    fn find(&self, thread: u64) -> (u64, Option<Agreed<'a>>) {
        if !self.board.proposals().has_terms() {
            return (self.board.priorities().of(thread), None);
        }
        let Place { level, agreed } = self.board.priorities().find(thread);
        (level, agreed.filter(|agreed| agreed.terms() != Terms::Usual))
    }

    /// Where a thread that is ready now belongs.
    #[inline]
    pub fn position(&self, thread: u64, why: Why) -> Position {
        let (level, agreed) = self.find(thread);
        let queue = self.board.queue(self.processor);
        let (level, key) = match (agreed, self.board.weight()) {
            (Some(agreed), _) => match agreed.key(why, self.processor as u64, queue.place(), self.now) {
                Some(key) => (level, key),
                None => (USUAL, 0),
            },
            (None, 0) => (level, 0),
            // As one that has that weight, without a memory: what it had is over when it waits.
            (None, weight) => (level, queue.place() + if why == Why::Over { STRIDE / weight } else { 0 }),
        };
        Position { level, key, first: why == Why::Interrupted, lifted: false }
    }

    #[inline]
    fn agreed(&self, thread: u64) -> Option<Agreed<'a>> {
        // Where only levels count nothing is looked up.
        if self.board.proposals().has_terms() { self.find(thread).1 } else { None }
    }

    /// Whether it has agreed on something, and so has what that says.
    pub fn has_agreed(&self, thread: u64) -> bool {
        self.agreed(thread).is_some()
    }

    /// The processor where it has to run, if not here: the one of those with the fewest ready.
    #[inline]
    pub fn elsewhere(&self, thread: u64) -> Option<usize> {
        let homes = self.agreed(thread)?.homes();
        if homes == 0 || homes >> self.processor & 1 != 0 {
            return None;
        }
        let resting = self.board.proposals().resting();
        let ready = |p: &usize| (resting >> p & 1 == 0, self.board.queue(*p).len());
        (0..crate::PROCESSORS).filter(|p| homes >> p & 1 != 0).min_by_key(ready)
    }

    /// This processor is about to run nobody, or somebody again.
    #[inline]
    pub fn rests(&self, rests: bool) {
        self.board.proposals().set_resting(self.processor, rests);
    }

    /// A processor that runs nobody and may have somebody who waits here; it is counted as told.
    #[inline]
    pub fn helper(&self) -> Option<usize> {
        if self.board.queue(self.processor).is_empty() { None } else { self.helper_at(self.processor) }
    }

    /// The same of who waits at any of the first `processors`, and is claimed by nobody: for who was told, or takes one from elsewhere, and has something to run.
    pub fn helper_of_others(&self, processors: usize) -> Option<usize> {
        let others = (1..processors).map(|step| (self.processor + step) % processors);
        others.filter(|other| !self.board.queue(*other).is_empty()).find_map(|other| self.helper_at(other))
    }

    fn helper_at(&self, processor: usize) -> Option<usize> {
        // Who rests says so and then looks into the queues; here one was queued before.
        fence(Ordering::SeqCst);
        let resting = self.board.proposals().resting() & !(1 << self.processor);
        if resting == 0 {
            return None;
        }
        let [waiting] = self.board.queue(processor).first_of::<1>(|_| true);
        let homes = self.agreed(waiting?.ready.thread).map_or(0, |agreed| agreed.homes());
        let fit = resting & if homes == 0 { u64::MAX } else { homes };
        let helper = (fit != 0).then(|| fit.trailing_zeros() as usize)?;
        self.board.proposals().set_resting(helper, false);
        Some(helper)
    }

    /// How long a thread may go on, if what it has agreed on says that.
    #[inline]
    pub fn limit(&self, thread: u64) -> Option<u64> {
        Some(self.agreed(thread)?.left()).filter(|left| *left > 0)
    }

    /// It is now to run: from when on, if that matters.
    #[inline]
    pub fn begin(&self, thread: u64, key: u64) -> Option<u64> {
        if key != 0 && self.board.weight() != 0 {
            self.board.queue(self.processor).set_place(key);
        }
        self.agreed(thread).map(|_| (self.now)())
    }

    /// It has run since then.
    #[inline]
    pub fn end(&self, thread: u64, began: Option<u64>) {
        if let (Some(began), Some(agreed)) = (began, self.agreed(thread)) {
            agreed.ran((self.now)().saturating_sub(began));
        }
    }
}
