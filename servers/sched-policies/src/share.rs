//! A high level of a scheduler (CUBIX-48): proportional share. A thread says how many parts it wants (`share` of the interface `Sched`), and
//! whoever computes all the time gets so many of the turns of its processor; threads that said nothing have ten. Who waits saves
//! nothing up and loses nothing. The order of turns follows from the weights alone (stride scheduling), so the fast level keeps
//! it without calling this one; here it is decided who gets which weight.
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

mod level;

use board::{Board, Terms};
use level::Policy;
use musubi::{Error, Start};

musubi::program!(run);

/// Of who has said nothing.
const USUAL_WEIGHT: u64 = 10;
const WEIGHT_MAX: u64 = 1000;

#[derive(Default)]
struct Share;

impl Policy for Share {
    const KNOWS: &'static [Terms] = &[Terms::Share { weight: 0 }];

    fn begin(board: Board<'_>) {
        board.set_weight(USUAL_WEIGHT);
    }

    fn decide(&mut self, board: Board<'_>, thread: u64, terms: Terms) -> u64 {
        decide(board, thread, terms)
    }
}

fn run(_: &Start) -> i32 {
    level::run::<Share>()
}

/// 0, or why not.
fn decide(board: Board<'_>, thread: u64, terms: Terms) -> u64 {
    let level = board.priorities().of(thread);
    match terms {
        Terms::Share { weight: 1..=WEIGHT_MAX } if board.priorities().agree(thread, level, terms, 0) => 0,
        Terms::Share { weight: 1..=WEIGHT_MAX } => Error::TooBig.word(),
        _ => Error::BadArgument.word(),
    }
}
