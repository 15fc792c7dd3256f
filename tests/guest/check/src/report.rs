//! Running checks and saying how they went.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use musubi::command::Command;
use musubi::ended;
use musubi::rt::{Mutex, thread, time};
use musubi::{Error, eprintln, println};

/// Why a check has failed.
pub type Outcome = Result<(), String>;

/// A name and what it does.
pub type Check = (&'static str, fn() -> Outcome);

pub struct Group {
    pub name: &'static str,
    pub checks: &'static [Check],
}

/// How long one check may take. The machine may be slow, and the host busy.
const PATIENCE_NS: u64 = 400_000_000_000;

/// How long something may take that takes no time.
const IN_TIME_NS: u64 = 20_000_000_000;

/// Fails unless two values are equal.
#[macro_export]
macro_rules! same {
    ($got:expr, $wanted:expr, $($what:tt)+) => {
        match (&$got, &$wanted) {
            (got, wanted) if got == wanted => {}
            (got, wanted) => {
                return Err(::alloc::format!("{}: {got:x?}, not {wanted:x?}", ::core::format_args!($($what)+)))
            }
        }
    };
}

/// Fails unless a condition holds.
#[macro_export]
macro_rules! holds {
    ($condition:expr, $($what:tt)+) => {
        if !$condition {
            return Err(::alloc::format!($($what)+));
        }
    };
}

/// The text of an error, with what was being done.
pub fn doing<E: core::fmt::Display>(what: &str) -> impl Fn(E) -> String {
    move |e| format!("{what}: {e}")
}

/// Lets another thread do something that may stand still. `None`: it does. (Its thread stays.)
pub fn in_time<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let said = Arc::new(Mutex::new(None));
    let told = said.clone();
    let body = move || *told.lock() = Some(what());
    let _stays = thread::spawn(body, 0).ok()?;
    let until = time::now_ns() + IN_TIME_NS;
    loop {
        if let Some(said) = said.lock().take() {
            return Some(said);
        }
        if time::now_ns() > until {
            return None;
        }
        time::sleep_ns(1_000_000);
    }
}

/// Why a check has tried nothing: what it is about is not there on this machine.
pub const NO_KEYS: &str = "there are no protection keys";
pub const ONE_PROCESSOR: &str = "there is one processor";
pub const SEVERAL_PROCESSORS: &str = "there are several processors";
pub const NO_VECTOR_EXCEPTIONS: &str = "the processor raises no vector exceptions, as the emulator's does not";
pub const NO_ALIGNMENT: &str = "this processor checks no alignment (the emulator does not)";
const SKIPS: [&str; 5] = [NO_KEYS, ONE_PROCESSOR, SEVERAL_PROCESSORS, NO_VECTOR_EXCEPTIONS, NO_ALIGNMENT];
/// The status that says the first of these, and the next ones the others.
const FIRST_SKIP: i32 = 40;

/// What such a check says. One of those above.
pub fn skipped(why: &str) -> Outcome {
    Err(String::from(why))
}

/// Runs the named checks of a group (all, if none are named), each in a task of its own: one that ends its task, or
/// hangs, has failed, and the others have not. Value: the exit status.
pub fn run(group: &Group, names: &[&str]) -> i32 {
    let all: Vec<&str> = group.checks.iter().map(|c| c.0).collect();
    let mut bad = false;
    for name in if names.is_empty() { all.as_slice() } else { names } {
        match run_apart(group.name, name) {
            Ok(None) => println!("ok {name}"),
            Ok(Some(why)) => println!("skipped {name}: {why}"),
            Err(why) => {
                println!("FAILED {name}: {why}");
                bad = true;
            }
        }
    }
    i32::from(bad)
}

/// A check says why it failed on the error stream, where a panic is printed, too; its status says whether, or why it was skipped.
pub fn run_apart(group: &str, name: &str) -> Result<Option<&'static str>, String> {
    let words = ["check", "one", group, name];
    let child = Command::new(b"bin/check").args(words).spawn().map_err(doing("not started"))?;
    // A clock that counts instructions goes on at once where nobody has anything to do.
    let patience = if time::ticks_are_instructions() { 10 * PATIENCE_NS } else { PATIENCE_NS };
    match child.wait_for(patience) {
        Ok(exit) => match (ended::status(&exit), ended::describe(&exit, ended::section_name)) {
            (0, _) => Ok(None),
            (status, how) => match SKIPS.get(status.wrapping_sub(FIRST_SKIP) as usize) {
                Some(why) => Ok(Some(why)),
                None => Err(format!("status {status} {how}; see the error stream")),
            },
        },
        Err(Error::TimedOut) => {
            let _ = child.kill();
            let _ = child.wait_for(PATIENCE_NS);
            Err(String::from("it did not end"))
        }
        Err(e) => Err(format!("{e}")),
    }
}

/// Runs one check in this task.
pub fn run_here(group: &Group, name: &str) -> i32 {
    let Some((_, body)) = group.checks.iter().find(|c| c.0 == name) else {
        eprintln!("{name}: no such check");
        return 2;
    };
    match body() {
        Ok(()) => 0,
        Err(why) => match SKIPS.iter().position(|skip| *skip == why) {
            Some(n) => FIRST_SKIP + n as i32,
            None => {
                eprintln!("{name}: {why}");
                1
            }
        },
    }
}
