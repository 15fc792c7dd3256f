//! Terminals and readiness.

use linux_raw_sys::{general as linux, ioctl};

use crate::answer::{Answer, Errno, Stop, errno, fail};
use crate::descriptors::{Description, Object, OnExec, PIPE_MAX};
use crate::machine::{Clock, Machine};
use crate::process::Call;
use crate::record;

/// Most descriptors of one `poll`.
const POLL_MAX: u64 = crate::descriptors::DESCRIPTORS_MAX as u64;
const MILLISECOND: u64 = 1_000_000;
const CONTROL: [u8; 19] = [3, 28, 127, 21, 4, 0, 1, 0, 17, 19, 26, 0, 18, 15, 23, 22, 0, 0, 0];

/// The modes of a terminal: line by line, with echo, as the console server does it.
fn termios() -> [u8; size_of::<linux::termios>()] {
    let mut bytes = record!(linux::termios {
        c_iflag: linux::ICRNL | linux::IXON,
        c_oflag: linux::OPOST | linux::ONLCR,
        c_cflag: linux::B38400 | linux::CS8 | linux::CREAD | linux::HUPCL,
        c_lflag: linux::ISIG | linux::ICANON | linux::ECHO | linux::ECHOE | linux::ECHOK | linux::IEXTEN,
    });
    bytes[core::mem::offset_of!(linux::termios, c_cc)..][..CONTROL.len()].copy_from_slice(&CONTROL);
    bytes
}

pub fn ioctl<M: Machine>(call: &mut Call<'_, M>, fd: i32, request: u32, argument: u64) -> Answer {
    let open = call.description(fd)?;
    match request {
        ioctl::FIOCLEX | ioctl::FIONCLEX => {
            let on_exec = OnExec::from_flag(request == ioctl::FIOCLEX);
            call.process.descriptors.lock().set_on_exec(fd, on_exec)?;
            return Ok(0);
        }
        ioctl::FIONREAD => {
            let ready = match &open.object {
                Object::File(file) => call.file(file.number())?.len.saturating_sub(*open.position.lock()),
                Object::PipeReader(pipe) => pipe.bytes.lock().len() as u64,
                Object::Stream { .. } => {
                    return call.refuse("ioctl(FIONREAD) of a stream, fd", fd as u64, errno::EINVAL);
                }
                _ => return fail(errno::ENOTTY),
            };
            call.write(argument, &(ready.min(i32::MAX as u64) as u32).to_le_bytes())?;
            return Ok(0);
        }
        _ => {}
    }
    let Object::Stream { output, terminal: true, .. } = open.object else {
        // Programs ask whether they are at a terminal in this way, so this is no refusal.
        return fail(errno::ENOTTY);
    };
    match request {
        ioctl::TCGETS => call.write(argument, &termios())?,
        ioctl::TCSETS | ioctl::TCSETSW | ioctl::TCSETSF => {
            let wanted: [u8; size_of::<linux::termios>()] = call.read_array(argument)?;
            if wanted != termios() {
                return call.refuse("ioctl to change the terminal's modes", request.into(), errno::EINVAL);
            }
        }
        ioctl::TIOCGWINSZ => {
            let (columns, rows) = call.machine().stream_terminal(output).unwrap_or((80, 25));
            call.write(argument, &record!(linux::winsize { ws_row: rows, ws_col: columns }))?;
        }
        // A program is a group of its own, and in the foreground while it reads.
        ioctl::TIOCGPGRP => call.write(argument, &(call.process.task as u32).to_le_bytes())?,
        ioctl::TIOCSPGRP => {
            let group: [u8; 4] = call.read_array(argument)?;
            if u64::from(u32::from_le_bytes(group)) != call.process.task {
                return fail(errno::EPERM);
            }
        }
        _ => return call.refuse("ioctl", request.into(), errno::EINVAL),
    }
    Ok(0)
}

/// What can be done without waiting. Whether a stream has something to read cannot be asked, so it is said to have.
fn ready(open: &Description) -> u32 {
    match &open.object {
        Object::PipeReader(pipe) => {
            let hang_up = if pipe.has_two_ends() { 0 } else { linux::POLLHUP };
            if pipe.bytes.lock().is_empty() { hang_up } else { linux::POLLIN | hang_up }
        }
        Object::PipeWriter(pipe) if !pipe.has_two_ends() => linux::POLLERR | linux::POLLOUT,
        Object::PipeWriter(pipe) if pipe.bytes.lock().len() + linux::PIPE_BUF as usize > PIPE_MAX => 0,
        Object::PipeWriter(_) => linux::POLLOUT,
        _ => linux::POLLIN | linux::POLLOUT,
    }
}

pub fn poll<M: Machine>(call: &mut Call<'_, M>, fds: u64, count: u64, timeout: i32) -> Answer {
    let wait = u64::try_from(timeout).map_or(u64::MAX, |ms| ms * MILLISECOND);
    poll_until(call, fds, count, wait)
}

pub fn ppoll<M: Machine>(
    call: &mut Call<'_, M>,
    fds: u64,
    count: u64,
    timeout: u64,
    mask: u64,
    _mask_len: u64,
) -> Answer {
    if mask != 0 {
        call.note("ppoll with a mask", mask);
    }
    let wait = if timeout == 0 {
        u64::MAX
    } else {
        let seconds = call.read_word(timeout)? as i64;
        crate::calls::time::nanoseconds(seconds, call.read_word(timeout.wrapping_add(8))? as i64)?
    };
    poll_until(call, fds, count, wait)
}

fn poll_until<M: Machine>(call: &mut Call<'_, M>, fds: u64, count: u64, wait: u64) -> Answer {
    if count > POLL_MAX {
        return fail(errno::EINVAL);
    }
    let mut found = 0;
    for i in 0..count {
        // struct pollfd: i32 fd, i16 events, i16 revents.
        let at = fds.checked_add(8 * i).ok_or(Errno(errno::EFAULT))?;
        let word = call.read_word(at)?;
        let (fd, events) = (word as i32, (word >> 32) as u32 & 0xffff);
        let always = linux::POLLERR | linux::POLLHUP;
        let returned = match call.description(fd) {
            _ if fd < 0 => 0,
            Ok(open) => ready(&open) & (events | always),
            Err(_) => linux::POLLNVAL,
        };
        call.write(at + 6, &(returned as u16).to_le_bytes())?;
        found += u64::from(returned != 0);
    }
    let until = call.since.saturating_add(wait);
    if found == 0 && call.machine().clock(Clock::SinceBoot) < until {
        return Err(Stop::Wait(until));
    }
    Ok(found)
}
