//! Who has checked that it may call a text, and calls it without asking again.

#[cfg(not(test))]
use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(test)]
use shuttle::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(test))]
use spin::Mutex;

use alloc::collections::BTreeMap;
use core::ops::Bound::{self, Excluded, Included, Unbounded};

#[cfg(test)]
use tests::Mutex;

/// So many are looked at, at most, while the lock is held.
const AT_ONCE: usize = if cfg!(test) { 2 } else { 64 };
/// How many of the others are looked at when one enters: more than one, or the list would be gone through never.
const LOOKS: usize = 2;

/// The callers of a text, each with the mark that says that it need not ask. What that rests on (the text's list, its gates, its life)
/// changes: then whoever has changed it wipes out the marks of all that were there, and knows that none of them works any more, also
/// when others change something at the same time (invariants 9, 18). However many they are, nobody holds the lock for long.
#[derive(Debug)]
pub struct Callers<C> {
    /// Counts the changes.
    generation: AtomicU64,
    known: Mutex<Known<C>>,
}

#[derive(Debug)]
struct Known<C> {
    /// Since which generation each is marked.
    all: BTreeMap<C, u64>,
    /// Behind whom it is looked next for those who do not live any more.
    looked: Option<C>,
}

impl<C: Ord> Default for Callers<C> {
    fn default() -> Callers<C> {
        Callers { generation: AtomicU64::new(0), known: Mutex::new(Known { all: BTreeMap::new(), looked: None }) }
    }
}

/// A change: gives those who may be marked from before and whom it concerns, to have their marks wiped out, and now and then nobody, for whoever wants to
/// let others have a turn. When all were given they are to be forgotten ([`Change::forget`]); then none of them may be on its way by such a mark.
#[derive(Debug)]
#[must_use = "marks from before the change still work"]
pub struct Change<'a, C: Ord> {
    callers: &'a Callers<C>,
    /// The generation that it has begun.
    now: u64,
    /// Behind whom it goes on.
    last: Option<C>,
    /// Behind whom it begins, and with whom it ends, if it does not concern all.
    some: Option<(C, C)>,
    is_over: bool,
}

impl<C: Clone + Ord> Callers<C> {
    /// The present generation, for who is about to check and to mark.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// A caller has checked, from `generation` on, and is marked. Whether that holds; if not, it wipes out the mark and checks anew. Who
    /// is not one any more is forgotten, a few at a time.
    pub fn enter(&self, caller: C, generation: u64, lives: impl Fn(&C) -> bool) -> bool {
        {
            let known = &mut *self.known.lock();
            if known.all.insert(caller, generation).is_none() {
                known.look(&lives);
            }
        }
        self.generation() == generation
    }

    /// It is one no more, and will not be on its way by its mark: it has ended.
    pub fn left(&self, caller: &C) {
        self.known.lock().all.remove(caller);
    }

    /// Somebody is about to enter, or to be refused: some of those who are callers no more are forgotten.
    pub fn tidy(&self, lives: impl Fn(&C) -> bool) {
        self.known.lock().look(&lives);
    }

    /// Something has changed.
    pub fn change(&self) -> Change<'_, C> {
        let now = self.generation.fetch_add(1, Ordering::SeqCst) + 1;
        Change { callers: self, now, last: None, some: None, is_over: false }
    }

    /// Something has changed that the marks of some rest on: of those behind `first` up to `last`. (Who is just being marked checks anew, whoever that is.)
    pub fn change_of_some(&self, first: C, last: C) -> Change<'_, C> {
        Change { some: Some((first, last)), ..self.change() }
    }
}

impl<C: Clone + Ord> Known<C> {
    /// Forgets the next few who do not live.
    fn look(&mut self, lives: impl Fn(&C) -> bool) {
        (0..LOOKS).for_each(|_| self.look_at_one(&lives));
    }

    fn look_at_one(&mut self, lives: impl Fn(&C) -> bool) {
        let behind = self.looked.as_ref().map_or(Unbounded, Excluded);
        self.looked = self.all.range((behind, Unbounded)).next().map(|(caller, _)| caller.clone());
        if let Some(caller) = &self.looked
            && !lives(caller)
        {
            self.all.remove(caller);
        }
    }
}

impl<C: Clone + Ord> Change<'_, C> {
    /// The next few of those whom it concerns, looked through: behind whom, and up to whom.
    fn part(&self, known: &BTreeMap<C, u64>) -> Option<(Bound<C>, C)> {
        let behind = self.last.as_ref().or(self.some.as_ref().map(|(first, _)| first)).map_or(Unbounded, Excluded);
        let end = self.some.as_ref().map_or(Unbounded, |(_, last)| Included(last));
        let some = known.range((behind, end)).take(AT_ONCE);
        some.last().map(|(to, _)| (behind.cloned(), to.clone()))
    }

    /// Forgets the next few of those that were given; who has entered meanwhile stays. Whether there are more.
    pub fn forget(&mut self) -> bool {
        if !core::mem::replace(&mut self.is_over, true) {
            self.last = None;
        }
        let known = &mut self.callers.known.lock().all;
        let Some((behind, to)) = self.part(known) else { return false };
        // Not before: who changes something meanwhile has to find them.
        known.extract_if((behind, Included(to.clone())), |_, since| *since < self.now).for_each(drop);
        self.last = Some(to);
        true
    }
}

