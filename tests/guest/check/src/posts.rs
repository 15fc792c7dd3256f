//! Posts: messages arrive once, in order and with their sender's name; whoever may not is refused; whoever waits hears of
//! every end.

use crate::report::{Check, Outcome, doing};
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::post::{SEVERAL_MAX, number};
use musubi::abi::refusal::Object;
use musubi::abi::rights::{ANY_TEXT, principal};
use musubi::command::Command;
use musubi::rt::post::{self, Body, FOR_EVER, Message, Post};
use musubi::rt::{section, task, thread, time};
use musubi::{AclEntry, Error, Rights};

mod ended;
mod lent;
pub mod loans;
mod many;
mod plain;
mod put_by;
mod rights;

pub use ended::receivers;

pub const CHECKS: &[Check] = &[
    ("numbers", numbers),
    ("a_message_says_who_sent_it", a_message_says_who_sent_it),
    ("receivers_wait_and_are_woken", receivers_wait_and_are_woken),
    ("polling_and_time_outs", polling_and_time_outs),
    ("several_posts", several_posts),
    ("round_trips", round_trips),
    ("questions", questions),
    ("two_tasks", two_tasks),
    ("without_a_right", without_a_right),
    ("a_wait_ends_with_its_right", rights::a_wait_ends_with_its_right),
    ("a_right_comes_and_goes", rights::a_right_comes_and_goes),
    ("no_post_by_no_name", rights::no_post_by_no_name),
    ("what_is_lent_is_reached", loans::what_is_lent_is_reached),
    ("no_more_is_lent_than_that", loans::no_more_than_that),
    ("nothing_is_lent_after_the_answer", loans::not_after_the_answer),
    ("nothing_is_lent_after_a_time_out", loans::not_after_a_time_out),
    ("nothing_is_lent_after_a_kill", loans::not_after_a_kill),
    ("what_is_lent_in_one_step_with_a_receive", loans::in_one_step_with_a_receive),
    ("nothing_is_lent_after_its_holders_end", loans::not_after_its_holders_end),
    ("what_is_lent_and_not_touched_costs_nothing", loans::untouched_it_costs_nothing),
    ("calls_reach_what_is_lent", loans::calls::are_served),
    ("calls_reach_no_more_than_is_lent", loans::calls::no_further_than_lent),
    ("calls_reach_nothing_after_the_answer", loans::calls::not_after_the_answer),
    ("calls_reach_nothing_on_other_threads", loans::calls::not_on_other_threads),
    ("calls_reach_nothing_after_a_time_out", loans::calls::not_after_a_time_out),
    ("calls_reach_nothing_after_a_kill", loans::calls::not_after_a_kill),
    ("what_is_lent_while_its_sender_goes_on", lent::while_its_sender_goes_on),
    ("no_more_is_lent_with_a_plain_message", lent::no_more_than_that),
    ("nothing_is_lent_with_a_plain_message_after_the_answer", lent::not_after_the_answer),
    ("nothing_is_lent_with_a_plain_message_after_its_limit", lent::not_after_its_limit),
    ("what_is_lent_with_a_plain_message_is_taken_back", lent::it_is_taken_back),
    ("nothing_is_lent_with_a_plain_message_after_its_lenders_end", lent::not_after_its_lenders_end),
    ("nothing_is_lent_with_a_plain_message_after_its_holders_end", lent::not_after_its_holders_end),
    ("nothing_is_lent_with_a_plain_message_without_its_posts", lent::not_without_its_posts),
    ("what_is_lent_with_a_plain_message_costs_nothing", lent::untouched_it_costs_nothing),
    ("calls_reach_what_is_lent_with_a_plain_message", lent::calls_reach_it),
    ("many_by_one_call", many::by_one_call),
    ("freed_under_them", freed_under_them),
    ("a_holder_that_ends", a_holder_that_ends),
    ("who_ends_with_its_task_receives_nothing", ended::receives_nothing),
    ("a_flood_is_the_flooders", a_flood_is_the_flooders),
    ("a_send_keeps_registers", plain::a_send_keeps_registers),
    ("a_receive_leaves_the_message_only", plain::a_receive_leaves_the_message_only),
    ("messages_of_many_say_who_sent_them", plain::messages_of_many_say_who_sent_them),
    ("a_limit_is_the_same_each_time", plain::a_limit_is_the_same_each_time),
    ("a_limit_of_what_was_refused_is_over", plain::a_limit_of_what_was_refused_is_over),
    ("a_killed_receiver_takes_nothing", plain::a_killed_receiver_takes_nothing),
    ("a_list_that_changes_is_asked_again", plain::a_list_that_changes_is_asked_again),
    ("whatever_its_sender_does", put_by::whatever_its_sender_does),
    ("a_kill_before_it_goes_on", put_by::a_kill_before_it_goes_on),
    ("who_is_ready_beside_plain_messages_has_his_turn", put_by::who_is_ready_has_his_turn),
];

