//! What a plain call's callee asks of pointers: whether it and its caller may use what is there. The sections of the last answers are
//! remembered, so that a caller who passes the same memory again is not looked up again.

use super::may_each;
use crate::domain::Domain;
use crate::section::{Section, State, passers};
use crate::thread::{Inner, Thread};
use abi::gate::PASSED_FOR_WRITING;
use abi::layout::WINDOW_END;
use abi::section::kind;
use abi::{Error, Rights};
use acl::Seen;
use alloc::sync::Arc;

/// Addresses and lengths of what is passed; an empty one says nothing.
pub type Ranges = [(u64, u64); 3];

/// Of different sections one call passes two at most, mostly.
const KEPT: usize = 2;

/// What both may do with sections, as long as nothing changes there.
pub struct Passed {
    call: Call,
    sections: [Option<Known>; KEPT],
}

/// By which records the callee and its caller came to where they are, and the state of the thread's records: while that is the same, so are both.
#[derive(PartialEq, Eq)]
struct Call {
    depth: usize,
    callee: u64,
    caller: u64,
    changes: u64,
}

impl Call {
    #[inline(always)]
    fn on_top(inner: &Inner) -> Option<Call> {
        let depth = inner.gate.depth();
        let [callee, caller] = [depth, depth.checked_sub(1)?].map(|depth| inner.gate.frame(depth).record);
        Some(Call { depth, callee, caller, changes: inner.gate.changes() })
    }

    /// Whether it is still [`Call::on_top`].
    #[inline(always)]
    fn is_on_top(&self, inner: &Inner) -> bool {
        let gate = &inner.gate;
        gate.is_at(self.depth, self.callee) && gate.record_at(self.depth - 1) == self.caller && gate.changes() == self.changes
    }
}

struct Known {
    /// The section's list, and that it was as long.
    seen: Seen,
    base: u64,
    /// How much of it both may read, and how much write, too: all or nothing.
    len: [u64; 2],
}

fn asked(len: u64) -> (u64, Rights) {
    let rights = if len & PASSED_FOR_WRITING != 0 { Rights::READ | Rights::WRITE } else { Rights::READ };
    (len & !PASSED_FOR_WRITING, rights)
}

impl Known {
    #[inline(always)]
    fn allows(&self, address: u64, len: u64) -> bool {
        let there = self.len[usize::from(len & PASSED_FOR_WRITING != 0)];
        let offset = address.wrapping_sub(self.base);
        offset <= there && len & !PASSED_FOR_WRITING <= there - offset && self.seen.is_as_before()
    }
}

