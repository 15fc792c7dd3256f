//! A server that answers several in turn, each at a post of his own, as one does who is asked `by_post`. Their numbers are just so far apart that what it
//! knows of their lists would have one place (`core/post/src/face.rs`): it is known all the same, so each message goes the short way.

use crate::pool::{BYTES, Game, OP};
use crate::report::Case;
use crate::rounds::Plan;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::post::number;
use musubi::rt::gate::ANYBODY;
use musubi::rt::post::{FOR_EVER, Post};
use musubi::rt::task;
use musubi::{AclEntry, Error, Rights};

/// Posts for answers, all of which have messages in a round, and how far apart they are.
const BACKS: usize = 5;
const APART: u32 = 16;

pub fn run(game: &Game) -> Result<(), String> {
    let backs = apart().map_err(|e| format!("posts that are apart: {e}"))?;
    let there = game.posts.there;
    let outcome = game.beside(
        "crowd-1",
        "backs",
        |words| {
            let exchange = |words, back: &Post| there.send_and_receive(OP, words, *back, FOR_EVER).map(|m| m.words);
            backs.iter().try_fold(words, exchange)
        },
        |round| {
            round();
            let each = Plan::new(game.rounds).measure(round);
            game.report.case(Case { case: "backs", way: "pool", bytes: BYTES }, &each, &[]);
            Ok(())
        },
    );
    outcome.and(backs.iter().try_for_each(|back| back.free(true)).map_err(|e| format!("freeing: {e}")))
}

/// Posts come one after the other, so there is one in as many; the others are given back at once.
fn apart() -> Result<Vec<Post>, Error> {
    let mut backs = Vec::new();
    let (mut wanted, node) = (None, task::identity().node);
    while backs.len() < BACKS {
        let post = Post::any()?;
        let number = number(node, post.0).ok_or(Error::NotFound)? % APART;
        if *wanted.get_or_insert(number) == number {
            post.allow(&AclEntry { rights: (Rights::CALL | Rights::READ).bits(), ..ANYBODY })?;
            backs.push(post);
        } else {
            post.free(false)?;
        }
    }
    Ok(backs)
}
