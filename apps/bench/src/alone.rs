//! Calls of posts by themselves, which are no message to another program and back: what each takes of what is counted there.

use crate::pool::Game;
use crate::report::Case;
use crate::rounds::Plan;
use alloc::format;
use alloc::string::String;
use musubi::Error;
use musubi::rt::post;

pub fn run(game: &Game) -> Result<(), String> {
    let [_, back, clock] = game.posts.all();
    // What is copied there is the list of posts, and no message.
    measure(game, Case { case: "look", way: "several", bytes: 0 }, || match post::receive_of(&[back, clock], 0) {
        Err(Error::TimedOut) => Ok(()),
        outcome => outcome.and(Err(Error::Changed)),
    })
}

fn measure(game: &Game, case: Case, mut round: impl FnMut() -> Result<(), Error>) -> Result<(), String> {
    let mut failed = Ok(());
    let each = Plan::new(game.rounds).measure(|| failed = failed.and(round()));
    game.report.case(case, &each, &[]);
    failed.map_err(|e| format!("{} by {}: {e}", case.case, case.way))
}
