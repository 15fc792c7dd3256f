//! Help with finding mistakes: what lies at an address, as far as this shell may see it.

use super::{misused, number};
use crate::io::Io;
use crate::say;
use crate::shell::Shell;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::rt::section::{self, Who};
use musubi::rt::{probe, task};
use musubi::{Rights, ended, why};

/// Bytes that are shown if nobody says how many, and at most.
const USUAL: u64 = 64;
const MOST: u64 = 64 << 10;
const ROW: u64 = 16;

pub fn inspect(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    if let [_, word] = words
        && let Some(thread) = word.strip_prefix(b"thread:").and_then(number)
    {
        return thread_of(thread, io);
    }
    let (at, len) = match words {
        [_, at] => (number(at), Some(USUAL)),
        [_, at, len] => (number(at), number(len)),
        _ => (None, None),
    };
    let (Some(at), Some(len @ 1..=MOST)) = (at, len) else { return misused(words, io) };
    let info = match section::info(at) {
        Ok(info) => info,
        Err(error) => {
            io.complain("inspect", format_args!("{at:#x}: {}", why(error)));
            return 1;
        }
    };
    let (name, kind) = (ended::text(&info.name), super::sections::kind_text(info.kind));
    let rights = Rights::from_bits_truncate(info.rights as u32);
    say!(io, "{at:#x} = {name}+{:#x}: {kind}, owner task {}, you {rights}", at - info.base, info.owner);
    let end = at.saturating_add(len).min(info.base + info.len);
    let mut from = at;
    while from < end {
        let upto = (from / ROW * ROW + ROW).min(end);
        if !section::may(from, upto - from, Rights::READ, Who::Own) {
            io.complain("inspect", format_args!("{from:#x}: you have no right to read there"));
            return 1;
        }
        let bytes: Vec<u8> = (from..upto).map(probe::read).collect();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x} ")).collect();
        let shown: String =
            bytes.iter().map(|&b| if b == b' ' || b.is_ascii_graphic() { b.into() } else { '.' }).collect();
        say!(io, "{from:#x}  {hex:<48} {shown}");
        from = upto;
    }
    0
}

/// Where a thread is, as far as the kernel tells everybody: registers are its own (`debug` has it show them).
fn thread_of(number: u64, io: &mut Io) -> i32 {
    let Some(one) = task::threads().find(|one| one.thread == number) else {
        io.complain("inspect", format_args!("thread:{number}: no such thread"));
        return 1;
    };
    let state = ["ready", "running", "waiting", "ended"].get(one.state as usize).unwrap_or(&"?");
    let name = |at| ended::section_name(at).unwrap_or_default();
    say!(io, "thread {number} of task {}: {state}, on processor {}", one.task, one.processor);
    say!(io, "in text {} {:#x}, called by {} others", name(one.text), one.text, one.depth);
    say!(io, "{} faults, {} of the processor", one.faults, super::table::time(one.time));
    0
}

/// `debug` without what it is about.
pub fn debug(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    misused(words, io)
}
