//! What there is only so much of: posts, messages, threads, tasks, memory. Whoever takes all is refused, each time in the same way; what
//! is given back can be had again, as much as before; and whoever else is there goes on.

mod needed;

use crate::deaths::settled;
use crate::peer::{Peer, op};
use crate::posts::flood;
use crate::report::{Check, Outcome, doing};
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::layout::PAGE;
use musubi::abi::section::kind;
use musubi::abi::task::{Limits, exit};
use musubi::command::Command;
use musubi::rt::post::Post;
use musubi::rt::{Section, Trap, sync, task, thread, time};
use musubi::{Error, eprintln, servers};

pub const CHECKS: &[Check] = &[
    ("posts_run_out", || apart("posts")),
    ("messages_run_out", || apart("messages")),
    ("threads_run_out", || apart("threads")),
    ("tasks_run_out", || apart("tasks")),
    ("memory_runs_out", || apart("memory")),
    ("all_of_it_at_once", || apart("all")),
    ("servers_begin_anew_whatever_is_taken", || taken("reserve")),
];

/// Frames, and sections, that the program may have.
const FRAMES: u64 = 3000;
const SECTIONS: u64 = 200;
const THREADS: u64 = 24;

/// A program with limits of its own takes all that it may, and leaves nothing.
fn apart(what: &str) -> Outcome {
    // What the first ones need others find there: receivers of servers, too, which take turns.
    for _ in 0..4 {
        beside(what)?;
    }
    let before = settled()?;
    beside(what)?;
    let mut after = settled()?;
    for _ in 0..50 {
        if (after.sections, after.tasks, after.threads) == (before.sections, before.tasks, before.threads) {
            break;
        }
        after = settled()?;
    }
    same!(
        (after.sections, after.tasks, after.threads),
        (before.sections, before.tasks, before.threads),
        "sections, tasks and threads"
    );
    Ok(())
}

/// The same while this program calls a third one.
fn beside(what: &str) -> Outcome {
    let peer = Peer::start()?;
    let limits = Limits { frames: FRAMES, sections: SECTIONS, threads: THREADS, ..Limits::default() };
    let command = Command::new(b"bin/check").args(["check", "as", "exhaust", what]).limits(limits);
    let child = command.spawn().map_err(doing("start"))?;
    let mut calls = 0;
    let ended = loop {
        match child.wait_for(1_000_000) {
            Err(Error::TimedOut) => {}
            ended => break ended.map_err(doing("wait")),
        }
        calls += 1;
        if let Err(why) = go_on(&peer, calls) {
            break Err(why);
        }
    };
    if ended.is_err() {
        let _ = child.kill();
    }
    let exit = ended?;
    same!((exit.kind, exit.code), (exit::EXITED, 0), "how it ended (see the error stream)");
    peer.end()
}

/// What others do meanwhile. A message that finds its receiver needs no room, and whose room is used up is the same person's.
fn go_on(peer: &Peer, calls: u64) -> Outcome {
    same!(peer.call(op::ADD, &[1]), Ok(calls), "another server meanwhile");
    let post = Post::any().map_err(doing("another one's post"))?;
    let receiver = thread::spawn(move || assert!(post.receive(u64::MAX).is_ok()), 0).map_err(doing("thread"))?;
    // Until it waits there, there may be no room.
    while post.send(1, [calls; 6], None) == Err(Error::MessageQuota) {
        thread::yield_now();
    }
    receiver.join().map_err(doing("another one's receiver"))?;
    post.free(true).map_err(doing("another one's post"))
}

/// The program.
pub fn exhaust(what: &str) -> i32 {
    let outcome = match what {
        "posts" => posts(),
        "messages" => messages(),
        "threads" => threads(),
        "tasks" => tasks(),
        "memory" => memory(),
        "all" => all(),
        "reserve" => reserve(&[Error::PostQuota, Error::NoMemory]),
        "needed" => needed::needs(),
        "all-but-the-reserve" => reserve(&[Error::PostQuota]),
        _ => Err("there is no such thing".into()),
    };
    match outcome {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("{what}: {why}");
            1
        }
    }
}

