//! Whether the scheduler is told of accesses as they are: who makes one on purpose says beforehand what it will be.

use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::layout::GRANULE;
use musubi::abi::sched::event;
use musubi::rt::{sched, section, task};
use musubi::{Error, ended};

/// The section in which that stands: address, thread, text, cause, right, and the status to end with if all that is told.
const NAME: &str = "accesses to come";
/// The status if something is told otherwise.
const OTHERWISE: i32 = 12;

pub fn expected() -> Result<&'static [AtomicU64], Error> {
    let found = section::list().find(|one| ended::text(&one.name) == NAME).ok_or(Error::NotFound)?;
    sched::words(found.base)
}

/// Ends when it hears of that access.
pub fn hear(expected: &[AtomicU64], [kind, thread, address, b]: [u64; 4]) {
    let word = |n: usize| expected[n].load(Ordering::SeqCst);
    if kind as u32 != event::EXCEPTION || address == 0 || address != word(0) {
        return;
    }
    let told = [thread, b & !(GRANULE - 1), kind >> 32, b % GRANULE];
    task::exit(if told == [1, 2, 3, 4].map(word) { word(5) as i32 } else { OTHERWISE });
}
