//! Who waits for a plain message goes on when its sender waits, by the short way. He goes on, too, whatever the sender does instead.

use super::{WORDS, post, until};
use crate::report::{Outcome, doing};
use crate::{holds, same};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::Error;
use musubi::rt::post::{FOR_EVER, Post};
use musubi::rt::{thread, time};

/// What a sender does next; each comes with the receiver's wait written down, and without.
const NEXT: [&str; 6] = ["computes", "gives way", "sleeps", "waits elsewhere", "waits there for a while", "ends"];
const ROUNDS: u64 = 10;
/// Long enough for a host that does something else.
const LONG_NS: u64 = 30_000_000_000;

pub fn whatever_its_sender_does() -> Outcome {
    static HERE: AtomicU64 = AtomicU64::new(0);
    static GOT: AtomicU64 = AtomicU64::new(0);
    let (there, back) = (post()?, post()?);
    let all = ROUNDS * NEXT.len() as u64;
    let receiver = thread::spawn(
        move || {
            for n in 0..all {
                HERE.fetch_add(1, Ordering::SeqCst);
                let in_turn = there.receive(FOR_EVER).is_ok_and(|message| message.words == [n; 6]);
                GOT.fetch_add(if in_turn { 1 } else { all }, Ordering::SeqCst);
                let _ = back.send(1, WORDS, None);
            }
        },
        0,
    );
    let receiver = receiver.map_err(doing("starting"))?;
    for n in 0..all {
        let next = NEXT[n as usize % NEXT.len()];
        if n / NEXT.len() as u64 % 2 == 0 {
            until(&HERE, n + 1);
        } else {
            while HERE.load(Ordering::SeqCst) <= n {
                thread::yield_now();
            }
        }
        let send = move || there.send(2, [n; 6], None);
        let sent = if next == "ends" {
            let sender = thread::spawn(move || assert!(send().is_ok()), 0);
            sender.and_then(|sender| sender.join().map(drop))
        } else {
            send()
        };
        sent.map_err(doing("sending"))?;
        let began = time::now_ns();
        match next {
            // Without a call.
            "computes" => while GOT.load(Ordering::SeqCst) <= n && time::now_ns() - began < LONG_NS {},
            "gives way" => thread::yield_now(),
            "sleeps" => time::sleep_ns(1_000_000),
            "waits there for a while" => {
                let _ = back.receive(1_000_000).map(|_| back.send(1, WORDS, None));
            }
            _ => {}
        }
        same!(back.receive(FOR_EVER).map(|message| message.op), Ok(1), "a sender {next}");
        same!(GOT.load(Ordering::SeqCst), n + 1, "messages received, each in its turn; a sender {next}");
        holds!(time::now_ns() - began < LONG_NS, "a sender {next}, and nobody receives");
    }
    receiver.join().map_err(doing("joining"))?;
    there.free(false).and_then(|()| back.free(false)).map_err(doing("freeing"))
}

/// It is killed between a message that was sent to it and when it would go on with that: what is sent then is for the next one.
pub fn a_kill_before_it_goes_on() -> Outcome {
    static HERE: AtomicU64 = AtomicU64::new(0);
    let post = post()?;
    for round in 1..=20 {
        let receiver = move || {
            HERE.fetch_add(1, Ordering::SeqCst);
            while post.receive(FOR_EVER).is_ok() {}
        };
        let receiver = thread::spawn(receiver, 0).map_err(doing("starting"))?;
        until(&HERE, round);
        // The second time the sender is known to the short way.
        post.send(1, WORDS, None).map_err(doing("sending"))?;
        if round % 2 == 0 {
            time::sleep_ns(1_000_000);
            post.send(1, WORDS, None).map_err(doing("sending"))?;
        }
        receiver.kill().map_err(doing("killing"))?;
        receiver.join().map_err(doing("joining"))?;
        // It may not have waited again for the second one.
        let _ = post.receive(0);
        post.send(2, WORDS, None).map_err(doing("sending"))?;
        same!(post.receive(0).map(|message| message.op), Ok(2), "what was sent afterwards, round {round}");
        same!(post.receive(0).map(drop), Err(Error::TimedOut), "nothing else, round {round}");
    }
    post.free(false).map_err(doing("freeing: nobody waits there"))
}

/// Two send plain messages to and fro, each of which goes on in the other one's place. Whoever is ready beside them has his turn when theirs is over.
pub fn who_is_ready_has_his_turn() -> Outcome {
    const WHILE_NS: u64 = 400_000_000;
    /// So long they play if nobody stops them.
    const MOST_NS: u64 = 10 * WHILE_NS;
    /// Who has not looked for so long did not run.
    const AWAY_NS: u64 = 500_000;
    static OVER: AtomicBool = AtomicBool::new(false);
    static MESSAGES: AtomicU64 = AtomicU64::new(0);
    let (one, two) = (post()?, post()?);
    let began = time::now_ns();
    let plays = |own: Post, other: Post| {
        let play = move || {
            while own.receive(FOR_EVER).is_ok() {
                let is_over = OVER.load(Ordering::SeqCst) || time::now_ns() - began > MOST_NS;
                MESSAGES.fetch_add(1, Ordering::SeqCst);
                let _ = other.send(1, WORDS, None);
                if is_over {
                    return;
                }
            }
        };
        thread::spawn(play, 0).map_err(doing("starting"))
    };
    let both = [plays(one, two)?, plays(two, one)?];
    one.send(1, WORDS, None).map_err(doing("sending"))?;
    let (since, mut away) = (time::now_ns(), 0);
    let mut last = since;
    while last - since < WHILE_NS {
        let now = time::now_ns();
        if now - last > AWAY_NS {
            away += now - last;
        }
        last = now;
    }
    OVER.store(true, Ordering::SeqCst);
    both.into_iter().try_for_each(|one| one.join().map(drop)).map_err(doing("joining"))?;
    holds!(MESSAGES.load(Ordering::SeqCst) > 10, "they play");
    // Half of the time is his, and of that a busy host may take some.
    holds!(away * 10 < (last - since) * 9, "it had {} of {} ns", last - since - away, last - since);
    [one, two].into_iter().try_for_each(|post| post.free(true)).map_err(doing("freeing"))
}
