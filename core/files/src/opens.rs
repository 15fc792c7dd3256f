//! What is open, by number: in parts with a lock each, so that users of different files seldom meet.

use crate::node::Locks;
use abi::Error;
use abi::task::USER_SYSTEM;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

const PARTS: usize = 64;

/// Something that is open.
#[derive(Debug)]
pub struct Open<T> {
    pub by: By,
    pub user: u64,
    pub what: T,
}

/// Who opens something: on whose thread, which counts for that task; and which task's program does, with which it is closed at the latest. (A
/// personality opens for the programs that it serves, whose children have what is open in common with them.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct By {
    pub task: u64,
    pub program: u64,
}

type Part<T> = BTreeMap<u64, Arc<Open<T>>>;

/// How many something has, by number.
type Counts = BTreeMap<u64, usize>;

fn count_less(counts: &mut Counts, of: u64) {
    if let Some(count) = counts.get_mut(&of) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(&of);
        }
    }
}

/// How many each task has, each program and each person, and all together.
#[derive(Default)]
struct Count {
    tasks: Counts,
    programs: Counts,
    users: Counts,
    all: usize,
}

pub struct Opens<L: Locks, T> {
    parts: Vec<L::Lock<Part<T>>>,
    number: fn() -> u64,
    counts: L::Lock<Count>,
    each: usize,
    most: usize,
}

impl<L: Locks, T> Opens<L, T> {
    /// Each task may have `each`. One person's tasks have at most as many as are left of `most` for others besides; the system always has room.
    /// `number`: what nobody guesses, since whoever knows one may use it for whom it was opened.
    #[must_use]
    pub fn new(each: usize, most: usize, number: fn() -> u64) -> Opens<L, T> {
        // None of these locks is held while another one is taken.
        let parts = (0..PARTS).map(|_| L::new(u64::MAX, BTreeMap::new())).collect();
        Opens { parts, number, counts: L::new(u64::MAX, Count::default()), each, most }
    }

    fn part(&self, number: u64) -> &L::Lock<Part<T>> {
        &self.parts[number as usize % PARTS]
    }

    /// # Errors
    /// `Quota` if the task has too many, or the person.
    pub fn add(&self, by: By, user: u64, what: T) -> Result<u64, Error> {
        {
            let Count { tasks, programs, users, all } = &mut *L::lock(&self.counts);
            let count = |counts: &Counts, of| counts.get(&of).copied().unwrap_or(0);
            let has_his = user != USER_SYSTEM && count(users, user) >= self.most.saturating_sub(*all);
            if has_his || count(tasks, by.task) >= self.each {
                return Err(Error::Quota);
            }
            for (counts, of) in [(tasks, by.task), (programs, by.program), (users, user)] {
                *counts.entry(of).or_default() += 1;
            }
            *all += 1;
        }
        let open = Arc::new(Open { by, user, what });
        loop {
            let number = (self.number)();
            let mut part = L::lock(self.part(number));
            if number != 0 && !part.contains_key(&number) {
                part.insert(number, open);
                return Ok(number);
            }
        }
    }

    /// What a number stands for: for programs of the same person, since they may do the same to files.
    ///
    /// # Errors
    /// `NotFound`, `Denied`.
    pub fn get(&self, number: u64, user: u64) -> Result<Arc<Open<T>>, Error> {
        let open = L::lock(self.part(number)).get(&number).cloned().ok_or(Error::NotFound)?;
        if open.user == user { Ok(open) } else { Err(Error::Denied) }
    }

    /// # Errors
    /// `NotFound`; `Denied` for others than the task and the program that have opened it. The program does it for the same person only (a
    /// personality serves several), or for the system, on a thread of its own.
    pub fn close(&self, number: u64, by: By, user: u64) -> Result<Arc<Open<T>>, Error> {
        let closed = {
            let mut part = L::lock(self.part(number));
            let open = part.get(&number).ok_or(Error::NotFound)?;
            let is_its = open.by.task == by.task || open.by.program == by.program;
            // A program that has opened it for itself, whoever's thread that was on.
            let is_own = open.by == by && by.task == by.program;
            if !is_its || open.user != user && user != USER_SYSTEM && !is_own {
                return Err(Error::Denied);
            }
            part.remove(&number).ok_or(Error::NotFound)?
        };
        self.give_back(&closed);
        Ok(closed)
    }

    fn give_back(&self, closed: &Open<T>) {
        let Count { tasks, programs, users, all } = &mut *L::lock(&self.counts);
        count_less(tasks, closed.by.task);
        count_less(programs, closed.by.program);
        count_less(users, closed.user);
        *all = all.saturating_sub(1);
    }

    /// The tasks whose programs have something open.
    pub fn programs(&self) -> Vec<u64> {
        L::lock(&self.counts).programs.keys().copied().collect()
    }

    /// Closes all that a task's program has open. Value: how many.
    pub fn close_all(&self, program: u64) -> usize {
        let mut closed = 0;
        for part in &self.parts {
            let gone: Vec<_> = {
                let mut part = L::lock(part);
                let of_it = part.iter().filter(|one| one.1.by.program == program);
                let numbers: Vec<u64> = of_it.map(|one| *one.0).collect();
                numbers.iter().filter_map(|number| part.remove(number)).collect()
            };
            gone.iter().for_each(|open| self.give_back(open));
            closed += gone.len();
        }
        closed
    }
}
