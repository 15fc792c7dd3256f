//! What comes to a post goes to nobody who has ended, however many of one program waited there.

use crate::report::{Outcome, doing};
use crate::same;
use crate::sched::leak;
use crate::sections::everybody;
use alloc::format;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::command::Command;
use musubi::rt::post::{FOR_EVER, Post};
use musubi::rt::{thread, time};
use musubi::{Error, Rights};

/// As many of one program as may be, but for its first thread; and as many messages.
const CROWD: u64 = 100;
const PATIENCE_NS: u64 = 20_000_000_000;

/// A program of which a hundred wait is killed. One that waits behind them gets all that comes from then on.
pub fn receives_nothing() -> Outcome {
    let [jobs, told] = [Post::any(), Post::any()].map(|post| post.map_err(doing("post")));
    let (jobs, told) = (jobs?, told?);
    for post in [jobs, told] {
        post.allow(&everybody(Rights::CALL | Rights::READ | Rights::CHANGE_ACL)).map_err(doing("its list"))?;
    }
    let words = [jobs.0, told.0].map(|word| format!("{word}"));
    let command = Command::new(b"bin/check").arg(b"as").arg(b"receivers");
    let command = words.iter().fold(command, |command, word| command.arg(word.as_bytes()));
    let child = command.spawn().map_err(doing("child"))?;
    told.receive(PATIENCE_NS).map_err(doing("its crowd"))?;
    let had: &'static AtomicU64 = leak(AtomicU64::new(0));
    let receives = move || {
        while jobs.receive(FOR_EVER).is_ok() {
            had.fetch_add(1, Ordering::SeqCst);
        }
    };
    let behind = thread::spawn(receives, 0).map_err(doing("thread"))?;
    time::sleep_ns(20_000_000);
    child.kill().map_err(doing("kill"))?;
    for _ in 0..CROWD {
        while let Err(error) = jobs.send(1, [0; 6], None) {
            same!(error, Error::MessageQuota, "sending");
            thread::yield_now();
        }
    }
    let until = time::now_ns() + PATIENCE_NS;
    while had.load(Ordering::SeqCst) < CROWD && time::now_ns() < until {
        time::sleep_ns(1_000_000);
    }
    same!(had.load(Ordering::SeqCst), CROWD, "what came to who waited behind them");
    child.wait().map_err(doing("wait"))?;
    [jobs, told].into_iter().try_for_each(|post| post.free(true)).map_err(doing("free"))?;
    behind.join().map(drop).map_err(doing("join"))
}

/// That program.
pub fn receivers(jobs: u64, told: u64) -> i32 {
    let receives = move || while Post(jobs).receive(FOR_EVER).is_ok() {};
    if (0..CROWD).any(|_| thread::spawn(receives, 0).is_err()) {
        return 1;
    }
    // Until all of them wait.
    time::sleep_ns(50_000_000);
    if Post(told).send(0, [0; 6], None).is_err() {
        return 2;
    }
    thread::park()
}
