#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

use board::{Board, LEVELS};
use musubi::interfaces::sched::SchedClient;
use musubi::rt::{sched, task, thread};
use musubi::{Error, Start};

musubi::program!(run);

/// Quanta that a thread may wait before it gets a turn at the highest level.
const PATIENCE: u64 = 8;

fn run(_: &Start) -> i32 {
    let begun = musubi::names::lookup("sched").and_then(SchedClient::bind).and_then(|sched| {
        let words = sched::words(sched.board()?)?;
        let board = Board::new(words).ok_or(Error::BadAddress)?;
        board.proposals().know(&[]);
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
                board.priorities().set(asked.thread, asked.level);
            }
            age(board, processor);
            desk.done(asked);
        } else if desk.seen(1) == 0 {
            // Nobody is there to call this level.
            musubi::rt::time::sleep_ns(1_000_000);
            continue;
        }
        thread::yield_now();
    }
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
