//! QEMU never outlives the program that started it, however that program ends.
//!
//! A program that uses this crate calls [`enter`] first thing in `main`. QEMU is then started as that same program
//! in the guard's role: it asks the kernel for a signal at its parent's death, and becomes QEMU.

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

const ROLE: &str = "--musubi-guard";

/// What QEMU gets when its parent is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Farewell {
    /// It puts the terminal back in order first.
    Ask,
    Kill,
}

/// Becomes QEMU if this process was started as a guard; otherwise returns.
pub fn enter() {
    let mut args = std::env::args_os().skip(1);
    if args.next().as_deref() != Some(ROLE.as_ref()) {
        return;
    }
    let parent = args.next().unwrap_or_default();
    let signal = if args.next().as_deref() == Some("ask".as_ref()) { Signal::TERM } else { Signal::KILL };
    let program = args.next().unwrap_or_default();
    let armed = set_parent_process_death_signal(Some(signal));
    // A parent that died before the line above sends no signal any more.
    let orphan = getppid().is_none_or(|pid| pid.as_raw_nonzero().to_string().as_str() != parent);
    if armed.is_err() || orphan {
        std::process::exit(125);
    }
    let error = Command::new(&program).args(args).exec();
    eprintln!("{}: {error}", program.display());
    std::process::exit(127);
}

/// A command that runs `program` under a guard.
pub(crate) fn command(program: OsString, farewell: Farewell) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(ROLE).arg(std::process::id().to_string());
    command.arg(if farewell == Farewell::Ask { "ask" } else { "kill" }).arg(program);
    Ok(command)
}