const WORDS: [u64; 6] = [1, 2, 3, 4, 5, u64::MAX];

pub fn post() -> Result<Post, String> {
    Post::any().map_err(doing("getting a post"))
}

/// Waits until so many wait, or have done something else that is counted.
fn until(count: &AtomicU64, value: u64) {
    while count.load(Ordering::SeqCst) < value {
        thread::yield_now();
    }
    // Time to get into the wait that follows.
    time::sleep_ns(5_000_000);
}

/// Any program may ask for it.
const NUMBER: u64 = 1000;

fn numbers() -> Outcome {
    let known = Post::known(1).err().and_then(|error| error.refusal());
    same!(known.map(|refusal| refusal.object), Some(Object::System), "a number of the system's");
    let known = Post::known(NUMBER).map_err(doing("getting a number"))?;
    same!(Post::known(NUMBER), Err(Error::Exists), "the same again");
    same!(Post::known(0), Err(Error::NotFound), "number 0");
    same!(Post::known(1 << 40), Err(Error::NotFound), "a great number");
    let (first, second) = (post()?, post()?);
    holds!(first != second && first != known, "any two are different");
    first.send(7, WORDS, None).map_err(doing("sending"))?;
    same!(first.free(false), Err(Error::Busy), "freeing one with a message");
    same!(first.free(true), Ok(()), "by force");
    same!(first.free(true), Err(Error::NotFound), "twice");
    same!(first.send(7, WORDS, None), Err(Error::NotFound), "sending to none");
    same!(first.receive(0), Err(Error::NotFound), "receiving from none");
    same!(known.free(false), Ok(()), "freeing an empty one");
    let again = Post::known(NUMBER).map_err(doing("getting it again"))?;
    same!(again.receive(0), Err(Error::TimedOut), "it is empty");
    again.free(false).map_err(doing("freeing"))?;
    second.free(false).map_err(doing("freeing"))
}

fn sent_by_me(message: &Message) -> bool {
    let me = task::identity();
    (message.thread, message.task, message.user, message.text, message.node)
        == (me.thread, me.task, me.user, me.text, me.node)
}

fn a_message_says_who_sent_it() -> Outcome {
    let post = post()?;
    post.send(7, WORDS, Some(post)).map_err(doing("sending"))?;
    post.send(8, [0; 6], None).map_err(doing("sending"))?;
    let first = post.receive(0).map_err(doing("receiving"))?;
    same!((first.op, first.words, first.back), (7, WORDS, post.0), "the first");
    holds!(sent_by_me(&first), "by this thread: {first:x?}");
    let second = post.receive(FOR_EVER).map_err(doing("receiving"))?;
    same!((second.op, second.words, second.back), (8, [0; 6], 0), "the second");
    post.free(false).map_err(doing("freeing"))
}

fn receivers_wait_and_are_woken() -> Outcome {
    static SUM: AtomicU64 = AtomicU64::new(0);
    static HERE: AtomicU64 = AtomicU64::new(0);
    let post = post()?;
    let words = |op: u32| WORDS.map(|word| word ^ u64::from(op) << 8);
    let receive = move || {
        HERE.fetch_add(1, Ordering::SeqCst);
        for _ in 0..2 {
            // The words go with the number.
            let whole = |message: Message| (message.words == words(message.op)).then_some(u64::from(message.op));
            let op = post.receive(FOR_EVER).ok().and_then(whole).unwrap_or(1 << 32);
            SUM.fetch_add(op, Ordering::SeqCst);
        }
    };
    let all: Result<Vec<_>, Error> = (0..3).map(|_| thread::spawn(receive, 0)).collect();
    let all = all.map_err(doing("starting"))?;
    until(&HERE, 3);
    same!(post.free(false), Err(Error::Busy), "freeing one with receivers");
    same!(post.send_copies(&Body { op: 1, words: words(1) }, 3), Ok(3), "one for each");
    let more: Vec<Body> = (0..3).map(|n| Body { op: 10 << n, words: words(10 << n) }).collect();
    same!(post.send_many(&more), Ok(3), "three of them");
    for one in all {
        one.join().map_err(doing("joining"))?;
    }
    same!(SUM.load(Ordering::SeqCst), 3 + 10 + 20 + 40, "all of them, once each");
    post.free(false).map_err(doing("freeing"))
}

