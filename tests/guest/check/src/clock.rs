//! The clock's server: a moment is waited for by call and by message, and comes neither early nor out of turn.

use crate::processes::{END_NS, start};
use crate::report::{Check, Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::clock::{self, Ticks};
use musubi::interfaces::clock::{ClockClient, EACH};
use musubi::rt::bound::result_of;
use musubi::rt::post::{FOR_EVER, Post};
use musubi::rt::serve::opener;
use musubi::rt::{Answers, request, task, thread, time};
use musubi::servers::{self, acts as act};
use musubi::{Error, Rights, names};

pub const CHECKS: &[Check] = &[
    ("a_moment_is_waited_for", a_moment_is_waited_for),
    ("moments_by_message", moments_by_message),
    ("ticks_come_in_their_order", ticks_come_in_their_order),
    ("so_many_and_no_more", so_many_and_no_more),
    ("the_next_clock_goes_on", the_next_clock_goes_on),
    ("clients_that_end_leave_nothing", clients_that_end_leave_nothing),
    ("an_answer_goes_to_nobody_else", an_answer_goes_to_nobody_else),
];

const MS: u64 = 1_000_000;

fn client() -> Result<ClockClient, String> {
    names::lookup("clock").and_then(ClockClient::bind).map_err(doing("bind"))
}

fn answers() -> Result<Answers, String> {
    Answers::new().map_err(doing("a post for answers"))
}

/// Of each kind of clock the next reading is not before the last one.
fn a_moment_is_waited_for() -> Outcome {
    let before = (time::now_ns(), time::unix_ns());
    let told = clock::now().map_err(doing("now"))?;
    let after = (time::now_ns(), time::unix_ns());
    holds!((before.0..=after.0).contains(&told.0), "{} is not between {} and {}", told.0, before.0, after.0);
    holds!((before.1..=after.1).contains(&told.1), "{} is not between {} and {}", told.1, before.1, after.1);
    for ns in [0, 1, 3 * MS, 20 * MS] {
        let at = time::now_ns() + ns;
        let now = clock::wait_until(at).map_err(doing("wait"))?;
        holds!(now >= at && time::now_ns() >= now, "{now} was told for {at}");
    }
    same!(clock::wait_until(0).map(drop), Ok(()), "a moment that has passed");
    Ok(())
}

/// Many at once, in an order that is not that of their moments; each is answered at its own, and all in the order of these.
fn moments_by_message() -> Outcome {
    let (client, answers) = (client()?, answers()?);
    let posts = client.by_post(&answers).map_err(doing("by_post"))?;
    let mut never = posts.wait_until(u64::MAX).map_err(doing("sending"))?;
    // A busy machine needs longer until all have been received.
    let mut lead = 100 * MS;
    loop {
        let began = time::now_ns() + lead;
        let moments: Vec<u64> = (0..40).map(|n| began + (n * 7 % 40) * 3 * MS).collect();
        let waits: Result<Vec<_>, Error> = moments.iter().map(|at| posts.wait_until(*at)).collect();
        let mut waits = waits.map_err(doing("sending"))?;
        // It was received after all of them.
        let received = posts.now().and_then(|one| one.wait()).map_err(doing("another request meanwhile"))?.0;
        let mut came: Vec<(u64, u64)> = Vec::new();
        for (at, wait) in moments.iter().zip(&mut waits) {
            let now = wait.wait_for(END_NS).map_err(doing("an answer"))?;
            holds!(now >= *at, "{at} came at {now}");
            came.push((*at, now));
        }
        if received < began - lead / 2 {
            came.sort_unstable();
            holds!(came.is_sorted_by_key(|one| one.1), "moments did not come in their order: {came:?}");
            break;
        }
        lead *= 2;
        holds!(lead < END_NS, "the clock does not receive");
    }
    same!(never.wait_for(MS), Err(Error::TimedOut), "one that never comes");
    same!(answers.strangers(), 0, "other messages");
    Ok(())
}

fn ticks_come_in_their_order() -> Outcome {
    let (client, answers) = (client()?, answers()?);
    let (began, every) = (time::now_ns(), 5 * MS);
    let mut ticks = Ticks::new(&client, &answers, began + every, every).map_err(doing("ticks"))?;
    let mut came = 0;
    for _ in 0..20 {
        came += ticks.wait().map_err(doing("a tick"))?;
        let now = time::now_ns();
        holds!(now >= began + came * every, "{came} ticks after {} ns", now - began);
    }
    // Nobody waits for a while: what has come meanwhile is counted.
    thread::spawn(|| time::sleep_ns(50 * MS), 0).and_then(|one| one.join()).map_err(doing("a rest"))?;
    let missed = ticks.wait().and_then(|one| Ok(one + ticks.wait()?)).map_err(doing("ticks"))?;
    holds!(missed >= 2, "{missed} ticks");
    Ok(())
}

/// One task's are limited, and others are served all the same.
fn so_many_and_no_more() -> Outcome {
    let (client, answers) = (client()?, answers()?);
    let posts = client.by_post(&answers).map_err(doing("by_post"))?;
    const MORE: usize = 4;
    let far = time::now_ns() + 3000 * MS;
    let waits: Result<Vec<_>, Error> = (0..EACH + MORE).map(|_| posts.wait_until(far)).collect();
    let waits = waits.map_err(doing("sending"))?;
    let other = start(&["clock-waits", "3"])?;
    same!(other.wait_for(END_NS).map(|exit| exit.code), Ok(3), "another program");
    let mut refused = 0;
    for one in waits {
        match one.wait() {
            Ok(now) => holds!(now >= far, "it came early"),
            Err(Error::Quota) => refused += 1,
            Err(error) => return Err(format!("an answer: {error}")),
        }
    }
    same!(refused, MORE, "how many were too many");
    same!(posts.wait_until(0).and_then(|one| one.wait()).map(drop), Ok(()), "one more now");
    Ok(())
}

/// The program: so many waits by message. Value: how many were answered.
pub fn waits(count: u64) -> i32 {
    let all = || -> Result<i32, String> {
        let (client, answers) = (client()?, answers()?);
        let posts = client.by_post(&answers).map_err(doing("by_post"))?;
        let at = time::now_ns() + 2 * MS;
        let waits: Result<Vec<_>, Error> = (0..count).map(|_| posts.wait_until(at)).collect();
        let waits = waits.map_err(doing("sending"))?;
        Ok(waits.into_iter().filter_map(|one| one.wait().ok()).count() as i32)
    };
    all().unwrap_or(-1)
}

/// Who waits does not notice, by call or by message.
fn the_next_clock_goes_on() -> Outcome {
    let caller = thread::spawn(
        || {
            let at = time::now_ns() + 300 * MS;
            let early = clock::wait_until(at).map_or(2, |now| u64::from(now < at));
            thread::exit(early)
        },
        0,
    )
    .map_err(doing("thread"))?;
    let (client, answers) = (client()?, answers()?);
    let posts = client.by_post(&answers).map_err(doing("by_post"))?;
    let far = time::now_ns() + 300 * MS;
    let waits = posts.wait_until(far).map_err(doing("sending"))?;
    // Its thread is inside, or about to be.
    time::sleep_ns(20 * MS);
    servers::act("clock", act::RESTART).map_err(doing("restart"))?;
    holds!(waits.wait().map_err(doing("a wait by message"))? >= far, "it came early by message");
    same!(caller.join(), Ok(0), "a wait by call");
    let at = time::now_ns() + 5 * MS;
    holds!(posts.wait_until(at).and_then(|one| one.wait()).map_err(doing("the next clock"))? >= at, "it came early");
    Ok(())
}

/// More than of one user's may wait, of programs that have ended in the middle: those make room.
fn clients_that_end_leave_nothing() -> Outcome {
    let clock = || task::list().find(|one| musubi::ended::text(&one.name) == "clock").map(|one| one.task);
    let before = clock();
    for n in 0..CLIENTS {
        let exit = start(&["clock-waits-far"])?.wait_for(END_NS).map_err(doing("a client's end"))?;
        same!(exit.code, 0, "how many of client {n}'s waits were refused");
    }
    same!(clock(), before, "the clock's task");
    let at = time::now_ns() + 5 * MS;
    holds!(clock::wait_until(at).map_err(doing("wait"))? >= at, "it came early");
    let other = start(&["clock-waits", &format!("{EACH}")])?;
    same!(other.wait_for(END_NS).map(|exit| exit.code), Ok(EACH as u64), "another program");
    Ok(())
}

/// Of one user's at most half of the clock's 4096 wait at a time.
const CLIENTS: usize = 2048 / EACH + 4;

/// The program: waits by message for what comes in an hour, and ends. Value: how many were refused.
pub fn waits_far() -> i32 {
    let all = || -> Result<i32, String> {
        let (client, answers) = (client()?, answers()?);
        let posts = client.by_post(&answers).map_err(doing("by_post"))?;
        let at = time::now_ns() + 3_600_000 * MS;
        let waits: Result<Vec<_>, Error> = (0..EACH).map(|_| posts.wait_until(at)).collect();
        let mut waits = waits.map_err(doing("sending"))?;
        // It has several receivers: what was sent before is received, or about to be.
        for _ in 0..4 {
            posts.now().and_then(|one| one.wait()).map_err(doing("another request"))?;
        }
        Ok(waits.iter_mut().filter_map(|one| one.is_ready().then_some(())).count() as i32)
    };
    let refused = all().unwrap_or(-1);
    // With all that waits.
    task::exit(refused)
}

/// A post is freed while an answer for it is still to come, and another program gets its number.
fn an_answer_goes_to_nobody_else() -> Outcome {
    let (client, back) = (client()?, Post::any().map_err(doing("post"))?);
    let methods = ClockClient::INTERFACE.methods.len() as u64;
    let post = client.bound().call(methods, [opener::POST, u64::from(ClockClient::IDENTITY), 0, 0, 0, 0]);
    let post = Post(post.and_then(result_of).map_err(doing("the clock's post"))?);
    back.allow(&everybody(Rights::CALL)).map_err(doing("allow"))?;
    let soon = time::now_ns() + SOON;
    let wait = request::head(ClockClient::IDENTITY, 1, 1);
    post.send(wait, [time::now_ns() + 50 * MS, 0, 0, 0, 0, 0], Some(back)).map_err(doing("sending"))?;
    same!(back.receive(FOR_EVER).map(|answer| (answer.op, answer.words[0])), Ok((wait, 0)), "one that is awaited");
    post.send(wait, [soon, 0, 0, 0, 0, 0], Some(back)).map_err(doing("sending"))?;
    // It is received when what comes after it is.
    same!(post.ask(request::head(ClockClient::IDENTITY, 2, 0), [0; 6], FOR_EVER).map(drop), Ok(()), "another request");
    time::sleep_ns(20 * MS);
    back.free(true).map_err(doing("free"))?;
    let stranger = start(&["clock-stranger", &format!("{}", back.0), &format!("{}", soon + 300 * MS)])?;
    same!(
        stranger.wait_for(4 * END_NS).map(|exit| exit.code),
        Ok(0),
        "what a stranger was told (2: it did not get the number)"
    );
    Ok(())
}

/// Until another program has got that number, even on a busy machine: numbers go round before they come again.
const SOON: u64 = 8_000 * MS;

/// The program: gets this post, and says whether anything comes there until a moment.
pub fn stranger(wanted: u64, until: u64) -> i32 {
    while time::now_ns() + 500 * MS < until {
        match Post::any() {
            Ok(post) if post.0 == wanted => {
                if post.allow(&everybody(Rights::CALL)).is_err() {
                    return 3;
                }
                let left = until.saturating_sub(time::now_ns());
                return i32::from(post.receive(left).is_ok());
            }
            Ok(post) => drop(post.free(false)),
            Err(_) => return 3,
        }
    }
    2
}
