//! Foreign entry: a thread in its task's window is served by the personality, on the same thread, by an upcall
//! (architecture, sections 7 and 11).

use crate::claim;
use crate::domain::Domain;
use crate::info::word;
use crate::epc;
use crate::frame;
use crate::gate::{self, Gate};
use crate::machine::spare_heap_at_all_for;
use crate::processor::here;
use crate::section::Section;
use crate::task::{Foreign, Task};
use crate::thread::{Begin, Inner, Thread};
use abi::frame::{Frame, Vectors, reason};
use abi::refusal::Object;
use abi::task::{Exit, cause};
use abi::{Error, Rights};
use alloc::sync::Arc;
use arch::context::{Area, Registers};
use arch::cpu;
use arch::fpu;
use zerocopy::IntoBytes;

/// `foreign_set`.
pub fn set(domain: &Domain, task: &Arc<Task>, gate: u64, text: u64) -> Result<u64, Error> {
    task.check_creator(domain)?;
    let (owner, block, _) = gate::find_gate(gate).ok_or(Error::NotFound)?;
    if !Arc::ptr_eq(&owner, &domain.text) {
        return Err(Error::BadArgument);
    }
    gate::is_for_upcalls(&block)?;
    let text = Section::named(text)?;
    crate::task::check_start(domain, &text)?;
    task.gets(Foreign { gate: Gate::new(&owner, block), text: Arc::downgrade(&text) })?;
    task.shown.set(word!(Task, foreign), 1);
    Ok(0)
}

/// Registers that a personality asks for, with nothing in them that a program may not choose.
fn registers_of(frame: &Frame) -> Result<(Registers, (u64, u64)), Error> {
    const END: u64 = abi::layout::WINDOW_END;
    if frame.rip >= END || frame.fs_base >= 1 << 47 || frame.gs_base >= 1 << 47 {
        return Err(Error::BadAddress);
    }
    Ok((frame::registers(frame), (frame.fs_base, frame.gs_base)))
}

/// `foreign_start`.
pub fn start(domain: &Domain, task: &Arc<Task>, frame: u64) -> Result<u64, Error> {
    match task.foreign.get() {
        Some(foreign) if foreign.gate.is_of(&domain.text) => {
            let frame: Frame = claim::read_record(domain, frame)?;
            let (registers, segments) = registers_of(&frame)?;
            let text = foreign.text.upgrade().ok_or(Error::Dead)?;
            let thread = Thread::create(task, &text, Begin::Window { registers, segments })?;
            let number = thread.number;
            thread.start();
            Ok(number)
        }
        _ => Err(domain.subject.refused(Object::Task(task.number))),
    }
}

/// The `syscall` instruction in window code.
pub fn system_call(thread: &Arc<Thread>) {
    let ip = thread.registers(|r| r.rip);
    if ip >= abi::layout::WINDOW_END {
        // By the gate's own instruction, to which it has jumped: nothing there is its program's.
        let right = u64::from(Rights::EXECUTE.bits());
        return fault(thread, &Exit { address: ip, right, cause: cause::NO_GATE, ..Exit::default() });
    }
    upcall(thread, reason::SYSCALL, &Exit::default());
}

/// An access in the window that its mappings do not allow.
pub fn fault(thread: &Arc<Thread>, how: &Exit) {
    upcall(thread, reason::FAULT, how);
}

/// Another exception of window code, whose vector is the address.
pub fn exception(thread: &Arc<Thread>, how: &Exit) {
    upcall(thread, reason::EXCEPTION, how);
}

fn upcall(thread: &Arc<Thread>, reason: u64, how: &Exit) {
    let entered = loop {
        let entered = enter(thread, &mut thread.inner.lock(), reason, how);
        if entered != Err(Error::Changed) {
            break entered;
        }
        // Somebody is cloning the personality's stack, or has just done so; or nothing has been there yet.
        if let Err(error) = ready(thread) {
            break Err(error);
        }
        cpu::relax();
    };
    if entered.is_err() {
        // Without a personality window code cannot go on.
        thread.task.exit_with(abi::task::exit::KILLED, 0);
    }
}

