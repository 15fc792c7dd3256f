//! Help with finding mistakes (SSS-71): a program that is started with this variable says of a fault that it does not mend where it
//! was, with which registers, who had called, and what lies on the stack. It says so itself, on the thread that had the fault, so with no
//! more rights than it has; and without the heap, which may be what is wrong.

use crate::stream;
use core::fmt::{self, Write};
use rt::abi::frame::{Frame, reason};
use rt::section::{self, Who};
use rt::{Rights, fault, probe};

/// In the environment (the shell's command `debug` sets it).
pub const VARIABLE: &str = "MUSUBI_DEBUG";

/// Calls and words of the stack that are shown.
const CALLS: usize = 24;
const WORDS: u64 = 16;

pub fn begin() {
    // So that nothing has to be made when it is needed.
    let _ = stream::errors().is_console();
    fault::show_with(show);
}

/// A line without the heap.
struct Line {
    bytes: [u8; 200],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let len = text.len().min(self.bytes.len() - self.len);
        self.bytes[self.len..self.len + len].copy_from_slice(&text.as_bytes()[..len]);
        self.len += len;
        Ok(())
    }
}

fn say(what: fmt::Arguments<'_>) {
    let mut line = Line { bytes: [0; 200], len: 0 };
    let _ = writeln!(line, "{what}");
    let _ = stream::errors().write_all(&line.bytes[..line.len]);
}

fn word(at: u64) -> Option<u64> {
    let may = at.checked_add(8).is_some() && section::may(at, 8, Rights::READ, Who::Own);
    may.then(|| u64::from_le_bytes(core::array::from_fn(|n| probe::read(at + n as u64))))
}

/// An address as the name of its section and the distance from its beginning.
struct Place(u64);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match section::info(self.0) {
            Ok(info) => {
                let len = info.name.iter().position(|&byte| byte == 0).unwrap_or(info.name.len());
                let name = core::str::from_utf8(&info.name[..len]).unwrap_or("?");
                write!(
                    f,
                    "{:#x} = {}+{:#x}",
                    self.0,
                    if name.is_empty() { "section" } else { name },
                    self.0 - info.base
                )
            }
            Err(_) => write!(f, "{:#x}, where there is no section", self.0),
        }
    }
}

fn show(frame: &Frame) {
    let what = if frame.reason == reason::FAULT { "access to" } else { "exception" };
    say(format_args!(
        "debug: thread {}: {what} {:#x}, cause {}, at {}",
        frame.thread,
        frame.address,
        frame.cause,
        Place(frame.rip)
    ));
    for row in [
        [("rax", frame.rax), ("rbx", frame.rbx), ("rcx", frame.rcx), ("rdx", frame.rdx)],
        [("rsi", frame.rsi), ("rdi", frame.rdi), ("rbp", frame.rbp), ("rsp", frame.rsp)],
        [("r8", frame.r8), ("r9", frame.r9), ("r10", frame.r10), ("r11", frame.r11)],
        [("r12", frame.r12), ("r13", frame.r13), ("r14", frame.r14), ("r15", frame.r15)],
    ] {
        let [a, b, c, d] = row.map(|(name, value)| Register(name, value));
        say(format_args!("  {a}  {b}  {c}  {d}"));
    }
    say(format_args!("called by"));
    let mut at = frame.rbp;
    for _ in 0..CALLS {
        let (Some(next), Some(back)) = (word(at), at.checked_add(8).and_then(word)) else { break };
        if back == 0 {
            break;
        }
        say(format_args!("  {}", Place(back)));
        // A chain leads up the stack.
        if next <= at {
            break;
        }
        at = next;
    }
    say(format_args!("stack"));
    for n in (0..WORDS).step_by(4) {
        let mut line = Line { bytes: [0; 200], len: 0 };
        for at in (n..n + 4).filter_map(|n| frame.rsp.checked_add(8 * n)) {
            let Some(word) = word(at) else { break };
            let _ = write!(line, " {word:016x}");
        }
        if line.len > 0 {
            let words = core::str::from_utf8(&line.bytes[..line.len]).unwrap_or("");
            say(format_args!("  {:#x}:{words}", frame.rsp + 8 * n));
        }
    }
}

struct Register(&'static str, u64);

impl fmt::Display for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<3} {:016x}", self.0, self.1)
    }
}
