//! Locks that many threads in one text share. A waiter spins for a moment and then gives up the processor: whoever
//! holds the lock may be running now, or may not run before somebody else stops.

use abi::Error;
use abi::calls::stub;
use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::Trap;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and somebody may be waiting.
const CONTENDED: u32 = 2;
const SPINS: u32 = 100;

/// The lock under [`Mutex`], three states in a word.
#[derive(Debug)]
pub struct RawLock(AtomicU32);

// SAFETY: only the thread that changed the word from FREE to another value holds the lock, and only `unlock` makes it
// FREE again.
unsafe impl lock_api::RawMutex for RawLock {
    const INIT: RawLock = RawLock(AtomicU32::new(FREE));
    type GuardMarker = lock_api::GuardSend;

    #[inline]
    fn lock(&self) {
        if self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.lock_slowly();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// # Safety
    /// The calling thread holds the lock.
    #[inline]
    unsafe fn unlock(&self) {
        if self.0.swap(FREE, Ordering::Release) == CONTENDED {
            wake(&self.0, 1);
        }
    }
}

impl RawLock {
    #[cold]
    fn lock_slowly(&self) {
        for _ in 0..SPINS {
            if self.0.load(Ordering::Relaxed) == FREE
                && self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return;
            }
            core::hint::spin_loop();
        }
        while self.0.swap(CONTENDED, Ordering::Acquire) != FREE {
            // A killed thread is not put to sleep any more but must still get its lock, to leave the data whole.
            if wait(&self.0, CONTENDED, u64::MAX) == Err(Error::Killed) {
                let _ = stub::yield_now(&Trap);
            }
        }
    }
}

/// Mutual exclusion of threads in one text.
pub type Mutex<T> = lock_api::Mutex<RawLock, T>;
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawLock, T>;

/// Sleeps while `word` holds `expected`, until somebody wakes it or the time is over.
///
/// # Errors
/// `Changed` if it held something else, `TimedOut`, `Killed`.
pub fn wait(word: &AtomicU32, expected: u32, timeout_ns: u64) -> Result<(), Error> {
    stub::wait(&Trap, word.as_ptr() as u64, u64::from(expected), timeout_ns).map(|_| ())
}

/// Wakes up to `count` threads that wait on `word`.
pub fn wake(word: &AtomicU32, count: u64) {
    let _ = stub::wake(&Trap, word.as_ptr() as u64, count);
}

/// Something to wait for that a [`Mutex`] guards.
#[derive(Debug, Default)]
pub struct Condition(AtomicU32);

impl Condition {
    #[must_use]
    pub const fn new() -> Condition {
        Condition(AtomicU32::new(0))
    }

    /// Lets go of the lock, waits for a notification, takes the lock again. May return without a notification: check
    /// again what is waited for.
    ///
    /// # Errors
    /// `TimedOut`, or `Killed` when the thread is to end: leave what it was doing.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, timeout_ns: u64) -> Result<(), Error> {
        let seen = self.0.load(Ordering::Acquire);
        let outcome = MutexGuard::unlocked(guard, || wait(&self.0, seen, timeout_ns));
        match outcome {
            Err(e @ (Error::TimedOut | Error::Killed)) => Err(e),
            _ => Ok(()),
        }
    }

    pub fn notify_one(&self) {
        self.0.fetch_add(1, Ordering::Release);
        wake(&self.0, 1);
    }

    pub fn notify_all(&self) {
        self.0.fetch_add(1, Ordering::Release);
        wake(&self.0, u64::MAX);
    }
}

/// A place for a value that lives for ever, and may be exchanged for another one: looked at without a lock.
pub struct Place<T: 'static>(AtomicPtr<T>, PhantomData<&'static T>);

impl<T: 'static> Default for Place<T> {
    fn default() -> Self {
        Place::new()
    }
}

impl<T: 'static> Place<T> {
    #[must_use]
    pub const fn new() -> Place<T> {
        Place(AtomicPtr::new(ptr::null_mut()), PhantomData)
    }

    #[inline]
    pub fn get(&self) -> Option<&'static T> {
        // SAFETY: null, or made from a reference that lives for ever (`set`).
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    pub fn set(&self, value: Option<&'static T>) {
        self.0.store(value.map_or(ptr::null_mut(), |value| ptr::from_ref(value).cast_mut()), Ordering::Release);
    }
}

/// A value made by the first who asks.
pub struct Once<T: 'static> {
    value: Place<T>,
    making: Mutex<()>,
}

impl<T: 'static> Default for Once<T> {
    fn default() -> Self {
        Once::new()
    }
}

impl<T: 'static> Once<T> {
    #[must_use]
    pub const fn new() -> Once<T> {
        Once { value: Place::new(), making: Mutex::new(()) }
    }

    /// The value, if it was made.
    #[inline]
    pub fn get(&self) -> Option<&'static T> {
        self.value.get()
    }

    /// The value; `make` is called, at most once with success, if there is none.
    ///
    /// # Errors
    /// What `make` fails with; the next call tries again.
    #[inline]
    pub fn get_or_try<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&'static T, E> {
        match self.get() {
            Some(made) => Ok(made),
            None => self.make(make),
        }
    }

    #[cold]
    fn make<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&'static T, E> {
        let _making = self.making.lock();
        if let Some(made) = self.get() {
            return Ok(made);
        }
        let made: &'static T = alloc::boxed::Box::leak(alloc::boxed::Box::new(make()?));
        self.value.set(Some(made));
        Ok(made)
    }
}
