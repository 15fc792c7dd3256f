//! One of all interleavings that differ only in the order of steps between which no order can be told: two threads' accesses to different words, or two loads.
//! So all that threads can see of one another is tried, and a case may be several times as long as where each order is tried (sleep sets, Godefroid 1996).
//! What threads do between two accesses (`sync::owned`) is ordered by these, or it would be wrong by itself.

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use shuttle::sync::Mutex;
use shuttle::sync::atomic::{self, Ordering};
use shuttle::{Config, Runner};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::vec::Vec;

/// What a thread is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// It may be anything: it begins, or waits for another one's end.
    Unknown,
    Loads(usize),
    Changes(usize),
}

std::thread_local! {
    /// Of the thread that goes on now: said before it gives way to others, and taken there.
    static NEXT: Cell<Next> = const { Cell::new(Next::Unknown) };
}

impl Next {
    fn is_apart(self, other: Next) -> bool {
        match (self, other) {
            (Next::Unknown, _) | (_, Next::Unknown) => false,
            (Next::Loads(_), Next::Loads(_)) => true,
            (Next::Loads(one) | Next::Changes(one), Next::Loads(other) | Next::Changes(other)) => one != other,
        }
    }
}

/// The thread changes this next, or takes it or gives it back.
pub(crate) fn changes<T>(what: &T) {
    NEXT.set(Next::Changes(core::ptr::from_ref(what) as usize));
}

/// Does something under a lock.
pub fn under<T, R>(lock: &Mutex<T>, does: impl FnOnce(&mut T) -> R) -> R {
    changes(lock);
    let mut inside = lock.lock().unwrap();
    let done = does(&mut inside);
    changes(lock);
    drop(inside);
    done
}

fn loads<T>(what: &T) {
    NEXT.set(Next::Loads(core::ptr::from_ref(what) as usize));
}

macro_rules! words {
    ($($name:ident $word:ty),*) => { $(
        /// `shuttle`'s, which says what it does next.
        #[derive(Debug, Default)]
        pub(crate) struct $name(atomic::$name);

        impl $name {
            pub const fn new(value: $word) -> $name {
                $name(atomic::$name::new(value))
            }

            pub fn load(&self, order: Ordering) -> $word {
                loads(self);
                self.0.load(order)
            }

            #[allow(dead_code)]
            pub fn compare_exchange(&self, from: $word, to: $word, set: Ordering, seen: Ordering) -> Result<$word, $word> {
                changes(self);
                self.0.compare_exchange(from, to, set, seen)
            }

            #[allow(dead_code)]
            pub fn fetch_update(
                &self,
                set: Ordering,
                seen: Ordering,
                mut next: impl FnMut($word) -> Option<$word>,
            ) -> Result<$word, $word> {
                let mut now = self.load(seen);
                while let Some(next) = next(now) {
                    match self.compare_exchange(now, next, set, seen) {
                        Ok(before) => return Ok(before),
                        Err(seen) => now = seen,
                    }
                }
                Err(now)
            }

            words!(@ $word, store(), swap($word), fetch_add($word), fetch_sub($word), fetch_or($word), fetch_and($word), fetch_max($word));
        }
    )* };
    (@ $word:ty, $($does:ident($($gives:ty)?)),*) => { $(
        #[allow(dead_code)]
        pub fn $does(&self, value: $word, order: Ordering) $(-> $gives)? {
            changes(self);
            self.0.$does(value, order)
        }
    )* };
}
words!(AtomicU32 u32, AtomicU64 u64);

/// How many interleavings went to their end, and how many did not: each way on from there was one of others already.
#[derive(Debug, Default)]
pub struct Ways {
    pub whole: usize,
    pub cut: usize,
}

impl Ways {
    pub fn all(&self) -> usize {
        self.whole + self.cut
    }
}

/// More would not be a small case, and are not gone through.
pub const MOST: usize = 4_000_000;

/// Depth first. Who has gone on first at a place sleeps in the ways that begin with another one there, until somebody does what is not apart from it.
#[derive(Debug)]
struct Each {
    ways: Arc<std::sync::Mutex<Ways>>,
    /// At each step who may go on, and how many of them have before the one who does now.
    steps: Vec<(Vec<TaskId>, usize)>,
    at: usize,
    next: BTreeMap<TaskId, Next>,
    asleep: Vec<TaskId>,
    begun: bool,
    is_cut: bool,
}

impl Scheduler for Each {
    fn new_execution(&mut self) -> Option<Schedule> {
        (self.at, self.next) = (0, BTreeMap::new());
        self.asleep.clear();
        NEXT.set(Next::Unknown);
        if core::mem::replace(&mut self.begun, true) {
            let mut ways = self.ways.lock().unwrap();
            *if core::mem::take(&mut self.is_cut) { &mut ways.cut } else { &mut ways.whole } += 1;
            if ways.all() == MOST {
                return None;
            }
            loop {
                let (options, taken) = self.steps.last_mut()?;
                *taken += 1;
                if *taken < options.len() {
                    break;
                }
                self.steps.pop();
            }
        }
        Some(Schedule::new(0))
    }

