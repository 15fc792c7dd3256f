//! Who waits for which moment.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use musubi::rt::serve::{Seldom, Shares};

/// How often it is looked who is still there, at most: it takes as long as there are many.
const SWEEP_NS: u64 = 20_000_000;

/// Never, as a moment.
pub const NEVER: u64 = u64::MAX;

/// Those that wait, as far as there is room for them.
#[derive(Debug)]
pub struct Alarms<T> {
    /// By moment, and for one moment by their order.
    all: BTreeMap<(u64, u64), (u64, T)>,
    order: u64,
    shares: Shares,
    sweep: Seldom,
}

impl<T> Alarms<T> {
    pub const fn new(each: usize, most: usize) -> Alarms<T> {
        Alarms { all: BTreeMap::new(), order: 0, shares: Shares::new(each, most), sweep: Seldom::new(SWEEP_NS) }
    }

    /// When the next one is.
    pub fn next(&self) -> u64 {
        self.all.first_key_value().map_or(NEVER, |(key, _)| key.0)
    }

    /// Takes room for another one of this task's, which is to be added then. Whether there is; `lives` says whether others are there, and
    /// is asked when there is none, `now` and then. And what waited for those who are not: to be let go of without a lock in hand.
    pub fn take_room(&mut self, task: u64, user: u64, now: u64, lives: impl Fn(u64) -> bool) -> (bool, Vec<T>) {
        let mut dead = Vec::new();
        if self.shares.take(task, user) {
            return (true, dead);
        }
        if self.sweep.may(now) {
            let Alarms { all, shares, .. } = self;
            dead.extend(all.extract_if(.., |_, one| !lives(one.0)).map(|(_, (task, what))| {
                shares.give(task);
                what
            }));
        }
        (self.shares.take(task, user), dead)
    }

    /// Value: whether it is the next one now.
    pub fn add(&mut self, at: u64, task: u64, what: T) -> bool {
        let before = self.next();
        self.order += 1;
        self.all.insert((at, self.order), (task, what));
        at < before
    }

    /// Takes out one whose moment has come.
    pub fn due(&mut self, now: u64) -> Option<T> {
        let first = self.all.first_entry()?;
        if first.key().0 > now {
            return None;
        }
        let (task, what) = first.remove();
        self.shares.give(task);
        Some(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_come_in_their_order() {
        let mut alarms = Alarms::new(9, 9);
        assert_eq!(alarms.next(), NEVER);
        assert!(alarms.add(50, 1, 'b'));
        assert!(!alarms.add(50, 1, 'c'));
        assert!(!alarms.add(70, 1, 'd'));
        assert!(alarms.add(20, 2, 'a'));
        assert_eq!((alarms.next(), alarms.due(19)), (20, None));
        let came: std::string::String = core::iter::from_fn(|| alarms.due(60)).collect();
        assert_eq!((came.as_str(), alarms.next()), ("abc", 70));
        assert_eq!((alarms.due(70), alarms.due(NEVER)), (Some('d'), None));
    }

    #[test]
    fn each_has_so_many_and_the_dead_make_room() {
        let mut alarms = Alarms::new(2, 8);
        let (mut now, mut dead) = (0, 0);
        let mut waits = |task, user, lives: fn(u64) -> bool| {
            now += SWEEP_NS;
            let (room, gone) = alarms.take_room(task, user, now, lives);
            dead += gone.len();
            if room {
                alarms.add(100, task, ());
            }
            room
        };
        assert_eq!([1, 1, 2, 2].map(|task| waits(task, 5, |_| true)), [true; 4]);
        assert!(!waits(1, 5, |_| true), "of its own it has as many as it may");
        assert!(!waits(3, 5, |_| true), "of its user's there are as many as are left for others");
        assert_eq!([4, 4].map(|task| waits(task, 6, |_| true)), [true; 2], "another user has room");
        assert!(waits(3, 5, |task| task != 2), "the dead make room");
        assert_eq!((alarms.all.len(), dead), (5, 2));
        assert_eq!(core::iter::from_fn(|| alarms.due(100)).count(), 5);
        assert_eq!(
            [1, 1].map(|task| alarms.take_room(task, 5, now, |_| true).0),
            [true; 2],
            "and those whose moment has come"
        );
    }

    #[test]
    fn who_asks_often_has_it_looked_through_now_and_then() {
        let mut alarms: Alarms<()> = Alarms::new(1, 8);
        assert!(alarms.take_room(1, 5, 0, |_| true).0);
        alarms.add(100, 1, ());
        let looks = core::cell::Cell::new(0);
        for now in 0..10 {
            let lives = |_| {
                looks.set(looks.get() + 1);
                true
            };
            assert!(!alarms.take_room(1, 5, SWEEP_NS + now * SWEEP_NS / 5, lives).0);
        }
        assert_eq!(looks.get(), 2);
    }
}
