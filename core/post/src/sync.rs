//! Atomic words, and how a lock of them is waited for: in tests `shuttle`'s, which then run under very many of its interleavings, chosen at random and by depth,
//! and the smallest cases (`tests/all.rs`) under all. There the lock also sees to it that nobody ever holds two.

/// Words that one alone touches at a time, who holds the lock, the slot or the wait, or nobody while others read them. (In tests, too: `shuttle` need not try
/// what comes between two of them.)
pub(crate) mod owned {
    pub use core::sync::atomic::{AtomicU32, AtomicU64};
}

#[cfg(not(test))]
pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(not(test))]
pub(crate) use plain::{Turn, Turns};

#[cfg(test)]
pub(crate) use crate::tests::each::{AtomicU32, AtomicU64};
#[cfg(test)]
pub(crate) use shuttle::sync::atomic::Ordering;
#[cfg(test)]
pub(crate) use watched::{Turn, Turns, by_the_bit, locked};

/// How those take turns who want a lock that is a bit of a word: they look again until it is free.
#[cfg(not(test))]
mod plain {
    use core::marker::PhantomData;

    #[derive(Debug, Default)]
    pub struct Turns;

    pub struct Turn<'a>(PhantomData<&'a Turns>);

    impl Turns {
        #[inline(always)]
        pub fn take(&self) -> Turn<'_> {
            Turn(PhantomData)
        }

        /// Somebody else has the lock.
        #[inline(always)]
        pub fn wait(&self) {
            core::hint::spin_loop();
        }
    }
}

/// They sleep until it is their turn, and then the bit is free: one who looked again and again would have a schedule in which nobody else
/// ever runs. That the bit alone keeps them apart is tried by those who say that they go by it.
#[cfg(test)]
mod watched {
    use crate::tests::each::changes;
    use shuttle::sync::{Mutex, MutexGuard};
    use std::cell::Cell;

    shuttle::thread_local! {
        /// Locks that the thread holds, and how often it has taken one.
        static HELD: Cell<u32> = Cell::new(0);
        static TAKEN: Cell<u32> = Cell::new(0);
        static BY_THE_BIT: Cell<bool> = Cell::new(false);
    }

    /// From now on this thread waits as the kernel does, by looking at the bit again.
    pub fn by_the_bit() {
        BY_THE_BIT.with(|by| by.set(true));
    }

    /// How often this thread has taken a lock.
    pub fn locked() -> u32 {
        TAKEN.with(Cell::get)
    }

    #[derive(Debug, Default)]
    pub struct Turns(Mutex<()>);

    pub struct Turn<'a>(Option<MutexGuard<'a, ()>>, &'a Turns);

    impl Turns {
        pub fn take(&self) -> Turn<'_> {
            let held = HELD.with(|held| held.replace(held.get() + 1));
            assert_eq!(held, 0, "two locks held at once");
            TAKEN.with(|taken| taken.set(taken.get() + 1));
            let guard = (!BY_THE_BIT.with(Cell::get)).then(|| {
                changes(self);
                self.0.lock().unwrap()
            });
            Turn(guard, self)
        }

        /// The bit was seen set before it was this one's turn.
        pub fn wait(&self) {
            if BY_THE_BIT.with(Cell::get) {
                shuttle::thread::yield_now();
            }
        }
    }

    impl Drop for Turn<'_> {
        fn drop(&mut self) {
            if let Some(guard) = self.0.take() {
                changes(self.1);
                drop(guard);
            }
            HELD.with(|held| held.set(held.get() - 1));
        }
    }
}
