//! What a pager may itself have faults on (pitfalls, R4): pages of sections of lower levels only. So a chain of pagers ends, and a pager never
//! waits for a page that it is itself being asked for.

use abi::pager::{LEVEL_MAX, LEVEL_TASK};

/// A level that a section can be given: 0 is that of sections without a pager, whose pages are simply there.
#[must_use]
pub fn is_level(level: u64) -> bool {
    (1..=LEVEL_MAX).contains(&level)
}

/// Whether a thread that is being served by pagers of these levels, the innermost last, may have a fault on a section of `level`, or with
/// [`LEVEL_TASK`] one that goes to its task's pager.
#[must_use]
pub fn may_fault(innermost: Option<u64>, level: u64) -> bool {
    debug_assert!(level <= LEVEL_TASK);
    innermost.is_none_or(|above| level < above)
}