fn polling_and_time_outs() -> Outcome {
    let (post, ns) = (post()?, 20_000_000);
    same!(post.receive(0), Err(Error::TimedOut), "polling");
    let before = time::now_ns();
    same!(post.receive(ns), Err(Error::TimedOut), "waiting a while");
    holds!(time::now_ns() - before >= ns, "too early");
    same!(post.ask(1, WORDS, ns), Err(Error::TimedOut), "asking nobody");
    let late = post.receive(0).map_err(doing("receiving"))?;
    same!(post::answer(late.back, 2, WORDS), Err(Error::NotFound), "nobody waits for it any more");
    post.free(false).map_err(doing("freeing"))
}

fn several_posts() -> Outcome {
    static HERE: AtomicU64 = AtomicU64::new(0);
    static GOT: AtomicU64 = AtomicU64::new(0);
    let posts = [post()?, post()?, post()?];
    let waiter = thread::spawn(
        move || {
            for _ in 0..2 {
                HERE.fetch_add(1, Ordering::SeqCst);
                let op = post::receive_of(&posts, FOR_EVER).map_or(1 << 32, |message| u64::from(message.op));
                GOT.fetch_add(op, Ordering::SeqCst);
            }
        },
        0,
    );
    let waiter = waiter.map_err(doing("starting"))?;
    until(&HERE, 1);
    posts[2].send(1, WORDS, None).map_err(doing("sending"))?;
    until(&HERE, 2);
    same!(GOT.load(Ordering::SeqCst), 1, "from the third");
    posts[0].send(2, WORDS, None).map_err(doing("sending"))?;
    waiter.join().map_err(doing("joining"))?;
    same!(GOT.load(Ordering::SeqCst), 3, "from the first");
    same!(post::receive_of(&[posts[0], posts[0]], 0), Err(Error::BadArgument), "one twice");
    posts.iter().try_for_each(|post| post.free(false)).map_err(doing("freeing: nobody waits there"))?;
    as_many_posts_as_there_may_be()
}

/// Whoever waits at eight hears from each, with a limit of time and without.
fn as_many_posts_as_there_may_be() -> Outcome {
    const LONG: u64 = 60_000_000_000;
    const MESSAGES: usize = 96;
    let mut posts = [Post(0); SEVERAL_MAX as usize];
    for each in &mut posts {
        *each = post()?;
    }
    let node = task::identity().node;
    let numbers = posts.map(|post| number(node, post.0).unwrap_or(0));
    let hears = move || {
        for n in 0..MESSAGES {
            let came = post::receive_of(&posts, if n % 3 == 0 { FOR_EVER } else { LONG });
            let is_its =
                came.is_ok_and(|came| numbers.get(came.op as usize) == Some(&came.post) && came.words == WORDS);
            assert!(is_its, "message {n}: {came:?}");
        }
    };
    let waiter = thread::spawn(hears, 0).map_err(doing("starting"))?;
    for n in 0..MESSAGES {
        let to = n * 5 % posts.len();
        posts[to].send(to as u32, WORDS, None).map_err(doing("sending"))?;
        if n % 4 != 0 {
            // It waits again, or not yet.
            thread::yield_now();
        }
    }
    waiter.join().map_err(doing("joining"))?;
    for ns in [0, 2_000_000] {
        same!(post::receive_of(&posts, ns), Err(Error::TimedOut), "nothing more");
    }
    let nine: Vec<Post> = posts.into_iter().chain([posts[0]]).collect();
    same!(post::receive_of(&nine, 0), Err(Error::TooBig), "one more");
    posts.iter().try_for_each(|post| post.free(false)).map_err(doing("freeing: nobody waits there"))
}

pub const ROUNDS: u64 = 200;

