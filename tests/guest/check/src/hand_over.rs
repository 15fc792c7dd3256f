//! A hand-over goes straight to the receiver, and nobody else notices (K1-30, 49, 50).

use crate::posts::{ROUNDS, post};
use crate::report::{Check, Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::Rights;
use musubi::command::Command;
use musubi::rt::post::FOR_EVER;
use musubi::rt::task;

pub const CHECKS: &[Check] = &[("nobody_else_enters_the_kernel", nobody_else_enters_the_kernel)];

const BATCHES: usize = 20;

/// By processor: entries of the kernel from user mode, switches between threads, interrupts.
fn counts() -> Vec<[u64; 3]> {
    task::processors().map(|p| [p.entries, p.switches, p.interrupts]).collect()
}

/// What a batch has cost on the processors where nobody plays: entries, switches and interrupts. And how often the kernel was entered
/// where somebody does.
fn spent(batch: impl FnOnce() -> Outcome) -> Result<(u64, u64), String> {
    let before = counts();
    batch()?;
    let mut spent: Vec<[u64; 3]> =
        counts().iter().zip(&before).map(|(now, then)| [0, 1, 2].map(|i| now[i] - then[i])).collect();
    // They play on the one that was entered most often.
    spent.sort_unstable();
    let own = spent.pop().map_or(0, |[entries, ..]| entries);
    Ok((spent.iter().flatten().sum(), own))
}

/// K1's published collision: two tasks send one another messages, other processors are idle, and one of them jumps in to run the
/// receiver while the sender's processor wants to as well. Here the others do nothing at all: no entry, no switch and no interrupt is
/// counted on them, in each of the batches. (Something else of the system may run there in the middle of one: it is done again then.)
fn nobody_else_enters_the_kernel() -> Outcome {
    let (there, back) = (post()?, post()?);
    there.allow(&everybody(Rights::READ)).map_err(doing("allow"))?;
    back.allow(&everybody(Rights::CALL)).map_err(doing("allow"))?;
    let words = ["check", "as", "post-echo", &format!("{}", there.0), &format!("{}", back.0)];
    let other = Command::new(b"bin/check").args(words).spawn().map_err(doing("the other task"))?;
    let round = |round: u64| -> Outcome {
        let got = there.send_and_receive(1, [round; 6], back, FOR_EVER).map_err(doing("a round"))?;
        same!((got.words[0], got.task), (round + 1, other.task), "round {round}, and whose answer it is");
        Ok(())
    };
    for batch in 0..BATCHES {
        let mut tries = Vec::new();
        loop {
            // A plain message wakes whoever is idle; from the first round on it is handed over.
            round(0)?;
            let (wasted, own) = spent(|| (1..=ROUNDS).try_for_each(round))?;
            // Two calls of each round, and what ends the batch and counts it.
            if wasted == 0 && own <= 2 * ROUNDS + 8 + task::processors().count() as u64 {
                break;
            }
            tries.push((wasted, own));
            holds!(tries.len() < TRIES, "batch {batch} wasted and took: {tries:?}");
        }
    }
    // The counter can count: sent plainly, the message is another processor's affair.
    if task::processors().count() > 1 {
        let mut seen = 0;
        for _ in 0..BATCHES {
            seen += spent(|| {
                (1..=ROUNDS).try_for_each(|n| {
                    there.send(1, [n; 6], None).map_err(doing("a plain message"))?;
                    back.receive(FOR_EVER).map(drop).map_err(doing("its answer"))
                })
            })?
            .0;
        }
        holds!(seen > ROUNDS, "of {} plain messages others have noticed {seen}", BATCHES as u64 * ROUNDS);
    }
    there.send(0, [0; 6], None).map_err(doing("the last one"))?;
    same!(other.wait().map(|exit| exit.code), Ok(0), "how the other task ended");
    same!(there.free(true).and_then(|()| back.free(true)), Ok(()), "freeing");
    Ok(())
}

/// A batch is done again so often at most: whoever is woken by each message is woken each time.
const TRIES: usize = 8;
