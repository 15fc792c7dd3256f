//! Calls of posts by themselves, which are no message to another program and back: each is one entry into the kernel, too (K1-18).

use crate::pool::{BYTES, Game, OP, one_more};
use crate::report::Case;
use crate::rounds::Plan;
use alloc::format;
use alloc::string::String;
use musubi::Error;
use musubi::abi::post::Body;
use musubi::rt::post::{self, FOR_EVER, Post};

/// Messages of one call that sends many. Each is received by a call of its own.
const MANY: usize = 8;

pub fn run(game: &Game) -> Result<(), String> {
    let [there, back, clock] = game.posts.all();
    measure(game, Case { case: "get-and-free", way: "any", bytes: 0 }, || Post::any()?.free(false))?;
    // Which posts these are is said in registers.
    measure(game, Case { case: "look", way: "several", bytes: 0 }, || match post::receive_of(&[back, clock], 0) {
        Err(Error::TimedOut) => Ok(()),
        outcome => outcome.and(Err(Error::Changed)),
    })?;
    let messages = [Body { op: OP.into(), words: [1, 2, 3, 4, 5, 6] }; MANY];
    measure(game, Case { case: "send-many", way: "queued", bytes: BYTES }, || {
        let sent = there.send_many(&messages)?;
        (0..sent).try_for_each(|_| there.receive(FOR_EVER).map(drop))
    })?;
    // Who asks goes on when the one who has answered waits for the next question.
    game.beside(
        "asks",
        "answer",
        |_| {
            let question = there.receive(FOR_EVER)?;
            let words = one_more(question.words);
            post::answer(question.back, OP, words).map(|()| words)
        },
        |round| {
            round();
            let each = Plan::new(game.rounds).measure(round);
            game.report.case(Case { case: "answer", way: "woken", bytes: BYTES }, &each, &[]);
            Ok(())
        },
    )?;
    // What the one who asks has asked since is there still, and he is not.
    while there.receive(0).is_ok() {}
    Ok(())
}

/// The partner's part of `answer`: asks again and again.
pub fn by_asking(&[there, ..]: &[Post; 3]) -> Result<(), Error> {
    let mut words = [1, 2, 3, 4, 5, 6];
    loop {
        words = there.ask(OP, words, FOR_EVER)?.words;
    }
}

fn measure(game: &Game, case: Case, mut round: impl FnMut() -> Result<(), Error>) -> Result<(), String> {
    let mut failed = Ok(());
    let each = Plan::new(game.rounds).measure(|| failed = failed.and(round()));
    game.report.case(case, &each, &[]);
    failed.map_err(|e| format!("{} by {}: {e}", case.case, case.way))
}
