//! Threads that are in a call of a text that has ended, or of a pager that takes too long: who called that hears of it in bounded time, whatever
//! the programs do that it has called. They have the time that a killed caller's callee has (docs/decisions/0004, 0016).

use super::own::{self, Time};
use crate::domain::Domain;
use crate::processor::here;
use crate::section::Section;
use crate::thread::{Inner, Thread};
use abi::Error;
use abi::task::{CALLEE_GRACE_NS, CALLEE_TIME_SYSTEM_NS, USER_SYSTEM};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

/// Calls of a thread whose text has ended, and those of pagers that are over their time, outermost first.
#[derive(Default)]
pub struct Bereft(Vec<Call>);

struct Call {
    depth: usize,
    began: Time,
    is_late: bool,
    /// What there is to be heard: `Dead`; of a pager `TimedOut`.
    error: Error,
}

impl Bereft {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn note(&mut self, depth: usize, began: Time, error: Error) {
        if let Err(at) = self.0.binary_search_by_key(&depth, |call| call.depth) {
            self.0.insert(at, Call { depth, began, is_late: false, error });
        }
    }

    /// The calls deeper than this are over. Who comes back to one of these is looked at on the way out: a pager that is over its time is left there.
    pub fn forget(&mut self, depth: usize) {
        self.0.retain(|call| call.depth <= depth);
        if self.0.last().is_some_and(|call| call.depth == depth) {
            here().attend();
        }
    }

    /// Marks those that have had their time. In how many ns to look again; 0: one has.
    pub fn look(&mut self, time: Time, waits: bool, in_system: bool) -> Option<u64> {
        self.0.iter_mut().map(|call| {
            let left = if in_system {
                // The clock alone does not end a call in the system's text: it may hold a lock of everybody's.
                let ran = time.ran.saturating_sub(call.began.ran);
                let by_clock = (call.began.now + CALLEE_GRACE_NS).saturating_sub(time.now);
                by_clock.max(CALLEE_TIME_SYSTEM_NS.saturating_sub(ran)).min(CALLEE_GRACE_NS)
            } else {
                time.left_of(call.began, waits)
            };
            call.is_late |= left == 0;
            left
        }).min()
    }

    /// Whether the time of one is over by the clock alone.
    pub fn is_overdue(&self, now: u64) -> bool {
        self.0.iter().any(|call| now >= call.began.now + CALLEE_GRACE_NS)
    }

    /// The outermost that has had its time: how deep it is, since when, and what is heard of it.
    pub fn late(&self) -> Option<(usize, Time, Error)> {
        self.0.iter().find(|call| call.is_late).map(|call| (call.depth, call.began, call.error))
    }
}

/// Whether the thread executes a text of the system's.
pub fn is_in_system(thread: &Thread) -> bool {
    thread.domain().text.owner().user == USER_SYSTEM
}

/// Whether what it executes was called from a text of the system's.
pub fn is_called_by_system(thread: &Thread) -> bool {
    let caller = thread.inner.lock().caller();
    caller.is_some_and(|domain| domain.text.owner().user == USER_SYSTEM)
}

/// A text has ended. If the thread is in calls of it, what these have called has its time from now on. (Who is on top of the stack falls
/// out by itself; nobody waits for a thread's own program, which is not called.) Whether it is in any.
pub fn text_ended(thread: &Arc<Thread>, text: &Section) -> bool {
    if !thread.inner.lock().numbers.contains_key(&text.base) {
        return false;
    }
    // Before the lock of its inner part: whoever wakes it takes that within the one that this takes.
    let began = Time::of(thread);
    let inner = &mut *thread.inner.lock();
    let is_inside = (1..=inner.depth()).any(|depth| is_ended(inner, depth, text));
    if is_inside {
        thread.falls.store(true, Ordering::SeqCst);
        // It is woken by the long way only.
        thread.card.do_not_lie();
    }
    for depth in 1..inner.depth() {
        if is_ended(inner, depth, text) {
            inner.bereft.note(depth, began, Error::Dead);
        }
    }
    if !inner.bereft.0.is_empty() {
        own::look_later(thread, began.now);
    }
    is_inside
}

/// The pager of this depth is over its time, and has called somebody: what it has called has its time from now on (`began`), then the pager is left.
/// Call with the lock of the inner part, but `began` is from before that.
pub fn pager_is_late(thread: &Arc<Thread>, inner: &mut Inner, depth: usize, began: Time) {
    inner.bereft.note(depth, began, Error::TimedOut);
    own::look_later(thread, began.now);
}

/// A thread that is in calls of texts that have ended is about to go on in user code: not in one of these, where another text may lie by
/// then; and not by the gate, when what they have called returns.
pub fn fall(thread: &Arc<Thread>) {
    if !thread.wait.lock().life.runs_at(here().index) {
        // When it goes on: until then, whoever has woken it writes what it is told.
        return;
    }
    thread.falls.store(false, Ordering::SeqCst);
    let domain = thread.domain();
    let is_on_top = thread.inner.lock().depth() > 0 && domain.text.is_dead();
    if is_on_top {
        super::ended(thread, &domain);
    }
    let began = Time::of(thread);
    let inner = &mut *thread.inner.lock();
    for depth in 1..inner.depth() {
        if domain_at(inner, depth).is_some_and(|domain| domain.text.is_dead()) {
            inner.leave_by_kernel(depth + 1);
            // It may have been on top when the text ended, and about to call.
            inner.bereft.note(depth, began, Error::Dead);
        }
    }
    if !inner.bereft.0.is_empty() {
        own::look_later(thread, began.now);
    }
}

fn is_ended(inner: &Inner, depth: usize, text: &Section) -> bool {
    domain_at(inner, depth).is_some_and(|domain| core::ptr::eq(&*domain.text, text))
}

/// Where the call of this depth is executed.
fn domain_at(inner: &Inner, depth: usize) -> Option<Arc<Domain>> {
    let record = inner.gate.record(inner.gate.frame(depth).record);
    record.and_then(|record| inner.domain_number(record.domain).ok())
}
