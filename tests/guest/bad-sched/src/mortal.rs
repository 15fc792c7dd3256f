//! A high level that serves well for a while and then ends, above the usual fast level: threads may say which job they are of. What they have
//! agreed on with it the next one is to be asked for again.
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

#[path = "../../../../servers/sched-policies/src/level.rs"]
mod level;

use board::{Board, Terms};
use level::Policy;
use musubi::rt::{task, thread, time};
use musubi::{Error, Start};

musubi::program!(run);

/// Of threads with a job.
const OF_A_JOB: u64 = 5;
/// How long each serves.
const LIFE_NS: u64 = 1_500_000_000;

#[derive(Default)]
struct Mortal;

impl Policy for Mortal {
    const KNOWS: &'static [Terms] = &[Terms::Job { job: 0 }];

    fn begin(_: Board<'_>) {
        let body = || {
            time::sleep_ns(LIFE_NS);
            task::exit(1)
        };
        let _ = thread::spawn(body, 0);
    }

    fn decide(&mut self, board: Board<'_>, thread: u64, terms: Terms) -> u64 {
        let is_known = board.priorities().agree(thread, Some(OF_A_JOB), terms, 0);
        if is_known { 0 } else { Error::Quota.word() }
    }
}

fn run(_: &Start) -> i32 {
    level::run::<Mortal>()
}
