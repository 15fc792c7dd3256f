//! A hand-over goes straight to the receiver, and nobody else notices (K1-30, 49, 50).

use crate::posts::{ROUNDS, echo, post};
use crate::report::{Check, Outcome, doing};
use crate::{holds, same};
use alloc::vec::Vec;
use musubi::rt::post::FOR_EVER;
use musubi::rt::{task, thread};

pub const CHECKS: &[Check] = &[("nobody_else_enters_the_kernel", nobody_else_enters_the_kernel)];

const BATCHES: usize = 20;

/// By processor: entries of the kernel from user mode, switches between threads, interrupts.
fn counts() -> Vec<[u64; 3]> {
    task::processors().map(|p| [p.entries, p.switches, p.interrupts]).collect()
}

/// K1's published collision: two programs send one another messages, other processors are idle, and one of them jumps in to run the
/// receiver while the sender's processor wants to as well. Here the others do nothing at all: in most of the batches no entry, no
/// switch and no interrupt is counted on them; in some, something else of the system may run there.
fn nobody_else_enters_the_kernel() -> Outcome {
    let (there, back) = (post()?, post()?);
    let server = thread::spawn(
        move || {
            let _ = echo(there, back);
        },
        0,
    )
    .map_err(doing("starting"))?;
    let round = |round: u64| -> Outcome {
        let got = there.send_and_receive(1, [round; 6], back, FOR_EVER).map_err(doing("a round"))?;
        same!(got.words[0], round + 1, "round {round}");
        Ok(())
    };
    let mut quiet = 0;
    let mut each_once = 0;
    for _ in 0..BATCHES {
        // A plain message wakes whoever is idle; from the first round on it is handed over.
        round(0)?;
        let before = counts();
        (1..=ROUNDS).try_for_each(round)?;
        let spent: Vec<[u64; 3]> =
            counts().iter().zip(&before).map(|(now, then)| [0, 1, 2].map(|i| now[i] - then[i])).collect();
        let busy = spent.iter().filter(|[entries, switches, _]| entries + switches > 0).count();
        let interrupts: u64 =
            spent.iter().filter(|[entries, ..]| *entries == 0).map(|[_, _, interrupts]| interrupts).sum();
        quiet += usize::from(busy == 1 && interrupts == 0);
        // Two calls of each round, and what ends the batch and counts it.
        each_once +=
            usize::from(spent.iter().map(|[entries, ..]| entries).sum::<u64>() <= 2 * ROUNDS + 8 + before.len() as u64);
    }
    there.send(0, [0; 6], None).map_err(doing("the last one"))?;
    server.join().map_err(doing("joining"))?;
    holds!(quiet * 2 > BATCHES, "others had something to do in {} of {BATCHES} batches", BATCHES - quiet);
    holds!(
        each_once * 2 > BATCHES,
        "in {} of {BATCHES} batches the kernel was entered more than once a call",
        BATCHES - each_once
    );
    same!(there.free(true).and_then(|()| back.free(true)), Ok(()), "freeing");
    Ok(())
}
