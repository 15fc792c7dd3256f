//! A text's own fault entry (pitfalls, H8): a callee that is deprived of its caller's memory in the middle of an update can put
//! its data in order, instead of being taken off the stack with its locks held.

use super::bereft;
use crate::claim;
use crate::domain::Domain;
use crate::epc;
use crate::frame;
use crate::machine::{machine, spare_heap_at_all};
use crate::pass;
use crate::processor::Processor;
use crate::sched::{self, Timeout};
use crate::seat;
use crate::section::Section;
use crate::thread::{Inner, Thread};
use abi::Error;
use abi::frame::{Frame as Stopped, reason, wants};
use abi::gate::record;
use abi::layout::SPACE_END;
use abi::task::{CALLEE_GRACE_NS, CALLEE_TIME_NS, CALLEE_TIME_SYSTEM_NS, CALLEE_TURNS, Exit};
use ::sched::Phase;
use alloc::sync::Arc;
use arch::context::Registers;
use arch::time;
use core::sync::atomic::Ordering;
use zerocopy::IntoBytes;

/// A fault that its text is dealing with: in this call, and the frame that the text was given.
#[derive(Clone, Copy)]
pub struct Handled {
    call: Call,
    frame: u64,
    how: Exit,
    began: Time,
    is_late: bool,
}

/// What a thread has had: the clock, its own time, its turns.
#[derive(Clone, Copy)]
pub struct Time {
    pub(super) now: u64,
    pub(super) ran: u64,
    turn: u64,
}

impl Time {
    pub fn of(thread: &Thread) -> Time {
        let turn = thread.wait.lock().life.turn();
        Time { now: time::now(), ran: thread.ran(), turn }
    }

    /// In how many ns a fault of then is to be looked at again; 0: it has had its time. As for a killed caller's callee, the clock alone
    /// does not say so: on a busy machine the thread may not have run at all. One that waits has nothing that keeps it from running.
    pub(super) fn left_of(self, then: Time, waits: bool) -> u64 {
        let had = waits || self.ran >= then.ran + CALLEE_TIME_NS || self.turn >= then.turn + CALLEE_TURNS;
        let by_clock = (then.now + CALLEE_GRACE_NS).saturating_sub(self.now);
        if had { by_clock } else { by_clock.max(CALLEE_TIME_NS) }
    }
}

/// Which call it is. Whoever leaves a call in which there was a fault does it through the kernel ([`Inner::leave_by_kernel`]), which
/// forgets the fault then: what a program leaves unfinished is nobody else's.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Call {
    depth: usize,
    record: u64,
}

impl Inner {
    fn call(&self) -> Call {
        let depth = self.depth();
        Call { depth, record: self.gate.frame(depth).record }
    }

    /// Whether there is nothing to be forgotten when a call is over.
    pub fn has_no_faults(&self) -> bool {
        self.handled.is_empty() && self.bereft.is_empty()
    }

    /// The calls deeper than this have ended.
    pub fn forget_handled(&mut self, depth: usize) {
        self.handled.retain(|one| one.call.depth <= depth);
        self.bereft.forget(depth);
    }
}

/// What a text wants, beside the address of its entry.
const WANTS_ALIGNMENT: u64 = 1 << 63;

/// `fault_entry`.
pub fn set(domain: &Domain, entry: u64, wanted: u64) -> Result<u64, Error> {
    if domain.in_window {
        return Err(Error::NotSupported);
    }
    if entry >= SPACE_END {
        return Err(Error::BadAddress);
    }
    if wanted & !wants::ALIGNMENT != 0 {
        return Err(Error::BadArgument);
    }
    let wanted = if wanted == 0 { 0 } else { WANTS_ALIGNMENT };
    let text = &domain.text;
    let before = text.fault_entry.swap(entry | wanted, Ordering::SeqCst);
    if (before ^ wanted) & WANTS_ALIGNMENT != 0 {
        // By another way from now on: who calls it, and whom it calls.
        text.changed();
        let all = text.bindings.lock().len();
        for number in 0..all {
            let binding = text.bindings.lock().get(number).cloned().flatten();
            if let Some(binding) = binding {
                binding.target.unbound(text, number as u64);
                sched::breathe();
            }
        }
    }
    Ok(0)
}

/// Whether the flags that others leave mean something to this text. The gate leaves AC as it is, so it neither calls nor is called without the kernel.
pub fn heeds_flags(text: &Section) -> bool {
    text.fault_entry.load(Ordering::SeqCst) & WANTS_ALIGNMENT != 0
}

/// Whether it is to hear of accesses that are not aligned. A program of another system is, as it is there.
pub fn wants_alignment(domain: &Domain) -> bool {
    domain.in_window || domain.text.fault_entry.load(Ordering::Acquire) & WANTS_ALIGNMENT != 0
}

