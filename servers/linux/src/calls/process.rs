//! Who a program is, its limits, and its end.

use abi::layout::WINDOW_END;
use linux_raw_sys::{general as linux, prctl as option};

use crate::answer::{Answer, End, Errno, Stop, errno, fail};
use crate::descriptors::DESCRIPTORS_MAX;
use crate::machine::{Clock, Machine};
use crate::map::STACK_LEN;
use crate::process::{Call, NAME_LEN};

/// Of `asm/prctl.h`; `linux-raw-sys` has only `ARCH_SET_FS`.
const ARCH_SET_GS: u32 = 0x1001;
const ARCH_GET_FS: u32 = 0x1003;
const ARCH_GET_GS: u32 = 0x1004;
const INFINITY: u64 = u64::MAX;

/// There is one thread, so the end of the thread is the end of the program.
pub fn exit<M: Machine>(_call: &mut Call<'_, M>, code: u32) -> Answer {
    Err(Stop::End(End::Exit(code as u8)))
}

/// There is one thread. Who wakes and who waits are programs that share the memory, since one was started by the other.
pub fn futex<M: Machine>(call: &mut Call<'_, M>, word: u64, operation: u32, value: u32, timeout: u64) -> Answer {
    let command = operation as i32 & linux::FUTEX_CMD_MASK as i32;
    let now = u32::from_le_bytes(call.read_array(word)?);
    match command as u32 {
        linux::FUTEX_WAKE => {
            call.machine().change();
            Ok(0)
        }
        linux::FUTEX_WAIT if now != value => fail(errno::EAGAIN),
        linux::FUTEX_WAIT => {
            let ns = if timeout == 0 { u64::MAX } else { super::time::read_timespec(call, timeout)? };
            let until = call.since.saturating_add(ns);
            if call.machine().clock(Clock::SinceBoot) < until { Err(Stop::Wait(until)) } else { fail(errno::ETIMEDOUT) }
        }
        _ => call.refuse("futex", operation.into(), errno::ENOSYS),
    }
}

pub fn sched_yield<M: Machine>(call: &mut Call<'_, M>) -> Answer {
    call.machine().yield_now();
    Ok(0)
}

pub fn getpid<M: Machine>(call: &mut Call<'_, M>) -> Answer {
    Ok(call.process.task)
}

pub fn getppid<M: Machine>(call: &mut Call<'_, M>) -> Answer {
    let parent = call.server.family.lock().parent(call.process.task);
    Ok(parent.unwrap_or_else(|| call.machine().parent(call.process.task)))
}

/// The program that is meant; 0: the one that asks.
fn meant<M: Machine>(call: &Call<'_, M>, process: i32) -> Result<u64, Errno> {
    match u64::try_from(process) {
        Ok(0) => Ok(call.process.task),
        Ok(other) => Ok(other),
        Err(_) => fail(errno::ESRCH),
    }
}

pub fn getpgrp<M: Machine>(call: &mut Call<'_, M>) -> Answer {
    getpgid(call, 0)
}

pub fn getpgid<M: Machine>(call: &mut Call<'_, M>, process: i32) -> Answer {
    let process = meant(call, process)?;
    Ok(call.server.family.lock().group(process)?)
}

pub fn getsid<M: Machine>(call: &mut Call<'_, M>, process: i32) -> Answer {
    let process = meant(call, process)?;
    Ok(call.server.family.lock().session(process)?)
}

pub fn setpgid<M: Machine>(call: &mut Call<'_, M>, process: i32, group: i32) -> Answer {
    let process = meant(call, process)?;
    let group = match u64::try_from(group) {
        Ok(0) => process,
        Ok(group) => group,
        Err(_) => return fail(errno::EINVAL),
    };
    call.server.family.lock().set_group(call.process.task, process, group)?;
    Ok(0)
}

pub fn setsid<M: Machine>(call: &mut Call<'_, M>) -> Answer {
    call.server.family.lock().set_session(call.process.task)?;
    Ok(call.process.task)
}

fn own<M: Machine>(call: &Call<'_, M>, process: i32) -> Result<(), Errno> {
    if process == 0 || process as u64 == call.process.task { Ok(()) } else { fail(errno::ESRCH) }
}

/// User and group, real and effective, have the number of the Musubi user.
pub fn getuid<M: Machine>(call: &mut Call<'_, M>) -> Answer {
    Ok(call.process.user)
}

pub fn setuid<M: Machine>(call: &mut Call<'_, M>, user: u32) -> Answer {
    if u64::from(user) == call.process.user { Ok(0) } else { fail(errno::EPERM) }
}

pub fn getresuid<M: Machine>(call: &mut Call<'_, M>, real: u64, effective: u64, saved: u64) -> Answer {
    for address in [real, effective, saved] {
        call.write(address, &(call.process.user as u32).to_le_bytes())?;
    }
    Ok(0)
}

pub fn getgroups<M: Machine>(_call: &mut Call<'_, M>, count: i32, _list: u64) -> Answer {
    if count < 0 { fail(errno::EINVAL) } else { Ok(0) }
}

