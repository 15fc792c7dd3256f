//! What a plain call's callee asks of pointers: whether it and its caller may use what is there. The sections of the last answers are
//! remembered, so that a caller who passes the same memory again is not looked up again.

use super::may;
use crate::domain::Domain;
use crate::section::Section;
use crate::thread::{Inner, Thread};
use abi::gate::PASSED_FOR_WRITING;
use abi::layout::WINDOW_END;
use abi::section::kind;
use abi::{Error, Rights};
use alloc::sync::{Arc, Weak};

/// Addresses and lengths of what is passed; an empty one says nothing.
pub type Ranges = [(u64, u64); 3];

/// Of different sections one call passes two at most, mostly.
const KEPT: usize = 2;

/// What both may do with sections, as long as nothing changes there.
pub struct Passed {
    callee: Weak<Domain>,
    caller: Weak<Domain>,
    sections: [Option<Known>; KEPT],
    next: usize,
}

struct Known {
    section: Weak<Section>,
    base: u64,
    reserve: u64,
    /// Of the section's list.
    changes: u64,
    both_may: Rights,
}

fn asked(len: u64) -> (u64, Rights) {
    let rights = if len & PASSED_FOR_WRITING != 0 { Rights::READ | Rights::WRITE } else { Rights::READ };
    (len & !PASSED_FOR_WRITING, rights)
}

impl Known {
    /// Whether both may do so with the whole range. Nothing is waited for: the thread's lock is held, and who has the section's may want that.
    #[inline(always)]
    fn allows(&self, address: u64, len: u64, rights: Rights) -> bool {
        let offset = address.wrapping_sub(self.base);
        if offset >= self.reserve || !self.both_may.contains(rights) {
            return false;
        }
        let Some(section) = self.section.upgrade() else { return false };
        let Some(state) = section.state.try_lock() else { return false };
        let as_before = state.acl.changes() == self.changes && !state.deleted && section.kind() != kind::TEXT;
        as_before && offset.checked_add(len).is_some_and(|end| end <= state.len)
    }
}

impl Passed {
    #[inline(always)]
    fn is_of(&self, callee: &Arc<Domain>, caller: &Arc<Domain>) -> bool {
        self.callee.as_ptr() == Arc::as_ptr(callee) && self.caller.as_ptr() == Arc::as_ptr(caller)
    }
}

/// Whether it is known that both may; if not, nothing is.
#[inline(always)]
pub fn again(inner: &Inner, ranges: &Ranges) -> bool {
    let (Some(passed), Some(caller)) = (&inner.passed, inner.caller_here()) else { return false };
    passed.is_of(&inner.domain, caller)
        && ranges.iter().all(|(address, len)| {
            let (len, rights) = asked(*len);
            len == 0 || passed.sections.iter().flatten().any(|known| known.allows(*address, len, rights))
        })
}

/// 1 if a callee and its caller may both read, or also write, what is passed, otherwise 0.
///
/// # Errors
/// `NotFound`: nobody has called.
pub fn may_pass(thread: &Thread, callee: &Arc<Domain>, ranges: &Ranges) -> Result<u64, Error> {
    let caller = thread.inner.lock().caller().ok_or(Error::NotFound)?;
    for (address, len) in ranges {
        let (len, rights) = asked(*len);
        if len > 0 && !may(&[callee, &caller], *address, len, rights) {
            return Ok(0);
        }
    }
    for (address, len) in ranges.iter().filter(|range| range.1 > 0) {
        remember(thread, callee, &caller, *address, asked(*len).0);
    }
    Ok(1)
}

/// If the whole range lies in one section whose list is all that decides.
fn remember(thread: &Thread, callee: &Arc<Domain>, caller: &Arc<Domain>, address: u64, len: u64) {
    if address < WINDOW_END || callee.in_window || caller.in_window {
        return;
    }
    let Some(section) = Section::find(address) else { return };
    if address - section.base + len > section.reserve || section.kind() == kind::TEXT {
        return;
    }
    let known = {
        let state = section.state.lock();
        Known {
            section: Arc::downgrade(&section),
            base: section.base,
            reserve: section.reserve,
            changes: state.acl.changes(),
            both_may: state.acl.rights(&callee.subject) & state.acl.rights(&caller.subject),
        }
    };
    let inner = &mut *thread.inner.lock();
    let mut passed = match inner.passed.take() {
        Some(passed) if passed.is_of(callee, caller) => passed,
        _ => Passed { callee: Arc::downgrade(callee), caller: Arc::downgrade(caller), sections: [None, None], next: 0 },
    };
    let same = passed.sections.iter().position(|there| there.as_ref().is_some_and(|there| there.base == known.base));
    let at = same.unwrap_or(passed.next);
    passed.next = (at + 1) % KEPT;
    passed.sections[at] = Some(known);
    inner.passed = Some(passed);
}
