//! One thread at a time in the NSys texts of a group, on the whole machine (SSS-63): what is not preempted and not beside another one needs
//! no locks. Who comes second waits, first come, first served.

use alloc::collections::VecDeque;

/// `W`: how a thread that waits is woken.
#[derive(Debug)]
pub struct Exclusion<W> {
    /// Number of the thread that is inside; 0: nobody.
    inside: u64,
    waiting: VecDeque<(u64, W)>,
}

impl<W> Default for Exclusion<W> {
    fn default() -> Exclusion<W> {
        Exclusion { inside: 0, waiting: VecDeque::new() }
    }
}

impl<W: Clone> Exclusion<W> {
    /// Whether this thread is inside from now on, or was. It has to wait if another one is, or was here before.
    pub fn enter(&mut self, thread: u64) -> bool {
        if self.inside == thread {
            return true;
        }
        let is_first = self.waiting.front().is_none_or(|first| first.0 == thread);
        if self.inside != 0 || !is_first {
            return false;
        }
        self.waiting.pop_front();
        self.inside = thread;
        true
    }

    /// It waits; where it stood, if it has waited already.
    pub fn await_turn(&mut self, thread: u64, how: W) {
        match self.waiting.iter_mut().find(|one| one.0 == thread) {
            Some(one) => one.1 = how,
            None => self.waiting.push_back((thread, how)),
        }
    }

    /// It is not inside any more, and does not wait. Whoever is next is to be woken.
    pub fn leave(&mut self, thread: u64) -> Option<W> {
        if self.inside == thread {
            self.inside = 0;
        }
        self.waiting.retain(|one| one.0 != thread);
        self.waiting.front().filter(|_| self.inside == 0).map(|first| first.1.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn first_come_first_served() {
        let mut group = Exclusion::default();
        assert!(group.enter(1) && group.enter(1) && !group.enter(2));
        group.await_turn(2, "b");
        group.await_turn(3, "c");
        group.await_turn(2, "b again");
        assert_eq!(group.leave(1), Some("b again"));
        // Who comes meanwhile, and who has left, stands behind.
        assert!(!group.enter(1) && !group.enter(3) && group.enter(2));
        assert_eq!(group.leave(2), Some("c"));
        assert!(group.enter(3));
        assert_eq!(group.leave(3), None);
    }

    #[test]
    fn who_waits_no_more_is_in_nobodys_way() {
        let mut group = Exclusion::default();
        assert!(group.enter(1));
        group.await_turn(2, 2);
        group.await_turn(3, 3);
        assert_eq!(group.leave(2), None);
        assert_eq!(group.leave(1), Some(3));
        // Woken and ended before it came in.
        assert_eq!(group.leave(3), None);
        assert!(group.enter(4));
    }

    proptest! {
        /// Threads enter, wait and leave in any order: there is at most one inside, and whenever nobody is and somebody waits, somebody
        /// who waits has been told and not come yet.
        #[test]
        fn nobody_is_forgotten(steps in prop::collection::vec((1..6u64, 0..3u8), 1..200)) {
            let mut group = Exclusion::default();
            let (mut inside, mut waits, mut told) = (0, [false; 6], 0);
            for (thread, what) in steps {
                let at = thread as usize;
                match what {
                    // It would run: only who does not wait, or was told.
                    0 if !waits[at] || told == thread => {
                        if group.enter(thread) {
                            prop_assert!(inside == 0 || inside == thread);
                            inside = thread;
                            waits[at] = false;
                            if told == thread { told = 0; }
                        } else {
                            prop_assert!(inside != thread);
                            group.await_turn(thread, thread);
                            waits[at] = true;
                        }
                    }
                    1 | 2 => {
                        let next = group.leave(thread);
                        if inside == thread { inside = 0; }
                        waits[at] = false;
                        if told == thread { told = 0; }
                        if let Some(next) = next {
                            prop_assert!(waits[next as usize] && inside == 0);
                            told = next;
                        }
                    }
                    _ => {}
                }
                prop_assert!(inside != 0 || told != 0 || waits.iter().all(|waits| !waits));
            }
        }
    }
}
