//! A text's own fault entry (pitfalls, H8): a callee that is deprived of its caller's memory in the middle of an update can put
//! its data in order, instead of being taken off the stack with its locks held.

use crate::claim;
use crate::domain::Domain;
use crate::frame;
use crate::thread::{Inner, Thread};
use abi::Error;
use abi::frame::{Frame as Stopped, reason};
use abi::gate::record;
use abi::layout::SPACE_END;
use abi::task::Exit;
use alloc::sync::Arc;
use arch::context::Registers;
use arch::gate::{BY_KERNEL, Frame, MORE};
use core::sync::atomic::Ordering;

/// A fault that its text is dealing with: in this call, and the frame that the text was given.
#[derive(Clone, Copy)]
pub struct Handled {
    call: Call,
    frame: u64,
    how: Exit,
}

/// Which call it is. Whoever leaves a call in which there was a fault does it through the kernel ([`Inner::mark_handled`]), which
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

    /// The call on top is left through the kernel only.
    fn mark_handled(&mut self, depth: usize) {
        if depth > 0 {
            let frame = self.gate.frame(depth);
            self.gate.set_frame(depth, Frame { rip: frame.rip | BY_KERNEL | MORE, ..frame });
        }
    }

    /// The calls deeper than this have ended.
    pub fn forget_handled(&mut self, depth: usize) {
        self.handled.retain(|one| one.call.depth <= depth);
    }
}

/// `fault_entry`.
pub fn set(domain: &Domain, entry: u64) -> Result<u64, Error> {
    if domain.in_window {
        return Err(Error::NotSupported);
    }
    if entry >= SPACE_END {
        return Err(Error::BadAddress);
    }
    domain.text.fault_entry.store(entry, Ordering::Release);
    Ok(0)
}

/// Lets the text deal with it. Whether it does.
pub fn deliver(thread: &Thread, domain: &Domain, how: &Exit) -> bool {
    let entry = domain.text.fault_entry.load(Ordering::Acquire);
    if entry == 0 || domain.in_window || thread.is_killed() && thread.may_end() {
        return false;
    }
    let (call, r, place) = {
        let inner = &mut *thread.inner.lock();
        let (call, r) = (inner.call(), *inner.area.registers());
        // A call is entered once, and the others of its depth are over.
        let before = inner.handled.pop_if(|one| one.call.depth == call.depth).filter(|one| one.call == call);
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
    let frame = Stopped { reason: why, address: how.address, right, task, thread: number, ..frame::of(&r) };
    // Written with the domain's own rights; nowhere else than on its own stack, wherever the program has its stack pointer.
    let (base, top) = domain.stack;
    let on_stack = at.checked_sub(8).is_some_and(|low| base != 0 && (base..top).contains(&low)) && at + size_of::<Stopped>() as u64 <= top;
    if !on_stack || claim::write_record(domain, at, &frame).is_err() || claim::write(domain, at - 8, &[0; 8]).is_err() {
        return false;
    }
    let inner = &mut *thread.inner.lock();
    inner.mark_handled(call.depth);
    inner.handled.push(Handled { call, frame: at, how: *how });
    *inner.area.registers_mut() = Registers { rdi: at, ..Registers::start(entry, at - 8) };
    true
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
