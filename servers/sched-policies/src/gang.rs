//! A high level of a scheduler (CUBIX-48, SSS-4): space partitioning. The threads of a parallel job say that they belong to it (`join` of
//! the interface `Sched`), and the processors are divided among the jobs: each job's threads run side by side on its own processors and
//! nowhere else, so none of them computes while the one that it waits for does not. A job may ask how many it has
//! (`processors`) and use as many threads. Threads of no job run everywhere.
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod level;

use alloc::vec::Vec;
use board::{Board, Terms};
use core::sync::atomic::{AtomicU64, Ordering};
use level::Policy;
use musubi::rt::task;
use musubi::{Error, Start};

musubi::program!(run);

struct Gang {
    /// Room for the jobs there are.
    jobs: Vec<u64>,
}

impl Default for Gang {
    fn default() -> Gang {
        Gang { jobs: Vec::with_capacity(board::THREADS) }
    }
}

impl Policy for Gang {
    const KNOWS: &'static [Terms] = &[Terms::Job { job: 0 }];

    fn decide(&mut self, board: Board<'_>, thread: u64, terms: Terms) -> u64 {
        match terms {
            Terms::Job { .. } if board.priorities().agree(thread, None, terms, 0) => {
                self.divide(board);
                0
            }
            Terms::Job { .. } => Error::TooBig.word(),
            _ => Error::BadArgument.word(),
        }
    }

    fn look(&mut self, board: Board<'_>) {
        // Jobs may have ended. Who looks for that has little time.
        if board.priorities().changes() != DIVIDED.load(Ordering::Relaxed) {
            self.divide(board);
        }
    }
}

fn run(_: &Start) -> i32 {
    level::run::<Gang>()
}

/// Up to which change of what threads have agreed on.
static DIVIDED: AtomicU64 = AtomicU64::new(0);

impl Gang {
    /// Gives each job its processors. Whoever does this finds the same, so all levels may at once.
    fn divide(&mut self, board: Board<'_>) {
        let changes = board.priorities().changes();
        let jobs = &mut self.jobs;
        jobs.clear();
        jobs.extend(board.priorities().all().map(|(.., agreed)| job(agreed.terms())));
        jobs.sort_unstable();
        jobs.dedup();
        let processors = task::processors().count().min(board::PROCESSORS);
        for (.., agreed) in board.priorities().all() {
            if let Ok(at) = jobs.binary_search(&job(agreed.terms())) {
                agreed.set_homes(homes(at, jobs.len(), processors));
            }
        }
        DIVIDED.store(changes, Ordering::Relaxed);
    }
}

fn job(terms: Terms) -> u64 {
    if let Terms::Job { job } = terms { job } else { 0 }
}

/// The processors of job `at` of so many: a row of them, or one if there are more jobs than processors.
fn homes(at: usize, jobs: usize, processors: usize) -> u64 {
    if jobs >= processors {
        return 1 << (at % processors);
    }
    let edge = |at: usize| at * processors / jobs;
    (edge(at)..edge(at + 1)).fold(0, |bits, processor| bits | 1 << processor)
}