/// Sees to it that the frame of an upcall can be written without waiting for anybody.
fn ready(thread: &Arc<Thread>) -> Result<(), Error> {
    let target = {
        let foreign = thread.task.foreign.get().ok_or(Error::NotFound)?;
        thread.domain_for(&mut thread.inner.lock(), &foreign.gate.text()?)?
    };
    let at = frame_of(&target) - 8;
    claim::ready(&target, at, target.stack.1 - at)
}

/// Where an upcall's frame lies: above the personality's first stack frame.
fn frame_of(target: &Domain) -> u64 {
    (target.stack.1 - 16 - size_of::<Frame>() as u64) & !15
}

fn enter(thread: &Arc<Thread>, inner: &mut Inner, reason: u64, how: &Exit) -> Result<(), Error> {
    let foreign = thread.task.foreign.get().ok_or(Error::NotFound)?;
    // For its registers, until it is back.
    spare_heap_at_all_for(&thread.task)?;
    let gate = &foreign.gate;
    let target = thread.domain_for(inner, &gate.text()?)?;
    let r = *inner.area.registers();
    let frame = Frame {
        fs_base: inner.segments.0,
        gs_base: inner.segments.1,
        reason,
        address: how.address,
        right: how.right,
        task: thread.task.number,
        thread: thread.number,
        cause: how.cause,
        code: how.code,
        ..frame::of(&r)
    };
    // The gate ends with `foreign_return`; one that returns as from a call comes back with the value in `rax`.
    let at = frame_of(&target);
    let or_again = |why| if why == Error::Busy { Error::Changed } else { why };
    claim::write_locked(&target, at, frame.as_bytes()).map_err(or_again)?;
    claim::write_locked(&target, at - 8, &abi::gate::DOORSTEP.to_le_bytes()).map_err(or_again)?;
    let vectors = inner.window_vectors.get_or_insert_with(|| Area::new(Registers::default()));
    vectors.save_vector_state();
    epc::enter_personality(thread, inner, gate, r, at, reason != reason::SYSCALL)?;
    fpu::scrub(None);
    Ok(())
}

/// `foreign_return`.
pub fn give_back(thread: &Arc<Thread>, domain: &Domain, frame: u64) -> Result<(), Error> {
    let frame: Frame = claim::read_record(domain, frame)?;
    let (registers, segments) = registers_of(&frame)?;
    {
        let inner = &mut *thread.inner.lock();
        match inner.more() {
            Some(_) => inner.pop(),
            _ => return Err(Error::NotFound),
        };
        *inner.area.registers_mut() = registers;
        inner.segments = segments;
        restore_vectors(inner);
    }
    // Back in its own text it ends: not when it is found with the next tick, or by whoever is about to. Until then it could say why
    // everything is refused to it.
    if thread.task.is_dead() {
        thread.kill();
        here().attend();
    }
    Ok(())
}

/// `foreign_vectors`.
pub fn vectors(thread: &Thread, domain: &Domain, to: u64, from: u64) -> Result<u64, Error> {
    let told = {
        let inner = thread.inner.lock();
        inner.more().ok_or(Error::NotFound)?;
        inner.window_vectors.as_ref().ok_or(Error::NotFound)?.vectors()
    };
    if to != 0 {
        claim::write_record(domain, to, &told)?;
    }
    if from != 0 {
        let asked: Vectors = claim::read_record(domain, from)?;
        // Only this thread changes them, and it is here.
        if let Some(vectors) = &mut thread.inner.lock().window_vectors {
            vectors.set_vectors(&asked);
        }
    }
    Ok(0)
}

/// Window code goes on with its own vector state.
pub fn restore_vectors(inner: &mut Inner) {
    if let Some(vectors) = &inner.window_vectors {
        vectors.restore_vector_state();
    }
}
