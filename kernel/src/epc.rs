//! EPC: calling another program on the same thread, through a gate (CUBIX-26 to 38, 64). Plain calls come here by a page
//! fault on an entry address, bound calls by `syscall` the first time and whenever something has changed; all others
//! are made by `arch`'s gate alone. Every call pushes the same frame, which neither side can write, changes the domain
//! and goes on at the gate's entry.

mod personality;

pub use personality::enter_personality;

use crate::aside;
use crate::claim;
use crate::crossing::{doorstep, ready_doorstep};
use crate::domain::Domain;
use crate::fault::{self, heeds_flags};
use crate::gate::{Binding, Found, is_open};
use crate::keyed;
use crate::mbcf::signal::{self, Begun};
use crate::pager::{self, Served};
use crate::place;
use crate::post;
use crate::processor::{count, here};
use crate::sched;
use crate::section::Section;
use crate::thread::{Inner, Thread};
use crate::trace;
use abi::gate::{BINDINGS_MAX, DEPTH_MAX, DOORSTEP, NOT_MADE, Record, record, slot};
use abi::layout::SPACE_END;
use abi::rights::principal;
use abi::trace::kind;
use abi::{AclEntry, Error, Rights};
use ::gate::Block;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use arch::context::Registers;
use arch::{cpu, fpu};
use arch::gate::{BY_KERNEL, Frame, Kept, MORE, NEVER, PLAIN, Plain, again, records};
use core::sync::atomic::Ordering;

/// Calls by the kernel after which it looks whether caller and callee have earned keys.
pub const EARNING: u32 = 32;

/// How often a binding is looked at anew that changes while it is looked at.
const TRIES_MAX: u32 = 100;

/// What a frame does not hold of a call from the code of a window into its personality: all its registers, and whether it
/// was stopped by a fault, so that nothing but the personality can let it go on.
pub struct Foreign {
    pub registers: Box<Registers>,
    pub faulted: bool,
}

/// What a frame does not hold.
pub enum More {
    Foreign(Foreign),
    /// The thread has had a fault, and a pager serves it.
    Served(Served),
    /// A signal's program runs before the thread goes on.
    Signal(Box<Begun>),
}

impl More {
    pub fn foreign(&self) -> Option<&Foreign> {
        if let More::Foreign(foreign) = self { Some(foreign) } else { None }
    }

    /// What the thread was stopped with, below this.
    pub fn registers(&self) -> &Registers {
        match self {
            More::Foreign(foreign) => &foreign.registers,
            More::Served(served) => served.registers(),
            More::Signal(begun) => begun.registers(),
        }
    }

    pub fn served(&self) -> Option<&Served> {
        if let More::Served(served) = self { Some(served) } else { None }
    }
}

/// What a call brings along.
struct Arrival {
    /// The record by which the callee is entered.
    record: u64,
    index: u64,
    words: [u64; 6],
    /// The stack pointer with which the caller goes on.
    rsp: u64,
    rip: u64,
    caller_stack: bool,
    kept: Option<Kept>,
}

/// A bound call that the gate could not make by itself: the first one, one after a change, one on the caller's stack, and
/// now and then one into a domain that lives apart.
pub fn bound_call(thread: &Arc<Thread>, number: u64) {
    let binding = number % slot(BINDINGS_MAX) / slot(1);
    let made = prepare(thread, binding).and_then(|caller_stack| {
        if caller_stack {
            ready_doorstep(thread, binding)?;
        }
        enter_bound(thread, &mut thread.inner.lock(), binding, caller_stack)
    });
    if let Err(error) = made {
        // Told here of its own text's end, it would pass that on as its answer.
        if fault::falls_out(thread) {
            return;
        }
        let mut inner = thread.inner.lock();
        let registers = inner.area.registers_mut();
        if error == Error::Changed {
            registers.repeat_call();
            drop(inner);
            return cpu::relax();
        }
        (registers.rdi, registers.rsi, registers.r10) = (NOT_MADE, 0, error.word());
    }
}

