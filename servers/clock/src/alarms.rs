//! Who waits for which moment.

use alloc::collections::BTreeMap;

/// Never, as a moment.
pub const NEVER: u64 = u64::MAX;

/// Those of one task that may wait at a time, and of all.
#[derive(Debug)]
pub struct Alarms<T> {
    /// By moment, and for one moment by their order.
    all: BTreeMap<(u64, u64), (u64, T)>,
    order: u64,
    each: usize,
    most: usize,
}

impl<T> Alarms<T> {
    pub const fn new(each: usize, most: usize) -> Alarms<T> {
        Alarms { all: BTreeMap::new(), order: 0, each, most }
    }

    /// When the next one is.
    pub fn next(&self) -> u64 {
        self.all.first_key_value().map_or(NEVER, |(key, _)| key.0)
    }

    /// Whether this task may have another one. `lives` says whether others are there, and is asked when there are many.
    pub fn has_room(&mut self, task: u64, lives: impl Fn(u64) -> bool) -> bool {
        if self.all.len() >= self.most {
            self.all.retain(|_, one| lives(one.0));
        }
        self.all.len() < self.most && self.all.values().filter(|one| one.0 == task).count() < self.each
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
        (first.key().0 <= now).then(|| first.remove().1)
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
        let mut alarms = Alarms::new(2, 5);
        for task in [1, 1, 2, 2] {
            assert!(alarms.has_room(task, |_| true));
            alarms.add(100, task, ());
        }
        assert!(!alarms.has_room(1, |_| true));
        assert!(alarms.has_room(3, |_| true));
        alarms.add(100, 3, ());
        assert!(!alarms.has_room(4, |_| true), "no more of anybody's");
        assert!(alarms.has_room(4, |task| task != 2));
        assert_eq!(alarms.all.len(), 3);
    }
}
