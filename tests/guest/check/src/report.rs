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

/// Runs the named checks of a group (all, if none are named), each in a task of its own: one that ends its task, or
/// hangs, has failed, and the others have not. Value: the exit status.
pub fn run(group: &Group, names: &[&str]) -> i32 {
    let all: Vec<&str> = group.checks.iter().map(|c| c.0).collect();
    let mut bad = false;
    for name in if names.is_empty() { all.as_slice() } else { names } {
        if let Err(why) = run_apart(group.name, name) {
            println!("FAILED {name}: {why}");
            bad = true;
        } else {
            println!("ok {name}");
        }
    }
    i32::from(bad)
}

/// A check says why it failed on the error stream, where a panic is printed, too; its status says whether.
fn run_apart(group: &str, name: &str) -> Outcome {
    let words = ["check", "one", group, name];
    let child = Command::new(b"bin/check").args(words).spawn().map_err(doing("not started"))?;
    match child.wait_for(PATIENCE_NS) {
        Ok(exit) => match (ended::status(&exit), ended::describe(&exit, ended::section_name)) {
            (0, _) => Ok(()),
            (status, how) => Err(format!("status {status} {how}; see the error stream")),
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
        Err(why) => {
            eprintln!("{name}: {why}");
            1
        }
    }
}