/// Checks the binding if that is needed, and lets caller and callee have keys if they have earned them. Whether the call is
/// to be made on the caller's stack.
fn prepare(thread: &Arc<Thread>, binding: u64) -> Result<bool, Error> {
    let caller = thread.domain();
    let bound = caller.text.bindings.lock().get(binding as usize).cloned().flatten();
    bound.map_or(Ok(()), |bound| if bound.has_ended() { Err(Error::NotFound) } else { bound.lend(&caller) })?;
    let mut tries = 0;
    let (caller, callee, caller_stack) = loop {
        match prepare_once(thread, binding) {
            // Somebody changes what the binding rests on. Not for ever: each change takes longer than a try, unless a list that is asked is long.
            Err(Error::Busy) if tries < TRIES_MAX => tries += 1,
            found => break found?,
        }
        sched::breathe();
    };
    if let Some(callee) = callee {
        keyed::try_back(thread, &caller);
        keyed::try_back(thread, &callee);
    }
    Ok(caller_stack)
}

/// Caller; callee, if one of both lacks a key for calls that the gate might make; whether this one is on the caller's stack.
type Prepared = (Arc<Domain>, Option<Arc<Domain>>, bool);

fn prepare_once(thread: &Arc<Thread>, binding: u64) -> Result<Prepared, Error> {
    let inner = &mut *thread.inner.lock();
    if inner.depth() >= DEPTH_MAX {
        return Err(Error::TooDeep);
    }
    let caller = inner.domain.clone();
    let address = records(caller.number) + slot(binding);
    let is_known = inner.gate.record(address).is_some_and(|record| record.gates > 0);
    let connected = (!is_known).then(|| connect(thread, inner, binding, address).map_err(|error| or_again(inner, error))).transpose()?;
    let caller_stack = connected.is_some_and(|binding| binding.caller_stack);
    inner.reaches();
    let record = inner.gate.record(address).ok_or(Error::NotFound)?;
    let callee = inner.domain_number(record.domain)?;
    let earning = !(caller.is_keyed() && callee.is_keyed()) && inner.may_be_called_directly(&record);
    inner.gate.set_countdown(callee.number, if earning { EARNING } else { NEVER });
    inner.only_long_ways(&callee);
    // Whichever way this one goes: it is counted, and where others need no kernel it earns what they need.
    Ok((caller, earning.then_some(callee), caller_stack))
}

fn enter_bound(thread: &Arc<Thread>, inner: &mut Inner, binding: u64, caller_stack: bool) -> Result<(), Error> {
    let address = records(inner.domain.number) + slot(binding);
    if caller_stack {
        // Its record does not tell of a change.
        connect(thread, inner, binding, address).map_err(|why| if why == Error::Busy { Error::Changed } else { or_again(inner, why) })?;
    }
    let record = inner.gate.record(address).ok_or(Error::NotFound)?;
    let r = inner.area.registers();
    // On the caller's stack the record has no gates to be called without the kernel; its block has been looked at.
    if !caller_stack && record.gates == 0 {
        return Err(Error::Changed);
    }
    if !caller_stack && r.r14 >= record.gates {
        return Err(Error::BadArgument);
    }
    let arrival = Arrival {
        record: address,
        index: r.r14,
        words: [r.rdi, r.rsi, r.r12, r.r13, r.r8, r.r9],
        rsp: r.rsp,
        // On the caller's stack there is more to the return than the short ways do: what was lent is taken back.
        // And who keeps a secret is come back to by the long way.
        rip: r.rip | BY_KERNEL | if caller_stack || inner.domain.is_secret() { MORE } else { 0 },
        caller_stack,
        kept: None,
    };
    enter(thread, inner, &record, arrival)
}