    fn next_task(&mut self, runnable: &[&Task], current: Option<TaskId>, is_yielding: bool) -> Option<TaskId> {
        assert!(!is_yielding, "who looks again and again has no end");
        let said = NEXT.replace(Next::Unknown);
        current.map(|current| self.next.insert(current, said));
        if self.at == self.steps.len() {
            let awake = runnable.iter().map(|task| task.id()).filter(|task| !self.asleep.contains(task));
            let options: Vec<TaskId> = awake.collect();
            if options.is_empty() {
                self.is_cut = true;
                return None;
            }
            self.steps.push((options, 0));
        }
        let (options, taken) = &self.steps[self.at];
        self.at += 1;
        let does = |task: &TaskId| self.next.get(task).copied().unwrap_or(Next::Unknown);
        let goes_on = options[*taken];
        self.asleep.extend(&options[..*taken]);
        self.asleep.retain(|task| does(task).is_apart(does(&goes_on)));
        Some(goes_on)
    }

    fn next_u64(&mut self) -> u64 {
        unreachable!("the cases have no chances")
    }
}

/// Runs a case in all these ways.
pub fn run(test: impl Fn() + Send + Sync + 'static) -> Ways {
    let ways = Arc::default();
    let each = Each {
        ways: Arc::clone(&ways),
        steps: Vec::new(),
        at: 0,
        next: BTreeMap::new(),
        asleep: Vec::new(),
        begun: false,
        is_cut: false,
    };
    Runner::new(each, Config::new()).run(test);
    core::mem::take(&mut *ways.lock().unwrap())
}

mod tests {
    use super::{AtomicU32, run};
    use crate::sync::Turns;
    use shuttle::scheduler::DfsScheduler;
    use shuttle::sync::atomic::Ordering;
    use shuttle::{Config, Runner, thread};
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};
    use std::vec::Vec;

    const WORDS: usize = 3;

    /// Threads that each do some steps, of so many kinds; what each has seen, and what is left.
    fn outcome(programs: &[Vec<u32>]) -> Vec<u32> {
        let words: Arc<[AtomicU32; WORDS]> = Arc::default();
        let turns: Arc<Turns> = Arc::default();
        let one = |program: &Vec<u32>| {
            let (words, turns, program) = (words.clone(), turns.clone(), program.clone());
            move || {
                let mut seen = 1;
                for (at, step) in program.iter().enumerate() {
                    let word = &words[*step as usize % WORDS];
                    match step / WORDS as u32 {
                        0 => seen = seen * 31 + word.load(Ordering::SeqCst),
                        1 => word.store(seen + at as u32, Ordering::SeqCst),
                        2 => seen = seen * 31 + word.fetch_add(at as u32 + 1, Ordering::SeqCst),
                        _ => {
                            let _turn = turns.take();
                            word.store(word.load(Ordering::SeqCst) * 2 + 1, Ordering::SeqCst);
                        }
                    }
                }
                seen
            }
        };
        // The first by this thread.
        let others: Vec<_> = programs[1..].iter().map(|program| thread::spawn(one(program))).collect();
        let mut seen = std::vec![one(&programs[0])()];
        seen.extend(others.into_iter().map(|one| one.join().unwrap()));
        seen.extend(words.iter().map(|word| word.load(Ordering::SeqCst)));
        seen
    }

    /// Whatever comes out in any interleaving comes out in one of these, and they are fewer.
    #[test]
    fn nothing_is_left_out() {
        let mut next = 1u32;
        let mut random = move |below: u32| {
            next = next.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (next >> 16) % below
        };
        let (mut fewer, mut most) = (0, 0);
        for round in 0..24 {
            // Two with three steps, of which the first may be under a lock, or three with one.
            let steps: &[usize] = if round % 4 == 3 { &[1; 3] } else { &[3; 2] };
            let kinds = |step| if step == 0 && steps.len() == 2 { 4 } else { 3 };
            let mut program = |steps: &usize| (0..*steps).map(|step| random(kinds(step) * WORDS as u32)).collect();
            let programs: Vec<Vec<u32>> = steps.iter().map(&mut program).collect();
            let outcomes = || {
                let all: Arc<Mutex<BTreeSet<Vec<u32>>>> = Arc::default();
                let (add, programs) = (all.clone(), programs.clone());
                (all, move || {
                    // Before the lock: what is cut short in the middle would keep it.
                    let one = outcome(&programs);
                    add.lock().unwrap().insert(one);
                })
            };
            let (all, test) = outcomes();
            let every = Runner::new(DfsScheduler::new(None, false), Config::new()).run(test);
            let (some, test) = outcomes();
            let ways = run(test);
            assert_eq!(*all.lock().unwrap(), *some.lock().unwrap(), "{programs:?}");
            let all = all.lock().unwrap().len();
            assert!((all..=every).contains(&ways.whole), "{programs:?}: {ways:?} of {every}, {all} outcomes");
            fewer += usize::from(2 * ways.all() < every);
            most = most.max(all);
        }
        assert!(fewer > 12 && most > 4, "{fewer} are fewer, {most} outcomes");
    }
}
