//! A right to receive that is taken away under those who wait: they get no message any more, and hear what they would hear if they
//! asked now. Whoever still may gets it.

use super::{WORDS, post, until};
use crate::report::{Outcome, doing};
use crate::{holds, same};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::layout::GRANULE;
use musubi::abi::refusal::Object;
use musubi::abi::rights::principal;
use musubi::rt::post::{FOR_EVER, Message, Post};
use musubi::rt::{task, thread, time};
use musubi::{AclEntry, Error, Rights};

/// How a thread comes to wait there.
#[derive(Clone, Copy, Debug)]
enum Waits {
    There,
    AmongOthers,
    /// For what comes back for what it sends, after some rounds of that: on the short way.
    AfterSending,
    /// After it has answered questions, in the same way.
    AfterAnswering,
}

use Waits::{AfterAnswering, AfterSending, AmongOthers, There};

const ROUNDS: u32 = 5;
const LATE: u32 = 77;
/// For whoever is to get the message, so that a check that fails ends.
const LONG_NS: u64 = 5_000_000_000;

/// What a thread has heard.
const REFUSED: u64 = 1;
const GOT_IT: u64 = 2;
const ELSE: u64 = 3;

fn heard(post: Post, outcome: Result<Message, Error>) -> u64 {
    match outcome {
        Ok(message) if message.op == LATE => GOT_IT,
        Err(error) if is_refusal(post, error) => REFUSED,
        _ => ELSE,
    }
}

fn is_refusal(post: Post, error: Error) -> bool {
    error.refusal().is_some_and(|refusal| refusal.object == Object::Section(post.0, Rights::READ))
}

/// What one thread of this program may do at a post.
fn let_thread(post: Post, thread: u64, rights: Rights) -> Result<(), Error> {
    let text = task::identity().text;
    post.allow(&AclEntry { principal: principal::THREAD, rights: rights.bits(), id: thread, text })
}

/// A post where threads of this program may send, and receive if they have been named.
fn guarded() -> Result<Post, String> {
    let (post, me) = (post()?, task::identity());
    let rights = Rights::CALL | Rights::CHANGE_ACL;
    let entry = AclEntry { principal: principal::TASK, rights: rights.bits(), id: me.task, text: me.text };
    post.allow(&entry).map_err(doing("taking the task's right"))?;
    Ok(post)
}

/// What the two threads and this one share.
#[derive(Default)]
struct Stage {
    /// The threads have been given their rights.
    may: AtomicU64,
    /// So many are about to wait.
    here: AtomicU64,
    heard: [AtomicU64; 2],
}

fn wait(how: Waits, post: Post, other: Post, stage: &Stage) -> Result<Message, Error> {
    match how {
        AfterSending => {
            for round in 1..ROUNDS {
                other.send_and_receive(round, WORDS, post, FOR_EVER)?;
            }
        }
        AfterAnswering => {
            let mut question = post.receive(FOR_EVER)?;
            for round in 1..ROUNDS {
                question = post::answer_and_receive(question.back, round, WORDS, post, FOR_EVER)?;
            }
            stage.here.fetch_add(1, Ordering::SeqCst);
            return post::answer_and_receive(question.back, ROUNDS, WORDS, post, FOR_EVER);
        }
        There | AmongOthers => {}
    }
    stage.here.fetch_add(1, Ordering::SeqCst);
    match how {
        There | AfterAnswering => post.receive(FOR_EVER),
        AmongOthers => post::receive_of(&[other, post], FOR_EVER),
        AfterSending => other.send_and_receive(ROUNDS, WORDS, post, FOR_EVER),
    }
}

