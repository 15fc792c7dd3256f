//! A hand-over goes straight to the receiver, and nobody else notices (K1-30, 49, 50).

use crate::posts::{ROUNDS, post};
use crate::report::{Check, Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::command::Command;
use musubi::rt::post::FOR_EVER;
use musubi::rt::{task, time};
use musubi::{Error, Rights};

pub const CHECKS: &[Check] = &[("nobody_else_enters_the_kernel", nobody_else_enters_the_kernel)];

const BATCHES: usize = 20;

/// By processor: entries of the kernel from user mode, switches between threads, interrupts.
fn counts() -> Vec<[u64; 3]> {
    task::processors().map(|p| [p.entries, p.switches, p.interrupts]).collect()
}

/// Threads that do not play, and how long each has run.
fn others(players: [u64; 2]) -> BTreeMap<u64, u64> {
    let threads = task::threads().filter(|one| !players.contains(&one.task));
    threads.map(|one| (one.thread, one.time)).collect()
}

/// What a batch has cost.
struct Spent {
    /// On the processors where nobody plays: entries and switches; and interrupts.
    wasted: u64,
    interrupts: u64,
    /// Entries where somebody does.
    own: u64,
}

fn spent(batch: impl FnOnce() -> Outcome) -> Result<Spent, String> {
    let before = counts();
    batch()?;
    let mut spent: Vec<[u64; 3]> =
        counts().iter().zip(&before).map(|(now, then)| [0, 1, 2].map(|i| now[i] - then[i])).collect();
    // They play on the one that was entered most often.
    spent.sort_unstable();
    let own = spent.pop().map_or(0, |[entries, ..]| entries);
    let wasted = spent.iter().map(|[entries, switches, _]| entries + switches).sum();
    Ok(Spent { wasted, interrupts: spent.iter().map(|[.., interrupts]| interrupts).sum(), own })
}

/// K1's published collision: two tasks send one another messages, other processors are idle, and one of them jumps in to run the
/// receiver while the sender's processor wants to as well. Here the others do nothing at all: no entry, no switch and no interrupt is
/// counted on them, in each of the batches. Only where a third thread has run meanwhile, which its time tells, is the batch done again;
/// where a moment comes that somebody had set on another processor long before (an interrupt that nobody is woken by); and where the machine's
/// clock is the host's, which may let a tick pass on the players' own. Where the clock counts instructions nothing else is forgiven.
fn nobody_else_enters_the_kernel() -> Outcome {
    let (there, back) = (post()?, post()?);
    there.allow(&everybody(Rights::READ)).map_err(doing("allow"))?;
    back.allow(&everybody(Rights::CALL)).map_err(doing("allow"))?;
    let words = ["check", "as", "post-echo", &format!("{}", there.0), &format!("{}", back.0)];
    let other = Command::new(b"bin/check").args(words).spawn().map_err(doing("the other task"))?;
    let players = [task::identity().task, other.task];
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
            let before = others(players);
            let Spent { wasted, interrupts, own } = spent(|| (1..=ROUNDS).try_for_each(round))?;
            let after = others(players);
            let ran: Vec<u64> = after
                .iter()
                .filter(|(thread, time)| before.get(thread) != Some(time))
                .map(|(thread, _)| *thread)
                .collect();
            // Two calls of each round, and what ends the batch and counts it.
            let few = own <= 2 * ROUNDS + 8 + task::processors().count() as u64;
            if wasted + interrupts == 0 && few {
                break;
            }
            tries.push((wasted, interrupts, own, ran.clone()));
            holds!(
                wasted == 0 || !ran.is_empty(),
                "in batch {batch} nobody else has run, and there were wasted, interrupts, taken and threads that ran: {tries:?}"
            );
            let tries_max = match time::ticks_are_instructions() {
                true if !ran.is_empty() => TRIES_OF_ANOTHER,
                true if !few => 1,
                _ => TRIES,
            };
            holds!(
                tries.len() < tries_max,
                "batch {batch} wasted, was interrupted, took, and others that ran: {tries:?}"
            );
        }
    }
    // The counter can count: sent plainly by one who goes on, the message is another processor's affair. (Whoever waits instead may take
    // it up again before that one has come. Where instructions are counted processors take turns, and long ones: not there.)
    if task::processors().count() > 1 && !time::ticks_are_instructions() {
        let plainly = |n: u64| -> Outcome {
            there.send(1, [n; 6], None).map_err(doing("a plain message"))?;
            loop {
                match back.receive(0) {
                    Err(Error::TimedOut) => {}
                    answer => break answer.map(drop).map_err(doing("its answer")),
                }
            }
        };
        let Spent { wasted, interrupts, .. } = spent(|| (1..=ROUNDS).try_for_each(plainly))?;
        let seen = wasted + interrupts;
        holds!(seen > ROUNDS / 2, "of {ROUNDS} plain messages others have noticed {seen}");
    }
    there.send(0, [0; 6], None).map_err(doing("the last one"))?;
    same!(other.wait().map(|exit| exit.code), Ok(0), "how the other task ended");
    same!(there.free(true).and_then(|()| back.free(true)), Ok(()), "freeing");
    Ok(())
}

/// So often at most is a batch done again; where instructions are counted and a third thread has run (`files` looks twice a second
/// whether those who have something open still live), which may take two.
const TRIES: usize = 40;
const TRIES_OF_ANOTHER: usize = 4;
