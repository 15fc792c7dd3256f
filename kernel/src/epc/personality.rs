//! The upcall of a personality (architecture, section 11).

use super::{Foreign, More, record_of};
use crate::gate::Gate;
use crate::place;
use crate::thread::{Inner, Thread};
use abi::Error;
use abi::gate::DEPTH_MAX;
use alloc::boxed::Box;
use alloc::sync::Arc;
use arch::context::Registers;
use arch::gate::{BY_KERNEL, Frame, MORE};

/// Enters the personality of window code with `frame_at` as the only argument; its stack begins with the return address
/// below that. `faulted`: the code was stopped by a fault.
pub fn enter_personality(thread: &Arc<Thread>, inner: &mut Inner, gate: &Gate, registers: Registers, frame_at: u64, faulted: bool) -> Result<(), Error> {
    let depth = inner.depth();
    if depth >= DEPTH_MAX {
        return Err(Error::TooDeep);
    }
    let caller = inner.domain.clone();
    let text = gate.text()?;
    let callee = thread.domain_for(inner, &text)?;
    let record = record_of(&caller, &callee, &gate.block, (0, 0), 0);
    let address = inner.loose_record(thread, &record)?;
    place::enters(thread, &inner.domain.text, &text)?;
    inner.gate.set_sp(caller.number, registers.rsp);
    inner.gate.set_frame(depth + 1, Frame { rip: BY_KERNEL | MORE, sp: inner.gate.sp(callee.number), record: address });
    inner.gate.set_top(depth + 1);
    inner.more.push((depth + 1, More::Foreign(Foreign { registers: Box::new(registers), faulted })));
    inner.sync();
    *inner.area.registers_mut() =
        Registers { rdi: frame_at, rbx: address, ..Registers::start(gate.block.entry, frame_at - 8) };
    Ok(())
}