/// Whether it is known that both may; if not, nothing is.
#[inline(always)]
pub fn again(inner: &Inner, ranges: &Ranges) -> bool {
    let Some(passed) = &inner.passed else { return false };
    if !passed.call.is_on_top(inner) {
        return false;
    }
    let allows = |at: usize, address, len| passed.sections[at].as_ref().is_some_and(|known| known.allows(address, len));
    // Mostly they lie in sections in the order in which these were found.
    ranges.iter().enumerate().all(|(n, (address, len))| {
        let at = n % KEPT;
        let is_known = || allows(at, *address, *len) || (1..KEPT).any(|next| allows((at + next) % KEPT, *address, *len));
        *len == 0 || *len != PASSED_FOR_WRITING && is_known()
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
    // Of a call by another record: should this one be refused, it is not told the same without being noted again.
    thread.inner.lock().passed.take_if(|passed| passed.call != call);
    let mut noted = ranges.map(|_| None);
    for ((address, len), noted) in ranges.iter().zip(&mut noted).filter(|(range, _)| range.1 > 0) {
        let (len, rights) = asked(*len);
        // To write nothing is no question: a length that looks like that is somebody's own, and too long.
        if len == 0 {
            return Ok(0);
        }
        match may_be_passed(thread, &call, &[callee, &caller], (*address, len), rights)? {
            Noted::Not => return Ok(0),
            Noted::At(seen) => *noted = seen,
        }
    }
    let all = ranges.iter().zip(&noted);
    let mut known = all.filter_map(|((address, len), noted)| known(callee, &caller, *address, asked(*len).0, noted.as_ref()?));
    let found = [known.next(), known.next(), known.next()].into_iter().flatten();
    let inner = &mut *thread.inner.lock();
    let mut passed = match inner.passed.take() {
        Some(passed) if passed.call == call => passed,
        _ => Passed { call, sections: [const { None }; KEPT] },
    };
    passed.keep(found);
    inner.passed = Some(passed);
    Ok(1)
}

/// What has come of a question.
enum Noted {
    /// Not all may.
    Not,
    /// They may; and what the list of the first section was when it heard of the call.
    At(Option<Seen>),
}

/// Whether all may use what is there; each section knows of the call from now on: should it end, its addresses are nobody else's as long as this lasts.
fn may_be_passed(thread: &Thread, call: &Call, all: &[&Domain], (address, len): (u64, u64), rights: Rights) -> Result<Noted, Error> {
    // What lies in a window may be something else at the next moment: its personality says so, and may be the caller.
    if len > 0 && (address < WINDOW_END || all.iter().any(|domain| domain.in_window)) {
        return Ok(Noted::Not);
    }
    let (this, mut uncounted) = ((call.depth, call.callee), false);
    loop {
        let (mut refused, mut first) = (None, None);
        let mut notes = |section: &Arc<Section>, state: &mut State| {
            let noted = passers::note(state, thread, this, uncounted);
            first.get_or_insert_with(|| state.acl.seen());
            refused = noted.err().map(|why| (why, section.clone()));
            !state.deleted && refused.is_none()
        };
        let may = may_each(all, address, len, rights, &mut notes);
        match refused {
            None => return Ok(if may { Noted::At(first) } else { Noted::Not }),
            Some((Error::Busy, section)) => uncounted = passers::make_room(&section, thread, this)?,
            Some((why, _)) => return Err(why),
        }
    }
}

impl Passed {
    /// Each where the next call looks for it first: in the order in which they are passed.
    fn keep(&mut self, found: impl Iterator<Item = Known>) {
        let mut placed = [false; KEPT];
        for (n, known) in found.enumerate() {
            let is_same = |one: &Option<Known>| one.as_ref().is_some_and(|one| one.base == known.base);
            match self.sections.iter().position(is_same) {
                Some(at) if placed[at] => continue,
                Some(at) => self.sections[at] = None,
                None => {}
            }
            let at = (n..n + KEPT).map(|at| at % KEPT).find(|at| !placed[*at]).unwrap_or(n % KEPT);
            self.sections[at] = Some(known);
            placed[at] = true;
        }
    }
}

/// What both may do, if the whole range lies in one section whose list is all that decides. `noted`: what it was when it heard of the call. Since then somebody may have
/// begun to look for calls that are over, and may be about to forget this one, which might come back before that: then it is asked anew.
fn known(callee: &Domain, caller: &Domain, address: u64, len: u64, noted: &Seen) -> Option<Known> {
    if address < WINDOW_END || callee.in_window || caller.in_window {
        return None;
    }
    let section = Section::find(address)?;
    if address - section.base + len > section.reserve {
        return None;
    }
    let mut state = section.state.lock();
    if !noted.is_as_before() {
        return None;
    }
    let both_may = state.acl.rights(&callee.subject) & state.acl.rights(&caller.subject);
    // Once it goes its list says nothing more, and nobody is told of it either.
    let len = [Rights::READ, Rights::READ | Rights::WRITE].map(|rights| if both_may.contains(rights) { state.len } else { 0 });
    let found = Known { seen: state.acl.seen(), base: section.base, len };
    (!state.deleted && section.kind() != kind::TEXT).then_some(found)
}