/// Takes until it is refused, twice with this error, and gives all back.
fn fill<T>(
    take: impl Fn() -> Result<T, Error>,
    give: impl Fn(T) -> Result<(), Error>,
    error: Error,
) -> Result<u64, String> {
    // Room beforehand: the heap must not need a section when there is none to be had.
    let mut all = Vec::with_capacity(4096);
    // What another program of this user gives back in between is to be had once more: not for ever.
    let (mut why, mut again) = (None, None);
    while all.len() < 4096 && again.is_none() {
        match take() {
            Ok(one) => {
                all.push(one);
                why = None;
            }
            Err(error) if why.is_none() => why = Some(error),
            Err(error) => again = Some(error),
        }
    }
    let count = all.len() as u64;
    for one in all {
        give(one).map_err(doing("giving back"))?;
    }
    same!((why, again), (Some(error), Some(error)), "the refusal after {count}");
    if count == 0 { Err("nothing could be had".into()) } else { Ok(count) }
}

/// As many the second time. (But for a few: tables of views and the like take some of the same, and keep it.)
fn twice(count: impl Fn() -> Result<u64, String>) -> Outcome {
    let (first, second) = (count()?, count()?);
    holds!(first.abs_diff(second) <= 16.min(first / 8), "{second} the second time, {first} the first time");
    Ok(())
}

/// Exactly as many, of what nobody else has any of.
fn twice_the_same(count: impl Fn() -> Result<u64, String>) -> Outcome {
    let (first, second) = (count()?, count()?);
    same!(second, first, "the second time");
    Ok(())
}

fn posts() -> Outcome {
    twice_the_same(|| fill(Post::any, |post| post.free(false), Error::PostQuota))
}

fn messages() -> Outcome {
    let post = Post::any().map_err(doing("post"))?;
    twice_the_same(|| {
        let (mut sent, why) = flood(post);
        same!(why, Error::MessageQuota, "the refusal after {sent}");
        // Another program of this user may have had one received in between.
        while post.send(1, [0; 6], None) != Err(Error::MessageQuota) {
            sent += 1;
            holds!(sent < 4096, "there is no end of it");
        }
        let came = core::iter::from_fn(|| post.receive(0).ok()).count() as u64;
        same!(came, sent, "what came");
        if sent == 0 { Err("nothing could be sent".into()) } else { Ok(sent) }
    })
}

fn threads() -> Outcome {
    static GO: AtomicU32 = AtomicU32::new(0);
    twice(|| {
        GO.store(0, Ordering::SeqCst);
        let body = || {
            while GO.load(Ordering::SeqCst) == 0 {
                let _ = sync::wait(&GO, 0, u64::MAX);
            }
        };
        let give = |one: thread::Thread| {
            GO.store(1, Ordering::SeqCst);
            sync::wake(&GO, u32::MAX.into());
            one.join().map(drop)
        };
        fill(|| thread::spawn(body, 0), give, Error::ThreadQuota)
    })
}

fn tasks() -> Outcome {
    let user = musubi::start().user();
    // One that never ran nobody asks about; its number is charged until its end has been noted.
    let give = |child| {
        let used = || task::info(task::identity().task).map(|info| info.used.threads);
        let before = used();
        task::kill(child)?;
        let until = time::now_ns() + 20_000_000_000;
        while used() >= before && time::now_ns() < until {
            time::sleep_ns(100_000);
        }
        Ok(())
    };
    twice(|| fill(|| task::create(&Limits::default(), user, b"one of many"), give, Error::TaskQuota))
}

fn memory() -> Outcome {
    let section = Section::create(FRAMES * PAGE, 0, kind::DATA, 0).map_err(doing("create"))?;
    twice(|| {
        let at = core::cell::Cell::new(0);
        // By the kernel's own store: what is refused is an error, not a fault.
        let take = || stub::identity(&Trap, section.base() + at.get() * PAGE).map(|_| at.set(at.get() + 1));
        let count = fill(take, |()| Ok(()), Error::MemoryQuota)?;
        let cut = |len| stub::section_resize(&Trap, section.base(), len);
        cut(0).and_then(|_| cut(FRAMES * PAGE)).map_err(doing("giving back"))?;
        Ok(count)
    })
}