/// Lets the text deal with it. Whether it does.
pub fn deliver(thread: &Arc<Thread>, domain: &Domain, how: &Exit) -> bool {
    let entry = domain.text.fault_entry.load(Ordering::Acquire) & !WANTS_ALIGNMENT;
    if entry == 0 || domain.in_window || thread.is_killed() && thread.may_end() {
        return false;
    }
    let is_short = spare_heap_at_all(&domain.text).is_err();
    let (call, r, place) = {
        let inner = &mut *thread.inner.lock();
        let (call, r) = (inner.call(), *inner.area.registers());
        // A call is entered once, and the others of its depth are over.
        let before = inner.handled.pop_if(|one| one.call.depth == call.depth).filter(|one| one.call == call);
        if is_short && inner.handled.len() == inner.handled.capacity() {
            // It is not written down that the text deals with it.
            return false;
        }
        let frame = inner.gate.frame(call.depth);
        let on_callers = inner.gate.record(frame.record).is_some_and(|record| record.flags & record::CALLER_STACK != 0);
        let in_entry = before.is_some_and(|one| on_callers || r.rsp <= one.frame);
        // On the caller's stack the caller decides what can be written; what the callee does about it, it does on its own, where
        // it would have been entered.
        let below = if on_callers { frame.sp } else { r.rsp };
        (call, r, (!in_entry).then(|| frame_address(below)))
    };
    let Some(at) = place else {
        // In its entry.
        return false;
    };
    let right = how.right;
    // Of an access a right is missing, of an instruction none.
    let why = if right == 0 { reason::EXCEPTION } else { reason::FAULT };
    let (task, number) = (thread.task.number, thread.number);
    let frame = Stopped { reason: why, address: how.address, right, task, thread: number, cause: how.cause, code: how.code, ..frame::of(&r) };
    // Written with the domain's own rights; nowhere else than on its own stack, wherever the program has its stack pointer.
    let (base, top) = domain.stack;
    let on_stack = at.checked_sub(8).is_some_and(|low| base != 0 && (base..top).contains(&low)) && at + size_of::<Stopped>() as u64 <= top;
    if !on_stack || claim::wait_and_write(domain, at, frame.as_bytes()).is_err() || claim::wait_and_write(domain, at - 8, &[0; 8]).is_err() {
        return false;
    }
    let began = Time::of(thread);
    let inner = &mut *thread.inner.lock();
    inner.leave_by_kernel(call.depth);
    inner.handled.push(Handled { call, frame: at, how: *how, began, is_late: false });
    *inner.area.registers_mut() = Registers { rdi: at, ..Registers::start(entry, at - 8) };
    // In its own program, outside any call, nobody waits for it.
    if call.depth > 0 {
        look_later(thread, began.now);
    }
    true
}

/// Some time ago a text has begun to deal with a fault of this thread's, or one that it has called from has ended, or is a pager's and late. Who is still at it, in a
/// call, has had its time: the call ends as without an entry ([`end_late`]).
pub fn look_at(thread: &Arc<Thread>) {
    let (time, waiting) = (Time::of(thread), waits(thread));
    // Who has put itself aside in the scheduler's text waits, too, for what it has called that from, if it has done so again since it was roused: before,
    // somebody may have woken it, and it stands in the scheduler's queue.
    let (is_parked, roused) = (thread.wait.lock().life.is_parked(), thread.roused.load(Ordering::SeqCst));
    let is_again = is_parked && roused != 0 && time.turn > roused;
    let waits = waiting.is_some() || is_again;
    let in_system = if is_parked { bereft::is_called_by_system(thread) } else { bereft::is_in_system(thread) };
    let (next, is_roused) = {
        let inner = &mut *thread.inner.lock();
        let mut next = None;
        for one in inner.handled.iter_mut().filter(|one| one.call.depth > 0) {
            let left = time.left_of(one.began, waits);
            one.is_late |= left == 0;
            next = Some(next.map_or(left, |least: u64| least.min(left)));
        }
        let for_ended = inner.bereft.look(time, waits, in_system);
        next = [next, for_ended].into_iter().flatten().min();
        let is_overdue = inner.bereft.is_overdue(time.now) || inner.handled.iter().any(|one| time.now >= one.began.now + CALLEE_GRACE_NS);
        let is_roused = is_parked && is_overdue && next != Some(0);
        // Under the lock: a fault from here on sets the timer by itself.
        thread.fault_timer.store(next.is_some_and(|left| left > 0), Ordering::SeqCst);
        (next, is_roused)
    };
    match next {
        None => thread.roused.store(0, Ordering::SeqCst),
        Some(0) => {
            // What it is put aside beneath next begins anew.
            thread.roused.store(0, Ordering::SeqCst);
            thread.is_late.store(true, Ordering::SeqCst);
            hurry(thread);
        }
        Some(left) => {
            if let Some(ticket) = waiting
                && in_system
                && thread.inner.lock().bereft.is_overdue(time.now)
            {
                // It may come back by itself: nobody waits for what it waits for, whatever there is to be heard of that in the end.
                sched::wake(thread, ticket, Err(Error::Dead));
            }
            if is_roused && let Some(turn) = pass::rouse(thread) {
                thread.roused.store(turn, Ordering::SeqCst);
            }
            sched::at(time.now + left, Timeout::Fault(Arc::downgrade(thread)));
        }
    }
}