/// One thread waits, and loses its right; another one waits behind it, or comes later.
fn lose(how: Waits, behind: bool) -> Outcome {
    let (post, other, stage) = (guarded()?, post()?, Arc::new(Stage::default()));
    let at = stage.clone();
    let loser = move || {
        until(&at.may, 1);
        at.heard[0].store(heard(post, wait(how, post, other, &at)), Ordering::SeqCst);
    };
    let loser = thread::spawn(loser, 0).map_err(doing("starting"))?;
    let number = loser.number();
    let_thread(post, number, Rights::READ).map_err(doing("giving the right"))?;
    stage.may.store(1, Ordering::SeqCst);
    for round in 1..=ROUNDS {
        match how {
            There | AmongOthers => {}
            AfterSending => {
                same!(other.receive(LONG_NS).map(|message| message.op), Ok(round), "what it sends");
                if round < ROUNDS {
                    post.send(round, WORDS, None).map_err(doing("sending back"))?;
                }
            }
            AfterAnswering => {
                same!(post.ask(round, WORDS, LONG_NS).map(|message| message.op), Ok(round), "what it answers");
            }
        }
    }
    until(&stage.here, 1);
    let keeper = if behind {
        let at = stage.clone();
        let keeper = move || {
            until(&at.may, 2);
            at.here.fetch_add(1, Ordering::SeqCst);
            at.heard[1].store(heard(post, post.receive(LONG_NS)), Ordering::SeqCst);
        };
        let keeper = thread::spawn(keeper, 0).map_err(doing("starting"))?;
        let_thread(post, keeper.number(), Rights::READ).map_err(doing("giving the right"))?;
        stage.may.store(2, Ordering::SeqCst);
        until(&stage.here, 2);
        Some(keeper)
    } else {
        None
    };
    let_thread(post, number, Rights::empty()).map_err(doing("taking the right"))?;
    post.send(LATE, WORDS, None).map_err(doing("sending"))?;
    loser.join().map_err(doing("joining"))?;
    same!(stage.heard[0].load(Ordering::SeqCst), REFUSED, "{how:?}: who has lost its right");
    if let Some(keeper) = keeper {
        keeper.join().map_err(doing("joining"))?;
        same!(stage.heard[1].load(Ordering::SeqCst), GOT_IT, "{how:?}: who waited behind it");
    } else {
        let_thread(post, task::identity().thread, Rights::READ).map_err(doing("giving the right"))?;
        same!(heard(post, post.receive(0)), GOT_IT, "{how:?}: who comes later");
    }
    same!(post.free(false), Ok(()), "{how:?}: nobody is left, and no message");
    other.free(false).map_err(doing("freeing"))
}

pub fn a_wait_ends_with_its_right() -> Outcome {
    for how in [There, AmongOthers, AfterSending, AfterAnswering] {
        lose(how, true)?;
        lose(how, false)?;
    }
    Ok(())
}

/// A thread has received at a post, and has ended; another one, which may do nothing there, names no post at all. (Its record was the other one's.)
pub fn no_post_by_no_name() -> Outcome {
    static HEARD: AtomicU64 = AtomicU64::new(0);
    // Where a thread keeps what it knows of a post it looks by its number, and by a quarter of them in the same place as by 0.
    let quarter = |post: &Post| (post.0 / GRANULE).is_multiple_of(4);
    let mut others = Vec::new();
    let guarded = loop {
        let post = guarded()?;
        if quarter(&post) {
            break post;
        }
        others.push(post);
    };
    let own = loop {
        let post = post()?;
        if !quarter(&post) {
            break post;
        }
        others.push(post);
    };
    for _ in 0..8 {
        let may: &'static AtomicU64 = alloc::boxed::Box::leak(alloc::boxed::Box::new(AtomicU64::new(0)));
        let first = move || {
            until(may, 1);
            let got = guarded.send(MAY, WORDS, None).and_then(|()| guarded.receive(0)).is_ok();
            HEARD.store(u64::from(got), Ordering::SeqCst);
        };
        let first = thread::spawn(first, 0).map_err(doing("starting"))?;
        let_thread(guarded, first.number(), Rights::READ).map_err(doing("giving the right"))?;
        may.store(1, Ordering::SeqCst);
        first.join().map_err(doing("joining"))?;
        same!(HEARD.load(Ordering::SeqCst), 1, "what the first one has received");
        guarded.send(MUST_NOT, WORDS, None).map_err(doing("sending"))?;
        let second = move || {
            // By the long way, so that it is known from then on.
            let polled = own.receive(0).is_err_and(|error| error == Error::TimedOut);
            let sent = own.send(MAY, WORDS, None).and_then(|()| own.receive(0)).is_ok();
            let nothing = Post(0);
            let tries = [
                nothing.receive(0).map(|message| message.op),
                nothing.send(LATE, WORDS, None).map(|()| 1),
                nothing.ask(LATE, WORDS, 1_000_000).map(|message| message.op),
                nothing.send_and_receive(LATE, WORDS, own, 1_000_000).map(|message| message.op),
                nothing.receive(1_000_000).map(|message| message.op),
            ];
            let refused = tries.iter().filter(|tried| **tried == Err(Error::NotFound)).count();
            HEARD.store(refused as u64 + 100 * u64::from(polled && sent), Ordering::SeqCst);
        };
        thread::spawn(second, 0).map_err(doing("starting"))?.join().map_err(doing("joining"))?;
        same!(HEARD.load(Ordering::SeqCst), 105, "what was refused to one who names no post");
        let me = task::identity().thread;
        let_thread(guarded, me, Rights::READ).map_err(doing("giving the right"))?;
        same!(guarded.receive(0).map(|message| message.op), Ok(MUST_NOT), "what was sent is still there");
        same!(own.receive(0).map(|message| message.op), Err(Error::TimedOut), "nothing else was sent");
        let_thread(guarded, me, Rights::empty()).map_err(doing("taking the right"))?;
    }
    others.extend([guarded, own]);
    others.into_iter().try_for_each(|post| post.free(true)).map_err(doing("freeing"))
}

