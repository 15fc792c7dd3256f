//! EPC: calling another program on the same thread, through a gate (CUBIX-26 to 38, 64). Plain calls come here by a page
//! fault on an entry address, bound calls by `syscall`; both push a frame that neither side can write, change the
//! domain, and go on at the gate's entry.

use crate::claim;
use crate::domain::Domain;
use crate::gate::{Binding, Found, Gate};
use crate::machine::spare_heap;
use crate::processor::{count, here};
use crate::thread::{Inner, Thread};
use abi::layout::{DOORSTEP, PAGE};
use abi::rights::principal;
use abi::{AclEntry, Error, Rights};
use ::gate::Block;
use alloc::boxed::Box;
use alloc::sync::Arc;
use arch::context::{Registers, VECTOR_SYSCALL};
use arch::fpu;
use core::sync::atomic::Ordering;

/// A binding as one domain has checked it.
pub struct Bound {
    pub binding: Arc<Binding>,
    pub domain: Arc<Domain>,
    pub args_base: u64,
    /// The target's generation at the check.
    pub generation: u64,
}

/// How a frame is returned into.
pub enum Kind {
    Call,
    /// Code of a window that its personality serves: all its registers, and whether it was stopped by a fault, so that
    /// nothing but the personality can let it go on.
    Foreign { registers: Box<Registers>, faulted: bool },
}

/// Where a thread returns to: in kernel memory, by text, never by rights (pitfalls, H3).
pub struct CallFrame {
    pub domain: Arc<Domain>,
    /// `domain.active` before this call.
    pub before: u64,
    pub rip: u64,
    pub rsp: u64,
    /// rbx rbp r12 r13 r14 r15.
    pub kept: [u64; 6],
    pub control: fpu::Control,
    pub kind: Kind,
}

/// What a call brings along.
struct Arrival {
    block: Block,
    index: u64,
    args: (u64, u64),
    words: [u64; 6],
    caller_stack: bool,
    rip: u64,
    rsp: u64,
}

/// A bound call: EPC-S.
pub fn bound_call(thread: &Thread, number: u64) {
    let inner = &mut *thread.inner.lock();
    if let Err(error) = enter_bound(thread, inner, number) {
        let registers = inner.area.registers_mut();
        refuse(registers, error);
    }
}

/// What a caller finds whose call was not made.
fn refuse(registers: &mut Registers, error: Error) {
    (registers.rax, registers.rdx, registers.r10) = (0, 0, error.word());
}

fn enter_bound(thread: &Thread, inner: &mut Inner, number: u64) -> Result<(), Error> {
    let (slot, index) = ((number & 0xffff) as usize, number >> 16 & 0xffff);
    let caller = inner.domain.clone();
    let (binding, target) = checked(thread, inner, &caller, slot)?;
    if index >= binding.block.count {
        return Err(Error::BadArgument);
    }
    let r = inner.area.registers();
    let arrival = Arrival {
        block: Block { ..binding.block },
        index,
        args: (binding.args_base(), binding.args_len),
        words: [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9],
        caller_stack: binding.caller_stack,
        rip: r.rip,
        rsp: r.rsp,
    };
    enter(thread, inner, caller, target, arrival)
}

/// The binding in a slot and the domain that it leads to: from the domain's own list if nothing changed since the last
/// check, else checked anew.
fn checked(thread: &Thread, inner: &mut Inner, caller: &Arc<Domain>, slot: usize) -> Result<(Arc<Binding>, Arc<Domain>), Error> {
    if let Some(Some(bound)) = caller.bound.lock().get(slot)
        && bound.generation == bound.binding.target.generation.load(Ordering::SeqCst)
        && !bound.binding.has_ended()
    {
        return Ok((bound.binding.clone(), bound.domain.clone()));
    }
    let binding = caller.text.bindings.lock().get(slot).cloned().flatten().ok_or(Error::NotFound)?;
    let target = &binding.target;
    let generation = target.generation.load(Ordering::SeqCst);
    // Another block of gates may have come to the address meanwhile: that is not what was bound.
    if target.is_dead() || target.gates.lock().find(binding.address) != Some((binding.block, 0)) {
        return Err(Error::Dead);
    }
    target.check(caller, Rights::CALL)?;
    let domain = thread.domain_for(inner, target)?;
    let mut bound = caller.bound.lock();
    if bound.len() <= slot {
        spare_heap()?;
        bound.resize_with(slot + 1, || None);
    }
    let args_base = binding.args_base();
    bound[slot] = Some(Bound { binding: binding.clone(), domain: domain.clone(), args_base, generation });
    drop(bound);
    Ok((binding, domain))
}

