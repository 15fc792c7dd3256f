//! The short way of EPC-S: a bound call that was checked before, and its return, with one look at each thing that could
//! have changed since. What it cannot do it leaves to `epc.rs`, untouched.

use crate::domain::Domain;
use crate::epc::{CallFrame, Kind};
use crate::processor::{Processor, count};
use crate::sched;
use crate::thread::Inner;
use abi::gate::{CALL_BASE, DEPTH_MAX, RETURN};
use alloc::sync::Arc;
use arch::context::{FLAGS_DEFAULT, Resume, VECTOR_FULL, VECTOR_SYSCALL};
use arch::fpu;
use core::sync::atomic::Ordering;

/// The short way of a bound call and of its return: everything was checked before and nothing has changed since. `None`:
/// nothing was done, take the long way.
#[inline]
pub fn quick(here: &Processor) -> Option<Resume> {
    let mut local = here.local.lock();
    let thread = local.current.as_ref()?;
    {
        let inner = &mut *thread.inner.lock();
        let number = inner.area.registers().rax;
        let done = match number {
            CALL_BASE.. => quick_call(inner, number),
            RETURN => quick_return(inner),
            _ => false,
        };
        if !done {
            return None;
        }
    }
    count(&here.counters.epc);
    if here.must_attend() {
        drop(local);
        return Some(sched::leave());
    }
    Some(sched::go_on(here, &mut local))
}

#[inline]
fn quick_call(inner: &mut Inner, number: u64) -> bool {
    if inner.frames.depth() >= DEPTH_MAX {
        return false;
    }
    let (slot, index) = ((number & 0xffff) as usize, number >> 16 & 0xffff);
    let target = {
        let bound = inner.domain.bound.lock();
        let Some(Some(bound)) = bound.get(slot) else { return false };
        let binding = &*bound.binding;
        let unchanged = bound.generation == binding.target.generation.load(Ordering::SeqCst)
            && !binding.has_ended()
            && !binding.caller_stack
            && index < binding.block.count
            && bound.domain.active.load(Ordering::Relaxed) == 0
            && !Arc::ptr_eq(&bound.domain, &inner.domain);
        if !unchanged {
            return false;
        }
        Arrived {
            domain: bound.domain.clone(),
            entry: binding.block.entry,
            cookie: binding.block.cookie,
            args: (bound.args_base, binding.args_len),
        }
    };
    let r = inner.area.registers_mut();
    let stack = target.domain.stack.1 - 8;
    let caller = core::mem::replace(&mut inner.domain, target.domain);
    let (task, text, user) = (caller.subject.task, caller.text.base, caller.subject.user);
    let before = caller.active.load(Ordering::Relaxed);
    caller.active.store(r.rsp, Ordering::Relaxed);
    let frame = CallFrame {
        before,
        domain: caller,
        rip: r.rip,
        rsp: r.rsp,
        kept: [r.rbx, r.rbp, r.r12, r.r13, r.r14, r.r15],
        control: fpu::control(),
        kind: Kind::Call,
    };
    if inner.frames.push(frame).is_err() {
        unreachable!("the depth was checked");
    }
    // rdi rsi rdx r8 r9 pass as they are.
    r.rcx = r.r10;
    (r.rax, r.r13) = (index, target.cookie);
    (r.rbx, r.r12) = target.args;
    (r.r10, r.r11, r.r14) = (task, text, user);
    (r.rbp, r.r15) = (0, 0);
    (r.rip, r.rsp) = (target.entry, stack);
    (r.rflags, r.vector) = (FLAGS_DEFAULT, VECTOR_FULL);
    fpu::scrub(None);
    true
}

#[inline]
fn quick_return(inner: &mut Inner) -> bool {
    match inner.frames.top() {
        Some(frame) if matches!(frame.kind, Kind::Call) && !frame.domain.text.is_dead() && frame.rip < 1 << 47 => {}
        _ => return false,
    }
    let Some(frame) = inner.frames.pop() else { return false };
    frame.domain.active.store(frame.before, Ordering::Relaxed);
    inner.domain = frame.domain;
    let r = inner.area.registers_mut();
    (r.rax, r.rdx) = (r.rdi, r.rsi);
    [r.rbx, r.rbp, r.r12, r.r13, r.r14, r.r15] = frame.kept;
    (r.rdi, r.rsi, r.r8, r.r9, r.r10) = (0, 0, 0, 0, 0);
    (r.rip, r.rsp) = (frame.rip, frame.rsp);
    // rcx and r11 are lost on this way out; everything else was set.
    (r.rflags, r.vector) = (FLAGS_DEFAULT, VECTOR_SYSCALL);
    fpu::scrub(Some(frame.control));
    true
}

/// What a quick call takes from its binding.
struct Arrived {
    domain: Arc<Domain>,
    entry: u64,
    cookie: u64,
    args: (u64, u64),
}