/// Sends back what comes, with one more in the first word, until operation 0.
pub fn echo(there: Post, back: Post) -> Result<(), Error> {
    let mut message = there.receive(FOR_EVER)?;
    while message.op != 0 {
        let [first, rest @ ..] = message.words;
        let [a, b, c, d, e] = rest;
        message = back.send_and_receive(message.op, [first + 1, a, b, c, d, e], there, FOR_EVER)?;
    }
    Ok(())
}

fn play(there: Post, back: Post) -> Outcome {
    for round in 1..=ROUNDS {
        let words = [round, 2, 3, 4, 5, round << 40];
        let got = there.send_and_receive(round as u32, words, back, FOR_EVER).map_err(doing("a round"))?;
        same!((got.op, got.words), (round as u32, [round + 1, 2, 3, 4, 5, round << 40]), "round {round}");
    }
    there.send(0, [0; 6], None).map_err(doing("the last one"))
}

fn round_trips() -> Outcome {
    let (there, back) = (post()?, post()?);
    let server = thread::spawn(move || assert_eq!(echo(there, back), Ok(())), 0).map_err(doing("starting"))?;
    play(there, back)?;
    server.join().map_err(doing("joining"))?;
    there.free(false).and_then(|()| back.free(false)).map_err(doing("freeing"))
}

/// Answers with the double until the post goes.
fn serve(post: Post) -> Result<(), Error> {
    let mut message = post.receive(FOR_EVER)?;
    loop {
        let words = message.words.map(|word| word.wrapping_mul(2));
        message = post::answer_and_receive(message.back, message.op, words, post, FOR_EVER)?;
    }
}

fn questions() -> Outcome {
    static ENDED: AtomicU64 = AtomicU64::new(0);
    static ASKED: AtomicU64 = AtomicU64::new(0);
    let post = post()?;
    let end = move || ENDED.store(serve(post).err().map_or(0, |error| error.word()), Ordering::SeqCst);
    let servers = [(); 2].map(|()| thread::spawn(end, 0));
    let clients = [1u64, 2, 3].map(|n| {
        let ask = move || {
            for round in 0..ROUNDS {
                let words = [n, round, n, round, n, round];
                match post.ask(9, words, FOR_EVER) {
                    Ok(answer) if answer.words == words.map(|word| word * 2) && answer.op == 9 && answer.post == 0 => {
                        ASKED.fetch_add(1, Ordering::SeqCst);
                    }
                    _ => return,
                }
            }
        };
        thread::spawn(ask, 0)
    });
    for one in clients {
        one.and_then(|one| one.join()).map_err(doing("a client"))?;
    }
    same!(ASKED.load(Ordering::SeqCst), 3 * ROUNDS, "answers");
    post.free(true).map_err(doing("freeing"))?;
    for one in servers {
        one.and_then(|one| one.join()).map_err(doing("a server"))?;
    }
    same!(ENDED.load(Ordering::SeqCst), Error::NotFound.word(), "what servers hear");
    Ok(())
}

fn entry(rights: Rights) -> AclEntry {
    AclEntry { principal: principal::ANY, rights: rights.bits(), id: 0, text: ANY_TEXT }
}

/// The other program: an echo between two posts.
pub fn role(there: u64, back: u64) -> i32 {
    i32::from(echo(Post(there), Post(back)).is_err())
}

/// Has so many posts, or as many as there are to be had, and keeps them.
pub fn hold(wanted: u64) -> i32 {
    let held = (0..wanted).map_while(|_| Post::any().ok()).count();
    musubi::println!("{held} posts");
    time::sleep_ns(u64::MAX >> 1);
    0
}

/// The other program: says what it hears when it sends and receives there.
pub fn role_without(post: u64) -> i32 {
    let refused = |error: Option<Error>, right| match error.and_then(|error| error.refusal()) {
        Some(refusal) => refusal.object == Object::Section(post, right),
        None => false,
    };
    let me = Post(post);
    let sends = refused(me.send(1, WORDS, None).err(), Rights::CALL);
    let asks = refused(me.ask(1, WORDS, FOR_EVER).err(), Rights::CALL);
    let receives = refused(me.receive(0).err(), Rights::READ);
    let frees = refused(me.free(true).err(), Rights::CHANGE_ACL);
    i32::from(!(sends && asks && receives && frees))
}

