//! Who has no key, and how often that was felt.

use crate::class::{Class, text_bit};
use alloc::vec::Vec;

/// Misses by which a class earns the key of another.
pub const EARN: u32 = 32;

/// Classes that are remembered.
pub(crate) const REMEMBERED: usize = 64;

struct Record {
    digest: u64,
    texts: u64,
    misses: u32,
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

    /// Counts a miss of the class; how many it has now.
    pub fn count(&mut self, class: &Class) -> u32 {
        let known = self.records.iter().position(|record| record.digest == class.digest());
        let at = known.unwrap_or_else(|| self.enter(class));
        let misses = &mut self.records[at].misses;
        *misses = misses.saturating_add(1);
        *misses
    }

    /// Makes a record for a class; where it is. If there are too many, that with the fewest misses becomes the new one's.
    fn enter(&mut self, class: &Class) -> usize {
        let fewest = self.records.iter().enumerate().min_by_key(|(_, record)| record.misses);
        let (digest, texts) = (class.digest(), class.texts());
        match fewest {
            Some((at, record)) if self.records.len() >= REMEMBERED => {
                self.records[at] = Record { digest, texts, misses: record.misses };
                at
            }
            _ => {
                self.records.push(Record { digest, texts, misses: 0 });
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
