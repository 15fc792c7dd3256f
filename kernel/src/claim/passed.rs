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
    call: Call,
    sections: [Option<Known>; KEPT],
    next: usize,
}

/// By which records the callee and its caller came to where they are, and the state of the thread's records: while that is the same, so are both.
#[derive(PartialEq, Eq)]
struct Call {
    callee: u64,
    caller: u64,
    changes: u64,
}

impl Call {
    #[inline(always)]
    fn on_top(inner: &Inner) -> Option<Call> {
        let depth = inner.gate.depth();
        let [callee, caller] = [depth, depth.checked_sub(1)?].map(|depth| inner.gate.frame(depth).record);
        Some(Call { callee, caller, changes: inner.gate.changes() })
    }
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
    /// How long the section is, if nothing has changed there; otherwise 0. Nothing is waited for: the thread's lock is held, and who has the section's
    /// may want that.
    #[inline(always)]
    fn len(&self) -> u64 {
        let Some(section) = self.section.upgrade() else { return 0 };
        let Some(state) = section.state.try_lock() else { return 0 };
        let as_before = state.acl.changes() == self.changes && !state.deleted && section.kind() != kind::TEXT;
        if as_before { state.len } else { 0 }
    }
}

/// Whether it is known that both may; if not, nothing is.
#[inline(always)]
pub fn again(inner: &Inner, ranges: &Ranges) -> bool {
    let Some(passed) = &inner.passed else { return false };
    if Call::on_top(inner).is_none_or(|call| call != passed.call) {
        return false;
    }
    // Of each section once, however many of the ranges lie there.
    let mut lens = [None; KEPT];
    ranges.iter().all(|(address, len)| {
        let (len, rights) = asked(*len);
        let allows = |(known, there): (&Option<Known>, &mut Option<u64>)| {
            let Some(known) = known else { return false };
            let offset = address.wrapping_sub(known.base);
            if offset >= known.reserve || !known.both_may.contains(rights) {
                return false;
            }
            let end = offset.checked_add(len);
            end.is_some_and(|end| end <= *there.get_or_insert_with(|| known.len()))
        };
        len == 0 || passed.sections.iter().zip(&mut lens).any(allows)
    })
}

/// 1 if a callee and its caller may both read, or also write, what is passed, otherwise 0.
///
/// # Errors
/// `NotFound`: nobody has called.
pub fn may_pass(thread: &Thread, callee: &Domain, ranges: &Ranges) -> Result<u64, Error> {
    let (caller, call) = {
        let inner = thread.inner.lock();
        (inner.caller().ok_or(Error::NotFound)?, Call::on_top(&inner).ok_or(Error::NotFound)?)
    };
    for (address, len) in ranges {
        let (len, rights) = asked(*len);
        if len > 0 && !may(&[callee, &caller], *address, len, rights) {
            return Ok(0);
        }
    }
    let mut known = ranges.iter().filter(|range| range.1 > 0).filter_map(|(address, len)| known(callee, &caller, *address, asked(*len).0));
    let found = [known.next(), known.next(), known.next()].into_iter().flatten();
    let inner = &mut *thread.inner.lock();
    let mut passed = match inner.passed.take() {
        Some(passed) if passed.call == call => passed,
        _ => Passed { call, sections: [const { None }; KEPT], next: 0 },
    };
    found.for_each(|known| passed.keep(known));
    inner.passed = Some(passed);
    Ok(1)
}

impl Passed {
    fn keep(&mut self, known: Known) {
        let same = self.sections.iter().position(|there| there.as_ref().is_some_and(|there| there.base == known.base));
        let at = same.unwrap_or(self.next);
        self.next = (at + 1) % KEPT;
        self.sections[at] = Some(known);
    }
}

/// What both may do, if the whole range lies in one section whose list is all that decides.
fn known(callee: &Domain, caller: &Domain, address: u64, len: u64) -> Option<Known> {
    if address < WINDOW_END || callee.in_window || caller.in_window {
        return None;
    }
    let section = Section::find(address)?;
    if address - section.base + len > section.reserve || section.kind() == kind::TEXT {
        return None;
    }
    let state = section.state.lock();
    Some(Known {
        section: Arc::downgrade(&section),
        base: section.base,
        reserve: section.reserve,
        changes: state.acl.changes(),
        both_may: state.acl.rights(&callee.subject) & state.acl.rights(&caller.subject),
    })
}