fn two_tasks() -> Outcome {
    let (there, back) = (post()?, post()?);
    there.allow(&entry(Rights::READ)).and_then(|()| back.allow(&entry(Rights::CALL))).map_err(doing("allowing"))?;
    let words = [format!("{}", there.0), format!("{}", back.0)];
    let other = Command::new(b"bin/check").args(["check", "as", "post-echo", &words[0], &words[1]]).spawn();
    let other = other.map_err(doing("starting"))?;
    play(there, back)?;
    let exit = other.wait().map_err(doing("waiting"))?;
    same!(exit.code, 0, "how the other one ended");
    there.free(false).and_then(|()| back.free(false)).map_err(doing("freeing"))
}

fn without_a_right() -> Outcome {
    let post = post()?;
    let word = format!("{}", post.0);
    let other =
        Command::new(b"bin/check").args(["check", "as", "post-without", &word]).spawn().map_err(doing("starting"))?;
    same!(other.wait().map_err(doing("waiting"))?.code, 0, "it is refused by name");
    // A right that was taken is not used any more, whatever a thread remembers.
    post.send(1, WORDS, None).map_err(doing("sending"))?;
    let me = task::identity();
    let mine =
        |rights: Rights| AclEntry { principal: principal::TASK, rights: rights.bits(), id: me.task, text: me.text };
    post.allow(&mine(Rights::READ | Rights::CHANGE_ACL)).map_err(doing("taking it away"))?;
    holds!(post.send(1, WORDS, None).is_err_and(|error| error.refusal().is_some()), "it was used after that");
    same!(section::may(post.0, 1, Rights::READ, section::Who::Own), false, "there is no memory");
    post.free(true).map_err(doing("freeing"))
}

fn freed_under_them() -> Outcome {
    static HERE: AtomicU64 = AtomicU64::new(0);
    static HEARD: AtomicU64 = AtomicU64::new(0);
    let (post, other) = (post()?, post()?);
    let hear = |outcome: Result<Message, Error>| {
        if outcome == Err(Error::NotFound) {
            HEARD.fetch_add(1, Ordering::SeqCst);
        }
    };
    let all = [
        thread::spawn(
            move || {
                HERE.fetch_add(1, Ordering::SeqCst);
                hear(post.receive(FOR_EVER))
            },
            0,
        ),
        thread::spawn(
            move || {
                HERE.fetch_add(1, Ordering::SeqCst);
                hear(post::receive_of(&[other, post], FOR_EVER))
            },
            0,
        ),
    ];
    until(&HERE, 2);
    post.free(true).map_err(doing("freeing"))?;
    for one in all {
        one.and_then(|one| one.join()).map_err(doing("joining"))?;
    }
    same!(HEARD.load(Ordering::SeqCst), 2, "who heard of it");
    other.free(false).map_err(doing("freeing: nobody waits there"))
}

fn a_holder_that_ends() -> Outcome {
    let post = post()?;
    for _ in 0..20 {
        let server = thread::spawn(move || assert!(post.receive(FOR_EVER).is_ok()), 0).map_err(doing("starting"))?;
        same!(post.ask(1, WORDS, FOR_EVER), Err(Error::Dead), "what the asker hears");
        server.join().map_err(doing("joining"))?;
    }
    post.free(false).map_err(doing("freeing"))
}

/// Sends until no more is taken. How many were, and the end of it.
pub fn flood(post: Post) -> (u64, Error) {
    let mut sent = 0;
    loop {
        match post.send_copies(&Body { op: 1, words: WORDS }, 64) {
            Ok(count) => sent += count,
            Err(error) => return (sent, error),
        }
    }
}

fn a_flood_is_the_flooders() -> Outcome {
    let post = post()?;
    let (sent, error) = flood(post);
    same!(error, Error::MessageQuota, "the end of the flood after {sent}");
    holds!(sent > 0, "nothing was sent");
    same!(post.send(1, WORDS, None), Err(Error::MessageQuota), "one more");
    post.receive(0).map_err(doing("receiving"))?;
    post.send(2, WORDS, None).map_err(doing("in the place of that one"))?;
    let mut received = 0u64;
    while post.receive(0).is_ok() {
        received += 1;
    }
    same!(received, sent, "what came");
    same!(post.send_copies(&Body { op: 1, words: WORDS }, 64).map(|count| count > 0), Ok(true), "afterwards");
    post.free(true).map_err(doing("freeing"))
}
