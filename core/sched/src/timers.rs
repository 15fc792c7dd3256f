//! Deadlines, by time.

use alloc::collections::BTreeMap;

/// What a timer is cancelled by. Never used for a second timer of the same [`Timers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    deadline_ns: u64,
    /// Tells timers of the same deadline apart, in the order in which they were added.
    number: u64,
}

/// The timers that have not expired.
#[derive(Clone, Debug)]
pub struct Timers<T> {
    timers: BTreeMap<Key, T>,
    added: u64,
}

impl<T> Default for Timers<T> {
    fn default() -> Timers<T> {
        Timers::new()
    }
}

impl<T> Timers<T> {
    /// No timers.
    pub const fn new() -> Timers<T> {
        Timers { timers: BTreeMap::new(), added: 0 }
    }

    /// Adds a timer. `deadline_ns` is a point in monotonic time.
    pub fn add(&mut self, deadline_ns: u64, value: T) -> Key {
        let key = Key { deadline_ns, number: self.added };
        self.added += 1;
        self.timers.insert(key, value);
        key
    }

    /// Takes a timer out, unless it has expired or was cancelled.
    pub fn cancel(&mut self, key: Key) -> Option<T> {
        self.timers.remove(&key)
    }

    /// The earliest deadline.
    pub fn next(&self) -> Option<u64> {
        self.timers.first_key_value().map(|(key, _)| key.deadline_ns)
    }

    /// Takes out the timer with the earliest deadline if that is not after `now_ns`. To be called until it says `None`.
    pub fn expired(&mut self, now_ns: u64) -> Option<T> {
        let first = self.timers.first_entry()?;
        (first.key().deadline_ns <= now_ns).then(|| first.remove())
    }
}
