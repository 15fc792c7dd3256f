//! Who takes something away makes processors forget it after he has let go of the lock. Until then it still works, also for whoever
//! comes second and finds nothing left to take away.

#[cfg(not(test))]
use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(test)]
use shuttle::sync::atomic::{AtomicU64, Ordering};

/// How many have taken something out of a view that processors have not forgotten yet.
#[derive(Debug, Default)]
pub struct Owed(AtomicU64);

impl Owed {
    /// None.
    #[must_use]
    pub fn new() -> Owed {
        Owed(AtomicU64::new(0))
    }

    /// Something was looked for, and taken out if there was `any`; with the lock of what it was in held. Whether processors must be made
    /// to forget before the change counts as done (invariant 9). With `any`, [`Owed::forgotten`] is to follow that.
    pub fn taken(&self, any: bool) -> bool {
        if any {
            self.0.fetch_add(1, Ordering::SeqCst);
            return true;
        }
        self.0.load(Ordering::SeqCst) != 0
    }

    /// Whether something was taken out that processors have not forgotten yet.
    #[inline(always)]
    pub fn is_any(&self) -> bool {
        self.0.load(Ordering::SeqCst) != 0
    }

    /// They have forgotten.
    pub fn forgotten(&self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shuttle::sync::atomic::AtomicBool;
    use shuttle::sync::{Arc, Mutex};
    use shuttle::thread;

    /// A page that is mapped, and a processor that remembers it.
    struct Page {
        mapped: Mutex<bool>,
        owed: Owed,
        remembered: AtomicBool,
    }

    impl Page {
        /// As a change of a list does.
        fn take_away(&self) {
            let must_forget = {
                let mut mapped = self.mapped.lock().unwrap();
                let any = core::mem::take(&mut *mapped);
                self.owed.taken(any).then_some(any)
            };
            if let Some(any) = must_forget {
                self.remembered.store(false, Ordering::SeqCst);
                if any {
                    self.owed.forgotten();
                }
            }
        }
    }

    #[test]
    fn whoever_comes_second_waits_too() {
        let run = || {
            let page =
                Arc::new(Page { mapped: Mutex::new(true), owed: Owed::new(), remembered: AtomicBool::new(true) });
            let takers = (0..2).map(|_| {
                let page = page.clone();
                thread::spawn(move || {
                    page.take_away();
                    assert!(!page.remembered.load(Ordering::SeqCst), "it was taken away, and still works");
                })
            });
            takers.collect::<Vec<_>>().into_iter().for_each(|taker| taker.join().unwrap());
            assert!(!page.owed.taken(false), "nothing is owed in the end");
        };
        shuttle::check_dfs(run, None);
    }
}
