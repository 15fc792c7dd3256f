//! The sequence lock of one record.

use crate::atomic::{AtomicU64, Ordering, fence};

/// How often a record is read anew. A writer is in the kernel with interrupts off, for a few dozen instructions; but the machine below may
/// take its processor away meanwhile.
const TRIES: u32 = 1 << 16;

/// Writes fixed words of a record. One writer at a time: who has the lock of the object that the record is about.
#[inline]
pub fn write(record: &[AtomicU64], change: impl FnOnce(&[AtomicU64])) {
    let Some(sequence) = record.first() else { return };
    let before = sequence.load(Ordering::Relaxed);
    sequence.store(before.wrapping_add(1), Ordering::Relaxed);
    // Nobody sees a word of what is written before it sees that something is.
    fence(Ordering::Release);
    change(record);
    sequence.store(before.wrapping_add(2), Ordering::Release);
}

/// Fixed words of a record from `first` on, in their order. For [`write`].
#[inline]
pub fn fields(record: &[AtomicU64], first: usize, words: &[u64]) {
    record.iter().skip(first).zip(words).for_each(|(word, value)| word.store(*value, Ordering::Relaxed));
}

/// A record, all fixed words of one moment. `None`: it is shorter, or was being written each time.
pub fn read<const N: usize>(record: &[AtomicU64]) -> Option<[u64; N]> {
    let words = record.get(..N)?;
    let sequence = words.first()?;
    for _ in 0..TRIES {
        let before = sequence.load(Ordering::Acquire);
        if before % 2 == 0 {
            let all = core::array::from_fn(|at| words[at].load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            if sequence.load(Ordering::Relaxed) == before && all[0] == before {
                return Some(all);
            }
        }
        pause();
    }
    None
}

#[cfg(not(test))]
fn pause() {
    core::hint::spin_loop();
}

#[cfg(test)]
fn pause() {
    shuttle::thread::yield_now();
}
