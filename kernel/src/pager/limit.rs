//! A pager that does not come back is taken off the thread (SSS-57). Whom it has called has the time of a killed caller's callee before that.

use crate::epc;
use crate::fault::{self, Time};
use crate::machine::{Reached, machine};
use crate::processor::{Processor, here};
use crate::sched::{self, Timeout};
use crate::thread::{Inner, Thread};
use abi::Error;
use abi::pager::TIME_NS;
use ::sched::Phase;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How often somebody has looked whether pagers take too long; from 1 on.
static LOOKS: AtomicU64 = AtomicU64::new(1);
/// Somebody will.
static AWAITED: AtomicBool = AtomicBool::new(false);

/// Of a thread that pagers serve.
#[derive(Default)]
pub struct Standing {
    /// [`LOOKS`] when the innermost pager was called; 0: none.
    since: AtomicU64,
    overdue: AtomicBool,
}

impl Standing {
    /// A pager is called. What is to be said at its end.
    #[inline(always)]
    pub fn begin(&self) -> u64 {
        let outer = self.since.load(Ordering::Relaxed);
        self.since.store(LOOKS.load(Ordering::Relaxed), Ordering::SeqCst);
        if !AWAITED.load(Ordering::SeqCst) {
            await_look();
        }
        outer
    }

    #[inline]
    pub fn end(&self, outer: u64) {
        self.since.store(outer, Ordering::Relaxed);
        if self.is_overdue() {
            self.overdue.store(false, Ordering::Relaxed);
        }
    }

    #[inline]
    pub fn is_overdue(&self) -> bool {
        self.overdue.load(Ordering::Relaxed)
    }
}

#[inline(never)]
fn await_look() {
    if !AWAITED.swap(true, Ordering::SeqCst) {
        sched::at(arch::time::now() + TIME_NS, Timeout::Pagers(Round::default()));
    }
}

/// All threads are looked at once, some at a time.
#[derive(Default)]
pub struct Round {
    /// [`LOOKS`], when it has begun.
    looks: Option<u64>,
    reached: Reached,
}

/// Threads that are looked at in one interrupt.
const AT_ONCE: usize = 64;

/// Looks at all of them: between one and two times the limit after its call a pager is over its time.
pub fn look(mut round: Round) {
    let looks = *round.looks.get_or_insert_with(|| {
        let looks = LOOKS.fetch_add(1, Ordering::SeqCst) + 1;
        AWAITED.store(false, Ordering::SeqCst);
        looks
    });
    for _ in 0..AT_ONCE {
        let Some(thread) = machine().threads.next(&mut round.reached) else { return };
        if thread.served.since.load(Ordering::SeqCst) == 0 {
            continue;
        }
        await_look();
        if find_late(&thread, looks).is_some() {
            overdue(&thread);
        }
    }
    sched::at(arch::time::now(), Timeout::Pagers(round));
}

/// Whether a pager that was called at such a look is over its time at this one. (Another round may have begun meanwhile, and a pager been called since.)
fn is_late(since: u64, looks: u64) -> bool {
    since != 0 && looks.saturating_sub(since) >= 2
}

/// Of a thread with a pager that is over its time.
#[derive(PartialEq)]
enum Late {
    /// It executes such a pager.
    Inside,
    /// It executes somebody whom one has called, who has his time by now: then that pager is left, too. How deep the innermost of them is.
    Beyond(usize),
}

/// Looks at all pagers that serve the thread: one that is called again and again by a pager, or by whom that has called, does not keep that one young.
fn find_late(thread: &Arc<Thread>, looks: u64) -> Option<Late> {
    // Before the lock of its inner part: whoever wakes it takes that within the one that this takes.
    let began = Time::of(thread);
    let inner = &mut *thread.inner.lock();
    inner.sync();
    let top = inner.depth();
    let mut since = thread.served.since.load(Ordering::SeqCst);
    let (mut outermost, mut innermost) = (None, None);
    for (depth, outer) in pagers(inner) {
        if is_late(since, looks) {
            outermost = Some(depth);
            innermost = innermost.or(outermost);
        }
        since = outer;
    }
    let (outermost, innermost) = (outermost?, innermost?);
    if outermost < top {
        fault::pager_is_late(thread, inner, outermost, began);
    }
    Some(if innermost == top { Late::Inside } else { Late::Beyond(innermost) })
}

/// The calls of pagers that a thread is in, innermost first: how deep, and what [`Standing::begin`] has said.
fn pagers(inner: &Inner) -> impl Iterator<Item = (usize, u64)> + '_ {
    let by_long_way = inner.more.iter().rev().filter_map(|(depth, more)| Some((*depth, more.served()?.outer)));
    // Nobody comes to one by the short way while there is anything else.
    by_long_way.chain(inner.asked.as_ref().and_then(|asked| asked.serving()))
}

/// Has it looked at, wherever it is. If its pager waits, it waits no longer.
fn overdue(thread: &Arc<Thread>) {
    thread.served.overdue.store(true, Ordering::SeqCst);
    let ticket = {
        let wait = thread.wait.lock();
        (wait.life.phase() == Phase::Waiting).then_some(wait.ticket)
    };
    match ticket {
        // (Of the pager that is called by now, which may be another.)
        Some(ticket) if find_late(thread, LOOKS.load(Ordering::SeqCst)) == Some(Late::Inside) => {
            sched::wake(thread, ticket, Err(Error::TimedOut));
        }
        Some(_) => {}
        None => machine().processors.iter().for_each(Processor::look_around),
    }
}

/// On the way out of the kernel, of the running thread: a pager that is over its time is left. Whether it has to be looked at again.
pub fn attend(thread: &Arc<Thread>) -> bool {
    if !thread.served.is_overdue() {
        return false;
    }
    if thread.wait.lock().life.runs_at(here().index) {
        match find_late(thread, LOOKS.load(Ordering::SeqCst)) {
            // That was another pager, which has come back just as it was found to be late.
            None => thread.served.overdue.store(false, Ordering::Relaxed),
            Some(Late::Inside) => _ = epc::unwind(thread, Error::TimedOut),
            // (It may have called just now, without the kernel.) It comes back by the kernel: by the gate it could call again and again.
            Some(Late::Beyond(depth)) => thread.inner.lock().leave_by_kernel(depth + 1),
        }
    }
    thread.served.is_overdue()
}
