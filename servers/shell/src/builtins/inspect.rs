//! Help with finding mistakes: what lies at an address, as far as this shell may see it.

use super::{misused, number};
use crate::io::Io;
use crate::say;
use crate::shell::Shell;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::frame::{Frame, reason};
use musubi::debug::{self, Place, rows};
use musubi::rt::section::{self, Who};
use musubi::rt::{probe, task, thread};
use musubi::{Rights, ended, why};

/// Bytes that are shown if nobody says how many, and at most.
const USUAL: u64 = 64;
const MOST: u64 = 64 << 10;
const ROW: u64 = 16;

pub fn inspect(shell: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    if let [_, word] = words
        && let Some(thread) = word.strip_prefix(b"thread:").and_then(number)
    {
        return thread_of(thread, io);
    }
    if let [_, word] = words
        && let Some(task) = word.strip_prefix(b"task:").and_then(number)
    {
        return threads_of(task, io);
    }
    if let [_, word] = words
        && let Some(job) = word.strip_prefix(b"%")
    {
        let tasks = shell.tasks_of_job(job);
        if tasks.is_empty() {
            io.complain("inspect", format_args!("%{}: no such job", job.escape_ascii()));
        }
        return tasks.iter().fold(i32::from(tasks.is_empty()), |status, task| status.max(threads_of(*task, io)));
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

/// All threads of a task.
fn threads_of(number: u64, io: &mut Io) -> i32 {
    let all: Vec<u64> = task::threads().filter(|one| one.task == number).map(|one| one.thread).collect();
    if all.is_empty() {
        io.complain("inspect", format_args!("task:{number}: no such task"));
        return 1;
    }
    all.into_iter().fold(0, |status, thread| status.max(thread_of(thread, io)))
}

/// Where a thread is, as far as the kernel tells everybody; and its registers, if it is of a program that this shell has started.
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
    match thread::registers(number) {
        Ok(frame) => {
            let _ = debug::load();
            registers(&frame, io);
        }
        Err(error) => say!(io, "its registers: {}", why(error)),
    }
    0
}

fn registers(frame: &Frame, io: &mut Io) {
    let whole = frame.reason == reason::STOPPED;
    let doing = match (frame.address, whole) {
        (0, true) => String::from("stopped"),
        (0, false) => String::from("waits for a message, and goes on"),
        (text, _) => format!("has called {}, and goes on", ended::section_name(text).unwrap_or_default()),
    };
    say!(io, "{doing} at {}", Place(frame.rip));
    if whole {
        rows(frame).iter().for_each(|row| say!(io, "  {row}"));
    } else {
        say!(io, "  rsp {:016x}", frame.rsp);
    }
}

/// `debug` without what it is about.
pub fn debug(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    misused(words, io)
}
