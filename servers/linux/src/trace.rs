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

/// What is said of a fault that ends the program by this signal.
#[must_use]
pub fn fault(frame: &Frame, signal: u64) -> String {
    let mut line = String::new();
    let (ip, address) = (frame.rip, frame.address);
    let name = match signal as u32 {
        linux::SIGFPE => "arithmetic exception",
        linux::SIGTRAP => "breakpoint",
        linux::SIGILL => "illegal instruction",
        linux::SIGBUS if frame.reason == reason::FAULT => "no memory",
        linux::SIGBUS if address == 18 => "memory that has failed",
        linux::SIGBUS => "unaligned access",
        _ => "segmentation fault",
    };
    if frame.reason == reason::FAULT {
        let right = Rights::from_bits_truncate(frame.right as u32);
        let access = if right.contains(Rights::EXECUTE) {
            "jump to"
        } else if right.contains(Rights::WRITE) {
            "write at"
        } else {
            "read at"
        };
        let _ = writeln!(line, "{name}: {access} {address:#x} ip {ip:#x}");
    } else {
        let _ = writeln!(line, "{name}: exception {address} ip {ip:#x}");
    }
    line
}
