#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec::Vec;
use board::{Board, Terms};
use musubi::interfaces::sched::SchedClient;
use musubi::rt::{sched, task, thread, time};
use musubi::{Error, Start};

musubi::program!(run);

fn run(_: &Start) -> i32 {
    let begun = musubi::names::lookup("sched").and_then(SchedClient::bind).and_then(|sched| {
        let words = sched::words(sched.board()?)?;
        let board = Board::new(words).ok_or(Error::BadAddress)?;
        board.proposals().know(&[Terms::Job { job: 0 }]);
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
                if !board.proposals().decide(asked.thread, |terms| join(board, asked.thread, terms)) {
                    board.priorities().set(asked.thread, asked.level);
                }
            }
            // Jobs may have ended.
            divide(board);
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
fn join(board: Board<'_>, thread: u64, terms: Terms) -> u64 {
    let level = board.priorities().of(thread);
    match terms {
        Terms::Job { .. } if board.priorities().agree(thread, level, terms, 0) => {
            divide(board);
            0
        }
        Terms::Job { .. } => Error::TooBig.word(),
        _ => Error::BadArgument.word(),
    }
}

fn job(terms: Terms) -> u64 {
    if let Terms::Job { job } = terms { job } else { 0 }
}

/// Gives each job its processors. Whoever does this finds the same, so all levels may at once.
fn divide(board: Board<'_>) {
    let mut jobs: Vec<u64> = board.priorities().all().map(|(.., agreed)| job(agreed.terms())).collect();
    jobs.sort_unstable();
    jobs.dedup();
    let processors = task::processors().count().min(board::PROCESSORS);
    for (.., agreed) in board.priorities().all() {
        if let Ok(at) = jobs.binary_search(&job(agreed.terms())) {
            agreed.set_homes(homes(at, jobs.len(), processors));
        }
    }
}

/// The processors of job `at` of so many: a row of them, or one if there are more jobs than processors.
fn homes(at: usize, jobs: usize, processors: usize) -> u64 {
    if jobs >= processors {
        return 1 << (at % processors);
    }
    let edge = |at: usize| at * processors / jobs;
    (edge(at)..edge(at + 1)).fold(0, |bits, processor| bits | 1 << processor)
}
