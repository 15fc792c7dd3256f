//! Atomic words and the lock of a post: in tests `shuttle`'s, which then run under very many of its interleavings, chosen at random and by depth,
//! and the smallest cases (`tests/all.rs`) under all. There the lock also sees to it that nobody ever holds two.

/// Words that one alone touches at a time: who holds the lock, the slot or the wait. (In tests, too: `shuttle` need not try
/// what comes between two of them.)
pub(crate) mod owned {
    pub use core::sync::atomic::{AtomicU32, AtomicU64};
}

#[cfg(not(test))]
pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(not(test))]
pub(crate) use spin::Mutex;

#[cfg(test)]
pub(crate) use shuttle::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(test)]
pub(crate) use watched::{Mutex, locked};

#[cfg(test)]
mod watched {
    use std::cell::Cell;

    shuttle::thread_local! {
        /// Locks that the thread holds, and how often it has taken one.
        static HELD: Cell<u32> = Cell::new(0);
        static TAKEN: Cell<u32> = Cell::new(0);
    }

    /// How often this thread has taken a lock.
    pub fn locked() -> u32 {
        TAKEN.with(Cell::get)
    }

    #[derive(Debug, Default)]
    pub struct Mutex<T>(shuttle::sync::Mutex<T>);

    pub struct Guard<'a, T>(shuttle::sync::MutexGuard<'a, T>);

    impl<T> Mutex<T> {
        pub fn lock(&self) -> Guard<'_, T> {
            let held = HELD.with(|held| held.replace(held.get() + 1));
            assert_eq!(held, 0, "two locks held at once");
            TAKEN.with(|taken| taken.set(taken.get() + 1));
            Guard(self.0.lock().unwrap())
        }
    }

    impl<T> Drop for Guard<'_, T> {
        fn drop(&mut self) {
            HELD.with(|held| held.set(held.get() - 1));
        }
    }

    impl<T> std::ops::Deref for Guard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            &self.0
        }
    }

    impl<T> std::ops::DerefMut for Guard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            &mut self.0
        }
    }
}
