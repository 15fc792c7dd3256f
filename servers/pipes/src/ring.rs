//! Bytes that wait in a pipe.

use alloc::collections::{BTreeSet, VecDeque};

/// Bytes that fit.
const LEN: usize = 64 << 10;

/// Tasks that are remembered of one end.
const USERS: usize = 64;

/// Tasks that have used one end.
#[derive(Debug, Default)]
pub struct Users(BTreeSet<u64>);

impl Users {
    /// This one does; `lives` says which tasks are there.
    pub fn note(&mut self, task: u64, lives: impl Fn(u64) -> bool) {
        if self.0.len() >= USERS && !self.0.contains(&task) {
            self.0.retain(|task| lives(*task));
        }
        if self.0.len() < USERS {
            self.0.insert(task);
        }
    }

    /// Whether one of them is left.
    pub fn any(&self, lives: impl Fn(u64) -> bool) -> bool {
        self.0.iter().any(|task| lives(*task))
    }
}

#[derive(Debug, Default)]
pub struct Ring {
    bytes: VecDeque<u8>,
    pub readers: Users,
    pub writers: Users,
    /// Nobody will read any more.
    pub no_reader: bool,
    /// Nobody will write any more.
    pub no_writer: bool,
}

impl Ring {
    pub fn new() -> Ring {
        Ring::default()
    }

    /// Nobody is left who could close an end: one that nobody uses who is still there is over.
    pub fn has_no_maker(&mut self, lives: impl Fn(u64) -> bool) {
        self.no_reader |= !self.readers.any(&lives);
        self.no_writer |= !self.writers.any(&lives);
    }

    /// Takes as much as fits. Value: how much.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        let n = bytes.len().min(LEN - self.bytes.len());
        self.bytes.extend(&bytes[..n]);
        n
    }

    /// Gives as much as there is. Value: how much.
    pub fn pop(&mut self, buffer: &mut [u8]) -> usize {
        let n = buffer.len().min(self.bytes.len());
        for (to, from) in buffer.iter_mut().zip(self.bytes.drain(..n)) {
            *to = from;
        }
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let mut ring = Ring::new();
        let sent: std::vec::Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
        let (mut at, mut got) = (0, std::vec::Vec::new());
        let mut buffer = [0; 777];
        while got.len() < sent.len() {
            at += ring.push(&sent[at..sent.len().min(at + 5000)]);
            let n = ring.pop(&mut buffer);
            got.extend_from_slice(&buffer[..n]);
        }
        assert_eq!(got, sent);
        assert_eq!(ring.push(&sent), LEN);
    }

    #[test]
    fn without_its_maker_an_end_lasts_as_long_as_who_uses_it() {
        let mut ring = Ring::new();
        ring.readers.note(1, |_| true);
        (2..5).for_each(|task| ring.writers.note(task, |_| true));
        ring.has_no_maker(|_| true);
        assert_eq!((ring.no_reader, ring.no_writer), (false, false));
        ring.has_no_maker(|task| task == 1 || task == 4);
        assert_eq!((ring.no_reader, ring.no_writer), (false, false), "one of its writers is left");
        ring.has_no_maker(|task| task == 1);
        assert_eq!((ring.no_reader, ring.no_writer), (false, true));
        ring.has_no_maker(|_| false);
        assert_eq!((ring.no_reader, ring.no_writer), (true, true));
    }

    #[test]
    fn of_many_users_those_that_live_are_remembered() {
        let mut users = Users::default();
        (0..1000).for_each(|task| users.note(task, |other| other == 7));
        assert!(users.any(|task| task == 7));
        assert!(users.0.len() <= USERS);
    }
}
