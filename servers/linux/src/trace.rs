//! Lines about what a program did: one for each call if it asked for that, one when it faults.

use abi::Rights;
use abi::frame::{Frame, reason};
use alloc::string::String;
use core::fmt::Write;
use linux_raw_sys::general as linux;

use crate::answer::{Answer, Errno, Stop};
use crate::calls;

/// `read(0x3, 0x7fff.., 0x1000) = 0x6`. Writing to a string does not fail, here and below.
#[must_use]
pub fn line(number: u64, arguments: [u64; 6], answer: Answer) -> String {
    let mut line = String::new();
    let _ = write!(line, "{}(", calls::name(number));
    let count = calls::row(number).map_or(arguments.len(), |row| row.arguments.len());
    for (i, argument) in arguments[..count].iter().enumerate() {
        let _ = write!(line, "{}{argument:#x}", if i == 0 { "" } else { ", " });
    }
    let _ = match answer {
        Ok(value) => writeln!(line, ") = {value:#x}"),
        Err(Stop::Error(Errno(errno))) => writeln!(line, ") = -1 (errno {errno})"),
        Err(Stop::Resume) => writeln!(line, ") = ?"),
        Err(Stop::End(end)) => writeln!(line, ") ends with {}", end.code()),
        Err(Stop::Wait(_)) => writeln!(line, ") waits"),
    };
    line
}

/// The signal that a fault is on Linux, and a line that says what happened.
#[must_use]
pub fn fault(frame: &Frame) -> (u64, String) {
    let mut line = String::new();
    let (ip, address) = (frame.rip, frame.address);
    if frame.reason == reason::FAULT {
        let right = Rights::from_bits_truncate(frame.right as u32);
        let access = if right.contains(Rights::EXECUTE) {
            "jump to"
        } else if right.contains(Rights::WRITE) {
            "write at"
        } else {
            "read at"
        };
        let _ = writeln!(line, "segmentation fault: {access} {address:#x} ip {ip:#x}");
        return (u64::from(linux::SIGSEGV), line);
    }
    let (signal, name) = match address {
        0 | 16 | 19 => (linux::SIGFPE, "arithmetic exception"),
        1 | 3 => (linux::SIGTRAP, "breakpoint"),
        6 => (linux::SIGILL, "illegal instruction"),
        17 => (linux::SIGBUS, "unaligned access"),
        18 => (linux::SIGBUS, "memory that has failed"),
        _ => (linux::SIGSEGV, "segmentation fault"),
    };
    let _ = writeln!(line, "{name}: exception {address} ip {ip:#x}");
    (u64::from(signal), line)
}