/// Why the fetch at an entry address is a fault of its program.
pub enum NotACall {
    /// It lacks the right `CALL`.
    NoRight,
    /// There is no return address that it could read at its stack pointer.
    NoWayBack(u64),
}

/// A plain call: the fetch at the entry address of a gate faulted.
pub fn plain_call(thread: &Thread, (text, block, index): Found) -> Result<(), NotACall> {
    let inner = &mut *thread.inner.lock();
    let caller = inner.domain.clone();
    text.check(&caller, Rights::CALL).map_err(|_| NotACall::NoRight)?;
    let r = inner.area.registers();
    let words = [r.rdi, r.rsi, r.rdx, r.rcx, r.r8, r.r9];
    let rsp = r.rsp;
    let mut back = [0; 8];
    claim::read(&caller, rsp, &mut back).map_err(|_| NotACall::NoWayBack(rsp))?;
    let arrival =
        Arrival { block, index, args: (0, 0), words, caller_stack: false, rip: u64::from_le_bytes(back), rsp: rsp + 8 };
    let (rip, rsp) = (arrival.rip, arrival.rsp);
    let entered = thread.domain_for(inner, &text).and_then(|target| enter(thread, inner, caller, target, arrival));
    if let Err(error) = entered {
        // The call was allowed but cannot be made: it returns at once, with the error.
        let registers = inner.area.registers_mut();
        (registers.rip, registers.rsp) = (rip, rsp);
        refuse(registers, error);
    }
    Ok(())
}

fn enter(thread: &Thread, inner: &mut Inner, caller: Arc<Domain>, target: Arc<Domain>, arrival: Arrival) -> Result<(), Error> {
    if target.text.is_dead() {
        return Err(Error::Dead);
    }
    let r = *inner.area.registers();
    let stack = callee_stack(thread, &caller, &target, &arrival)?;
    let frame = CallFrame {
        before: caller.active.load(Ordering::Relaxed),
        domain: caller.clone(),
        rip: arrival.rip,
        rsp: arrival.rsp,
        kept: [r.rbx, r.rbp, r.r12, r.r13, r.r14, r.r15],
        control: fpu::control(),
        kind: Kind::Call,
    };
    inner.frames.push(frame)?;
    caller.active.store(arrival.rsp, Ordering::Relaxed);
    let [rdi, rsi, rdx, rcx, r8, r9] = arrival.words;
    *inner.area.registers_mut() = Registers {
        rdi,
        rsi,
        rdx,
        rcx,
        r8,
        r9,
        rax: arrival.index,
        rbx: arrival.args.0,
        r12: arrival.args.1,
        r13: arrival.block.cookie,
        r10: caller.subject.task,
        r11: caller.text.base,
        r14: caller.subject.user,
        ..Registers::start(arrival.block.entry, stack)
    };
    inner.domain = target;
    fpu::scrub(None);
    count(&here().counters.epc);
    Ok(())
}

/// The callee's stack pointer, with the doorstep as its return address.
fn callee_stack(thread: &Thread, caller: &Domain, target: &Domain, arrival: &Arrival) -> Result<u64, Error> {
    if arrival.caller_stack {
        // Only the caller's own stack, which one thread may write (pitfalls, H11).
        let (base, top) = caller.stack;
        if !(base + 3 * PAGE..=top).contains(&arrival.rsp) {
            return Err(Error::BadAddress);
        }
        let rights = Rights::READ | Rights::WRITE;
        let entry = AclEntry { principal: principal::THREAD, rights: rights.bits(), id: thread.number, text: target.text.base };
        let stack = caller.stack_section.as_ref().ok_or(Error::BadAddress)?;
        if stack.check(target, rights).is_err() {
            stack.set_entry(&entry)?;
        }
        let at = (arrival.rsp & !15) - 8;
        claim::write(caller, at, &DOORSTEP.to_le_bytes())?;
        return Ok(at);
    }
    let left = if core::ptr::eq(caller, target) { arrival.rsp } else { target.active.load(Ordering::Relaxed) };
    if left == 0 {
        return Ok(target.stack.1 - 8);
    }
    // The thread is inside this text already: go on below where it left.
    let (base, top) = target.stack;
    if left > top || left < base {
        return Err(Error::BadAddress);
    }
    if left < base + 3 * PAGE {
        return Err(Error::TooDeep);
    }
    let at = (left & !15) - 8;
    // Its stack is the callee's affair: where it cannot be written, the callee would fault at its first push.
    claim::write(target, at, &DOORSTEP.to_le_bytes()).map_err(|error| match error {
        Error::NoMemory => error,
        _ => Error::Faulted,
    })?;
    Ok(at)
}

