//! The last steps out of the kernel: until when the thread may run, and with what it goes on.

use crate::place;
use crate::post;
use crate::processor::{Local, Processor};
use crate::secret;
use crate::thread::Thread;
use crate::trace;
use ::sched::BEAT_NS;
use alloc::sync::Arc;
use arch::context::{Area, Resume};
use arch::{cpu, log_out, time};
use core::sync::atomic::Ordering;

/// Leaves the kernel as the running thread, after looking around.
pub(super) fn go(here: &Processor, thread: &Arc<Thread>) -> Resume {
    // It may have been told in the middle of what it has done.
    post::put_by::settle(here);
    let now = time::now();
    // A killed one may be back, or in a callback, without the kernel.
    let grace = thread.is_killed().then(|| now + thread.grace_left(now).min(BEAT_NS)).or_else(|| thread.served.is_overdue().then_some(now + BEAT_NS));
    // Likewise one that is late with a fault, and in the system's text yet.
    let grace = grace.or_else(|| thread.is_late.load(Ordering::SeqCst).then_some(now + BEAT_NS));
    let grace = grace.or_else(|| thread.due.looks_in().map(|ns| now + ns));
    // Called back before it has put itself aside: the short way would not see that.
    let is_called_back = here.office.is_taken() && thread.wait.lock().woken && here.office.is_of(&thread.domain().text);
    if grace.is_some() || is_called_back {
        // On each way out from now on: the callee may have returned.
        here.attend();
    }
    let also = if here.office.is_taken() {
        let limit = if here.office.is_holder(here, thread) {
            here.local.hold().beat
        } else if here.is_to_make_room() {
            here.office.spares_until(now)
        } else {
            here.office.looks_at()
        };
        [grace, (limit != u64::MAX).then_some(limit)].into_iter().flatten().min()
    } else {
        grace
    };
    set_alarm(here, [also, place::looks_at(here)].into_iter().flatten().min());
    trace::leaves(here, thread);
    post::goes_on(here, thread);
    go_on_by(here, &mut here.local.hold(), Area::resume_as_left)
}

/// Leaves the kernel as the running thread: its view, its segment bases, its registers.
#[inline]
pub fn go_on(here: &Processor, local: &mut Local) -> Resume {
    go_on_by(here, local, Area::resume)
}

#[inline(always)]
fn go_on_by(here: &Processor, local: &mut Local, resume: impl FnOnce(&mut Area, bool) -> Resume) -> Resume {
    let Local { current, keep, segments, secret, .. } = local;
    let thread = current.as_ref().expect("user code runs on a thread");
    let inner = &mut *thread.inner.lock();
    secret::goes_on(here, secret, &inner.domain);
    inner.gate.activate();
    thread.card.leaves(&inner.area, &inner.gate);
    arch::gate::load_root(inner.domain.root());
    arch::gate::set_register(inner.register);
    *keep = None;
    let wanted = if inner.domain.in_window { inner.segments } else { (0, 0) };
    if *segments != wanted {
        *segments = wanted;
        cpu::set_segment_bases(wanted.0, wanted.1);
    }
    let resume = resume(&mut inner.area, inner.domain.supervisor);
    here.enter_user();
    resume
}

/// Programs the timer for what comes first: a time-out, the end of the quantum if somebody waits, or `also`.
pub(super) fn set_alarm(here: &Processor, also: Option<u64>) {
    let turn_ends = || {
        let local = here.local.hold();
        local.current.is_some().then_some(local.quantum_end)
    };
    let quantum = if here.queue.is_empty() { None } else { turn_ends() };
    let alarm = [here.next_timer(), quantum, also, log_out::looks_at()].into_iter().flatten().min();
    // Where a scheduler decides, every switch would set it: an alarm that comes too early only looks and sets the next one.
    let early = here.office.is_taken() && matches!((here.alarm(), alarm), (Some(set), Some(wanted)) if set <= wanted);
    if !early {
        here.set_alarm(alarm);
    }
}
