//! Two plain messages, each of which wakes somebody else, before their sender waits: both are put by, and go on in its place, one after the other.

use crate::pool::{BYTES, Game, OP, Posts, end};
use crate::report::Case;
use crate::rounds::Plan;
use alloc::format;
use alloc::string::String;
use musubi::rt::post::FOR_EVER;

pub fn run(game: &Game) -> Result<(), String> {
    let others = Posts::new().map_err(|e| format!("posts: {e}"))?;
    let other = others.partner("woken")?;
    let pairs = [game.posts, &others];
    let played = game.beside(
        "woken",
        "two-woken",
        |words| {
            pairs.iter().try_for_each(|posts| posts.there.send(OP, words, None))?;
            pairs.iter().try_fold(words, |_, posts| posts.back.receive(FOR_EVER).map(|m| m.words))
        },
        |round| {
            round();
            let each = Plan::new(game.rounds).measure(round);
            game.report.case(Case { case: "two-woken", way: "pool", bytes: BYTES }, &each, &[]);
            Ok(())
        },
    );
    played.and(end(other)).and(others.free().map_err(|e| format!("freeing: {e}")))
}
