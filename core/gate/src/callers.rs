//! Who has checked that it may call a text, and calls it without asking again.

#[cfg(not(test))]
use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(test)]
use shuttle::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(test))]
use spin::Mutex;

use alloc::collections::BTreeMap;
use core::ops::Bound::{Excluded, Unbounded};

#[cfg(test)]
use tests::Mutex;

/// The callers of a text, each with the mark that says that it need not ask. What that rests on (the text's list, its gates, its life)
/// changes: then whoever has changed it wipes out the marks of all that were there, and knows that none of them works any more, also
/// when others change something at the same time (invariants 9, 18).
#[derive(Debug)]
pub struct Callers<C> {
    /// Counts the changes.
    generation: AtomicU64,
    /// Since which generation each is marked.
    known: Mutex<BTreeMap<C, u64>>,
}

impl<C: Ord> Default for Callers<C> {
    fn default() -> Callers<C> {
        Callers { generation: AtomicU64::new(0), known: Mutex::default() }
    }
}

/// A change: gives those who may be marked from before, to have their marks wiped out, or those of them whom it concerns. It is over when it is
/// dropped; then none of these may be on its way by such a mark.
#[derive(Debug)]
#[must_use = "marks from before the change still work"]
pub struct Change<'a, C: Ord> {
    callers: &'a Callers<C>,
    /// The generation that it has begun.
    now: u64,
    last: Option<C>,
    /// It concerns some: others keep their marks.
    of_some: bool,
}

impl<C: Clone + Ord> Callers<C> {
    /// The present generation, for who is about to check and to mark.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// A caller has checked, from `generation` on, and is marked. Whether that holds; if not, it wipes out the mark and checks anew. Who
    /// does not live any more is forgotten now and then.
    pub fn enter(&self, caller: C, generation: u64, lives: impl Fn(&C) -> bool) -> bool {
        {
            let mut known = self.known.lock();
            if known.len().is_power_of_two() {
                known.retain(|other, _| lives(other));
            }
            known.insert(caller, generation);
        }
        self.generation() == generation
    }

    /// Something has changed.
    pub fn change(&self) -> Change<'_, C> {
        let now = self.generation.fetch_add(1, Ordering::SeqCst) + 1;
        Change { callers: self, now, last: None, of_some: false }
    }

    /// Something has changed that the marks of some rest on. (Who is just being marked checks anew, whoever that is.)
    pub fn change_of_some(&self) -> Change<'_, C> {
        let mut change = self.change();
        change.of_some = true;
        change
    }
}

impl<C: Clone + Ord> Iterator for Change<'_, C> {
    type Item = C;

    // One by one, since nothing is allocated and no lock is held meanwhile.
    fn next(&mut self) -> Option<C> {
        let known = self.callers.known.lock();
        let behind = self.last.as_ref().map_or(Unbounded, Excluded);
        let next = known.range((behind, Unbounded)).find(|(_, since)| **since < self.now);
        self.last = next.map(|(caller, _)| caller.clone());
        self.last.clone()
    }
}

