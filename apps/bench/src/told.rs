//! A plain message whose sender goes on before it waits, here by one call that does nothing: whoever it wakes is made ready by that, as by any other wake-up.

use crate::pool::{BYTES, Game, OP, Posts};
use crate::report::Case;
use crate::rounds::Plan;
use alloc::string::String;
use musubi::rt::post::FOR_EVER;
use musubi::rt::task;

pub fn run(game: &Game) -> Result<(), String> {
    let Posts { there, back, .. } = *game.posts;
    game.beside(
        "woken",
        "told",
        |words| {
            there.send(OP, words, None)?;
            core::hint::black_box(task::own_by_full_entry());
            back.receive(FOR_EVER).map(|m| m.words)
        },
        |round| {
            round();
            let each = Plan::new(game.rounds).measure(round);
            game.report.case(Case { case: "told", way: "pool", bytes: BYTES }, &each, &[]);
            Ok(())
        },
    )
}