/// Has [`look_at`] see to the thread in a while, if that is not so yet. Call with the lock of its inner part.
pub(super) fn look_later(thread: &Arc<Thread>, now: u64) {
    if !thread.fault_timer.swap(true, Ordering::SeqCst) {
        sched::at(now + CALLEE_GRACE_NS, Timeout::Fault(Arc::downgrade(thread)));
    }
}

/// Has the thread come by where it hears that it is late.
fn hurry(thread: &Arc<Thread>) {
    let waits = waits(thread).is_some_and(|ticket| sched::wake(thread, ticket, Err(Error::TimedOut)));
    if !waits && !pass::unpark(thread) {
        // It runs, or it will: by a message it may on any processor, where nobody has written that down yet.
        machine().processors.iter().for_each(Processor::look_around);
    }
}

fn waits(thread: &Thread) -> Option<u64> {
    let wait = thread.wait.lock();
    (wait.life.phase() == Phase::Waiting).then_some(wait.ticket)
}

/// The thread that leaves the kernel here is late with a fault. What its text has called meanwhile ends, then the call in which the fault
/// was. What fault that was, if the text is still at it.
pub fn end_late(thread: &Arc<Thread>) -> Option<Exit> {
    if waits(thread).is_some() {
        // It has begun to since.
        hurry(thread);
        return None;
    }
    thread.is_late.store(false, Ordering::SeqCst);
    let how = leave_late(thread);
    let inner = thread.inner.lock();
    if !inner.has_no_faults() && !thread.is_late.load(Ordering::SeqCst) {
        // What is further out has its time yet: how much, is seen at once.
        look_later(thread, time::now().saturating_sub(CALLEE_GRACE_NS));
    }
    how
}

/// Ends what is late, the outermost of it.
fn leave_late(thread: &Arc<Thread>) -> Option<Exit> {
    let (late, ended) = {
        let inner = thread.inner.lock();
        (inner.handled.iter().find(|one| one.is_late).copied(), inner.bereft.late())
    };
    if let Some((ended, began, error)) = ended
        && late.is_none_or(|late| ended <= late.call.depth)
    {
        // The last of these passes the calls of texts that have ended, down to who is left to be told.
        unwind_to(thread, ended, began, error);
        if error == Error::TimedOut && thread.inner.lock().depth() == ended {
            // The pager, which had had its time before them.
            epc::unwind(thread, error);
        }
        return None;
    }
    let late = late?;
    unwind_to(thread, late.call.depth, late.began, Error::Faulted);
    (thread.inner.lock().depth() == late.call.depth).then_some(late.how)
}

/// Ends the calls deeper than this. But none in the middle of the system's text, or the scheduler's, which may hold a lock of everybody's: the rest
/// ends when that returns, unless it takes as long as the system's callees of killed callers may.
fn unwind_to(thread: &Arc<Thread>, depth: usize, began: Time, error: Error) {
    while thread.inner.lock().depth() > depth {
        let is_everybodys = bereft::is_in_system(thread) || seat::is_schedulers(&thread.domain().text);
        if is_everybodys && thread.ran().saturating_sub(began.ran) < CALLEE_TIME_SYSTEM_NS {
            let inner = &mut *thread.inner.lock();
            inner.leave_by_kernel(inner.depth());
            thread.is_late.store(true, Ordering::SeqCst);
            return;
        }
        if !epc::unwind(thread, error) {
            return;
        }
    }
}

/// Below what the program has on its stack; programs are compiled without a red zone.
fn frame_address(rsp: u64) -> u64 {
    rsp.saturating_sub(size_of::<Stopped>() as u64) & !15
}

/// `fault_return`: the thread goes on, or hears what it would have heard without an entry. `None`: it goes on.
///
/// # Errors
/// `NotFound`: no fault is being dealt with here; `BadAddress`: there is nothing to go on with; or what reading the frame answers.
pub fn give_back(thread: &Arc<Thread>, domain: &Domain, at: u64, mended: bool) -> Result<Option<Exit>, Error> {
    let frame: Stopped = claim::read_record(domain, at)?;
    if mended && frame.rip >= SPACE_END {
        return Err(Error::BadAddress);
    }
    let inner = &mut *thread.inner.lock();
    let call = inner.call();
    let handled = inner.handled.pop_if(|one| one.call == call).ok_or(Error::NotFound)?;
    if !mended {
        return Ok(Some(handled.how));
    }
    *inner.area.registers_mut() = frame::registers(&frame);
    Ok(None)
}
