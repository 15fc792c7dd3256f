//! Plain messages where somebody else is ready before whoever they wake, who goes on first all the same, in what is left of their sender's turn; and where a scheduler is to
//! be asked about him, which goes the long way through the kernel (docs/decisions/0009). On one processor: with more, who is ready would be elsewhere.

use crate::pool::Game;
use crate::rounds::Plan;
use crate::sched::by_each;
use alloc::format;
use alloc::string::String;
use core::sync::atomic::{AtomicBool, Ordering};
use musubi::rt::{task, thread};

/// What it is called, and the scheduler that is asked for.
const SCHEDULERS: [(&str, &str); 1] = [("under-ageing", "ageing")];

static OVER: AtomicBool = AtomicBool::new(false);

pub fn run(game: &Game) -> Result<(), String> {
    if task::processors().count() > 1 {
        return Ok(());
    }
    beside_ready(game)?;
    by_each(&SCHEDULERS, |way| game.woken(way, Plan::new(game.rounds)))
}

/// A third thread gives way whenever it has the processor, and is ready again. Its turns are in the rounds.
fn beside_ready(game: &Game) -> Result<(), String> {
    let failed = |e| format!("a thread that is ready: {e}");
    OVER.store(false, Ordering::SeqCst);
    let other = || {
        while !OVER.load(Ordering::SeqCst) {
            thread::yield_now();
        }
    };
    let other = thread::spawn(other, 0).map_err(failed)?;
    let measured = game.woken("beside-ready", Plan::new(game.rounds));
    OVER.store(true, Ordering::SeqCst);
    other.join().map_err(failed)?;
    measured
}
