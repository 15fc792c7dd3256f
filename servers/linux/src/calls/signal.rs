//! Signals that programs send to themselves and to each other, and their handlers.

use abi::frame::Vectors;
use abi::layout::WINDOW_END;
use alloc::vec::Vec;
use linux_raw_sys::general as linux;

use crate::answer::{Answer, End, Errno, Stop, errno, fail};
use crate::machine::Machine;
use crate::process::Call;
use crate::signals::fault::Fault;
use crate::signals::{self, AltStack, COUNT, Delivery, Handling, Sender, frame};
use crate::trace;

/// `mask_len` of all these calls.
const MASK_LEN: u64 = 8;
const MINSIGSTKSZ: u64 = 2048;
/// Flags that handlers begin without: single step, direction (as the C ABI has it), resume.
const NOT_IN_HANDLERS: u64 = 1 << 8 | 1 << 10 | 1 << 16;

pub fn rt_sigaction<M: Machine>(call: &mut Call<'_, M>, number: u64, new: u64, old: u64, mask_len: u64) -> Answer {
    if mask_len != MASK_LEN {
        return fail(errno::EINVAL);
    }
    let before = call.process.signals.lock().action(number).ok_or(Errno(errno::EINVAL))?;
    if new != 0 {
        let action = signals::Action::load(&call.read_array(new)?);
        if action.unknown_flags() != 0 {
            return call.refuse("rt_sigaction flags", action.unknown_flags(), errno::EINVAL);
        }
        call.process.signals.lock().set_action(number, action).ok_or(Errno(errno::EINVAL))?;
    }
    if old != 0 {
        call.write(old, &before.store())?;
    }
    Ok(0)
}

pub fn rt_sigprocmask<M: Machine>(call: &mut Call<'_, M>, how: u32, new: u64, old: u64, mask_len: u64) -> Answer {
    if mask_len != MASK_LEN {
        return fail(errno::EINVAL);
    }
    let before = call.process.signals.lock().mask;
    if new != 0 {
        let mask = call.read_word(new)?;
        let mask = match how {
            linux::SIG_BLOCK => before | mask,
            linux::SIG_UNBLOCK => before & !mask,
            linux::SIG_SETMASK => mask,
            _ => return fail(errno::EINVAL),
        };
        call.process.signals.lock().set_mask(mask);
    }
    if old != 0 {
        call.write(old, &before.to_le_bytes())?;
    }
    Ok(0)
}

pub fn rt_sigpending<M: Machine>(call: &mut Call<'_, M>, mask: u64, mask_len: u64) -> Answer {
    if mask_len > MASK_LEN {
        return fail(errno::EINVAL);
    }
    let pending = call.process.signals.lock().pending().to_le_bytes();
    call.write(mask, &pending[..mask_len as usize])?;
    Ok(0)
}

/// Other signals are let through until one has a handler called, or ends the program.
pub fn rt_sigsuspend<M: Machine>(call: &mut Call<'_, M>, mask: u64, mask_len: u64) -> Answer {
    if mask_len != MASK_LEN {
        return fail(errno::EINVAL);
    }
    let mask = call.read_word(mask)?;
    call.process.signals.lock().suspend(mask);
    pause(call)
}

pub fn pause<M: Machine>(call: &mut Call<'_, M>) -> Answer {
    let interrupted = call.process.signals.lock().interrupts();
    if interrupted.is_some() { fail(errno::EINTR) } else { Err(Stop::Wait(u64::MAX)) }
}