impl<C: Clone + Ord> Iterator for Change<'_, C> {
    type Item = Option<C>;

    // One by one, since nothing is allocated and no lock is held meanwhile.
    fn next(&mut self) -> Option<Option<C>> {
        let known = &self.callers.known.lock().all;
        let (behind, to) = self.part(known)?;
        let found = known.range((behind, Included(to.clone()))).find(|(_, since)| **since < self.now);
        let found = found.map(|(caller, _)| caller.clone());
        self.last = found.clone().or(Some(to));
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use shuttle::sync::Arc;
    use shuttle::sync::atomic::AtomicBool;
    use shuttle::thread;

    /// With the face of `spin`'s.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Mutex<T> {
            Mutex(shuttle::sync::Mutex::new(value))
        }

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
                if self.callers.enter(caller + 1, generation, |_| true) {
                    return;
                }
                self.marked[caller].store(false, Ordering::SeqCst);
            }
        }

        fn wipe(&self, mut change: Change<'_, usize>) {
            let wipes = |caller: usize| self.marked[caller - 1].store(false, Ordering::SeqCst);
            change.by_ref().flatten().for_each(wipes);
            while change.forget() {}
        }

        fn call(&self, caller: usize) {
            let gone = self.gone[caller].load(Ordering::SeqCst);
            assert!(!(self.marked[caller].load(Ordering::SeqCst) && gone), "the right was taken back, and still works");
        }

        fn revoke(&self, caller: usize) {
            self.allowed[caller].store(false, Ordering::SeqCst);
            self.wipe(self.callers.change());
            self.gone[caller].store(true, Ordering::SeqCst);
        }
    }

    impl Text {
        /// Only this one's.
        fn end(&self, caller: usize) {
            self.allowed[caller].store(false, Ordering::SeqCst);
            // (They are counted from one on: one is behind nobody.)
            self.wipe(self.callers.change_of_some(caller, caller + 1));
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

    fn all(callers: &Callers<u32>) -> Vec<u32> {
        let mut change = callers.change();
        let all = change.by_ref().flatten().collect();
        while change.forget() {}
        all
    }

    #[test]
    fn who_enters_after_a_change_stays_known() {
        let run = || {
            let callers: Callers<u32> = Callers::default();
            for caller in 0..9 {
                assert!(callers.enter(caller, callers.generation(), |_| true));
                assert!(callers.enter(caller, callers.generation(), |_| true), "once more: it is known once");
            }
            let mut change = callers.change();
            assert!(change.by_ref().flatten().eq(0..9));
            assert!(callers.enter(3, callers.generation(), |_| true));
            assert!(!callers.enter(4, callers.generation() - 1, |_| true), "it has checked too early");
            while change.forget() {}
            assert_eq!(all(&callers), [3]);
            assert_eq!(all(&callers), []);
        };
        shuttle::check_dfs(run, Some(1));
    }

    #[test]
    fn who_is_concerned_is_found_and_forgotten() {
        let run = || {
            let callers: Callers<u32> = Callers::default();
            assert!((0..20).all(|caller| callers.enter(caller, callers.generation(), |_| true)));
            let mut change = callers.change_of_some(4, 11);
            assert!(change.by_ref().flatten().eq(5..=11));
            assert!(callers.enter(7, callers.generation(), |_| true));
            while change.forget() {}
            assert!(all(&callers).into_iter().eq((0..=4).chain([7]).chain(12..20)));
        };
        shuttle::check_dfs(run, Some(1));
    }

    /// Also while a change is under way.
    #[test]
    fn who_has_left_is_not_told() {
        let run = || {
            let callers: Callers<u32> = Callers::default();
            assert!((0..9).all(|caller| callers.enter(caller, callers.generation(), |_| true)));
            [0, 4, 20].iter().for_each(|caller| callers.left(caller));
            let mut change = callers.change();
            assert!(change.by_ref().flatten().take(2).eq([1, 2]));
            [2, 3].iter().for_each(|caller| callers.left(caller));
            assert!(change.by_ref().flatten().eq(5..9));
            while change.forget() {}
            assert_eq!(callers.known.lock().all.len(), 0);
        };
        shuttle::check_dfs(run, Some(1));
    }

    /// Whoever enters looks at two others: of those who have gone there are never more than as many as there are others, and those.
    #[test]
    fn who_has_gone_is_forgotten() {
        let run = || {
            let callers: Callers<u32> = Callers::default();
            let lives = |caller: &u32| caller.is_multiple_of(10);
            for n in 0..400 {
                assert!(callers.enter(n, callers.generation(), lives));
                let (len, live) = (callers.known.lock().all.len(), n as usize / 10 + 1);
                assert!(len <= 2 * live + 2 + LOOKS, "{len}, of whom {live} live");
            }
            let all = all(&callers);
            assert!((0..400).filter(lives).all(|one| all.contains(&one)), "{all:?}");
        };
        shuttle::check_dfs(run, Some(1));
    }
}
