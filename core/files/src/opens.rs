//! What is open, by number: in parts with a lock each, so that users of different files seldom meet.

use crate::node::Locks;
use abi::Error;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

const PARTS: usize = 64;

/// Something that a task has opened.
#[derive(Debug)]
pub struct Open<T> {
    pub task: u64,
    pub user: u64,
    pub what: T,
}

type Part<T> = BTreeMap<u64, Arc<Open<T>>>;

pub struct Opens<L: Locks, T> {
    parts: Vec<L::Lock<Part<T>>>,
    next: AtomicU64,
    /// How many each task has.
    counts: L::Lock<BTreeMap<u64, usize>>,
    each: usize,
}

impl<L: Locks, T> Opens<L, T> {
    /// Each task may have so many; the numbers begin with `first`.
    #[must_use]
    pub fn new(each: usize, first: u64) -> Opens<L, T> {
        // None of these locks is held while another one is taken.
        let parts = (0..PARTS).map(|_| L::new(u64::MAX, BTreeMap::new())).collect();
        Opens { parts, next: AtomicU64::new(first), counts: L::new(u64::MAX, BTreeMap::new()), each }
    }

    fn part(&self, number: u64) -> &L::Lock<Part<T>> {
        &self.parts[number as usize % PARTS]
    }

    /// # Errors
    /// `Quota` if the task has too many.
    pub fn add(&self, task: u64, user: u64, what: T) -> Result<u64, Error> {
        {
            let mut counts = L::lock(&self.counts);
            let count = counts.entry(task).or_default();
            if *count >= self.each {
                return Err(Error::Quota);
            }
            *count += 1;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        L::lock(self.part(number)).insert(number, Arc::new(Open { task, user, what }));
        Ok(number)
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
    /// `NotFound`; `Denied` for others than the task that has opened it.
    pub fn close(&self, number: u64, task: u64) -> Result<Arc<Open<T>>, Error> {
        let closed = {
            let mut part = L::lock(self.part(number));
            if part.get(&number).ok_or(Error::NotFound)?.task != task {
                return Err(Error::Denied);
            }
            part.remove(&number).ok_or(Error::NotFound)?
        };
        self.give_back(task, 1);
        Ok(closed)
    }

    fn give_back(&self, task: u64, closed: usize) {
        let mut counts = L::lock(&self.counts);
        if let Some(count) = counts.get_mut(&task) {
            *count = count.saturating_sub(closed);
            if *count == 0 {
                counts.remove(&task);
            }
        }
    }

    /// The tasks that have something open.
    pub fn tasks(&self) -> Vec<u64> {
        L::lock(&self.counts).keys().copied().collect()
    }

    /// Closes all that a task has open. Value: how many.
    pub fn close_all(&self, task: u64) -> usize {
        let mut closed = 0;
        for part in &self.parts {
            let gone: Vec<_> = {
                let mut part = L::lock(part);
                let numbers: Vec<u64> = part.iter().filter(|one| one.1.task == task).map(|one| *one.0).collect();
                numbers.iter().filter_map(|number| part.remove(number)).collect()
            };
            closed += gone.len();
        }
        self.give_back(task, closed);
        closed
    }
}
