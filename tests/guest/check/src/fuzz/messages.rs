//! The registers that messages travel in, filled at random (K1-29): every call of the pool's by the full and by the short way, in
//! programs that may use some posts and not others. Whatever they put there, messages between others arrive as they were sent, and
//! what was accepted comes once.

use super::Random;
use crate::memory::{data, load, word};
use crate::posts::{echo, post};
use crate::report::{Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::format;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::abi::calls::number;
use musubi::abi::layout::{GRANULE, PAGE};
use musubi::abi::post::{ANY, POSTS_MAX, base, head};
use musubi::command::Command;
use musubi::rt::post::{self, FOR_EVER, Message, Post};
use musubi::rt::{section, task, thread, time};
use musubi::{Error, Rights};

const PROGRAMS: u64 = 12;
const THREADS: u64 = 3;
const CALLS: u64 = 1500;
const PATIENCE_NS: u64 = 20_000_000_000;

/// Calls that take registers of a message, or a post.
const GET: u64 = number("post_get");
const FREE: u64 = number("post_free");
const SEND: u64 = number("post_send");
const MANY: u64 = number("post_send_many");
const RECEIVE: u64 = number("post_receive");
const CALL: u64 = number("post_call");
const ANSWER: u64 = number("post_answer");
const CANCEL: u64 = number("post_cancel");
const ALL: [u64; 8] = [GET, FREE, SEND, MANY, RECEIVE, CALL, ANSWER, CANCEL];

/// What is sent to be counted.
const COUNTED: u32 = 0x7c0;
/// Where a word of the counters lies: messages that were accepted to be counted, and calls.
const ACCEPTED: u64 = 0;
const MADE: u64 = 64;

/// Registers that a message takes, in: `rdi rsi rdx r15`, and the six words. Out: status, `rdi`, `rdx`.
fn enter(number: u64, [a, b, c, head]: [u64; 4], w: [u64; 6]) -> [u64; 3] {
    let (status, to, head_out);
    // SAFETY: abi::post: every register but rsp may be lost; what the compiler keeps is saved here or declared lost.
    unsafe {
        core::arch::asm!(
            "push rbx", "push rbp", "syscall", "pop rbp", "pop rbx",
            inlateout("rax") number => status, inlateout("rdi") a => to, inlateout("rsi") b => _,
            inlateout("rdx") c => head_out, inlateout("r15") head => _, inlateout("r10") w[0] => _,
            inlateout("r8") w[1] => _, inlateout("r9") w[2] => _, inlateout("r12") w[3] => _,
            inlateout("r13") w[4] => _, inlateout("r14") w[5] => _,
            clobber_abi("C"),
        );
    }
    [status, to, head_out]
}

/// The honest ones: two threads that play, and one that counts what strangers send.
pub fn hostile_registers() -> Outcome {
    static STOP: AtomicBool = AtomicBool::new(false);
    static ROUNDS: AtomicU64 = AtomicU64::new(0);
    static CAME: AtomicU64 = AtomicU64::new(0);
    static WRONG: AtomicU64 = AtomicU64::new(0);
    let counters = data(PAGE).map_err(doing("create"))?;
    section::grant(counters.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let (there, back, collector, open) = (post()?, post()?, post()?, post()?);
    collector.allow(&everybody(Rights::CALL)).map_err(doing("allow"))?;
    open.allow(&everybody(Rights::CALL | Rights::READ)).map_err(doing("allow"))?;
    let me = task::identity().task;
    let server = thread::spawn(move || _ = echo(there, back), 0).map_err(doing("thread"))?;
    let player = move || {
        while !STOP.load(Ordering::SeqCst) {
            let n = ROUNDS.fetch_add(1, Ordering::SeqCst);
            let words = [n, !n, n << 32, n ^ 0x5555, 5, u64::MAX];
            match there.send_and_receive(1, words, back, FOR_EVER) {
                Ok(m) if m.words == [n + 1, !n, n << 32, n ^ 0x5555, 5, u64::MAX] && (m.op, m.task) == (1, me) => {}
                _ => drop(WRONG.fetch_add(1, Ordering::SeqCst)),
            }
        }
        let _ = there.send(0, [0; 6], None);
    };
    let player = thread::spawn(player, 0).map_err(doing("thread"))?;
    // Questions are answered, whoever asks them; what is counted says of itself what it must be.
    let take = move |message: Message| {
        if message.op == COUNTED {
            CAME.fetch_add(1, Ordering::SeqCst);
            if message.words.iter().any(|word| *word != message.words[0]) || message.task == me {
                WRONG.fetch_add(1, Ordering::SeqCst);
            }
        }
        let _ = post::answer(message.back, 0, [0; 6]);
    };
    let count = move || {
        while !STOP.load(Ordering::SeqCst) {
            collector.receive(1_000_000).into_iter().for_each(take);
        }
    };
    let counting = thread::spawn(count, 0).map_err(doing("thread"))?;
    let mut stuck = 0;
    for seed in 1..=PROGRAMS {
        let places = [counters.base(), collector.0, open.0, there.0].map(|place| format!("{place:#x}"));
        let role = Command::new(b"bin/check").args(["check", "as", "fuzz-messages", &format!("{seed}")]);
        let child = places.iter().fold(role, |role, place| role.arg(place.as_bytes())).spawn();
        let child = child.map_err(doing("fuzzer"))?;
        match child.wait_for(PATIENCE_NS) {
            Ok(exit) => same!(exit.code, 0, "how fuzzer {seed} ended"),
            // It may have made itself wait for ever; it must end when it is killed.
            Err(Error::TimedOut) => {
                stuck += 1;
                child.kill().map_err(doing("kill"))?;
                child.wait_for(PATIENCE_NS).map_err(doing("the killed fuzzer's end"))?;
            }
            Err(error) => return Err(format!("wait: {error}")),
        }
    }
    STOP.store(true, Ordering::SeqCst);
    for one in [player, server, counting] {
        one.join().map_err(doing("join"))?;
    }
    while let Ok(message) = collector.receive(0) {
        take(message);
    }
    let (made, accepted) = (load(counters.base() + MADE), load(counters.base() + ACCEPTED));
    same!(WRONG.load(Ordering::SeqCst), 0, "messages that came otherwise than they were sent");
    holds!(stuck < PROGRAMS / 2 && made > PROGRAMS * CALLS, "{stuck} fuzzers stood still, {made} calls were made");
    // Of a thread that was killed nobody knows whether its last one was accepted.
    let came = CAME.load(Ordering::SeqCst);
    holds!(
        accepted > 0 && (accepted..=accepted + stuck * THREADS).contains(&came),
        "{came} came, {accepted} were accepted"
    );
    holds!(ROUNDS.load(Ordering::SeqCst) > PROGRAMS, "the honest ones had no turn");
    [there, back, collector, open].iter().try_for_each(|post| post.free(true)).map_err(doing("freeing"))
}

/// The program that fills registers: threads that do, and one that sees to it that they go on.
pub fn wild(seed: u64, counters: u64, collector: u64, open: u64, foreign: u64) -> i32 {
    let (Ok(own), Ok(other)) = (Post::any(), Post::any()) else { return 1 };
    let posts = [own, other, Post(collector), Post(open), Post(foreign)];
    let left: &'static AtomicU64 = alloc::boxed::Box::leak(alloc::boxed::Box::new(AtomicU64::new(THREADS)));
    let body = move |n: u64| {
        one(seed * 131 + n, counters, posts);
        left.fetch_sub(1, Ordering::SeqCst);
    };
    let all: Result<Vec<_>, Error> = (0..THREADS).map(|n| thread::spawn(move || body(n), 0)).collect();
    if all.is_err() {
        return 1;
    }
    while left.load(Ordering::SeqCst) > 0 {
        for post in [own, other, Post(open)] {
            // Whoever waits here goes on, and whoever has asked here.
            let _ = post.send(0, [0; 6], None);
            if let Ok(message) = post.receive(0) {
                let _ = post::answer(message.back, 0, [0; 6]);
            }
        }
        time::sleep_ns(100_000);
    }
    0
}

fn one(seed: u64, counters: u64, posts: [Post; 5]) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (first, scratch) = (base(1), data(PAGE).map_or(0, |section| section.base()));
    let wrong = [
        0,
        1,
        ANY,
        first,
        first + 1,
        first + GRANULE / 2,
        first + GRANULE,
        first + POSTS_MAX * GRANULE,
        first + (POSTS_MAX - 1) * GRANULE,
        base(2) + 70 * GRANULE,
        2,
        3,
        scratch,
        scratch + PAGE - 8,
        1 << 46,
        1 << 47,
        1 << 63,
        (1 << 63) - 1,
        0xffff_8000_0000_0000,
        u64::MAX - GRANULE + 1,
    ];
    let mut held = 0;
    for _ in 0..CALLS {
        let place = |random: &mut Random| match random.next() % 8 {
            0..=4 => posts[random.next() as usize % posts.len()].0,
            5 => random.of(&wrong),
            6 => held,
            // A question: the mark, a record, a ticket. Or a loan, which has one more.
            _ => 1 << 63 | (random.next() % 2) << 62 | (random.next() % 64) << 32 | random.next() % 4096,
        };
        let call = random.of(&ALL);
        let (a, mut b) = (place(&mut random), place(&mut random));
        // Sometimes no second post: a question.
        if random.next() % 3 == 0 {
            b = 0;
        }
        // Of this call it is a number of posts, and the others are words.
        let among = call == RECEIVE && random.next() % 2 == 0;
        if call == RECEIVE && random.next() % 8 != 0 {
            b = if among { 2 + random.next() % 8 } else { 1 };
        }
        let time = match random.next() % 4 {
            0 => 0,
            1 => FOR_EVER,
            2 => random.next() % 200_000,
            _ => random.next() % 200,
        };
        let head = match random.next() % 4 {
            0 => random.next(),
            1 => head(random.next() as u32, random.next() as u16, random.next() as u32 & 0xffff),
            _ => random.next() & 0xffff,
        };
        let words = [(); 6].map(|()| match random.next() % 2 {
            _ if among && random.next() % 8 != 0 => posts[random.next() as usize % posts.len()].0,
            0 => random.of(&wrong),
            _ => random.next(),
        });
        // That would free what the others use, or be taken for what is counted.
        let is_counted = head as u32 == COUNTED;
        let frees = call == FREE && (a == posts[0].0 || a == posts[1].0);
        if is_counted || frees {
            continue;
        }
        let [status, back, value] = enter(call, [a, b, time, head], words);
        match call {
            RECEIVE | CALL | ANSWER if status == 0 => held = back,
            // What is lent may be taken back, or answered by who does not hold it.
            SEND if status == 0 && value != 0 => held = value,
            GET if status == 0 => drop(Post(value).free(true)),
            _ => {}
        }
        let counted = [random.next(); 6];
        if random.next() % 8 == 0 && posts[2].send(COUNTED, counted, None).is_ok() {
            word(counters + ACCEPTED).fetch_add(1, Ordering::SeqCst);
        }
        word(counters + MADE).fetch_add(1, Ordering::SeqCst);
    }
}
