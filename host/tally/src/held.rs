//! Which locks a processor holds, so that it is seen when it takes one while it has another.

/// Locks, by their addresses. Whoever takes one does it by a locked instruction there, and whoever gives it back stores there.
#[derive(Debug, Default)]
pub struct Held(Vec<u64>);

impl Held {
    /// A round begins in a program, where nothing is held.
    pub fn begin(&mut self) {
        self.0.clear();
    }

    /// The lock at this address is taken. Whether another one is held. (One that is held already was found taken, or is another reader's.)
    pub fn takes(&mut self, lock: u64) -> bool {
        if self.0.contains(&lock) {
            return false;
        }
        self.0.push(lock);
        self.0.len() > 1
    }

    /// Something else is stored there.
    pub fn stores(&mut self, at: u64) {
        self.0.retain(|lock| *lock != at);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_lock_is_seen() {
        let mut held = Held::default();
        assert!(!held.takes(0x10) && !held.is_empty());
        held.stores(0x18);
        assert!(held.takes(0x20), "one within another");
        assert!(!held.takes(0x20), "found taken");
        held.stores(0x10);
        assert!(held.takes(0x30), "the first one was given back first");
        [0x30, 0x20].into_iter().for_each(|lock| held.stores(lock));
        assert!(held.is_empty() && !held.takes(0x10), "one after the other");
        held.begin();
        assert!(!held.takes(0x20));
    }
}
