//! What the kernel records of each processor (`abi::trace`), read without a call.

use abi::calls::stub;
use abi::trace::{HEAD, ON, STEP, handler};
use abi::{Error, Rights};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use trace::Reader;

use crate::{Trap, info, section, task};

/// Switches the record of one processor on or off. User 0 only. Value: base of the section; 0: there is none yet.
///
/// # Errors
/// `NotFound`: there is no such processor; `Denied`: not the system's; `NoMemory`.
pub fn switch(processor: u64, on: bool) -> Result<u64, Error> {
    stub::trace_set(&Trap, processor, on.into())
}

/// The section, as this program sees it.
#[derive(Clone, Debug)]
pub struct Trace {
    parts: Vec<&'static [AtomicU64]>,
}

impl Trace {
    /// As the info section says where it is.
    ///
    /// # Errors
    /// `NotFound`: nobody has switched it on since boot; `Denied`, with what is missing: this program may not read it.
    pub fn look() -> Result<Trace, Error> {
        let base = info::all()?.machine().trace;
        if base == 0 {
            return Err(Error::NotFound);
        }
        let processors = task::processors().count() as u64;
        if !section::may(base, processors * STEP, Rights::READ, section::Who::Own) {
            return Err(section::why_not(base, Rights::READ));
        }
        // SAFETY: the kernel says that this domain may read all of it, it is never deleted, and whatever is there is a valid word. Only loads
        // are made of it. (If the right is taken back a load is a fault of this program's.)
        let part = |index: u64| unsafe {
            core::slice::from_raw_parts((base + index * STEP) as *const AtomicU64, STEP as usize / 8)
        };
        Ok(Trace { parts: (0..processors).map(part).collect() })
    }

    /// Whether a processor's record is written.
    #[must_use]
    pub fn is_on(&self, processor: usize) -> bool {
        self.parts.get(processor).is_some_and(|part| part[ON].load(Ordering::Acquire) != 0)
    }

    /// How many records each processor has written since boot.
    pub fn written(&self) -> impl Iterator<Item = u64> {
        self.parts.iter().map(|part| part[HEAD].load(Ordering::Acquire))
    }

    /// A reader for each processor, from now on.
    #[must_use]
    pub fn from_now(&self) -> Vec<Reader<&'static [AtomicU64]>> {
        self.parts.iter().map(|part| Reader::from_now(*part)).collect()
    }

    /// A reader for each processor, from the oldest record on that is left.
    #[must_use]
    pub fn from_oldest(&self) -> Vec<Reader<&'static [AtomicU64]>> {
        self.parts.iter().map(|part| Reader::from_oldest(*part)).collect()
    }

    /// For each way into the kernel by which somebody has come while it was on: the longest time with interrupts off at a stretch, in ticks
    /// of the time-stamp counter, and how often, on all processors.
    pub fn handlers(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        (0..handler::COUNT as u64).filter_map(|handler| {
            let all = self.parts.iter().map(|part| trace::longest(part, handler));
            let (longest, times) = all.fold((0, 0), |(a, b), (longest, times)| (a.max(longest), b + times));
            (times > 0).then_some((handler, longest, times))
        })
    }
}
