//! What a killed caller leaves behind in those whom it has called, and these in the kernel.

use crate::memory::{await_word, data, load, store};
use crate::peer::{Peer, op};
use crate::report::{Check, Outcome, doing};
use crate::sched::leak;
use crate::sections::everybody;
use crate::{holds, same};
use alloc::string::String;
use musubi::abi::layout::PAGE;
use musubi::rt::{section, task, thread};
use musubi::{Error, Rights};

pub const CHECKS: &[Check] = &[
    ("a_killed_callers_waits_leave_nothing", waits_leave_nothing),
];

fn flags() -> Result<u64, String> {
    let flags = data(PAGE).map_err(doing("create"))?;
    section::grant(flags.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let base = flags.base();
    core::mem::forget(flags);
    Ok(base)
}

/// A callee whose caller is killed waits again and again, and is told each time. Nothing of that is left in the kernel, not even until the
/// callee's time is over.
fn waits_leave_nothing() -> Outcome {
    const WAITS: u64 = 20_000;
    let (peer, flag) = (leak(Peer::start()?), flags()?);
    let heap = || task::memory().map(|m| m.kernel_heap_used).map_err(doing("memory"));
    let round = |count: u64| -> Result<u64, String> {
        store(flag, 0);
        let call = move || {
            let _ = peer.call(op::NAP, &[flag, count]);
            thread::park();
        };
        let caller = thread::spawn(call, 0).map_err(doing("thread"))?;
        await_word(flag);
        caller.kill().map_err(doing("kill"))?;
        same!(caller.join(), Ok(Error::Killed.word()), "how the caller ended");
        same!(load(flag), 2, "how far the callee came");
        Ok(load(flag + 8))
    };
    round(10)?;
    let before = heap()?;
    let waits = round(WAITS)?;
    let grown = heap()?.saturating_sub(before);
    // A timer has more than twice as many. Where a wait takes long there are few, and the heap grows by that much for other reasons.
    holds!(grown < 16 * waits.max(1024), "the kernel's heap grew by {grown} bytes in {waits} waits that are over");
    peer.child.kill().map_err(doing("kill"))
}
