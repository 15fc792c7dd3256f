//! A high level of a scheduler (CUBIX-48): fixed priorities with ageing. It runs when the fast level calls it, sets the priorities that
//! were asked for, and raises threads that have waited for too many quanta, so that nobody starves. To write another policy, copy it.
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

mod level;

use board::{Board, LEVELS};
use level::Policy;
use musubi::Start;

musubi::program!(run);

/// Quanta that a thread may wait before it gets a turn at the highest level.
const PATIENCE: u64 = 8;

struct Ageing;

impl Policy for Ageing {
    fn look(board: Board<'_>, processor: usize) {
        age(board, processor);
    }
}

fn run(_: &Start) -> i32 {
    level::run::<Ageing>()
}

/// The first thread of each level has waited there longest.
fn age(board: Board<'_>, processor: usize) {
    let queue = board.queue(processor);
    let Some(highest) = queue.highest() else { return };
    let waits = |level: &usize| queue.first(*level).is_some_and(|(_, waited)| waited >= PATIENCE);
    let levels = (highest as usize + 1..LEVELS).filter(waits).fold(0, |bits, level| bits | 1 << level);
    if levels != 0 {
        board.desk(processor).raise(levels, highest);
    }
}
