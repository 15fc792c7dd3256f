//! Messages between two programs and back: 48 bytes by send-and-receive, by question and answer (K1-M1).

use crate::report::{Case, Report};
use crate::rounds::Plan;
use alloc::format;
use alloc::string::String;
use musubi::command::{Child, Command};
use musubi::rt::gate::ANYBODY;
use musubi::rt::post::{self, FOR_EVER, Post};
use musubi::{AclEntry, Error, Rights};

/// Rounds, as in the paper.
const ROUNDS: usize = 10_000;
/// Bytes of a message.
const BYTES: usize = 48;
const OP: u32 = 7;

pub fn run(report: &Report) -> Result<(), String> {
    let posts = Posts::new().map_err(|e| format!("posts: {e}"))?;
    let outcome = ping_pong(report, &posts).and_then(|()| questions(report, &posts));
    let freed = posts.there.free(true).and_then(|()| posts.back.free(true));
    outcome.and(freed.map_err(|e| format!("freeing: {e}")))
}

/// Where messages go, and where they come back.
struct Posts {
    there: Post,
    back: Post,
}

impl Posts {
    fn new() -> Result<Posts, Error> {
        let posts = Posts { there: Post::any()?, back: Post::any()? };
        let everybody = AclEntry { rights: (Rights::CALL | Rights::READ).bits(), ..ANYBODY };
        posts.there.allow(&everybody)?;
        posts.back.allow(&everybody)?;
        Ok(posts)
    }

    /// Starts this program once more, as a partner who plays in this way.
    fn partner(&self, way: &str) -> Result<Child, String> {
        let [there, back] = [self.there, self.back].map(|post| format!("{}", post.0));
        let words = [way, &there, &back];
        let command = Command::new(b"bin/bench").arg(b"partner");
        let command = words.into_iter().fold(command, |command, word| command.arg(word.as_bytes()));
        command.spawn().map_err(|e| format!("bin/bench: {e}"))
    }
}

fn ping_pong(report: &Report, posts: &Posts) -> Result<(), String> {
    let partner = posts.partner("pool")?;
    let mut failed = Ok(());
    let mut words = [1, 2, 3, 4, 5, 6];
    let mut round = || match posts.there.send_and_receive(OP, words, posts.back, FOR_EVER) {
        Ok(message) => words = message.words,
        Err(error) => failed = Err(error),
    };
    round();
    let rounds = Plan::new(ROUNDS).measure(round);
    end(partner, failed)?;
    report.case(Case { case: "ping-pong", way: "pool", bytes: BYTES }, &rounds, &[]);
    Ok(())
}

fn questions(report: &Report, posts: &Posts) -> Result<(), String> {
    let partner = posts.partner("question")?;
    let mut failed = Ok(());
    let mut words = [1, 2, 3, 4, 5, 6];
    let mut round = || match posts.there.ask(OP, words, FOR_EVER) {
        Ok(answer) => words = answer.words,
        Err(error) => failed = Err(error),
    };
    round();
    let rounds = Plan::new(ROUNDS).measure(round);
    end(partner, failed)?;
    report.case(Case { case: "ping-pong", way: "question", bytes: BYTES }, &rounds, &[]);
    Ok(())
}

fn end(partner: Child, outcome: Result<(), Error>) -> Result<(), String> {
    let _ = partner.kill();
    let _ = partner.wait();
    outcome.map_err(|e| format!("a round: {e}"))
}

/// The partner's main function.
pub fn play(way: &str, there: &str, back: &str) -> i32 {
    let (Ok(there), Ok(back)) = (there.parse().map(Post), back.parse().map(Post)) else { return 2 };
    let played = || -> Result<(), Error> {
        let mut message = there.receive(FOR_EVER)?;
        loop {
            let words = message.words.map(|word| word + 1);
            message = match way {
                "pool" => back.send_and_receive(OP, words, there, FOR_EVER)?,
                _ => post::answer_and_receive(message.back, OP, words, there, FOR_EVER)?,
            };
        }
    };
    played().err().map_or(0, |error| error.word() as i32)
}
