//! Help with finding mistakes (SSS-71): a program that is started with this variable says of a fault that it does not mend where it
//! was, with which registers, who had called, and what lies on the stack. It says so itself, on the thread that had the fault, so with no
//! more rights than it has; and without the heap, which may be what is wrong.

use crate::stream;
use core::fmt::{self, Write};
use rt::abi::frame::{Frame, reason};
use rt::abi::section::{SectionInfo, kind};
use rt::section::{self, Who};
use rt::{Error, Once, Rights, fault, probe};
use symbols::{Functions, Table};

/// In the environment (the shell's command `debug` sets it).
pub const VARIABLE: &str = "MUSUBI_DEBUG";

/// Calls and words of the stack that are shown.
const CALLS: usize = 24;
const WORDS: u64 = 16;

pub fn begin() {
    // So that nothing has to be made when it is needed.
    let _ = stream::errors().is_console();
    let _ = load();
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

static TABLE: Once<Table<'static>> = Once::new();
/// What is said of this program.
static OWN: Once<Functions<'static>> = Once::new();

/// Looks for the names of all programs' functions. Without them a [`Place`] has none.
///
/// # Errors
/// What the file server answers; `NotFound`, too, if what is there says nothing of this program.
pub fn load() -> Result<(), Error> {
    let table =
        TABLE.get_or_try(|| Table::new(crate::files::open(symbols::FILE.as_bytes())?).ok_or(Error::NotFound))?;
    OWN.get_or_try(|| table.of_text(rt::own_text()).ok_or(Error::NotFound)).map(drop)
}

/// Names for an address in this text.
fn functions(address: u64, text: &SectionInfo, name: &[u8]) -> Option<Functions<'static>> {
    if rt::is_own_code(address) {
        return OWN.get().copied();
    }
    let is_text = text.kind & 0xff == kind::TEXT;
    TABLE.get().filter(|_| is_text)?.of_name(name, text.len)
}

/// An address as the name of its section and the distance from its beginning, and of its function, where that is known.
#[derive(Clone, Copy, Debug)]
pub struct Place(pub u64);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match section::info(self.0) {
            Ok(info) => {
                let len = info.name.iter().position(|&byte| byte == 0).unwrap_or(info.name.len());
                let name = core::str::from_utf8(&info.name[..len]).unwrap_or("?");
                let distance = self.0 - info.base;
                write!(f, "{:#x} = {}+{distance:#x}", self.0, if name.is_empty() { "section" } else { name })?;
                let names = functions(self.0, &info, name.as_bytes());
                match names.and_then(|names| names.find(u32::try_from(distance).ok()?)) {
                    Some((function, distance)) => write!(f, " in {function}+{distance:#x}"),
                    None => Ok(()),
                }
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
    for row in rows(frame) {
        say(format_args!("  {row}"));
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

/// Registers that stand in one line.
#[derive(Clone, Copy, Debug)]
pub struct Row([(&'static str, u64); 4]);

/// All that a thread has for itself.
#[must_use]
pub fn rows(frame: &Frame) -> [Row; 4] {
    [
        Row([("rax", frame.rax), ("rbx", frame.rbx), ("rcx", frame.rcx), ("rdx", frame.rdx)]),
        Row([("rsi", frame.rsi), ("rdi", frame.rdi), ("rbp", frame.rbp), ("rsp", frame.rsp)]),
        Row([("r8", frame.r8), ("r9", frame.r9), ("r10", frame.r10), ("r11", frame.r11)]),
        Row([("r12", frame.r12), ("r13", frame.r13), ("r14", frame.r14), ("r15", frame.r15)]),
    ]
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, value)) in self.0.iter().enumerate() {
            write!(f, "{}{name:<3} {value:016x}", if i > 0 { "  " } else { "" })?;
        }
        Ok(())
    }
}