/// One after the other, each taken while there is no room for messages. (Of these others of the same person have some, too.)
fn all() -> Outcome {
    for _ in 0..3 {
        let post = Post::any().map_err(doing("post"))?;
        let (sent, why) = flood(post);
        same!(why, Error::MessageQuota, "the refusal of messages");
        posts()?;
        tasks()?;
        threads()?;
        memory()?;
        same!(core::iter::from_fn(|| post.receive(0).ok()).count() as u64, sent, "messages that came");
        post.free(false).map_err(doing("free"))?;
    }
    Ok(())
}

/// A program of a person sends all that it can, has many threads that wait, and all posts that it can have: what servers and drivers begin
/// anew with is left (K1-41, U12). On a machine of the usual size a person's quotas end it, on a small one the reserve does.
fn taken(how: &str) -> Outcome {
    let command = Command::new(b"bin/check").args(["check", "as", "exhaust", how]).limits(Limits::default());
    let child = command.spawn().map_err(doing("start"))?;
    let exit = child.wait().map_err(doing("wait"))?;
    same!((exit.kind, exit.code), (exit::EXITED, 0), "how it ended (see the error stream)");
    Post::any().and_then(|post| post.free(false)).map_err(doing("a post afterwards"))
}

/// So many, that there is room for as many posts, and it does not take long.
const THREADS_WITH_RECORDS: usize = 200;

fn reserve(ends: &[Error]) -> Outcome {
    static GO: AtomicU32 = AtomicU32::new(0);
    let first = Post::any().map_err(doing("a post"))?;
    // Room beforehand, and the way to the streams: later there is no more section for this program's heap.
    let (mut posts, mut threads) = (Vec::with_capacity(1 << 14), Vec::with_capacity(1 << 13));
    let spare = Vec::<u8>::with_capacity(64 << 10);
    eprintln!("taking posts and threads");
    let (_, why) = flood(first);
    same!(why, Error::MessageQuota, "the refusal of messages");
    // A thread that has once looked for a message has a record until it ends.
    let empty = Post::any().map_err(doing("an empty post"))?;
    let body = move || {
        let looked = empty.receive(0);
        while GO.load(Ordering::SeqCst) == 0 {
            let _ = sync::wait(&GO, 0, u64::MAX);
        }
        thread::exit(looked.err().map_or(0, Error::word))
    };
    while threads.len() < THREADS_WITH_RECORDS
        && let Ok(one) = thread::spawn(body, 4096)
    {
        threads.push(one);
    }
    holds!(threads.len() >= 50, "only {} threads could be had", threads.len());
    let refused = loop {
        match Post::any() {
            Ok(post) => posts.push(post),
            Err(error) => break error,
        }
    };
    holds!(posts.len() >= 50 && ends.contains(&refused), "the refusal of posts after {}: {refused}", posts.len());
    drop(spare);
    // What this program itself needs to bind to the next ones.
    for post in posts.drain(posts.len() - 16..) {
        post.free(false).map_err(doing("giving back"))?;
    }
    let outcome = begin_anew(&posts, threads.len());
    GO.store(1, Ordering::SeqCst);
    sync::wake(&GO, u32::MAX.into());
    for one in threads {
        let looked = one.join().map_err(doing("join"))?;
        let expected = [Error::TimedOut, Error::NoMemory].map(Error::word);
        holds!(expected.contains(&looked), "a thread that looked was told {looked}");
    }
    posts.into_iter().chain([empty]).try_for_each(|post| post.free(false)).map_err(doing("giving back"))?;
    outcome
}

/// The servers are ended, and are there again.
fn begin_anew(posts: &[Post], threads: usize) -> Outcome {
    for name in ["keyboard", "clock", "processes", "sched", "names"] {
        servers::act(name, servers::acts::RESTART)
            .map_err(|e| format!("{name} after {} posts and {threads} threads were taken: {e}", posts.len()))?;
    }
    // Its driver has a post again, and hears of interrupts there.
    let keyboard = crate::interrupts::keyboard()?;
    crate::interrupts::probe(&keyboard).map(drop).map_err(|why| format!("the keyboard afterwards: {why}"))
}
