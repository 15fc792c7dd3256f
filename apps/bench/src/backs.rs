//! Threads that know the lists of many posts. A server that answers many in turn, each at a post of his own, as one does who is asked `by_post`: their numbers are just so far
//! apart that all of what it knows of their lists would have one place (`core/post/src/face.rs`), and so has whoever waits there. And one who waits at as many posts at once as may be.
//! It is known all the same, so each message goes the short way.

use crate::pool::{BYTES, Game, OP, Posts};
use crate::report::Case;
use crate::rounds::Plan;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::post::{SEVERAL_MAX, number};
use musubi::rt::gate::ANYBODY;
use musubi::rt::post::{self, FOR_EVER, Post};
use musubi::rt::task;
use musubi::{AclEntry, Error, Rights};

/// Posts for answers, all of which have messages in a round, and how far apart they are.
const BACKS: usize = 16;
const APART: u32 = 16;

pub fn run(game: &Game) -> Result<(), String> {
    let failed = |e| format!("posts for answers: {e}");
    let backs = Backs::new(BACKS, APART).map_err(failed)?;
    let outcome = in_turn(game, &backs.0);
    outcome.and(backs.free().map_err(failed))?;
    let others = Backs::new(SEVERAL_MAX as usize - 1, 1).map_err(failed)?;
    let outcome = at_many(game, &others.0);
    outcome.and(others.free().map_err(failed))
}

fn in_turn(game: &Game, backs: &[Post]) -> Result<(), String> {
    let there = game.posts.there;
    game.beside(
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
    )
}

/// Plain messages to and fro, as of `woken`, to one who waits for them at other posts, too.
fn at_many(game: &Game, others: &[Post]) -> Result<(), String> {
    let Posts { there, back, .. } = *game.posts;
    let all: Vec<Post> = others.iter().copied().chain([back]).collect();
    game.beside_woken("at-eight", Plan::new(game.rounds), |words| {
        there.send(OP, words, None)?;
        post::receive_of(&all, FOR_EVER).map(|m| m.words)
    })
}

struct Backs(Vec<Post>);

impl Backs {
    /// So many, of which each one's number is that of the one before and a multiple of this. Posts come one after the other, so those between are given back at once.
    fn new(count: usize, apart: u32) -> Result<Backs, Error> {
        let mut backs = Backs(Vec::new());
        let (mut wanted, node) = (None, task::identity().node);
        while backs.0.len() < count {
            let post = Post::any()?;
            let number = number(node, post.0).ok_or(Error::NotFound)? % apart;
            if *wanted.get_or_insert(number) == number {
                post.allow(&AclEntry { rights: (Rights::CALL | Rights::READ).bits(), ..ANYBODY })?;
                backs.0.push(post);
            } else {
                post.free(false)?;
            }
        }
        Ok(backs)
    }

    fn free(&self) -> Result<(), Error> {
        self.0.iter().try_for_each(|back| back.free(true))
    }
}
