//! What all policies have in common: a thread on each processor that the fast level names when it wants the policy.

use board::{Board, LEVELS, Terms};
use musubi::interfaces::sched::SchedClient;
use musubi::rt::{sched, task, thread, time};
use musubi::{Error, abi};

/// Quanta that a thread may wait before it gets a turn at the highest level.
const PATIENCE: u64 = 8;

/// What one policy decides, and what it needs for that on one processor: whoever decides waits for nobody, and not for memory either.
pub trait Policy: Default {
    /// Levels above this one are for whom the policy puts there: nobody gets there by a priority that he asks for, or by waiting.
    const HIGHEST: u64 = 0;
    /// What threads may agree on with it; figures in it do not matter.
    const KNOWS: &'static [Terms] = &[];

    /// The board is this policy's from now on.
    fn begin(_: Board<'_>) {}

    /// A thread proposes terms. 0, or why not.
    fn decide(&mut self, _: Board<'_>, _thread: u64, _: Terms) -> u64 {
        Error::BadArgument.word()
    }

    /// Everything that was asked for on a processor has been looked at.
    fn look(&mut self, _: Board<'_>) {}
}

/// Serves all processors.
pub fn run<P: Policy>() -> i32 {
    let begun = musubi::names::lookup("sched").and_then(SchedClient::bind).and_then(|sched| {
        let words = sched::words(sched.board()?)?;
        let board = Board::new(words).ok_or(Error::BadAddress)?;
        P::begin(board);
        board.proposals().know(P::KNOWS);
        for processor in 1..task::processors().count() {
            thread::spawn(move || serve::<P>(board, processor), 0)?;
        }
        Ok(board)
    });
    match begun {
        Ok(board) => serve::<P>(board, 0),
        Err(e) => e.word() as i32,
    }
}

/// One thread a processor. It gives way when it has nothing to do, and the fast level names it when there is.
fn serve<P: Policy>(board: Board<'static>, processor: usize) -> ! {
    let mut policy = P::default();
    let desk = board.desk(processor);
    desk.set_high(task::identity().thread);
    sched::serve();
    loop {
        if desk.is_wanted() {
            let asked = desk.begin();
            while let Some(asked) = desk.receive() {
                board.priorities().wish(asked.thread, asked.level, P::HIGHEST);
                lives(board, asked.thread);
            }
            board.proposals().decide(|thread, terms| match policy.decide(board, thread, terms) {
                0 if !lives(board, thread) => Error::NotFound.word(),
                answer => answer,
            });
            policy.look(board);
            age(board, processor, P::HIGHEST);
            desk.done(asked);
        } else if desk.seen(abi::sched::event::READY) == 0 {
            // Nobody is there to call this level.
            time::sleep_ns(1_000_000);
            continue;
        }
        thread::yield_now();
    }
}

/// Whether there is this thread, of which the board has just been told something. The fast level of whatever processor forgets one that ends
/// when it hears of it, which may have been before.
fn lives(board: Board<'_>, thread: u64) -> bool {
    let lives = thread::info(thread).is_some();
    if !lives {
        board.priorities().forget(thread);
    }
    lives
}

/// Everybody may ask for the highest priority, so nobody is left waiting for ever: the first thread of each level, who has waited
/// there longest, gets a turn at the highest one after a while.
fn age(board: Board<'_>, processor: usize, from: u64) {
    let queue = board.queue(processor);
    let Some(highest) = (from as usize..LEVELS).find(|level| queue.first(*level).is_some()) else { return };
    let waits = |level: &usize| queue.first(*level).is_some_and(|(_, waited)| waited >= PATIENCE);
    let levels = (highest + 1..LEVELS).filter(waits).fold(0, |bits, level| bits | 1 << level);
    if levels != 0 {
        board.desk(processor).raise(levels, highest as u64);
    }
}
