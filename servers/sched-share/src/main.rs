#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

use board::{Board, Terms};
use musubi::interfaces::sched::SchedClient;
use musubi::rt::{sched, task, thread, time};
use musubi::{Error, Start};

musubi::program!(run);

/// Of who has said nothing.
const USUAL_WEIGHT: u64 = 10;
const WEIGHT_MAX: u64 = 1000;

fn run(_: &Start) -> i32 {
    let begun = musubi::names::lookup("sched").and_then(SchedClient::bind).and_then(|sched| {
        let words = sched::words(sched.board()?)?;
        let board = Board::new(words).ok_or(Error::BadAddress)?;
        board.set_weight(USUAL_WEIGHT);
        board.proposals().know(&[Terms::Share { weight: 0 }]);
        for processor in 1..task::processors().count() {
            thread::spawn(move || serve(board, processor), 0)?;
        }
        Ok(board)
    });
    match begun {
        Ok(board) => serve(board, 0),
        Err(e) => e.word() as i32,
    }
}

/// One thread a processor. It gives way when it has nothing to do, and the fast level names it when there is.
fn serve(board: Board<'static>, processor: usize) -> ! {
    let desk = board.desk(processor);
    desk.set_high(task::identity().thread);
    loop {
        if desk.is_wanted() {
            let asked = desk.begin();
            while let Some(asked) = desk.receive() {
                if !board.proposals().decide(asked.thread, |terms| decide(board, asked.thread, terms)) {
                    board.priorities().set(asked.thread, asked.level);
                }
            }
            desk.done(asked);
        } else if desk.seen(1) == 0 {
            // Nobody is there to call this level.
            time::sleep_ns(1_000_000);
            continue;
        }
        thread::yield_now();
    }
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
