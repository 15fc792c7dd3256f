//! A text's own fault entry (pitfalls, H8): a callee that is deprived of its caller's memory in the middle of an update can put
//! its data in order, instead of being taken off the stack with its locks held.

use crate::claim;
use crate::domain::Domain;
use crate::thread::Thread;
use abi::Error;
use abi::fault::Frame;
use abi::layout::SPACE_END;
use abi::task::Exit;
use alloc::sync::Arc;
use arch::context::{FLAGS_DEFAULT, FLAGS_USER, Registers};
use core::sync::atomic::Ordering;

/// A fault that its text is dealing with: at this depth, and the frame that the text was given.
#[derive(Clone, Copy)]
pub struct Handled {
    depth: usize,
    frame: u64,
    how: Exit,
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
    let (depth, r) = {
        let inner = thread.inner.lock();
        (inner.depth(), *inner.area.registers())
    };
    let at = frame_address(r.rsp);
    {
        let handled = &mut thread.inner.lock().handled;
        if handled.iter().any(|one| one.depth == depth && r.rsp <= one.frame) {
            // In its entry.
            handled.retain(|one| one.depth < depth);
            return false;
        }
        handled.retain(|one| one.depth < depth);
    }
    let frame = Frame {
        rax: r.rax,
        rbx: r.rbx,
        rcx: r.rcx,
        rdx: r.rdx,
        rsi: r.rsi,
        rdi: r.rdi,
        rbp: r.rbp,
        rsp: r.rsp,
        r8: r.r8,
        r9: r.r9,
        r10: r.r10,
        r11: r.r11,
        r12: r.r12,
        r13: r.r13,
        r14: r.r14,
        r15: r.r15,
        rip: r.rip,
        rflags: r.rflags,
        cause: how.cause,
        address: how.address,
        section: how.section,
        right: how.right,
        mended: 0,
        reserved: 0,
    };
    // Written with the domain's own rights; nowhere else than on its own stack, wherever the program has its stack pointer.
    let (base, top) = domain.stack;
    let on_stack = at.checked_sub(8).is_some_and(|low| base != 0 && (base..top).contains(&low)) && at + size_of::<Frame>() as u64 <= top;
    if !on_stack || claim::write_record(domain, at, &frame).is_err() || claim::write(domain, at - 8, &[0; 8]).is_err() {
        return false;
    }
    let inner = &mut *thread.inner.lock();
    inner.handled.push(Handled { depth, frame: at, how: *how });
    *inner.area.registers_mut() = Registers { rdi: at, ..Registers::start(entry, at - 8) };
    true
}

/// Below what the program has on its stack; programs are compiled without a red zone.
fn frame_address(rsp: u64) -> u64 {
    rsp.saturating_sub(size_of::<Frame>() as u64) & !15
}

/// `fault_return`: the thread goes on, or hears what it would have heard without an entry. `None`: it goes on.
///
/// # Errors
/// `NotFound`: no fault is being dealt with here; or what reading the frame answers.
pub fn give_back(thread: &Arc<Thread>, domain: &Domain, at: u64) -> Result<Option<Exit>, Error> {
    let frame: Frame = claim::read_record(domain, at)?;
    let inner = &mut *thread.inner.lock();
    let depth = inner.depth();
    let handled = inner.handled.pop_if(|one| one.depth == depth).ok_or(Error::NotFound)?;
    if frame.mended == 0 {
        return Ok(Some(handled.how));
    }
    *inner.area.registers_mut() = Registers {
        rax: frame.rax,
        rbx: frame.rbx,
        rcx: frame.rcx,
        rdx: frame.rdx,
        rsi: frame.rsi,
        rdi: frame.rdi,
        rbp: frame.rbp,
        r8: frame.r8,
        r9: frame.r9,
        r10: frame.r10,
        r11: frame.r11,
        r12: frame.r12,
        r13: frame.r13,
        r14: frame.r14,
        r15: frame.r15,
        rflags: FLAGS_DEFAULT | frame.rflags & FLAGS_USER,
        ..Registers::start(if frame.rip < SPACE_END { frame.rip } else { 0 }, frame.rsp)
    };
    Ok(None)
}
