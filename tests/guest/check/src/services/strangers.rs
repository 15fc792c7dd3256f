//! A client frees the post that answers were to come to, and another program gets its number: it hears none of them, however long they have
//! waited, and wherever.

use super::{END_NS, answers, by_post, post_of};
use crate::memory::{await_word, data, store};
use crate::peer::{Peer, op, six};
use crate::processes::start;
use crate::report::{Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use musubi::abi::layout::{GRANULE, PAGE};
use musubi::command::Child;
use musubi::interfaces::pipes::PipesClient;
use musubi::interfaces::stream::StreamClient;
use musubi::rt::bound::result_of;
use musubi::rt::post::{FOR_EVER, Post};
use musubi::rt::serve::{Count, opener};
use musubi::rt::{request, section, thread, time};
use musubi::{Error, Rights, names};

/// Numbers go round before they come again.
const PATIENCE_NS: u64 = 6 * END_NS;
/// For so long an answer is waited for that is not to be.
const AWHILE_NS: u64 = 2_000_000_000;
/// So near to the wanted one another post lies if numbers are about to come to that.
const NEAR: u64 = 4 * GRANULE;
/// What the stranger is told at its post, in the end.
const MARK: u32 = 0x00ff_ff01;
/// `StreamClient`'s method.
const READ: u64 = 1;

/// The program: frees this post and gets its number, says so at `told`, and ends with whether anything came there before the mark.
pub fn role(wanted: u64, told: u64) -> i32 {
    let (mut is_free, until) = (false, time::now_ns() + PATIENCE_NS);
    while time::now_ns() < until {
        match Post::any() {
            Ok(post) if post.0 == wanted => {
                // Whether nobody could find it free meanwhile, or next to nobody.
                let at_once = u64::from(is_free);
                let ready = post.allow(&everybody(Rights::CALL));
                if ready.and_then(|()| Post(told).send(1, [at_once, 0, 0, 0, 0, 0], None)).is_err() {
                    return 3;
                }
                return post.receive(PATIENCE_NS).map_or(4, |first| i32::from(first.op != MARK));
            }
            Ok(post) => {
                let _ = post.free(false);
                // When that number is the next one, or nearly.
                is_free = wanted.wrapping_sub(post.0) <= NEAR;
                if is_free {
                    let _ = Post(wanted).free(true);
                }
            }
            Err(_) => return 3,
        }
    }
    2
}

/// A way back whose number becomes another program's.
struct WayBack {
    post: Post,
    told: Post,
}

impl WayBack {
    fn new() -> Result<WayBack, String> {
        let any = |rights| -> Result<Post, Error> {
            let post = Post::any()?;
            post.allow(&everybody(rights))?;
            Ok(post)
        };
        let make = || -> Result<WayBack, Error> {
            // The numbers before it are nobody's: by those the next one comes to it. Who is to get it frees it.
            let before = [any(Rights::CALL)?, any(Rights::CALL)?, any(Rights::CALL)?];
            let post = any(Rights::CALL | Rights::CHANGE_ACL)?;
            before.into_iter().try_for_each(|one| one.free(true))?;
            Ok(WayBack { post, told: any(Rights::CALL)? })
        };
        make().map_err(doing("posts"))
    }

    /// It is freed, and a stranger's; whether it was at once.
    fn changes_hands(&self) -> Result<(Child, bool), String> {
        let stranger = start(&["stranger", &format!("{}", self.post.0), &format!("{}", self.told.0)])?;
        let said = self.told.receive(PATIENCE_NS).map_err(doing("waiting until a stranger has the number"))?;
        Ok((stranger, said.words[0] == 1))
    }

    /// When the answers are lost, or were sent: what the stranger was told.
    fn told_nothing(self, stranger: Child, lost: impl Fn() -> Result<bool, String>) -> Outcome {
        let until = time::now_ns() + AWHILE_NS;
        while time::now_ns() < until && !lost()? {
            time::sleep_ns(5_000_000);
        }
        // (Who was told anything has ended.)
        let _ = self.post.send(MARK, [0; 6], None);
        let exit = stranger.wait_for(END_NS).map_err(doing("the stranger's end"))?;
        same!(exit.code, 0, "what a stranger was told (1: an answer)");
        holds!(lost()?, "the server has not counted what it has not sent");
        self.told.free(true).map_err(doing("freeing"))
    }
}

/// Who waits in the middle of a request, at a server of the system's.
pub fn what_waits_is_answered_to_nobody_else() -> Outcome {
    let pipes = PipesClient::bind(names::lookup("pipes").map_err(doing("pipes"))?).map_err(doing("bind"))?;
    let streams = pipes.streams().and_then(|gate| StreamClient::bind_with_args(gate, PAGE));
    let streams = streams.map_err(doing("streams"))?;
    let methods = StreamClient::INTERFACE.methods.len() as u64;
    let open = |what: u64, which: u64| streams.bound().call(methods, [what, which, 0, 0, 0, 0]).and_then(result_of);
    let post = open(opener::POST, u64::from(StreamClient::IDENTITY)).map(Post).map_err(doing("its post"))?;
    let counted = || open(opener::COUNT, Count::Lost as u64).map_err(doing("counting"));
    let (part, pipe) = (streams.alloc(8).map_err(doing("memory"))?, pipes.make().map_err(doing("a pipe"))?);
    let way = WayBack::new()?;
    let head = request::head(StreamClient::IDENTITY, 1, READ);
    let reads = || post.send(head, [pipe, part.address(), 8, 0, 0, 0], Some(way.post)).map_err(doing("sending"));
    // It is received when what comes after it is.
    let other = request::head(StreamClient::IDENTITY, 2, methods - 1);
    let is_received = || {
        let asked = post.ask(other, [pipe, 0, 0, 0, 0, 0], FOR_EVER).map(drop).map_err(doing("another request"));
        time::sleep_ns(50_000_000);
        asked
    };
    for n in 0..3 {
        reads()?;
        is_received()?;
        same!(streams.write(pipe + 1, &[7]), Ok(1), "writing");
        let came = way.post.receive(END_NS).map(|answer| (answer.op, answer.words[0]));
        same!(came, Ok((head, 0)), "answer {n}, while the post is its own");
    }
    let before = counted()?;
    reads()?;
    is_received()?;
    let (stranger, _) = way.changes_hands()?;
    same!(streams.write(pipe + 1, &[7]), Ok(1), "writing");
    way.told_nothing(stranger, || Ok(counted()? > before))?;
    // The server serves as before.
    same!(streams.write(pipe + 1, &[8]), Ok(1), "writing");
    same!(streams.read(pipe, &mut [0; 8]), Ok(1), "reading");
    [pipe, pipe + 1].into_iter().try_for_each(|end| streams.close(end)).map_err(doing("closing"))
}

/// It has changed hands already when the request is taken up.
pub fn what_lay_in_the_queue_is_answered_to_nobody_else() -> Outcome {
    let peer = Peer::start_with_post(0, 1)?;
    let (answers, post) = (answers()?, post_of(&peer)?);
    let to = by_post(&peer, &answers)?;
    let place = data(PAGE).map_err(doing("create"))?;
    section::grant(place.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let (first, second) = (place.base(), place.base() + 16);
    let way = WayBack::new()?;
    // The only receiver is busy, and does not say that it waits.
    post.send(request::head(0, 1, 0), six(op::AWAIT, &[first, 0]), None).map_err(doing("sending"))?;
    await_word(first + 8);
    let counted = || to.count(1, Count::Lost).map_err(doing("counting"));
    let before = counted()?;
    post.send(request::head(0, 2, 0), six(op::AWAIT, &[second, 1]), Some(way.post)).map_err(doing("sending"))?;
    let (stranger, _) = way.changes_hands()?;
    store(second, 1);
    store(first, 1);
    await_word(second + 8);
    way.told_nothing(stranger, || Ok(counted()? > before))?;
    peer.end()
}

/// So often it is tried to get a number that was freed before anybody has looked at it.
const ROUNDS: usize = 10;

/// Answers for which there is no room while the post is its sender's.
pub fn what_was_kept_is_answered_to_nobody_else() -> Outcome {
    let peer = Peer::start_with_post(0, 1)?;
    let (answers, post) = (answers()?, post_of(&peer)?);
    let to = by_post(&peer, &answers)?;
    let counted = |what| to.count(1, what).map_err(doing("counting"));
    let full = WayBack::new()?;
    let send = |back: Post| loop {
        match post.send(request::head(0, 1, 0), six(op::ADD, &[1]), Some(back)) {
            Err(Error::MessageQuota) => thread::yield_now(),
            sent => return sent.map_err(doing("sending")),
        }
    };
    // (Who asks needs no room to be answered.)
    let is_through = || {
        let asked = post.ask(request::head(0, 2, 0), six(op::ADD, &[0]), FOR_EVER);
        asked.map(drop).map_err(doing("asking"))
    };
    // Until the server may leave no more lying, and keeps no more for that post.
    while counted(Count::Lost)? == 0 {
        send(full.post)?;
    }
    is_through()?;
    let kept = counted(Count::Kept)?;
    holds!(kept > 0, "nothing is kept");
    for round in 1..=ROUNDS {
        let way = WayBack::new()?;
        let before = (counted(Count::Kept)?, counted(Count::Lost)?);
        send(way.post)?;
        is_through()?;
        same!(counted(Count::Kept), Ok(before.0 + 1), "what is kept");
        let (stranger, at_once) = way.changes_hands()?;
        if !at_once && round < ROUNDS {
            // The server may have looked while nobody had it.
            stranger.kill().and_then(|()| stranger.wait().map(drop)).map_err(doing("killing"))?;
            way.told.free(true).map_err(doing("freeing"))?;
            continue;
        }
        // There is room again; what is kept for the post that goes is lost, too.
        full.post.free(true).map_err(doing("freeing"))?;
        way.told_nothing(stranger, || Ok(counted(Count::Lost)? > before.1 + kept))?;
        break;
    }
    full.told.free(true).map_err(doing("freeing"))?;
    peer.end()
}
