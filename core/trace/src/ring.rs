//! One writes, others read.

use abi::trace::{Event, HEAD, RECORD, RECORDS, RING};
use core::sync::atomic::{AtomicU64, Ordering};

/// A processor's part of the section. No load comes before an earlier one, and no store before an earlier one: the protocol rests on that.
pub trait Words {
    /// The word, and all that was written before it (acquire).
    fn load(&self, at: usize) -> u64;
    /// Writes the word after all that was written before (release).
    fn store(&self, at: usize, value: u64);
    /// Records that there is room for, a power of two.
    fn records(&self) -> u64 {
        RECORDS
    }
}

impl Words for &[AtomicU64] {
    fn load(&self, at: usize) -> u64 {
        self.get(at).map_or(0, |word| word.load(Ordering::Acquire))
    }

    fn store(&self, at: usize, value: u64) {
        if let Some(word) = self.get(at) {
            word.store(value, Ordering::Release);
        }
    }
}

/// First word of the record number `n` (from 0 on).
fn place(n: u64, records: u64) -> usize {
    RING + (n & (records - 1)) as usize * RECORD
}

/// The one that writes. It waits for nobody: what is old makes room for what is new.
#[derive(Debug)]
pub struct Writer<W> {
    words: W,
    next: u64,
}

impl<W: Words> Writer<W> {
    /// Of words that nobody else writes. It goes on where an earlier one has stopped.
    pub fn new(words: W) -> Writer<W> {
        let next = words.load(HEAD);
        Writer { words, next }
    }

    #[inline]
    pub fn put(&mut self, event: &Event) {
        let at = place(self.next, self.words.records());
        // Whoever sees any of the new words sees afterwards that this is not the old record any more.
        self.words.store(at, 0);
        for (i, word) in event.words().into_iter().enumerate() {
            self.words.store(at + 1 + i, word);
        }
        self.next += 1;
        self.words.store(at, self.next);
        self.words.store(HEAD, self.next);
    }

    pub fn words(&self) -> &W {
        &self.words
    }
}

/// One that reads, from some moment on.
#[derive(Debug)]
pub struct Reader<W> {
    words: W,
    next: u64,
    lost: u64,
}

impl<W: Words> Reader<W> {
    /// From the next record on that will be written.
    pub fn from_now(words: W) -> Reader<W> {
        let next = words.load(HEAD);
        Reader { words, next, lost: 0 }
    }

    /// From the oldest record on that is still there.
    pub fn from_oldest(words: W) -> Reader<W> {
        let next = words.load(HEAD).saturating_sub(words.records());
        Reader { words, next, lost: 0 }
    }

    /// The next record, if it has been written. Those that were overwritten before are left out, and counted.
    pub fn take(&mut self) -> Option<Event> {
        loop {
            let head = self.words.load(HEAD);
            if self.next >= head {
                return None;
            }
            let oldest = head.saturating_sub(self.words.records());
            if self.next < oldest {
                self.lost += oldest - self.next;
                self.next = oldest;
            }
            let at = place(self.next, self.words.records());
            self.next += 1;
            if self.words.load(at) == self.next {
                let words = core::array::from_fn(|i| self.words.load(at + 1 + i));
                if self.words.load(at) == self.next {
                    return Some(Event::of_words(words));
                }
            }
            // Overwritten meanwhile.
            self.lost += 1;
        }
    }

    /// Records that this reader was too slow for.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    pub fn words(&self) -> &W {
        &self.words
    }
}
