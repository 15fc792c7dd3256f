//! The words of a board. In tests whoever touches one lets `shuttle` choose who goes on first, as with its own words; outside of its runs they are
//! the machine's, so that the plain tests, with boards of their full size, need not be run by it.

#[cfg(not(test))]
pub(crate) use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(test)]
pub(crate) use watched::{AtomicU64, Ordering};

#[cfg(test)]
mod watched {
    use core::sync::atomic;
    pub use core::sync::atomic::Ordering;

    shuttle::thread_local! {
        /// Touching it is a point at which others may go on.
        static POINT: shuttle::sync::atomic::AtomicBool = shuttle::sync::atomic::AtomicBool::new(false);
    }

    fn others_may_go_on() {
        if shuttle::current::try_get_current_task().is_some() {
            POINT.with(|point| point.load(Ordering::SeqCst));
        }
    }

    #[derive(Debug, Default)]
    pub struct AtomicU64(atomic::AtomicU64);

    impl AtomicU64 {
        pub const fn new(value: u64) -> AtomicU64 {
            AtomicU64(atomic::AtomicU64::new(value))
        }

        fn word(&self) -> &atomic::AtomicU64 {
            others_may_go_on();
            &self.0
        }

        pub fn load(&self, order: Ordering) -> u64 {
            self.word().load(order)
        }

        pub fn store(&self, value: u64, order: Ordering) {
            self.word().store(value, order);
        }

        pub fn swap(&self, value: u64, order: Ordering) -> u64 {
            self.word().swap(value, order)
        }

        pub fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
            self.word().fetch_add(value, order)
        }

        pub fn fetch_or(&self, value: u64, order: Ordering) -> u64 {
            self.word().fetch_or(value, order)
        }

        pub fn fetch_and(&self, value: u64, order: Ordering) -> u64 {
            self.word().fetch_and(value, order)
        }

        pub fn fetch_max(&self, value: u64, order: Ordering) -> u64 {
            self.word().fetch_max(value, order)
        }

        pub fn compare_exchange(&self, old: u64, new: u64, ok: Ordering, failed: Ordering) -> Result<u64, u64> {
            self.word().compare_exchange(old, new, ok, failed)
        }

        pub fn compare_exchange_weak(&self, old: u64, new: u64, ok: Ordering, failed: Ordering) -> Result<u64, u64> {
            self.word().compare_exchange_weak(old, new, ok, failed)
        }
    }
}
