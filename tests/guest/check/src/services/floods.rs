//! Who sends anything, and who collects nothing, harm nobody.

use super::{END_NS, answers, ask, by_post, post_of, send};
use crate::peer::{Peer, op, six};
use crate::report::{Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::format;
use alloc::vec::Vec;
use musubi::abi::layout::PAGE;
use musubi::command::Command;
use musubi::interfaces::names::NamesClient;
use musubi::rt::later::{Answer, Later};
use musubi::rt::post::{Body, Message, Post};
use musubi::rt::request::{self, TAG_MAX, of_head};
use musubi::rt::serve::Count;
use musubi::rt::{Answers, task, thread, time};
use musubi::{Error, Rights};

/// Asks the name service so often, and leaves all answers lying.
pub fn collect_nothing(gate: u64, count: u64) -> Result<(), Error> {
    let (client, answers) = (NamesClient::bind_with_args(gate, 0)?, Answers::new()?);
    let posts = client.by_post(&answers)?;
    for _ in 0..count {
        core::mem::forget(patiently(|| posts.list(0, &mut []))?);
    }
    thread::park()
}

/// Who has as many messages lying as he may waits until there are less.
fn patiently<T>(send: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
    loop {
        match send() {
            Err(Error::MessageQuota) => thread::yield_now(),
            outcome => return outcome,
        }
    }
}

/// Answers that are left lying are charged to the server. Others get theirs all the same.
pub fn who_collects_nothing_harms_nobody() -> Outcome {
    let gate = musubi::start().names();
    let client = NamesClient::bind_with_args(gate, PAGE).map_err(doing("bind"))?;
    let answers = answers()?;
    let posts = client.by_post(&answers).map_err(doing("by_post"))?;
    let files = client.lookup("files");
    let counted = |what| posts.count(what).map_err(doing("counting"));
    let (kept, lost) = (counted(Count::Kept)?, counted(Count::Lost)?);
    let words = ["check", "as", "services", "collect-nothing", &format!("{gate}"), "3000"];
    let other = Command::new(b"bin/check").args(words).spawn().map_err(doing("a client"))?;
    // Until the server can leave no more, and keeps no more for that one.
    let until = time::now_ns() + 3 * END_NS;
    while counted(Count::Kept)? == kept || counted(Count::Lost)? == lost {
        holds!(time::now_ns() < until, "the server's share of the pool does not come to an end");
        time::sleep_ns(10_000_000);
    }
    for round in 0..20 {
        let all: Result<Vec<_>, Error> = (0..10).map(|_| patiently(|| posts.lookup("files"))).collect();
        for one in all.map_err(doing("sending"))? {
            same!(one.wait(), files, "an answer of round {round}");
        }
    }
    other.kill().map_err(doing("kill"))
}

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// Sends messages of any content, in every way that there is.
pub fn flood(to: Post, count: u64) -> Result<(), Error> {
    let mut random = Random::new(task::identity().task);
    let back = Post::any()?;
    back.allow(&everybody(Rights::CALL))?;
    let places = [to.0, back.0, musubi::start().text(), musubi::start().names(), 0];
    for n in 0..count {
        let mut words = [0; 6].map(|_| random.next() >> (random.next() & 63));
        if n % 3 == 0 {
            words[(random.next() % 6) as usize] = places[(random.next() % 5) as usize];
        }
        let op = match random.next() % 4 {
            0 => random.next() as u32,
            1 => request::head(0, random.next() as u32 & TAG_MAX, random.next() & 0xff),
            // Not one that ends the server: only methods that are not there.
            _ => request::head(0x555, random.next() as u32 & TAG_MAX, random.next() & 3),
        };
        // The peer does whatever it is asked to: what would reach it is not sent.
        let (identity, tag, method) = of_head(op);
        let op = if identity == 0 && method == 0 && tag != request::WATCH { op | 1 } else { op };
        let outcome = match n % 5 {
            0 => to.send(op, words, None),
            1 | 2 => to.send(op, words, Some(back)),
            3 => to.send_copies(&Body { op: op.into(), words }, 3).map(drop),
            _ => match to.ask(op, words, 1_000_000) {
                Ok(answer) if answer.op == op && Error::from_word(answer.words[0]).is_some() => Ok(()),
                Ok(_) => Err(Error::BadArgument),
                // It is never answered, or not soon.
                Err(Error::TimedOut) => Ok(()),
                Err(error) => Err(error),
            },
        };
        match outcome {
            Ok(()) => {}
            Err(Error::MessageQuota) => while back.receive(0).is_ok() {},
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

const FLOOD: u64 = 3000;

/// Proper clients work meanwhile, and nothing of theirs is lost.
pub fn a_flood_at_random() -> Outcome {
    let peer = Peer::start_with_post(0, 2)?;
    let answers = answers()?;
    let to = by_post(&peer, &answers)?;
    let words = [format!("{}", post_of(&peer)?.0), format!("{FLOOD}")];
    let words = ["check", "as", "services", "flood", &words[0], &words[1]];
    let floods: Result<Vec<_>, _> = (0..2).map(|_| Command::new(b"bin/check").args(words).spawn()).collect();
    let mut sum = 0;
    for round in 0..60 {
        // The floods are paid for by the same account as what is sent here.
        let add = |n| patiently(|| to.begin(false, 0, six(op::ADD, &[n]), []));
        let all: Result<Vec<_>, Error> = (0..8).map(add).collect();
        for one in all.map_err(doing("sending"))? {
            one.wait().map_err(doing("an answer in the flood"))?;
        }
        sum += 28;
        same!(peer.call(op::ADD, &[0]), Ok(sum), "the sum after round {round}");
    }
    for flood in floods.map_err(doing("a flood"))? {
        let exit = flood.wait_for(200_000_000_000).map_err(doing("the end of a flood"))?;
        same!(exit.code, 0, "how it ended");
    }
    holds!(to.count(1, Count::Refused).is_ok_and(|count| count > FLOOD), "{:?} counted", to.count(1, Count::Refused));
    same!(to.count(1, Count::Faulted), Ok(0), "faults");
    same!(answers.strangers(), 0, "other messages");
    same!(ask(&to, op::ADD, &[0]), Ok(sum), "the sum in the end");
    peer.end()
}

/// A server that receives nothing for a long time: whoever waits for several of its answers leaves two messages there besides the requests, and
/// goes on when it is back.
pub fn who_waits_leaves_little_lying() -> Outcome {
    const WAIT_NS: u64 = 700_000_000;
    let post = Post::any().map_err(doing("a post"))?;
    let answers = answers()?;
    let to = Later::to(post, &answers, 0);
    let requests: Result<Vec<_>, _> = (0..2).map(|_| send(&to, op::ADD, &[1])).collect();
    let mut requests = requests?;
    // What has come, without requests.
    let lying = || -> Vec<Message> {
        let all = core::iter::from_fn(|| post.receive(0).ok());
        all.filter(|message| of_head(message.op).1 == request::WATCH).collect()
    };
    for round in 0..3 {
        same!(requests[0].wait_for(WAIT_NS), Err(Error::TimedOut), "round {round}: nobody answers");
        let watches = lying();
        holds!((1..=2).contains(&watches.len()), "round {round}: {} messages", watches.len());
        // As a server that is at work on it.
        for one in watches.iter().filter(|one| one.words[1] != 0) {
            let known = [0, one.words[0], request::KNOWN, 0, 0, 0];
            Post(one.back).send(one.op, known, None).map_err(doing("answering"))?;
        }
        same!(requests[0].is_ready(), false, "round {round}: an answer");
    }
    // As one that knows of nothing.
    let ended = |requests: &mut Vec<Answer<u64>>| requests.iter_mut().all(Answer::is_ready);
    let until = time::now_ns() + END_NS;
    while !ended(&mut requests) {
        holds!(time::now_ns() < until, "a server that knows nothing is believed in");
        if let Some(one) = requests.iter_mut().find_map(|one| (!one.is_ready()).then_some(one)) {
            let _ = one.wait_for(WAIT_NS / 5);
        }
        for one in lying() {
            let unknown = [0, one.words[0], 0, 0, 0, 0];
            Post(one.back).send(one.op, unknown, None).map_err(doing("answering"))?;
        }
    }
    for one in requests {
        same!(one.wait(), Err(Error::Dead), "a request");
    }
    same!(answers.strangers(), 0, "other messages");
    post.free(true).map_err(doing("freeing"))
}