/// Checks a binding and writes the record by which the thread calls from now on, until something changes.
fn connect(thread: &Arc<Thread>, inner: &mut Inner, number: u64, address: u64) -> Result<Arc<Binding>, Error> {
    let caller = inner.domain.clone();
    let binding = caller.text.bindings.lock().get(number as usize).cloned().flatten().ok_or(Error::NotFound)?;
    if binding.has_ended() {
        return Err(Error::NotFound);
    }
    if caller.text.is_dead() {
        // Its records were cleared when it ended, and stay so.
        return Err(Error::Dead);
    }
    let target = &binding.target;
    let generation = target.callers.generation();
    // Another block of gates may have come to the address meanwhile: that is not what was bound.
    if target.is_dead() || target.gates.lock().find(binding.address) != Some((binding.block, 0)) {
        return Err(Error::Dead);
    }
    target.check(&caller, Rights::CALL)?;
    target.tidy_callers();
    let callee = thread.domain_for(inner, target)?;
    let gates = if binding.caller_stack { 0 } else { binding.block.count };
    if binding.caller_stack && inner.area.registers().r14 >= binding.block.count {
        return Err(Error::BadArgument);
    }
    let args = (binding.args_base(), binding.args_len);
    let by_kernel = binding.by_kernel || heeds_flags(&caller.text) || heeds_flags(target);
    let flags = u32::from(by_kernel) * record::BY_KERNEL | u32::from(binding.caller_stack) * record::CALLER_STACK;
    inner.set_record(thread, address, &Record { flags, ..record_of(&caller, &callee, &binding.block, args, gates) })?;
    if !target.entered(thread, &caller.text, address, generation) || binding.has_ended() || caller.text.is_dead() {
        // Something has changed while we looked.
        inner.gate.clear_record(address);
        return Err(Error::Busy);
    }
    if !binding.is_lent(&caller) {
        // What was lent for such calls is being taken back, since there was none for a while.
        inner.gate.clear_record(address);
        return Err(Error::Changed);
    }
    Ok(binding)
}

/// `Changed`: there was no room, and will be when the thread has left the kernel, with what texts that have ended have left.
fn or_again(inner: &Inner, error: Error) -> Error {
    if error.is_quota() && inner.is_to_shed() { Error::Changed } else { error }
}

/// What the callee is told, and the gate needs.
pub fn record_of(caller: &Domain, callee: &Domain, block: &Block, args: (u64, u64), gates: u64) -> Record {
    Record {
        entry: block.entry,
        cookie: block.cookie,
        args_base: args.0,
        args_len: args.1,
        task: caller.subject.task,
        text: caller.text.base,
        user: caller.speaks_for,
        gates,
        domain: callee.number,
        thread: caller.subject.thread,
        ..Record::default()
    }
}

/// A plain call: the fetch at the entry address of a gate faulted.
///
/// # Errors
/// The caller lacks the right `CALL`: the fetch is a fault of its own.
pub fn plain_call(thread: &Arc<Thread>, (text, block, index): Found) -> Result<(), Error> {
    let inner = &mut *thread.inner.lock();
    let caller = inner.domain.clone();
    let r = *inner.area.registers();
    let generation = text.callers.generation();
    if text.is_dead() || caller.text.is_dead() || text.gates.lock().find(r.rip) != Some((block, index)) {
        // Gone since it was found: the fetch faults again.
        return Ok(());
    }
    text.check(&caller, Rights::CALL)?;
    // (A scheduler binds.)
    is_open(&block, &caller, || false)?;
    let record = connect_plain(thread, inner, &text, block, generation).map_err(|error| or_again(inner, error));
    let entered = record.and_then(|record| {
        let arrival = Arrival {
            record,
            index,
            words: [r.rdi, r.rsi, r.rdx, r.rcx, r.r8, r.r9],
            rsp: r.rsp,
            // The return address is taken from the caller's stack by the caller itself, when it is back.
            rip: again() | BY_KERNEL | PLAIN | if caller.is_secret() { MORE } else { 0 },
            caller_stack: false,
            kept: Some(Kept::new([r.rbx, r.rbp, r.r12, r.r13, r.r14, r.r15], fpu::control())),
        };
        let known = inner.gate.record(record).ok_or(Error::NotFound)?;
        enter(thread, inner, &known, arrival)?;
        if !inner.is_called_by_long_ways(&inner.domain) {
            inner.gate.remember_plain(Plain::new(r.rip, record, caller.number, index as u32));
        }
        Ok(())
    });
    if entered == Err(Error::Changed) {
        // Likewise: what was looked at has changed meanwhile.
        return Ok(());
    }
    if let Err(error) = entered {
        // The call was allowed but cannot be made: it returns at once, with the error.
        let registers = inner.area.registers_mut();
        registers.rip = again();
        (registers.rax, registers.rdx, registers.r10) = (0, 0, error.word());
    }
    Ok(())
}

