#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::format;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::layout::SPACE_BASE;
use musubi::abi::task::Limits;
use musubi::command::Command;
use musubi::interfaces::loader::LoaderService;
use musubi::interfaces::memory::{Memory, memory_serve};
use musubi::rt::gate::ANYBODY;
use musubi::rt::{task, time};
use musubi::{Caller, Error, Start, ended, names};

musubi::program!(run);

const USER: u64 = 2;
/// As much as a shell's may have together, on a small machine.
const LIMITS: Limits = Limits { frames: 8192, sections: 65536, reserve: 1 << 40, threads: 4096 };
const LOOK_NS: u64 = 1_000_000;

/// What somebody has asked, and the answer: the status of the program's end, and one more.
static ASKED: AtomicU64 = AtomicU64::new(0);
static ANSWER: AtomicU64 = AtomicU64::new(0);

struct Service;

fn run(_: &Start) -> i32 {
    match begin() {
        // By this program's own thread: whoever else calls pays for what he starts.
        Ok(loader) => loop {
            match ASKED.swap(0, Ordering::SeqCst) {
                0 => time::sleep_ns(LOOK_NS),
                shared => ANSWER.store(start(&loader, shared).map_or(u64::MAX, |status| status + 1), Ordering::SeqCst),
            }
        },
        Err(e) => e.word() as i32,
    }
}

fn begin() -> Result<LoaderService, Error> {
    let loader = LoaderService::new(names::lookup("loader")?);
    let gates = memory_serve(&Service)?;
    gates.admit(&ANYBODY)?;
    names::publish("memory", &gates)?;
    Ok(loader)
}

fn start(loader: &LoaderService, shared: u64) -> Result<u64, Error> {
    let words = ["check", "as", "other-user", &format!("{shared:#x}")];
    let child = Command::new(b"bin/check").args(words).user(USER).limits(LIMITS).spawn_by(loader);
    let task = child.map_err(|refused| refused.error)?.task;
    let exit = task::wait(task, u64::MAX)?;
    // The process server may have done so.
    let _ = task::forget(task);
    Ok(ended::status(&exit) as u64)
}

impl Memory for Service {
    fn register(&self, _: &Caller, _: u64) -> Result<(), Error> {
        Err(Error::NotSupported)
    }

    /// Runs a program of the other user, which is told this address. Value: its status.
    fn want(&self, _: &Caller, shared: u64) -> Result<u64, Error> {
        // A number of pages is what others want.
        if shared < SPACE_BASE {
            return Err(Error::NotSupported);
        }
        ANSWER.store(0, Ordering::SeqCst);
        ASKED.store(shared, Ordering::SeqCst);
        loop {
            match ANSWER.load(Ordering::SeqCst) {
                0 => time::sleep_ns(LOOK_NS),
                u64::MAX => return Err(Error::Refused),
                status => return Ok(status - 1),
            }
        }
    }

    fn state(&self) -> (u64, u64) {
        (0, 0)
    }

    fn pager(&self, _: u64) -> (u64, u64) {
        (0, 0)
    }
}