pub fn sigaltstack<M: Machine>(call: &mut Call<'_, M>, new: u64, old: u64) -> Answer {
    let before = call.process.signals.lock().alt_stack;
    let is_on = before.is_some_and(|stack| stack.holds(call.frame.rsp));
    if new != 0 {
        if is_on {
            return fail(errno::EPERM);
        }
        let (address, flags, len) = (call.read_word(new)?, call.read_word(new + 8)? as u32, call.read_word(new + 16)?);
        let stack = match flags {
            linux::SS_DISABLE => None,
            0 | linux::SS_ONSTACK if len < MINSIGSTKSZ => return fail(errno::ENOMEM),
            0 | linux::SS_ONSTACK if address.checked_add(len).is_none_or(|end| end > WINDOW_END) => {
                return fail(errno::EFAULT);
            }
            0 | linux::SS_ONSTACK => Some(AltStack { address, len }),
            _ => return call.refuse("sigaltstack flags", flags.into(), errno::EINVAL),
        };
        call.process.signals.lock().alt_stack = stack;
    }
    if old != 0 {
        let (address, flags, len) = before.map_or((0, linux::SS_DISABLE, 0), |s| (s.address, u32::from(is_on), s.len));
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&address.to_le_bytes());
        bytes[8..12].copy_from_slice(&flags.to_le_bytes());
        bytes[16..].copy_from_slice(&len.to_le_bytes());
        call.write(old, &bytes)?;
    }
    Ok(0)
}

pub fn kill<M: Machine>(call: &mut Call<'_, M>, target: i32, number: u64) -> Answer {
    let own = call.process.task;
    let targets: Vec<u64> = {
        let family = call.server.family.lock();
        match target {
            1.. => alloc::vec![target as u64],
            0 => family.in_group(family.group(own)?),
            -1 => call.server.all().into_iter().filter(|task| *task != own).collect(),
            _ => family.in_group(u64::from(target.unsigned_abs())),
        }
    };
    // As on Linux: it counts if one of them may be reached.
    let mut outcome = fail(errno::ESRCH);
    for task in targets {
        outcome = match send(call, task, number) {
            Ok(_) => Ok(0),
            Err(Stop::Error(_)) if outcome.is_ok() => Ok(0),
            refused => refused,
        };
    }
    outcome
}

fn send<M: Machine>(call: &Call<'_, M>, task: u64, number: u64) -> Answer {
    if task == call.process.task {
        return raise(call, number, linux::SI_USER as i32);
    }
    let Some(other) = call.server.process(task) else {
        // One that has ended and was not waited for is still there.
        call.server.family.lock().group(task)?;
        return Ok(0);
    };
    if other.user != call.process.user && call.process.user != abi::task::USER_SYSTEM {
        return fail(errno::EPERM);
    }
    if number > COUNT {
        return fail(errno::EINVAL);
    }
    if number == 0 {
        return Ok(0);
    }
    if signals::stops(number) {
        return call.refuse("stopping another program, signal", number, errno::EPERM);
    }
    let ends = {
        let mut signals = other.signals.lock();
        let ends = number == u64::from(linux::SIGKILL) || signals.ends(number);
        if !ends {
            let sender = Sender { code: linux::SI_USER as i32, task: call.process.task, user: call.process.user };
            signals.raise(number, sender);
        }
        ends
    };
    drop(other);
    if ends {
        call.server.kill(task, number)?;
    } else {
        call.machine().change();
    }
    Ok(0)
}

pub fn tkill<M: Machine>(call: &mut Call<'_, M>, thread: i32, number: u64) -> Answer {
    let own = call.process.task as i32;
    tgkill(call, own, thread, number)
}

pub fn tgkill<M: Machine>(call: &mut Call<'_, M>, target: i32, thread: i32, number: u64) -> Answer {
    let own = call.process.task as i32;
    if target <= 0 || thread <= 0 {
        return fail(errno::EINVAL);
    }
    if (target, thread) != (own, own) {
        return fail(errno::ESRCH);
    }
    raise(call, number, linux::SI_TKILL)
}

fn raise<M: Machine>(call: &Call<'_, M>, number: u64, code: i32) -> Answer {
    if number > COUNT {
        return fail(errno::EINVAL);
    }
    if signals::stops(number) {
        return call.refuse("stopping oneself, signal", number, errno::ENOSYS);
    }
    if number != 0 {
        let sender = Sender { code, task: call.process.task, user: call.process.user };
        call.process.signals.lock().raise(number, sender);
    }
    Ok(0)
}

/// After a call: takes a signal that waits. `Err` if it ends the program.
///
/// # Errors
/// The signal.
pub fn deliver<M: Machine>(call: &mut Call<'_, M>) -> Result<(), End> {
    let delivery = call.process.signals.lock().take();
    match delivery {
        Delivery::Nothing => Ok(()),
        Delivery::End(signal) => Err(End::by(signal)),
        Delivery::Handle(handling) => handle(call, &handling),
    }
}

