//! A scheduler names threads that are there and cannot be had: one that waits, or one that runs on another processor.

use board::Ready;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use musubi::Error;
use musubi::abi::calls::stub;
use musubi::abi::task::state;
use musubi::rt::{Trap, task, thread};

const PROCESSORS_MAX: usize = 64;
const THREADS: usize = 16;
/// Refusals after which it ends, with the status that says so; and the one if a name is not refused, or otherwise.
const ENOUGH: u32 = 20;
const ALL_REFUSED: i32 = 20;
const OTHERWISE: i32 = 4;

/// Whom the level of each processor has named, with the turn in the low half.
static NAMED: [[AtomicU64; THREADS]; PROCESSORS_MAX] =
    [const { [const { AtomicU64::new(0) }; THREADS] }; PROCESSORS_MAX];
static REFUSED: AtomicU32 = AtomicU32::new(0);

pub fn remember(processor: u64, next: Ready) {
    let of_processor = &NAMED[processor as usize % PROCESSORS_MAX];
    of_processor[next.thread as usize % THREADS].store(next.thread << 32 | next.turn & 0xffff_ffff, Ordering::Relaxed);
}

/// Names one that waits, or one that runs elsewhere.
pub fn unavailable(processor: u64, waits: bool) -> Result<(), Error> {
    let is_wanted = |number: u64| {
        thread::info(number).is_some_and(|info| match info.state {
            state::WAITING => waits,
            state::RUNNING => !waits && info.processor != processor,
            _ => false,
        })
    };
    let mut all = NAMED.iter().flatten().map(|one| one.load(Ordering::Relaxed)).filter(|one| *one != 0);
    let Some(one) = all.find(|one| is_wanted(one >> 32)) else { return Ok(()) };
    match stub::thread_next(&Trap, one >> 32, one & 0xffff_ffff, u64::MAX) {
        Err(Error::Changed) if REFUSED.fetch_add(1, Ordering::Relaxed) + 1 < ENOUGH => Ok(()),
        Err(Error::Changed) => task::exit(ALL_REFUSED),
        Err(Error::Busy) => Err(Error::Busy),
        _ => task::exit(OTHERWISE),
    }
}
