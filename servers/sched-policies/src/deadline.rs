//! A high level of a scheduler (CUBIX-48): earliest deadline first. A thread says what it needs: a budget in each period, by a
//! deadline (`periodic` of the interface `Sched`). It is admitted if its processor can keep all promises with a tenth to spare, and
//! then stays on that processor. A thread that needs more than its budget is for the rest of that period like one that said nothing: it misses its own
//! deadline and nobody else's. Threads that said nothing have what is left, by priority.
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

mod level;

use board::{Board, Terms};
use level::Policy;
use musubi::rt::task;
use musubi::{Error, Start};

musubi::program!(run);

/// Of threads with deadlines: above all others, whatever priority those ask for.
const LEVEL: u64 = 1;
/// What may be promised of each processor, in thousandths.
const PROMISED_MAX: u64 = 900;
/// Shorter ones would be spent on switching.
const PERIOD_MIN_NS: u64 = 1_000_000;
const PERIOD_MAX_NS: u64 = 1_000_000_000_000;
/// Later ones would keep everybody else from a processor for long: with a tenth to spare until each deadline, all that was promised is had, and others
/// have their turn, after ten times as much at the latest.
const DEADLINE_MAX_NS: u64 = 250_000_000;

#[derive(Default)]
struct Deadline;

impl Policy for Deadline {
    const HIGHEST: u64 = LEVEL + 1;
    const KNOWS: &'static [Terms] = &[Terms::Periodic { period: 0, deadline: 0, budget: 0 }];

    fn decide(&mut self, board: Board<'_>, thread: u64, terms: Terms) -> u64 {
        admit(board, thread, terms)
    }
}

fn run(_: &Start) -> i32 {
    level::run::<Deadline>()
}

/// 0, or why not.
fn admit(board: Board<'_>, thread: u64, terms: Terms) -> u64 {
    let Terms::Periodic { period, deadline, budget } = terms else { return Error::BadArgument.word() };
    if !(PERIOD_MIN_NS..=PERIOD_MAX_NS).contains(&period)
        || !(1..=period.min(DEADLINE_MAX_NS)).contains(&deadline)
        || !(1..=deadline).contains(&budget)
    {
        return Error::BadArgument.word();
    }
    let processors = task::processors().count().min(board::PROCESSORS);
    let fits = |processor: &usize| promised(board, *processor, thread) + part(terms) <= PROMISED_MAX;
    match (0..processors).find(fits) {
        None => Error::Busy.word(),
        Some(home) if board.priorities().agree(thread, Some(LEVEL), terms, 1 << home) => 0,
        Some(_) => Error::TooBig.word(),
    }
}

/// What is promised of a processor to others than this thread, in thousandths.
fn promised(board: Board<'_>, processor: usize, but: u64) -> u64 {
    let there =
        board.priorities().all().filter(|(thread, _, agreed)| *thread != but && agreed.homes() == 1 << processor);
    there.map(|(.., agreed)| part(agreed.terms())).sum()
}

/// The part of a processor that a thread needs at most, in thousandths: its budget until its deadline.
fn part(terms: Terms) -> u64 {
    match terms {
        Terms::Periodic { deadline, budget, .. } => (1000 * budget).div_ceil(deadline.max(1)),
        _ => 0,
    }
}
