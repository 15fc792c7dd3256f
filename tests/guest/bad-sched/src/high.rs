#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

use core::sync::atomic::Ordering;
use musubi::interfaces::sched::SchedClient;
use musubi::rt::{sched, thread};
use musubi::{Error, Start};

musubi::program!(run);

/// What it knows about threads, where it keeps that to itself. The fast level may learn where that is, and no more.
fn run(_: &Start) -> i32 {
    // If it cannot say so, the one test that needs it fails; the others are about the fast level.
    let _ = musubi::names::lookup("sched").and_then(SchedClient::bind).and_then(|sched| {
        let shown = sched::words(sched.board()?)?;
        shown.last().ok_or(Error::BadAddress)?.store(sched.private()?, Ordering::Release);
        Ok(())
    });
    thread::park()
}
