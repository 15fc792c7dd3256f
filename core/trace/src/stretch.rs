//! How long a processor stays in the kernel at a stretch.

use crate::Words;
use abi::trace::{HANDLERS, handler};

/// The stretch that a processor is in.
#[derive(Debug, Default)]
pub struct Stretch {
    /// By which way it came, when (ticks), and in which round of measuring.
    began: Option<(u64, u64, u64)>,
}

impl Stretch {
    /// It begins. (One that began before has ended where nobody looked.)
    pub fn begin(&mut self, handler: u64, now: u64, round: u64) {
        self.began = Some((handler, now, round));
    }

    /// Whether one has begun and not ended.
    pub fn is_on(&self) -> bool {
        self.began.is_some()
    }

    /// It ends. Its handler and length, if it has begun in the same round: what was begun before the trace was switched off and on again is
    /// not one stretch.
    pub fn end(&mut self, now: u64, round: u64) -> Option<(u64, u64)> {
        let (handler, began, of) = self.began.take()?;
        (of == round).then(|| (handler, now.saturating_sub(began)))
    }
}

fn place(handler: u64) -> usize {
    HANDLERS + (handler as usize % handler::COUNT) * 2
}

/// Notes a stretch of this handler's.
pub fn note(words: &impl Words, handler: u64, ticks: u64) {
    let at = place(handler);
    if words.load(at) < ticks {
        words.store(at, ticks);
    }
    words.store(at + 1, words.load(at + 1) + 1);
}

/// The longest stretch of this handler's, in ticks, and how many there were.
pub fn longest(words: &impl Words, handler: u64) -> (u64, u64) {
    let at = place(handler);
    (words.load(at), words.load(at + 1))
}