const TIMES: u32 = 400;

/// What was sent before the right was taken, and what after that.
const MAY: u32 = 1;
const MUST_NOT: u32 = 2;

/// The same on its way into the wait, or wherever else it is at that moment.
pub fn a_right_comes_and_goes() -> Outcome {
    static STOLEN: AtomicU64 = AtomicU64::new(0);
    static GOT: AtomicU64 = AtomicU64::new(0);
    static OTHER: AtomicU64 = AtomicU64::new(0);
    static OVER: AtomicU64 = AtomicU64::new(0);
    let (post, sink) = (guarded()?, post()?);
    let receives = move || {
        let mut turn = 0u32;
        while OVER.load(Ordering::SeqCst) == 0 {
            turn += 1;
            let outcome = match turn % 2 {
                0 => post.receive(FOR_EVER),
                _ => sink.send_and_receive(1, WORDS, post, FOR_EVER),
            };
            match outcome {
                Ok(message) if message.op == MAY => GOT.fetch_add(1, Ordering::SeqCst),
                Ok(_) => STOLEN.fetch_add(1, Ordering::SeqCst),
                Err(error) if is_refusal(post, error) => {
                    thread::yield_now();
                    continue;
                }
                Err(_) => OTHER.fetch_add(1, Ordering::SeqCst),
            };
        }
    };
    let sinks = move || while sink.receive(FOR_EVER).is_ok_and(|message| message.op != 0) {};
    let me = task::identity().thread;
    let_thread(post, me, Rights::READ).map_err(doing("giving the right"))?;
    let sinks = thread::spawn(sinks, 0).map_err(doing("starting"))?;
    let receives = thread::spawn(receives, 0).map_err(doing("starting"))?;
    let mut left = 0;
    let (mut round, until) = (0, time::now_ns() + 20_000_000_000);
    // On a busy host the other one may not run for so long.
    while round < TIMES || GOT.load(Ordering::SeqCst) == 0 && time::now_ns() < until {
        let_thread(post, receives.number(), Rights::READ).map_err(doing("giving the right"))?;
        (0..round % 5).for_each(|_| thread::yield_now());
        post.send(MAY, WORDS, None).map_err(doing("sending"))?;
        (0..round % 3).for_each(|_| thread::yield_now());
        let_thread(post, receives.number(), Rights::empty()).map_err(doing("taking the right"))?;
        post.send(MUST_NOT, WORDS, None).map_err(doing("sending"))?;
        let mut next = post.receive(0).map(|message| message.op);
        if next == Ok(MAY) {
            left += 1;
            next = post.receive(0).map(|message| message.op);
        }
        same!(next, Ok(MUST_NOT), "what was sent when it was gone, the {round}th time");
        round += 1;
    }
    OVER.store(1, Ordering::SeqCst);
    receives.join().map_err(doing("joining"))?;
    sink.send(0, WORDS, None).map_err(doing("sending"))?;
    sinks.join().map_err(doing("joining"))?;
    same!(STOLEN.load(Ordering::SeqCst), 0, "messages that were received without the right");
    same!(OTHER.load(Ordering::SeqCst), 0, "other errors");
    same!(GOT.load(Ordering::SeqCst) + left, round.into(), "each of the others came once");
    holds!(GOT.load(Ordering::SeqCst) > 0, "nothing was received with the right");
    post.free(false).and_then(|()| sink.free(false)).map_err(doing("freeing"))
}