/// Finds or writes a record for plain calls from the present domain to a block of gates, of which it was looked at since `generation` that
/// it may. Errors: `Changed`: something has changed since then.
fn connect_plain(thread: &Arc<Thread>, inner: &mut Inner, text: &Arc<Section>, block: Block, generation: u64) -> Result<u64, Error> {
    let caller = inner.domain.clone();
    text.tidy_callers();
    inner.make_plain(thread)?;
    let callee = thread.domain_for(inner, text)?;
    let record = inner.loose_record(thread, &record_of(&caller, &callee, &block, (0, 0), block.count))?;
    if !text.entered(thread, &inner.domain.text, record, generation) {
        inner.gate.clear_record(record);
        return Err(Error::Changed);
    }
    Ok(record)
}

fn enter(thread: &Thread, inner: &mut Inner, record: &Record, arrival: Arrival) -> Result<(), Error> {
    let depth = inner.depth();
    let (caller, callee) = (inner.domain.clone(), inner.domain_number(record.domain)?);
    if callee.text.is_dead() {
        return Err(Error::Dead);
    }
    if depth >= DEPTH_MAX {
        return Err(Error::TooDeep);
    }
    let more = place::enters(thread, &caller.text, &callee.text)?;
    let then = inner.gate.sp(caller.number);
    inner.gate.set_sp(caller.number, arrival.rsp);
    let stack = callee_stack(thread, inner, &caller, &callee, &arrival).inspect_err(|_| inner.gate.set_sp(caller.number, then))?;
    let frame = Frame { rip: arrival.rip | more, sp: inner.gate.sp(callee.number), record: arrival.record };
    inner.gate.set_frame(depth + 1, frame);
    inner.gate.set_top(depth + 1);
    if let Some(kept) = arrival.kept {
        inner.gate.set_kept(depth + 1, kept);
    }
    if arrival.caller_stack {
        inner.borrows(depth + 1, caller.number, callee.number);
    }
    inner.sync();
    let [rdi, rsi, r12, r13, r8, r9] = arrival.words;
    *inner.area.registers_mut() =
        Registers { rdi, rsi, r12, r13, r8, r9, r14: arrival.index, rbx: arrival.record, ..Registers::start(record.entry, stack) };
    fpu::scrub(None);
    count(&here().counters.epc);
    trace::note(kind::CALL, callee.text.base, depth as u64 + 1);
    Ok(())
}

/// The callee's stack pointer. Where the thread was not inside it, and on the caller's stack, the doorstep is its return address.
fn callee_stack(thread: &Thread, inner: &mut Inner, caller: &Domain, callee: &Domain, arrival: &Arrival) -> Result<u64, Error> {
    if arrival.caller_stack {
        let at = doorstep(caller, arrival.rsp)?;
        let rights = Rights::READ | Rights::WRITE;
        let entry = AclEntry { principal: principal::THREAD, rights: rights.bits(), id: thread.number, text: callee.text.base };
        let stack = caller.stack_section.as_ref().ok_or(Error::BadAddress)?;
        claim::write_locked(caller, at, &DOORSTEP.to_le_bytes()).map_err(|why| if why == Error::Busy { Error::Changed } else { why })?;
        if stack.check(callee, rights).is_err() {
            inner.stacks.push((inner.depth() + 1, stack.clone(), stack.add_to_entry(&entry)?));
        }
        return Ok(at);
    }
    aside::stack(callee, inner.left_of(callee))
}

/// `gate_return`.
pub fn give_back(thread: &Arc<Thread>, values: [u64; 2]) {
    if thread.inner.lock().depth() == 0 {
        return thread.answer(Err(Error::NotFound));
    }
    leave(thread, Ok(values));
}

/// Ends the current call with an error; the caller's caller if that one has died, too. Whether there was a call.
pub fn unwind(thread: &Arc<Thread>, error: Error) -> bool {
    let domain = {
        let inner = thread.inner.lock();
        if inner.depth() == 0 {
            return false;
        }
        inner.domain.clone()
    };
    if domain.text.is_dead() {
        post::fell_out(thread, &domain);
    }
    thread.unfinished.forget();
    leave(thread, Err(error));
    // A callee that went wrong may have spoilt the topmost word of its stack, where the next call returns to the doorstep; it may be gone, too.
    if domain.stack.1 != 0 && !thread.inner.lock().is_inside(domain.number) {
        let _ = claim::wait_and_write(&domain, domain.stack.1 - 16, &DOORSTEP.to_le_bytes());
    }
    true
}

