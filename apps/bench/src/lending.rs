//! Messages with which memory is lent that nobody touches, and their answers: what they take more than those that carry words only.

use crate::pool::{BYTES, Game, OP};
use crate::report::Case;
use crate::rounds::Plan;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use musubi::rt::post::FOR_EVER;

/// The first word says where it is, the second how long, to be read.
const LEND: u16 = 1;
const LEN: usize = 4096;

/// The same of so much: what is not touched takes nothing.
const MUCH: usize = 4 << 20;

pub fn run(game: &Game) -> Result<(), String> {
    [("pool", LEN), ("4-mib", MUCH)].into_iter().try_for_each(|(way, len)| so_much(game, way, len))
}

fn so_much(game: &Game, way: &'static str, len: usize) -> Result<(), String> {
    let [there, back, _] = game.posts.all();
    let memory = vec![1_u8; len];
    let words = [memory.as_ptr() as u64, len as u64, 0, 0, 0, 0];
    let measure = |case: &'static str| {
        move |round: &mut dyn FnMut()| -> Result<(), String> {
            round();
            let each = Plan::new(game.rounds).measure(round);
            game.report.case(Case { case, way, bytes: BYTES }, &each, &[]);
            Ok(())
        }
    };
    game.beside(
        "question",
        "lending-question",
        |_| there.ask_lending(OP, words, LEND, FOR_EVER).map(|answer| answer.words),
        measure("lending-question"),
    )?;
    game.beside(
        "question",
        "lending",
        |_| {
            there.send_lending(OP, words, LEND, back, FOR_EVER)?;
            back.receive(FOR_EVER).map(|answer| answer.words)
        },
        measure("lending"),
    )
    .map_err(|e| format!("memory that is lent: {e}"))
}
