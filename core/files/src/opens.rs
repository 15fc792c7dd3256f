//! What is open, by number: in parts with a lock each, by who opens it. What he closes stays counted for a while, for what he opens next: so who
//! opens and closes, again and again, meets nobody.

use crate::node::Locks;
use crate::ways::Own;
use abi::Error;
use abi::task::USER_SYSTEM;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

const PARTS: usize = 64;
/// For so many, and so many different ones, a part has room that is counted and not in use.
const SPARE: u32 = 4;
const SPARE_FOR: usize = 4;

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

struct Part<T> {
    open: BTreeMap<u64, Arc<Open<T>>>,
    /// For whom what is counted is not in use, and how much.
    spare: Vec<(By, u64, u32)>,
}

impl<T> Part<T> {
    const fn new() -> Part<T> {
        Part { open: BTreeMap::new(), spare: Vec::new() }
    }

    fn take_spare(&mut self, by: By, user: u64) -> bool {
        let Some(at) = self.spare.iter().position(|spare| (spare.0, spare.1) == (by, user)) else { return false };
        self.spare[at].2 -= 1;
        if self.spare[at].2 == 0 {
            self.spare.swap_remove(at);
        }
        true
    }

    /// Whether there is room for it.
    fn put_spare(&mut self, by: By, user: u64) -> bool {
        if let Some(spare) = self.spare.iter_mut().find(|spare| (spare.0, spare.1) == (by, user)) {
            let has_room = spare.2 < SPARE;
            spare.2 += u32::from(has_room);
            return has_room;
        }
        let has_room = self.spare.len() < SPARE_FOR;
        if has_room {
            self.spare.push((by, user, 1));
        }
        has_room
    }
}

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

impl Count {
    fn more(&mut self, by: By, user: u64, each: usize, most: usize) -> Result<(), Error> {
        let count = |counts: &Counts, of| counts.get(&of).copied().unwrap_or(0);
        let has_his = user != USER_SYSTEM && count(&self.users, user) >= most.saturating_sub(self.all);
        if has_his || count(&self.tasks, by.task) >= each {
            return Err(Error::Quota);
        }
        let all = [(&mut self.tasks, by.task), (&mut self.programs, by.program), (&mut self.users, user)];
        all.into_iter().for_each(|(counts, of)| *counts.entry(of).or_default() += 1);
        self.all += 1;
        Ok(())
    }

    fn less(&mut self, by: By, user: u64) {
        count_less(&mut self.tasks, by.task);
        count_less(&mut self.programs, by.program);
        count_less(&mut self.users, user);
        self.all = self.all.saturating_sub(1);
    }
}

pub struct Opens<L: Locks, T> {
    parts: Vec<Own<L::Lock<Part<T>>>>,
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
        // Of these one part's is taken at a time, and the counts' at most before it.
        let parts = (0..PARTS).map(|_| Own(L::new(u64::MAX, Part::new()))).collect();
        Opens { parts, number, counts: L::new(u64::MAX - 1, Count::default()), each, most }
    }

    fn part(&self, number: u64) -> L::Guard<'_, Part<T>> {
        L::lock(&self.parts[number as usize % PARTS].0)
    }

    /// What is counted for those and not in use is counted no more. With the counts in hand: else somebody would be refused while it is neither here
    /// nor there.
    fn give_spare_back(&self, counts: &mut Count, of: impl Fn(By, u64) -> bool) {
        for part in &self.parts {
            L::lock(&part.0).spare.retain(|&(by, user, times)| {
                let goes = of(by, user);
                (0..if goes { times } else { 0 }).for_each(|_| counts.less(by, user));
                !goes
            });
        }
    }

    fn count(&self, by: By, user: u64) -> Result<(), Error> {
        let mut counts = L::lock(&self.counts);
        counts.more(by, user, self.each, self.most).or_else(|_| {
            // Nobody is refused for what he does not use. (What others do not use stays theirs: whoever is refused again and again takes nothing from
            // them.)
            self.give_spare_back(&mut counts, |one, whose| one.task == by.task || whose == user);
            counts.more(by, user, self.each, self.most)
        })
    }

    /// # Errors
    /// `Quota` if the task has too many, or the person.
    pub fn add(&self, by: By, user: u64, what: T) -> Result<u64, Error> {
        let part = (L::here() % PARTS) as u64;
        let is_counted = self.part(part).take_spare(by, user);
        if !is_counted {
            self.count(by, user)?;
        }
        let open = Arc::new(Open { by, user, what });
        loop {
            // It says in which part it is; the rest of it is for nobody to guess.
            let number = (self.number)() / PARTS as u64 * PARTS as u64 + part;
            let mut part = self.part(part);
            if number != 0 && !part.open.contains_key(&number) {
                part.open.insert(number, open);
                return Ok(number);
            }
        }
    }

    /// What a number stands for: for programs of the same person, since they may do the same to files.
    ///
    /// # Errors
    /// `NotFound`, `Denied`.
    pub fn get(&self, number: u64, user: u64) -> Result<Arc<Open<T>>, Error> {
        let open = self.part(number).open.get(&number).cloned().ok_or(Error::NotFound)?;
        if open.user == user { Ok(open) } else { Err(Error::Denied) }
    }

    /// # Errors
    /// `NotFound`; `Denied` for others than the task and the program that have opened it. The program does it for the same person only (a
    /// personality serves several), or for the system, on a thread of its own.
    pub fn close(&self, number: u64, by: By, user: u64) -> Result<Arc<Open<T>>, Error> {
        let (closed, stays_counted) = {
            let mut part = self.part(number);
            let open = part.open.get(&number).ok_or(Error::NotFound)?;
            let is_its = open.by.task == by.task || open.by.program == by.program;
            // A program that has opened it for itself, whoever's thread that was on.
            let is_own = open.by == by && by.task == by.program;
            if !is_its || open.user != user && user != USER_SYSTEM && !is_own {
                return Err(Error::Denied);
            }
            let closed = part.open.remove(&number).ok_or(Error::NotFound)?;
            let stays_counted = part.put_spare(closed.by, closed.user);
            (closed, stays_counted)
        };
        if !stays_counted {
            L::lock(&self.counts).less(closed.by, closed.user);
        }
        Ok(closed)
    }

    /// The tasks whose programs have something open.
    pub fn programs(&self) -> Vec<u64> {
        let mut counts = L::lock(&self.counts);
        self.give_spare_back(&mut counts, |_, _| true);
        counts.programs.keys().copied().collect()
    }

    /// Closes all that a task's program has open. Value: how many.
    pub fn close_all(&self, program: u64) -> usize {
        let mut closed = 0;
        for part in &self.parts {
            let gone: Vec<_> = {
                let mut part = L::lock(&part.0);
                let of_it = part.open.iter().filter(|one| one.1.by.program == program);
                let numbers: Vec<u64> = of_it.map(|one| *one.0).collect();
                numbers.iter().filter_map(|number| part.open.remove(number)).collect()
            };
            gone.iter().for_each(|open| L::lock(&self.counts).less(open.by, open.user));
            closed += gone.len();
        }
        self.give_spare_back(&mut L::lock(&self.counts), |by, _| by.program == program);
        closed
    }
}