impl<C: Ord> Drop for Change<'_, C> {
    fn drop(&mut self) {
        if self.of_some {
            return;
        }
        // Not before: who changes something meanwhile has to find them. Who has entered meanwhile stays.
        self.callers.known.lock().retain(|_, since| *since >= self.now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shuttle::sync::Arc;
    use shuttle::sync::atomic::AtomicBool;
    use shuttle::thread;

    /// With the face of `spin`'s.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub fn lock(&self) -> shuttle::sync::MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }
    }

    const CALLERS: usize = 2;

    #[derive(Default)]
    struct Text {
        callers: Callers<usize>,
        /// What callers check: each has one entry in the list.
        allowed: [AtomicBool; CALLERS],
        marked: [AtomicBool; CALLERS],
        /// The call that took the right back has returned.
        gone: [AtomicBool; CALLERS],
    }

    impl Text {
        fn connect(&self, caller: usize) {
            loop {
                let generation = self.callers.generation();
                if !self.allowed[caller].load(Ordering::SeqCst) {
                    return;
                }
                self.marked[caller].store(true, Ordering::SeqCst);
                if self.callers.enter(caller, generation, |_| true) {
                    return;
                }
                self.marked[caller].store(false, Ordering::SeqCst);
            }
        }

        fn call(&self, caller: usize) {
            let gone = self.gone[caller].load(Ordering::SeqCst);
            assert!(!(self.marked[caller].load(Ordering::SeqCst) && gone), "the right was taken back, and still works");
        }

        fn revoke(&self, caller: usize) {
            self.allowed[caller].store(false, Ordering::SeqCst);
            let change = self.callers.change();
            change.for_each(|caller| self.marked[caller].store(false, Ordering::SeqCst));
            self.gone[caller].store(true, Ordering::SeqCst);
        }
    }

    impl Text {
        /// Only this one's.
        fn end(&self, caller: usize) {
            self.allowed[caller].store(false, Ordering::SeqCst);
            let change = self.callers.change_of_some();
            change
                .filter(|known| *known == caller)
                .for_each(|caller| self.marked[caller].store(false, Ordering::SeqCst));
            self.gone[caller].store(true, Ordering::SeqCst);
        }
    }

    /// One loses its right, and at the same time what only the other one rests on ends.
    #[test]
    fn what_some_rest_on_works_no_more() {
        let run = || {
            let text = Arc::new(Text::default());
            text.allowed.iter().for_each(|allowed| allowed.store(true, Ordering::SeqCst));
            text.connect(1);
            let does = |what: fn(&Text)| {
                let text = text.clone();
                thread::spawn(move || what(&text))
            };
            let lives: [fn(&Text); 2] = [
                |text| (0..2).for_each(|_| (text.call(0), text.connect(0), text.call(0)).0),
                |text| (0..2).for_each(|_| (text.call(1), text.connect(1), text.call(1)).0),
            ];
            let all = [does(lives[0]), does(|text| text.revoke(0)), does(|text| text.end(1)), does(lives[1])];
            all.into_iter().for_each(|one| one.join().unwrap());
            assert!(text.marked.iter().all(|marked| !marked.load(Ordering::SeqCst)));
        };
        shuttle::check_random(run, 20_000);
        shuttle::check_pct(run, 20_000, 3);
    }

    #[test]
    fn others_keep_their_marks() {
        let run = || {
            let text = Text::default();
            text.allowed.iter().for_each(|allowed| allowed.store(true, Ordering::SeqCst));
            (0..CALLERS).for_each(|caller| text.connect(caller));
            text.end(0);
            assert_eq!([0, 1].map(|caller| text.marked[caller].load(Ordering::SeqCst)), [false, true]);
            // And are found by the next one.
            text.revoke(1);
            assert!(!text.marked[1].load(Ordering::SeqCst));
        };
        shuttle::check_dfs(run, Some(1));
    }

    /// Two lose their rights at once, while they and others enter.
    #[test]
    fn a_right_that_was_taken_back_works_no_more() {
        let run = || {
            let text = Arc::new(Text::default());
            text.allowed.iter().for_each(|allowed| allowed.store(true, Ordering::SeqCst));
            text.connect(0);
            let lives = |caller| {
                let text = text.clone();
                thread::spawn(move || {
                    text.call(caller);
                    text.connect(caller);
                    text.call(caller);
                })
            };
            let revokes = |caller| {
                let text = text.clone();
                thread::spawn(move || text.revoke(caller))
            };
            let all = [lives(1), revokes(0), revokes(1), lives(0)];
            all.into_iter().for_each(|one| one.join().unwrap());
            assert!(text.marked.iter().all(|marked| !marked.load(Ordering::SeqCst)));
        };
        shuttle::check_random(run, 20_000);
        shuttle::check_pct(run, 20_000, 3);
    }

    #[test]
    fn who_enters_after_a_change_stays_known() {
        let run = || {
            let callers: Callers<u32> = Callers::default();
            for caller in 0..9 {
                assert!(callers.enter(caller, callers.generation(), |_| true));
                assert!(callers.enter(caller, callers.generation(), |_| true), "once more: it is known once");
            }
            let all = || callers.change().collect::<Vec<_>>();
            let mut change = callers.change();
            assert!(change.by_ref().eq(0..9));
            assert!(callers.enter(3, callers.generation(), |_| true));
            assert!(!callers.enter(4, callers.generation() - 1, |_| true), "it has checked too early");
            drop(change);
            assert_eq!(all(), [3]);
            assert_eq!(all(), []);
            let lives = |caller: &u32| *caller == 5;
            assert!([4, 5, 6, 7].into_iter().all(|caller| callers.enter(caller, callers.generation(), lives)));
            assert_eq!(all(), [5, 7], "who was dead when there were two and four");
        };
        shuttle::check_dfs(run, Some(1));
    }
}
