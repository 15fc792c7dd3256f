//! Atomic words and the one lock: in tests `shuttle`'s, which then run under very many of its interleavings.

#[cfg(not(test))]
pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(not(test))]
pub(crate) use plain::Lock;

#[cfg(test)]
pub(crate) use shuttle::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(test)]
pub(crate) use watched::Lock;

#[cfg(not(test))]
mod plain {
    use core::sync::atomic::{AtomicBool, Ordering};

    /// Held for the length of a look at all users.
    #[derive(Debug, Default)]
    pub struct Lock(AtomicBool);

    pub struct Held<'a>(&'a AtomicBool);

    impl Lock {
        pub fn lock(&self) -> Held<'_> {
            while self.0.swap(true, Ordering::Acquire) {
                core::hint::spin_loop();
            }
            Held(&self.0)
        }
    }

    impl Drop for Held<'_> {
        fn drop(&mut self) {
            self.0.store(false, Ordering::Release);
        }
    }
}

/// One that looked again and again would have a schedule in which nobody else ever runs.
#[cfg(test)]
mod watched {
    use shuttle::sync::{Mutex, MutexGuard};

    #[derive(Debug, Default)]
    pub struct Lock(Mutex<()>);

    impl Lock {
        pub fn lock(&self) -> MutexGuard<'_, ()> {
            self.0.lock().unwrap()
        }
    }
}
