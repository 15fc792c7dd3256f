//! Rounds of many threads, each of which hands the processor to the next one with a message: by the short way, of which nothing is written down until
//! the kernel proper is entered (SSS-24). So it is what comes next that takes the longest: another step of the round, or the call behind it.

use crate::bars::held;
use crate::crowds::settle;
use crate::report::{Longest, Report};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::Error;
use musubi::rt::post::{FOR_EVER, Message, Post};
use musubi::rt::{task, thread, time};

/// Threads of a round: many more than are written down at a stretch.
const MANY: u64 = 500;
const ROUNDS: usize = 20;
const NAME: &str = "round by many";
const OP: u32 = 1;

pub fn run(report: &Report) -> Result<(), String> {
    let mut longest = measure().map_err(|error| format!("{NAME}: {error}"))?;
    longest.sort_unstable();
    let bar = held(NAME, task::processors().count())
        .ok_or_else(|| format!("nobody has said how long this may take: {NAME}"))?;
    let (ticks, usual) = (longest[ROUNDS - 1], longest[ROUNDS / 2]);
    report.handler(NAME, "64 threads that have moved", Longest { ticks, usual, times: ROUNDS as u64, bar });
    Ok(())
}

/// The longest step of each round.
fn measure() -> Result<Vec<u64>, Error> {
    let (there, back) = (Post::any()?, Post::any()?);
    let crowd: Vec<_> = (0..MANY).map(|_| thread::spawn(move || serve(there, back), 0)).collect::<Result<_, _>>()?;
    settle(100_000_000);
    let round = || {
        // Each waits behind all others again, so it is everybody's turn once.
        let came = there.send_and_receive(OP, [MANY - 1, time::ticks(), 0, 0, 0, 0], back, FOR_EVER)?;
        let last = longest(&came);
        let before = time::ticks();
        let _ = task::own_by_full_entry();
        Ok(last.max(time::ticks() - before))
    };
    // (The first round is about where all of them begin.)
    let all: Result<Vec<u64>, Error> = (0..=ROUNDS).map(|_| round()).collect();
    there.free(true)?;
    crowd.into_iter().for_each(|one| _ = one.join());
    back.free(true)?;
    all.map(|all| all[1..].to_vec())
}

/// With the step that has brought it.
fn longest(message: &Message) -> u64 {
    let [_, sent, longest, ..] = message.words;
    longest.max(time::ticks().saturating_sub(sent))
}

/// Hands on what comes until the post goes; the last of a round sends it back.
fn serve(there: Post, back: Post) {
    let mut came = there.receive(FOR_EVER);
    while let Ok(message) = came {
        let longest = longest(&message);
        let left = message.words[0];
        let to = if left == 0 { back } else { there };
        let words = [left.saturating_sub(1), time::ticks(), longest, 0, 0, 0];
        came = to.send_and_receive(OP, words, there, FOR_EVER);
    }
}