/// `gate_return`.
pub fn give_back(thread: &Arc<Thread>, values: [u64; 2]) {
    if thread.inner.lock().frames.depth() == 0 {
        return thread.answer(Err(Error::NotFound));
    }
    leave(thread, Ok(values));
}

/// Ends the current call with an error; the caller's caller if that one has died, too. Whether there was a call.
pub fn unwind(thread: &Arc<Thread>, error: Error) -> bool {
    let domain = {
        let inner = thread.inner.lock();
        if inner.frames.depth() == 0 {
            return false;
        }
        inner.domain.clone()
    };
    leave(thread, Err(error));
    // A callee that went wrong may have spoilt the topmost word of its stack, where the next call returns to the doorstep.
    // It may be gone, and its stack with it.
    if domain.stack.1 != 0 {
        let _ = claim::write(&domain, domain.stack.1 - 8, &DOORSTEP.to_le_bytes());
    }
    true
}

/// Returns into the top frame, or the first one below whose text still lives.
fn leave(thread: &Arc<Thread>, mut result: Result<[u64; 2], Error>) {
    let mut guard = thread.inner.lock();
    let inner = &mut *guard;
    let living = inner.frames.unwind(|frame| {
        frame.domain.active.store(frame.before, Ordering::Relaxed);
        frame.domain.text.is_dead()
    });
    let Some((frame, dropped)) = living else {
        // Nobody is left to return to: the thread's own program has ended.
        drop(guard);
        return thread.end(Error::Dead.word());
    };
    if dropped > 0 {
        result = Err(Error::Dead);
    }
    inner.domain = frame.domain;
    match frame.kind {
        Kind::Call => {
            let [rbx, rbp, r12, r13, r14, r15] = frame.kept;
            let ([rax, rdx], status) = match result {
                Ok(values) => (values, 0),
                Err(error) => ([0; 2], error.word()),
            };
            *inner.area.registers_mut() = Registers {
                rax,
                rdx,
                r10: status,
                rbx,
                rbp,
                r12,
                r13,
                r14,
                r15,
                vector: VECTOR_SYSCALL,
                ..Registers::start(frame.rip, frame.rsp)
            };
            fpu::scrub(Some(frame.control));
        }
        Kind::Foreign { mut registers, faulted } => {
            let task = thread.task.clone();
            match result {
                Ok(_) if faulted => {}
                Ok([rax, _]) => registers.rax = rax,
                Err(Error::Dead) => {
                    drop(guard);
                    return task.exit_with(abi::task::exit::KILLED, 0);
                }
                Err(_) if faulted => {
                    drop(guard);
                    return task.exit_with(abi::task::exit::FAULT, 0);
                }
                // The personality failed in this one call: EFAULT.
                Err(_) => registers.rax = (-14i64).cast_unsigned(),
            }
            *inner.area.registers_mut() = *registers;
            crate::foreign::restore_vectors(inner);
        }
    }
}

/// Pushes a frame for window code and enters its personality with `frame_at` as the only argument; its stack begins with
/// the return address below that. `faulted`: the code was stopped by a fault.
pub fn enter_personality(inner: &mut Inner, gate: &Gate, target: Arc<Domain>, registers: Registers, frame_at: u64, faulted: bool) -> Result<(), Error> {
    let caller = inner.domain.clone();
    inner.frames.push(CallFrame {
        before: caller.active.load(Ordering::Relaxed),
        domain: caller.clone(),
        rip: registers.rip,
        rsp: registers.rsp,
        kept: [0; 6],
        control: fpu::control(),
        kind: Kind::Foreign { registers: Box::new(registers), faulted },
    })?;
    *inner.area.registers_mut() = Registers {
        rdi: frame_at,
        r13: gate.block.cookie,
        r10: caller.subject.task,
        r11: caller.text.base,
        r14: caller.subject.user,
        ..Registers::start(gate.block.entry, frame_at - 8)
    };
    inner.domain = target;
    Ok(())
}