/// Returns into the caller, or the first one below whose text still lives.
fn leave(thread: &Arc<Thread>, mut result: Result<[u64; 2], Error>) {
    thread.due.back();
    if thread.is_late.load(Ordering::SeqCst) {
        // It may have come to another processor since that was said: what is late ends where this returns to.
        here().attend();
    }
    let mut guard = thread.inner.lock();
    let inner = &mut *guard;
    let mut lent = Vec::new();
    let mut passed = Vec::new();
    let (frame, more) = loop {
        let Some((frame, more)) = inner.pop() else {
            // Nobody is left to return to: the thread's own program has ended.
            let stacks = inner.take_stacks();
            drop(guard);
            end_lending(thread, &lent, passed, stacks);
            return thread.ends(Error::Dead.word());
        };
        if result.is_err() {
            lent.extend(inner.binding_by(frame.record));
        }
        if !inner.domain.text.is_dead() {
            break (frame, more);
        }
        if let Some(served) = more.as_ref().and_then(More::served) {
            served.is_passed(thread);
        }
        passed.extend(more);
        result = Err(Error::Dead);
    };
    let stacks = inner.take_stacks();
    place::comes_back(&inner.domain.text);
    trace::note(kind::RETURN, inner.domain.text.base, inner.depth() as u64);
    // What a program calls with as its return address need not be an address at all.
    let rip = Some(frame.rip & !(BY_KERNEL | PLAIN | MORE)).filter(|rip| *rip < SPACE_END).unwrap_or(0);
    let rsp = inner.gate.sp(inner.domain.number);
    let (values, status) = match result {
        Ok(values) => (values, 0),
        Err(error) => ([0; 2], error.word()),
    };
    match more {
        // A caller can give the gate a return address that looks like this, but not such a record.
        None if frame.rip & PLAIN != 0 && arch::gate::is_loose(frame.record) => {
            let Kept { registers: [rbx, rbp, r12, r13, r14, r15], control, .. } = inner.gate.kept(inner.depth() + 1);
            let [rax, rdx] = values;
            *inner.area.registers_mut() =
                Registers { rax, rdx, r10: status, rbx, rbp, r12, r13, r14, r15, ..Registers::start(rip, rsp) };
            fpu::scrub(Some(control));
        }
        None => {
            let [rdi, rsi] = values;
            *inner.area.registers_mut() = Registers { rdi, rsi, r10: status, ..Registers::start(rip, rsp) };
            fpu::scrub(None);
        }
        Some(More::Served(mut served)) => {
            pager::restore(thread, inner, &mut served);
            drop(guard);
            end_lending(thread, &lent, passed, stacks);
            return pager::returned(thread, served, result);
        }
        Some(More::Signal(mut begun)) => {
            aside::come_back(inner, begun.area());
            drop(guard);
            end_lending(thread, &lent, passed, stacks);
            return signal::returned(thread, *begun);
        }
        Some(More::Foreign(Foreign { mut registers, faulted })) => {
            let task = thread.task.clone();
            let mut goes_on = |rax| {
                registers.rax = rax;
                None
            };
            let ends = match result {
                Ok(_) if faulted => None,
                Ok([rax, _]) => goes_on(rax),
                Err(Error::Dead) => Some(abi::task::exit::KILLED),
                Err(_) if faulted => Some(abi::task::exit::FAULT),
                // The personality failed in this one call: ENOMEM, EFAULT.
                Err(error) => goes_on((if error == Error::NoMemory { -12i64 } else { -14 }).cast_unsigned()),
            };
            if let Some(kind) = ends {
                drop(guard);
                end_lending(thread, &lent, passed, stacks);
                return task.exit_with(kind, 0);
            }
            *inner.area.registers_mut() = *registers;
            crate::foreign::restore_vectors(inner);
        }
    }
    drop(guard);
    end_lending(thread, &lent, passed, stacks);
}

/// Of calls that have been left: pagers are not waited for any more, and what was lent is taken back.
fn end_lending(thread: &Thread, lent: &[Arc<Binding>], passed: Vec<More>, stacks: Vec<(usize, Arc<Section>, AclEntry)>) {
    passed.iter().filter_map(More::served).for_each(|served| _ = pager::release(served));
    for (_, stack, added) in stacks {
        // It may have been deleted, or the text have ended.
        let _ = stack.take_from_entry(&added);
    }
    lent.iter().for_each(|binding| binding.has_gone_wrong(thread.task.number));
}
