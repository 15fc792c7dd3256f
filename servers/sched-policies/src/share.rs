//! A high level of a scheduler (CUBIX-48): proportional share. A thread says how many parts it wants (`share` of the interface `Sched`), and
//! whoever computes all the time gets so many of the turns of its processor; threads that said nothing have ten. Who waits saves
//! nothing up and loses nothing. The order of turns follows from the weights alone (stride scheduling), so the fast level keeps
//! it without calling this one; here it is decided who gets which weight, and on which processor: the one where others have least. A processor
//! without work has turns of threads of others.
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

mod level;

use board::{Board, Terms};
use level::Policy;
use musubi::rt::task;
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
    let Terms::Share { weight: 1..=WEIGHT_MAX } = terms else { return Error::BadArgument.word() };
    let is_agreed = board.priorities().agree(thread, None, terms, 1 << home(board, thread));
    if is_agreed { 0 } else { Error::TooBig.word() }
}

/// Where others have the least weight; of two such, where the thread is already. Asked when it agrees: nobody moves when others end.
fn home(board: Board<'_>, thread: u64) -> usize {
    let mut weights = [0; board::PROCESSORS];
    let mut now = 0;
    for (other, _, agreed) in board.priorities().all() {
        if other == thread {
            now = agreed.homes();
        } else if let (Terms::Share { weight }, 1..) = (agreed.terms(), agreed.homes()) {
            weights[agreed.homes().trailing_zeros() as usize] += weight;
        }
    }
    let processors = task::processors().count().min(board::PROCESSORS);
    (0..processors).min_by_key(|p| (weights[*p], now >> p & 1 == 0)).unwrap_or(0)
}