pub fn umask<M: Machine>(call: &mut Call<'_, M>, mask: u32) -> Answer {
    Ok(u64::from(core::mem::replace(&mut *call.process.umask.lock(), mask & 0o777)))
}

pub fn prctl<M: Machine>(call: &mut Call<'_, M>, code: u32, argument: u64) -> Answer {
    match code {
        option::PR_SET_NAME => {
            let mut name = alloc::vec::Vec::new();
            for i in 0..NAME_LEN as u64 - 1 {
                match call.read_array::<1>(argument.wrapping_add(i))?[0] {
                    0 => break,
                    c => name.push(c),
                }
            }
            call.process.program.lock().rename(&name);
            Ok(0)
        }
        option::PR_GET_NAME => {
            let mut bytes = [0; NAME_LEN];
            {
                let program = call.process.program.lock();
                bytes[..program.name.len()].copy_from_slice(&program.name);
            }
            call.write(argument, &bytes)?;
            Ok(0)
        }
        _ => call.refuse("prctl", code.into(), errno::EINVAL),
    }
}

pub fn arch_prctl<M: Machine>(call: &mut Call<'_, M>, code: u32, address: u64) -> Answer {
    match code {
        linux::ARCH_SET_FS | ARCH_SET_GS if address >= WINDOW_END => fail(errno::EPERM),
        linux::ARCH_SET_FS => {
            call.frame.fs_base = address;
            Ok(0)
        }
        ARCH_SET_GS => {
            call.frame.gs_base = address;
            Ok(0)
        }
        ARCH_GET_FS => {
            call.write(address, &call.frame.fs_base.to_le_bytes())?;
            Ok(0)
        }
        ARCH_GET_GS => {
            call.write(address, &call.frame.gs_base.to_le_bytes())?;
            Ok(0)
        }
        _ => call.refuse("arch_prctl", code.into(), errno::EINVAL),
    }
}

/// Nobody waits for the word at the address, since no other thread shares this memory.
pub fn set_tid_address<M: Machine>(call: &mut Call<'_, M>, _address: u64) -> Answer {
    Ok(call.process.task)
}

/// Likewise: nobody waits for a lock in the list.
pub fn set_robust_list<M: Machine>(_call: &mut Call<'_, M>, _head: u64, len: u64) -> Answer {
    if len == 24 { Ok(0) } else { fail(errno::EINVAL) }
}

/// Limits that are in force: (now, at most).
fn limit<M: Machine>(call: &Call<'_, M>, resource: u32) -> Option<(u64, u64)> {
    Some(match resource {
        linux::RLIMIT_STACK => (STACK_LEN, STACK_LEN),
        linux::RLIMIT_NOFILE => (call.process.descriptors.lock().limit() as u64, DESCRIPTORS_MAX as u64),
        linux::RLIMIT_CORE => (0, 0),
        r if r < linux::RLIM_NLIMITS => (INFINITY, INFINITY),
        _ => return None,
    })
}

pub fn prlimit64<M: Machine>(call: &mut Call<'_, M>, process: i32, resource: u32, new: u64, old: u64) -> Answer {
    own(call, process)?;
    let before = limit(call, resource).ok_or(Errno(errno::EINVAL))?;
    if new != 0 {
        let (now, most) = (call.read_word(new)?, call.read_word(new.wrapping_add(8))?);
        if now > most {
            return fail(errno::EINVAL);
        }
        if resource == linux::RLIMIT_NOFILE && most <= DESCRIPTORS_MAX as u64 {
            call.process.descriptors.lock().set_limit(now as usize);
        } else if (now, most) != before {
            return call.refuse("prlimit64 to set resource", resource.into(), errno::EPERM);
        }
    }
    if old != 0 {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&before.0.to_le_bytes());
        bytes[8..].copy_from_slice(&before.1.to_le_bytes());
        call.write(old, &bytes)?;
    }
    Ok(0)
}

pub fn getrlimit<M: Machine>(call: &mut Call<'_, M>, resource: u32, limit: u64) -> Answer {
    prlimit64(call, 0, resource, 0, limit)
}

pub fn setrlimit<M: Machine>(call: &mut Call<'_, M>, resource: u32, limit: u64) -> Answer {
    prlimit64(call, 0, resource, limit, 0)
}

pub fn sched_getaffinity<M: Machine>(call: &mut Call<'_, M>, process: i32, len: u64, mask: u64) -> Answer {
    own(call, process)?;
    if len < 8 || !len.is_multiple_of(8) {
        return fail(errno::EINVAL);
    }
    let all = call.machine().processors().clamp(1, 64) as u32;
    call.write(mask, &(u64::MAX >> (64 - all)).to_le_bytes())?;
    Ok(8)
}

/// A program may be on another processor by the time it reads the answer, so the first one is as good as any.
pub fn getcpu<M: Machine>(call: &mut Call<'_, M>, processor: u64, node: u64) -> Answer {
    for address in [processor, node].into_iter().filter(|&address| address != 0) {
        call.write(address, &0u32.to_le_bytes())?;
    }
    Ok(0)
}
