//! Names that were looked up lately. Who looks one of them up again takes no lock of the table, and writes nothing that others read: what is
//! remembered is so in parts by who asks, each with a lock of its own that he mostly has to himself.

use crate::table::Entry;
use alloc::string::String;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::rt::{Mutex, thread};

const PARTS: usize = 32;
/// So many names are remembered in each part: some ten KiB in all, whoever asks for whatever.
const EACH: usize = 4;

struct Seen {
    name: String,
    entry: Entry,
    /// When it was in the table.
    turn: u64,
}

struct Part {
    names: [Option<Seen>; EACH],
    /// Which one is forgotten next.
    next: usize,
}

/// In cache lines of its own.
#[repr(align(64))]
struct Own<T>(T);

pub struct Known {
    /// How often a name has come to stand for something else: counted on with the table in hand, and read without.
    turns: Own<AtomicU64>,
    parts: [Own<Mutex<Part>>; PARTS],
}

impl Known {
    pub const fn new() -> Known {
        Known {
            turns: Own(AtomicU64::new(0)),
            parts: [const { Own(Mutex::new(Part { names: [const { None }; EACH], next: 0 })) }; PARTS],
        }
    }

    /// To be asked with the table in hand, for [`Known::keep`].
    pub fn now(&self) -> u64 {
        self.turns.0.load(Ordering::Acquire)
    }

    /// A name stands for something else from now on; with the table in hand.
    pub fn turn(&self) {
        self.turns.0.fetch_add(1, Ordering::Release);
    }

    /// What a name stands for, if it was looked up here lately and none has come to stand for something else since.
    pub fn find(&self, name: &str) -> Option<Entry> {
        let part = self.part().lock();
        let seen = part.names.iter().flatten().find(|seen| seen.name == name)?;
        (seen.turn == self.now()).then_some(seen.entry)
    }

    /// It stood for that when this was the turn.
    pub fn keep(&self, name: &str, entry: Entry, turn: u64) {
        let new = Seen { name: String::from(name), entry, turn };
        // What goes is dropped without the lock.
        let _before = {
            let mut part = self.part().lock();
            let known = part.names.iter().position(|one| one.as_ref().is_some_and(|one| one.name == name));
            let at = known.unwrap_or(part.next);
            part.next = (at + 1) % EACH;
            part.names[at].replace(new)
        };
    }

    fn part(&self) -> &Mutex<Part> {
        &self.parts[thread::spread() % PARTS].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn entry(gate: u64) -> Entry {
        Entry { gate, task: gate, stands: false }
    }

    #[test]
    fn what_was_so_before_a_change_is_not_known() {
        let known = Known::new();
        assert_eq!(known.find("files"), None);
        let before = known.now();
        known.keep("files", entry(1), before);
        assert_eq!(known.find("files"), Some(entry(1)));
        known.turn();
        assert_eq!(known.find("files"), None);
        // Whoever has looked before that says so too late.
        known.keep("files", entry(1), before);
        assert_eq!(known.find("files"), None);
        known.keep("files", entry(2), known.now());
        assert_eq!(known.find("files"), Some(entry(2)));
    }

    #[test]
    fn so_many_are_remembered_and_each_once() {
        let known = Known::new();
        for n in 0..3 * EACH as u64 {
            for _ in 0..2 {
                known.keep(&format!("name-{n}"), entry(n), 0);
            }
            let here: usize = (0..=n).filter(|n| known.find(&format!("name-{n}")) == Some(entry(*n))).count();
            assert_eq!(here, EACH.min(n as usize + 1));
        }
    }
}
