//! Calls that the kernel makes on a thread in the middle of whatever it does: of a pager, of a signal's program. What the thread has left stays
//! where it was saved, vector registers and all, and it goes on from there when the call has returned.

use crate::domain::Domain;
use crate::epc::record_of;
use crate::machine::{spare_heap_beside, spare_heap_for};
use crate::place;
use crate::section::Section;
use crate::thread::{Inner, Thread};
use abi::Error;
use abi::gate::DEPTH_MAX;
use abi::layout::PAGE;
use ::gate::Block;
use alloc::sync::Arc;
use arch::context::{Area, Registers};
use arch::fpu;
use arch::gate::{BY_KERNEL, Frame, MORE};

/// Areas that a thread keeps for the next time.
pub const SPARE_MAX: usize = 2;

/// So deep in calls each is counted with its thread.
const FEW: usize = 4;

/// Enters gate `index` of a block with these words. What the thread has left is in `area` then, which it has run with until now; whoever puts
/// that down with the frame (depth: value) lets it [`come_back`].
///
/// # Errors
/// `TooDeep`, `BadAddress` (its stack), `NoMemory`, what making a domain answers and what [`place::enters`] does: nothing has changed then.
pub fn enter(thread: &Thread, inner: &mut Inner, text: &Arc<Section>, block: &Block, index: u64, words: [u64; 4], area: &mut Area) -> Result<usize, Error> {
    let depth = inner.depth();
    // The callee may receive another message.
    inner.area.write_down();
    if depth >= DEPTH_MAX {
        return Err(Error::TooDeep);
    }
    // Of many at a time nobody was promised what each keeps.
    if depth < FEW { spare_heap_for(&thread.task)? } else { spare_heap_beside(&thread.task)? }
    let caller = inner.domain.clone();
    let callee = thread.domain_for(inner, text)?;
    let record = inner.loose_record(thread, &record_of(&caller, &callee, block, (0, 0), 0))?;
    let left = left_at(inner, &caller, &callee);
    let stack = stack(&callee, left)?;
    place::enters(thread, &caller.text, text)?;
    arrive(inner, caller.number, Arrival { depth, record, entry: block.entry, index, left, stack }, words, area, Inner::sync);
    Ok(depth + 1)
}

/// How a callee is entered: from how deep, by which record, where, with which number of a gate, where its stack was left and where it goes on.
pub struct Arrival {
    pub depth: usize,
    pub record: u64,
    pub entry: u64,
    pub index: u64,
    pub left: u64,
    pub stack: u64,
}

/// Where a thread that is in `caller` has left its stack for `callee`, which may be the same.
#[inline]
pub fn left_at(inner: &Inner, caller: &Domain, callee: &Domain) -> u64 {
    if caller.number == callee.number { inner.area.registers().rsp } else { inner.left_of(callee) }
}

/// Enters, everything being found; what the thread has left is in `area` then, with nothing of it elsewhere. `sync` puts down where the thread is.
#[inline(always)]
pub fn arrive(inner: &mut Inner, caller: u32, arrival: Arrival, words: [u64; 4], area: &mut Area, sync: impl FnOnce(&mut Inner)) {
    let Arrival { depth, record, entry, index, left, stack } = arrival;
    inner.gate.set_sp(caller, inner.area.as_saved().rsp);
    inner.gate.set_frame(depth + 1, Frame { rip: BY_KERNEL | MORE, sp: left, record });
    inner.gate.set_top(depth + 1);
    sync(inner);
    inner.area.save_vector_state();
    core::mem::swap(&mut inner.area, area);
    let [rdi, rsi, r12, r13] = words;
    *inner.area.as_saved_mut() = Registers { rdi, rsi, r12, r13, r14: index, rbx: record, ..Registers::start(entry, stack) };
    fpu::scrub(None);
}

/// Where the callee's stack goes on, which was left here: where the thread is inside this text already, below what it was doing. The doorstep
/// is not there then (abi::gate): a gate goes back by its record.
///
/// # Errors
/// `BadAddress`, `TooDeep`.
#[inline(always)]
pub fn stack(callee: &Domain, left: u64) -> Result<u64, Error> {
    let (base, top) = callee.stack;
    if left > top || left < base {
        return Err(Error::BadAddress);
    }
    if left < base + 3 * PAGE { Err(Error::TooDeep) } else { Ok(left & !15) }
}

/// The frame is off: everything of the thread is as it was. Under its lock.
pub fn come_back(inner: &mut Inner, area: &mut Area) {
    core::mem::swap(&mut inner.area, area);
    inner.area.restore_vector_state();
}

/// The area in which it ran is for the next one.
pub fn keep(thread: &Thread, area: Area) {
    let inner = &mut *thread.inner.lock();
    if inner.areas.len() < SPARE_MAX {
        inner.areas.push(area);
    }
}
