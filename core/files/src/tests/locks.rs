//! Locks that refuse to be taken in a wrong order, of the host's and of shuttle's threads.

use crate::node::Locks;
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// So that each thread has a number of its own.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static HERE: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    /// Ranks of the locks that this thread holds.
    static HELD: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    /// And of those that it has taken since it was asked.
    static TAKEN: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// The ranks of the locks that this thread takes in `what`.
pub fn taken(what: impl FnOnce()) -> Vec<u64> {
    TAKEN.with_borrow_mut(Vec::clear);
    what();
    TAKEN.with_borrow(Vec::clone)
}

pub struct Ranked;

pub struct Lock<T> {
    rank: u64,
    inner: std::sync::Mutex<T>,
}

pub struct Guard<'a, T> {
    rank: u64,
    inner: std::sync::MutexGuard<'a, T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        HELD.with_borrow_mut(|held| held.retain(|rank| *rank != self.rank));
    }
}

impl Locks for Ranked {
    type Lock<T> = Lock<T>;
    type Guard<'a, T: 'a> = Guard<'a, T>;

    fn new<T>(rank: u64, value: T) -> Lock<T> {
        Lock { rank, inner: std::sync::Mutex::new(value) }
    }

    fn lock<T>(lock: &Lock<T>) -> Guard<'_, T> {
        HELD.with_borrow_mut(|held| {
            assert!(held.iter().all(|rank| *rank < lock.rank), "{} is taken while {held:?} are held", lock.rank);
            held.push(lock.rank);
        });
        TAKEN.with_borrow_mut(|taken| taken.push(lock.rank));
        Guard { rank: lock.rank, inner: lock.inner.lock().unwrap() }
    }

    type Count = AtomicU64;

    fn count(count: &AtomicU64) -> u64 {
        count.load(Ordering::Acquire)
    }

    fn count_on(count: &AtomicU64) {
        count.fetch_add(1, Ordering::Release);
    }

    fn here() -> usize {
        HERE.with(|here| *here)
    }
}

#[test]
#[should_panic(expected = "1 is taken while [2] are held")]
fn a_wrong_order_is_refused() {
    let (one, two) = (Ranked::new(1, ()), Ranked::new(2, ()));
    let _two = Ranked::lock(&two);
    let _one = Ranked::lock(&one);
}

/// Threads that `shuttle` interleaves; a circle of those that wait for each other it finds by itself.
pub struct Shuttled;

impl Locks for Shuttled {
    type Lock<T> = shuttle::sync::Mutex<T>;
    type Guard<'a, T: 'a> = shuttle::sync::MutexGuard<'a, T>;

    fn new<T>(_: u64, value: T) -> Self::Lock<T> {
        shuttle::sync::Mutex::new(value)
    }

    fn lock<T>(lock: &Self::Lock<T>) -> Self::Guard<'_, T> {
        lock.lock().unwrap()
    }

    type Count = shuttle::sync::atomic::AtomicU64;

    fn count(count: &Self::Count) -> u64 {
        count.load(Ordering::Acquire)
    }

    fn count_on(count: &Self::Count) {
        count.fetch_add(1, Ordering::Release);
    }

    fn here() -> usize {
        usize::from(shuttle::current::me())
    }
}
