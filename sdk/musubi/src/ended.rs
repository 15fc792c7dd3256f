//! How a program ended, as a status and as a line for people.

use alloc::format;
use alloc::string::{String, ToString};
use rt::Rights;
use rt::abi::pager::why;
use rt::abi::sched::reason;
use rt::abi::task::{Exit, cause, exit};

/// Refused: not a program, or not one that can be run.
pub const REFUSED: i32 = 126;
/// No program of that name.
pub const NOT_FOUND: i32 = 127;
/// Ended by a fault: 128 + 11, as shells say it.
pub const FAULT: i32 = 139;
/// Killed: 128 + 9.
pub const KILLED: i32 = 137;

/// The exit status of a program that ended like this.
#[must_use]
pub fn status(ended: &Exit) -> i32 {
    match ended.kind {
        exit::EXITED => (ended.code & 0xff) as i32,
        exit::FAULT => FAULT,
        _ => KILLED,
    }
}

/// What went wrong, in one line; empty if the program ended by itself. `name_of` names the section at an address.
#[must_use]
pub fn describe(ended: &Exit, name_of: impl Fn(u64) -> Option<String>) -> String {
    match ended.kind {
        exit::EXITED => String::new(),
        exit::KILLED => "killed".to_string(),
        _ => format!(
            "fault: {}, by (thread {}, text {}) at {:#x}",
            cause_of(ended, &name_of),
            ended.thread,
            named(ended.text, &name_of),
            ended.ip
        ),
    }
}

/// A section by its name and address.
pub(crate) fn named(base: u64, name_of: &impl Fn(u64) -> Option<String>) -> String {
    match name_of(base).filter(|n| !n.is_empty()) {
        Some(name) => format!("{name} {base:#x}"),
        None => format!("{base:#x}"),
    }
}

fn cause_of(ended: &Exit, name_of: &impl Fn(u64) -> Option<String>) -> String {
    let right = Rights::from_bits_truncate(ended.right as u32).words();
    match ended.cause {
        cause::DENIED => {
            format!("no right to {right} section {} at address {:#x}", named(ended.section, name_of), ended.address)
        }
        cause::NO_SECTION => format!("{right} of address {:#x}, where there is no section", ended.address),
        cause::DIVIDE => "division by zero".to_string(),
        cause::INSTRUCTION => "an instruction that programs may not execute".to_string(),
        cause::BREAKPOINT => "a breakpoint".to_string(),
        cause::OVERFLOW => "an overflow".to_string(),
        cause::STEP => "a single step that nobody deals with".to_string(),
        cause::FLOATING => {
            let unit = if ended.address == 16 { "x87 status" } else { "MXCSR" };
            format!("a floating-point exception ({}; {unit} {:#x})", floating(ended.code), ended.code)
        }
        cause::MACHINE => format!("the machine has failed (machine check, status {:#x})", ended.code),
        cause::ALIGNMENT => "an access that is not aligned".to_string(),
        cause::EXCEPTION => format!("processor exception {}", ended.address),
        cause::NO_MEMORY => format!("no memory left for address {:#x}", ended.address),
        cause::NO_GATE => {
            format!("no gate at address {:#x} of section {}", ended.address, named(ended.section, name_of))
        }
        cause::STACK => format!("stack used up at address {:#x}", ended.address),
        cause::INVALID => {
            format!(
                "{right} of address {:#x}, a page of section {} that was made invalid",
                ended.address,
                named(ended.section, name_of)
            )
        }
        cause::PAGER => {
            format!(
                "{right} of address {:#x} of section {}: {}",
                ended.address,
                named(ended.section, name_of),
                why::text(ended.code)
            )
        }
        cause::SCHEDULER => {
            let why = usize::try_from(ended.address).ok().and_then(|at| reason::WORDS.get(at));
            format!("as a scheduler: {}", why.unwrap_or(&"for no known reason"))
        }
        other => format!("cause {other} at address {:#x}", ended.address),
    }
}

/// Which exceptions: both units have them in the same bits.
fn floating(status: u64) -> String {
    const ALL: [&str; 6] = ["invalid", "denormal", "division by zero", "overflow", "underflow", "inexact"];
    let set = ALL.iter().enumerate().filter(|(bit, _)| status & 1 << bit != 0).map(|(_, name)| *name);
    let words: alloc::vec::Vec<&str> = set.collect();
    words.join(", ")
}

/// The name that the kernel keeps for the section at an address.
#[must_use]
pub fn section_name(address: u64) -> Option<String> {
    let info = rt::section::info(address).ok()?;
    Some(text(&info.name))
}

/// A NUL-padded name.
#[must_use]
pub fn text(name: &[u8]) -> String {
    let len = name.iter().position(|&b| b == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..len]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denied_access_names_section_right_and_domain() {
        let ended = Exit {
            kind: exit::FAULT,
            cause: cause::DENIED,
            address: 0x6000_1234,
            section: 0x6000_0000,
            right: u64::from(Rights::WRITE.bits()),
            thread: 7,
            text: 0x4000_0000,
            ip: 0x4000_0010,
            ..Exit::default()
        };
        let names = |a: u64| (a == 0x6000_0000).then(|| "diary".to_string());
        assert_eq!(
            describe(&ended, names),
            "fault: no right to write section diary 0x60000000 at address 0x60001234, by (thread 7, text 0x40000000) at \
             0x40000010"
        );
        assert_eq!(status(&ended), 139);
        assert_eq!(status(&Exit { code: 300, ..Exit::default() }), 44);
        assert_eq!(status(&Exit { kind: exit::KILLED, ..Exit::default() }), 137);
    }
}