/// A fault of the program, which its handler may mend. `Err` if it ends the program.
///
/// # Errors
/// The signal.
pub fn fault<M: Machine>(call: &mut Call<'_, M>) -> Result<(), End> {
    let vectors = call.machine().vectors(call.process.task).unwrap_or(Vectors::clean());
    let fault = {
        let map = call.process.map.lock();
        Fault::of(call.frame, map.rights(call.frame.address), &vectors)
    };
    let line = trace::fault(call.frame, fault.signal);
    let handling = call.process.signals.lock().fault(fault);
    let handled = handling.map_or(Err(End::by(fault.signal)), |handling| handle(call, &handling));
    handled.inspect_err(|_| call.say(line.as_bytes()))
}

/// Has the program go on in a handler. Without a stack for it, or a way back from it, it has a fault, as on Linux.
fn handle<M: Machine>(call: &mut Call<'_, M>, handling: &Handling) -> Result<(), End> {
    match enter(call, handling) {
        Err(end) if handling.signal == u64::from(linux::SIGSEGV) => Err(end),
        Err(_) => {
            call.process.signals.lock().set_mask(handling.mask);
            forced(call)
        }
        entered => entered,
    }
}

/// A fault that no instruction had (`force_sig` of Linux): the handler of memory faults is called, or the program ends.
fn forced<M: Machine>(call: &mut Call<'_, M>) -> Result<(), End> {
    let fault = Fault { signal: linux::SIGSEGV.into(), code: linux::SI_KERNEL, ..Fault::default() };
    let handling = call.process.signals.lock().fault(fault);
    handling.map_or(Err(End::by(fault.signal)), |handling| enter(call, &handling))
}

/// Nothing of the registers has changed after an error.
fn enter<M: Machine>(call: &mut Call<'_, M>, handling: &Handling) -> Result<(), End> {
    let (task, action) = (call.process.task, &handling.action);
    let alt = call.process.signals.lock().alt_stack;
    let bad = End::by(linux::SIGSEGV.into());
    let at = frame::address(call.frame.rsp, action, alt).ok_or(bad)?;
    let vectors = call.machine().vectors(task).map_err(|_| bad)?;
    let record = frame::store(at, call.frame, handling, alt, &vectors);
    let back = action.flags & u64::from(linux::SA_RESTORER) != 0;
    if call.write(at, &record).is_err() || !back || action.handler >= WINDOW_END {
        return Err(bad);
    }
    call.machine().set_vectors(task, &Vectors::clean()).map_err(|_| bad)?;
    let f = &mut *call.frame;
    (f.rdi, f.rsi, f.rdx) = (handling.signal, at + frame::INFO_AT, at + frame::CONTEXT_AT);
    (f.rip, f.rsp, f.rax) = (action.handler, at, 0);
    f.rflags &= !NOT_IN_HANDLERS;
    Ok(())
}

/// The handler has returned: its return address was taken off the stack, the record begins below. A record that is not there is a fault.
pub fn rt_sigreturn<M: Machine>(call: &mut Call<'_, M>) -> Answer {
    let at = call.frame.rsp.wrapping_sub(8);
    let Ok(record) = call.read_array::<{ frame::LEN as usize }>(at) else {
        call.frame.rax = 0;
        forced(call).map_err(Stop::End)?;
        return Err(Stop::Resume);
    };
    let (mask, vectors_at) = frame::load(&record, call.frame);
    call.process.signals.lock().set_mask(mask);
    if call.frame.rip >= WINDOW_END || call.frame.rsp >= WINDOW_END {
        return Err(Stop::End(End::by(linux::SIGSEGV.into())));
    }
    let read = |offset: usize, to: &mut [u8]| call.read_into(vectors_at.wrapping_add(offset as u64), to);
    let vectors = if vectors_at == 0 { Ok(Vectors::clean()) } else { frame::load_vectors(read) };
    let loaded = vectors.is_ok_and(|vectors| call.machine().set_vectors(call.process.task, &vectors).is_ok());
    if !loaded {
        forced(call).map_err(Stop::End)?;
    }
    Err(Stop::Resume)
}
