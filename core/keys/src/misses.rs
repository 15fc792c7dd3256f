//! Who has no key, and how often that was felt.

use crate::class::{Class, text_bit};
use alloc::vec::Vec;

/// Misses by which a class earns the key of another.
pub const EARN: u32 = 16;

/// Misses of one class after which a key goes to it that nobody has used all that time.
pub const IDLE: u32 = 4;

/// The miss of a stretch from which on keys are idle. Not the first: of many classes that are missed in turn none has a second.
const BEGUN: u32 = 2;

/// Classes that are remembered.
pub(crate) const REMEMBERED: usize = 64;

struct Record {
    digest: u64,
    texts: u64,
    misses: u32,
    /// The latest stretch of at most [`IDLE`] misses: the number of its [`BEGUN`]th among the misses of all classes, and how many it
    /// has.
    stretch: (u64, u32),
}

/// What a class has missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    pub misses: u32,
    /// It was missed [`IDLE`] times again: since this miss of all.
    pub stretch: Option<u64>,
}

/// Counts of misses, of a bounded number of classes. The sum of all counts is never more than the number of misses.
#[derive(Default)]
pub(crate) struct Misses {
    records: Vec<Record>,
}

impl Misses {
    pub const fn new() -> Misses {
        Misses { records: Vec::new() }
    }

    /// Counts a miss of the class, the `now`th of all.
    pub fn count(&mut self, class: &Class, now: u64) -> Missed {
        let known = self.records.iter().position(|record| record.digest == class.digest());
        let at = known.unwrap_or_else(|| self.enter(class));
        let Record { misses, stretch: (first, len), .. } = &mut self.records[at];
        *misses = misses.saturating_add(1);
        *len = *len % IDLE + 1;
        if *len == BEGUN {
            *first = now;
        }
        Missed { misses: *misses, stretch: (*len == IDLE).then_some(*first) }
    }

    /// Whether the next miss of the class begins or ends a stretch, or earns a key.
    pub fn is_due(&self, class: &Class) -> bool {
        match self.records.iter().find(|record| record.digest == class.digest()) {
            Some(record) => record.misses + 1 >= EARN || [BEGUN, IDLE].contains(&(record.stretch.1 % IDLE + 1)),
            // It would begin with the fewest of all.
            None => self.records.len() >= REMEMBERED && self.records.iter().all(|record| record.misses + 1 >= EARN),
        }
    }

    /// Makes a record for a class; where it is. If there are too many, that with the fewest misses becomes the new one's: it takes over
    /// how many, but not the stretch, which is of one class.
    fn enter(&mut self, class: &Class) -> usize {
        let fewest = self.records.iter().enumerate().min_by_key(|(_, record)| record.misses);
        let (digest, texts) = (class.digest(), class.texts());
        match fewest {
            Some((at, record)) if self.records.len() >= REMEMBERED => {
                self.records[at] = Record { digest, texts, misses: record.misses, stretch: (0, 0) };
                at
            }
            _ => {
                self.records.push(Record { digest, texts, misses: 0, stretch: (0, 0) });
                self.records.len() - 1
            }
        }
    }

    /// The class has got what it waited for.
    pub fn remove(&mut self, class: &Class) {
        self.records.retain(|record| record.digest != class.digest());
    }

    /// Half as many for everyone.
    pub fn age(&mut self) {
        for record in &mut self.records {
            record.misses /= 2;
        }
        self.records.retain(|record| record.misses != 0);
    }

    /// Drops the classes that name the text, and perhaps a few others: they count anew.
    pub fn forget(&mut self, text: u64) {
        self.records.retain(|record| record.texts & text_bit(text) == 0);
    }

    #[cfg(test)]
    pub fn counts(&self) -> Vec<u32> {
        self.records.iter().map(|record| record.misses).collect()
    }
}
