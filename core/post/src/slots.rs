//! Room for messages that nobody waits for: slots, of which each processor keeps some, so that taking one and giving it back
//! touches what no other processor does.

use crate::free::Chain;
use crate::message::Letter;
use crate::sync::{AtomicU32, Ordering, owned};
use alloc::boxed::Box;

/// Slots that go from a processor to all, or back, at once.
pub(crate) const BATCH: u32 = if cfg!(test) { 2 } else { 16 };

/// Most that a processor keeps.
pub(crate) const KEPT_MAX: u32 = 2 * BATCH;

/// A message in a queue, or room for one.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub letter: Letter,
    /// The next one of the queue, of the processor's or of the batch.
    pub next: owned::AtomicU32,
    /// Who pays. Of one that is free: the next batch, if it is the first of its own.
    pub account: AtomicU32,
    /// Of a message that comes again and again (notice.rs), one of its states.
    pub notice: owned::AtomicU32,
}

/// What one processor keeps; only it touches this, with interrupts off.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Kept {
    first: owned::AtomicU32,
    count: owned::AtomicU32,
}

#[derive(Debug)]
pub(crate) struct Slots {
    all: Box<[Slot]>,
    kept: Box<[Kept]>,
    /// Batches that all share.
    batches: Chain,
}

#[inline]
fn get(word: &owned::AtomicU32) -> u32 {
    word.load(Ordering::Relaxed)
}

#[inline]
fn set(word: &owned::AtomicU32, value: u32) {
    word.store(value, Ordering::Relaxed);
}

impl Slots {
    /// Room for `count` messages, and for what processors keep: so whoever may have a slot finds one (see [`Slots::take`]).
    pub fn new(count: u32, processors: usize) -> Slots {
        let total = (count + processors as u32 * KEPT_MAX).next_multiple_of(BATCH);
        let slots = Slots {
            all: (0..=total).map(|_| Slot::default()).collect(),
            kept: (0..processors).map(|_| Kept::default()).collect(),
            batches: Chain::default(),
        };
        for first in (1..=total).step_by(BATCH as usize) {
            (first..first + BATCH).for_each(|number| {
                let last = number == first + BATCH - 1;
                set(&slots.at(number).next, if last { 0 } else { number + 1 });
            });
            slots.batches.put(first, &slots.at(first).account);
        }
        slots
    }

    pub fn at(&self, number: u32) -> &Slot {
        &self.all[number as usize]
    }

    /// A slot for one who may have it: the accounts have seen to it that there are at least as many free ones as all
    /// processors keep, and one more. So if this one keeps none, there is a batch.
    pub fn take(&self, processor: usize) -> u32 {
        let kept = &self.kept[processor];
        let mut first = get(&kept.first);
        if first == 0 {
            let batch = self.batches.take(|first| &self.at(first).account);
            first = batch.expect("shares are promised within what there is");
            set(&kept.count, BATCH);
        }
        set(&kept.first, get(&self.at(first).next));
        set(&kept.count, get(&kept.count) - 1);
        first
    }

    /// Gives one back. To be done before its account is told. It is the next one that this processor takes, and until then nobody writes into it.
    pub fn give(&self, processor: usize, number: u32) {
        let kept = &self.kept[processor];
        if get(&kept.count) == KEPT_MAX {
            self.share(kept);
        }
        set(&self.at(number).next, get(&kept.first));
        set(&kept.first, number);
        set(&kept.count, get(&kept.count) + 1);
    }

    /// A processor that keeps too many shares a batch.
    #[cold]
    fn share(&self, kept: &Kept) {
        let first = get(&kept.first);
        let last = (1..BATCH).fold(first, |at, _| get(&self.at(at).next));
        set(&kept.first, get(&self.at(last).next));
        set(&kept.count, KEPT_MAX - BATCH);
        set(&self.at(last).next, 0);
        self.batches.put(first, &self.at(first).account);
    }
}
