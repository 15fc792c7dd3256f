//! Pages of programs' memory that the kernel has missed in a call, for each processor.

use crate::processor::here;
use abi::layout::PAGE;
use core::sync::atomic::Ordering;

/// The kernel has missed a page of a program's memory that a pager might supply: the call that needs it may be made again.
#[cold]
pub fn note(address: u64, write: bool) {
    let here = here();
    here.absent.store(address & !(PAGE - 1) | u64::from(write) << 1 | 1, Ordering::Relaxed);
    here.absent_at.store(here.counters.entries.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// What was noted since the kernel was entered here: what somebody else has missed before is not this call's. (Where nothing is told, entries are not counted
/// either, and it may be: in the kernel that is there to be compared with alone.)
#[cold]
pub fn noted_since_entry() -> Option<(u64, bool)> {
    let here = here();
    let at = here.absent_at.load(Ordering::Relaxed);
    noted().filter(|_| at == here.counters.entries.load(Ordering::Relaxed))
}

/// What was noted since the last time.
#[inline]
pub fn noted() -> Option<(u64, bool)> {
    let absent = &here().absent;
    let word = absent.load(Ordering::Relaxed);
    if word == 0 {
        return None;
    }
    absent.store(0, Ordering::Relaxed);
    Some((word & !(PAGE - 1), word & 2 != 0))
}
