#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

use board::{Board, Terms};
use musubi::interfaces::sched::SchedClient;
use musubi::rt::{sched, task, thread, time};
use musubi::{Error, Start};

musubi::program!(run);

/// Of threads with deadlines: above all others.
const LEVEL: u64 = 1;
/// What may be promised of each processor, in thousandths.
const PROMISED_MAX: u64 = 900;
/// Shorter ones would be spent on switching.
const PERIOD_MIN_NS: u64 = 1_000_000;
const PERIOD_MAX_NS: u64 = 1_000_000_000_000;

fn run(_: &Start) -> i32 {
    let begun = musubi::names::lookup("sched").and_then(SchedClient::bind).and_then(|sched| {
        let words = sched::words(sched.board()?)?;
        let board = Board::new(words).ok_or(Error::BadAddress)?;
        board.proposals().know(&[Terms::Periodic { period: 0, deadline: 0, budget: 0 }]);
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
                if !board.proposals().decide(asked.thread, |terms| admit(board, asked.thread, terms)) {
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
fn admit(board: Board<'_>, thread: u64, terms: Terms) -> u64 {
    let Terms::Periodic { period, deadline, budget } = terms else { return Error::BadArgument.word() };
    if !(PERIOD_MIN_NS..=PERIOD_MAX_NS).contains(&period)
        || !(1..=period).contains(&deadline)
        || !(1..=deadline).contains(&budget)
    {
        return Error::BadArgument.word();
    }
    let processors = task::processors().count().min(board::PROCESSORS);
    let fits = |processor: &usize| promised(board, *processor, thread) + part(terms) <= PROMISED_MAX;
    match (0..processors).find(fits) {
        None => Error::Busy.word(),
        Some(home) if board.priorities().agree(thread, LEVEL, terms, 1 << home) => 0,
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
