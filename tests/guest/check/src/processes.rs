//! Processes are what a server says (docs/decisions/0012): starting, ends, groups, limits; and nothing is lost when that server ends.

mod lost;

use crate::report::{Check, Outcome, doing};
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::task::{Exit, Limits, exit};
use musubi::command::{Child, Command};
use musubi::interfaces::processes::{LIMITS, ProcessesClient, RECORD};
use musubi::interfaces::request::Request;
use musubi::processes::{self, group, of_group, whom};
use musubi::rt::bound::result_of;
use musubi::rt::post::Post;
use musubi::rt::serve::opener;
use musubi::rt::{Answers, request, task, time};
use musubi::{Error, names};

pub const CHECKS: &[Check] = &[
    ("an_end_is_told_once", an_end_is_told_once),
    ("any_child_and_groups", any_child_and_groups),
    ("who_waits_is_woken", who_waits_is_woken),
    ("waits_by_message", waits_by_message),
    ("started_by_message", started_by_message),
    ("groups_end_together", groups_end_together),
    ("the_dying_start_nobody", the_dying_start_nobody),
    ("orphans_go_on", orphans_go_on),
    ("refused_kills", refused_kills),
    ("limits_are_set_and_shown", limits_are_set_and_shown),
    ("what_is_no_request", what_is_no_request),
    ("its_end_loses_nothing", || lost::under_load(6)),
    ("ends_while_it_is_away", lost::ends_while_it_is_away),
];

/// Ends of programs are waited for so long at most.
pub const END_NS: u64 = 60_000_000_000;

pub fn role(words: &[&str]) -> Command {
    Command::new(b"bin/check").args(["check", "as"].iter().chain(words))
}

pub fn start(words: &[&str]) -> Result<Child, String> {
    role(words).spawn().map_err(|why| format!("start of {words:?}: {why}"))
}

fn start_in(group: u64, words: &[&str]) -> Result<Child, String> {
    role(words).group(group).spawn().map_err(|why| format!("start of {words:?} in {group}: {why}"))
}

fn status(code: u64) -> Result<Child, String> {
    start(&["status", &format!("{code}")])
}

fn group_of(child: Child) -> Result<u64, String> {
    processes::status(child.task).map(|info| info.group).map_err(doing("status"))
}

fn code((task, exit): (u64, Exit)) -> (u64, u64, u64) {
    (task, exit.kind, exit.code)
}

fn client() -> Result<ProcessesClient, String> {
    names::lookup("processes").and_then(ProcessesClient::bind).map_err(doing("bind"))
}

fn an_end_is_told_once() -> Outcome {
    same!(processes::wait(whom::CHILD, 0).map(code), Err(Error::NotFound), "without children");
    let child = status(7)?;
    same!(processes::status(child.task).map(|info| info.parent), Ok(task::identity().task), "its parent");
    for _ in 0..3 {
        let told = processes::wait(child.task, END_NS).map(code);
        same!(told, Ok((child.task, exit::EXITED, 7)), "who looks");
    }
    same!(child.wait().map(|exit| exit.code), Ok(7), "who takes note");
    same!(child.wait(), Err(Error::NotFound), "who asks again");
    same!(task::info(child.task).is_none(), true, "it is no task any more");
    let faulty = start(&["run-data"])?.wait().map_err(doing("wait"))?;
    holds!(faulty.kind == exit::FAULT && faulty.ip != 0, "a fault is told as {faulty:?}");
    Ok(())
}

fn any_child_and_groups() -> Outcome {
    let parked = start_in(group::NEW, &["park"])?;
    let mut started: Vec<(u64, u64)> = Vec::new();
    for n in 0..6 {
        started.push((status(n)?.task, n));
    }
    for _ in 0..6 {
        let (task, exit) = processes::collect(whom::CHILD, END_NS).map_err(doing("any child"))?;
        let at = started.iter().position(|one| *one == (task, exit.code));
        started.swap_remove(at.ok_or("somebody else's child, or another one's status")?);
    }
    same!(processes::wait(whom::CHILD, 0), Err(Error::TimedOut), "while one goes on");
    let own = group_of(parked)?;
    same!(own, parked.task, "a new group's number");
    let other = start_in(own, &["status", "9"])?;
    same!(processes::collect(of_group(own), END_NS).map(code), Ok((other.task, exit::EXITED, 9)), "one of the group");
    same!(processes::wait(of_group(own), 0), Err(Error::TimedOut), "the other one");
    same!(processes::wait(of_group(own + 1_000_000), 0), Err(Error::NotFound), "a group of nobody");
    parked.kill().map_err(doing("kill"))?;
    same!(processes::collect(of_group(own), END_NS).map(|end| end.1.kind), Ok(exit::KILLED), "the last one");
    same!(processes::wait(of_group(own), 0), Err(Error::NotFound), "the group then");
    Ok(())
}

/// Threads that wait before anything has ended.
fn who_waits_is_woken() -> Outcome {
    let parked = start(&["park"])?;
    let waiters: Result<Vec<_>, Error> = (0..4)
        .map(|_| {
            musubi::rt::thread::spawn(
                move || {
                    let how = processes::wait(parked.task, END_NS).map_or(u64::MAX, |end| end.1.kind);
                    musubi::rt::thread::exit(how)
                },
                0,
            )
        })
        .collect();
    same!(parked.wait_for(20_000_000), Err(Error::TimedOut), "a wait with a limit");
    parked.kill().map_err(doing("kill"))?;
    for waiter in waiters.map_err(doing("thread"))? {
        same!(waiter.join(), Ok(exit::KILLED), "what a waiter was told");
    }
    parked.wait().map(drop).map_err(doing("wait"))
}

/// More waits than the server has threads, which meanwhile answers others.
fn waits_by_message() -> Outcome {
    const COUNT: usize = 24;
    let client = client()?;
    let answers = Answers::new().map_err(doing("a post for answers"))?;
    let posts = client.by_post(&answers).map_err(doing("by_post"))?;
    let children: Result<Vec<Child>, String> = (0..COUNT).map(|_| start(&["park"])).collect();
    let children = children?;
    let waits: Result<Vec<_>, Error> = children.iter().map(|child| posts.wait(child.task, u64::MAX)).collect();
    let mut waits = waits.map_err(doing("sending"))?;
    let any = posts.wait(whom::CHILD, u64::MAX).map_err(doing("sending"))?;
    same!(waits[0].wait_for(100_000_000), Err(Error::TimedOut), "while all go on");
    same!(posts.kill(u64::MAX >> 1).and_then(|one| one.wait()), Err(Error::NotFound), "another request meanwhile");
    same!(posts.wait(children[0].task, 0).and_then(|one| one.wait()), Err(Error::TimedOut), "one that does not wait");
    // Of several limits the later one first, and one that does not come to its end.
    let began = time::now_ns();
    let limits = [300_000_000, 50_000_000, 100_000_000, END_NS].map(|limit| posts.wait(children[0].task, limit));
    let [late, soon, middle, never] = limits.map(|wait| wait.map_err(doing("sending")));
    for (wait, limit) in [(soon, 50_000_000), (middle, 100_000_000), (late, 300_000_000)] {
        same!(wait?.wait(), Err(Error::TimedOut), "a limit of {limit} ns");
        holds!(time::now_ns() - began >= limit, "it came {} ns after it was asked for", time::now_ns() - began);
    }
    same!(posts.wait(1, u64::MAX).and_then(|one| one.wait()), Err(Error::NotFound), "for no process");
    for child in children.iter().rev() {
        same!(posts.kill(child.task).and_then(|one| one.wait()), Ok(1), "how many were ended");
    }
    for (child, wait) in children.iter().zip(waits) {
        same!(wait.wait(), Ok(child.task), "who has ended");
        same!(processes::status(child.task).map(|info| info.exit.kind), Ok(exit::KILLED), "how");
    }
    same!(never?.wait(), Ok(children[0].task), "who has ended before the limit");
    let any = any.wait().map_err(doing("any child"))?;
    holds!(children.iter().any(|child| child.task == any), "{any} is no child");
    for child in children {
        same!(posts.forget(child.task).and_then(|one| one.wait()), Ok(()), "forgetting");
    }
    same!(answers.strangers(), 0, "other messages");
    Ok(())
}

/// The server starts it on a thread of its own; it is the sender's child, in the sender's quota.
fn started_by_message() -> Outcome {
    let client = client()?;
    let answers = Answers::new().map_err(doing("a post for answers"))?;
    let posts = client.by_post(&answers).map_err(doing("by_post"))?;
    let mut reason = client.alloc(256).map_err(doing("room"))?;
    let request = role(&["park"]).request();
    let started = posts.spawn(&request, group::NEW, &mut reason).and_then(|one| one.wait());
    let child = Child { task: started.map_err(doing("spawn"))? };
    let listed = task::info(child.task).ok_or("it is not there")?;
    let me = task::identity().task;
    same!((listed.payer, listed.user), (me, musubi::start().user()), "who pays, and its user");
    let known = processes::status(child.task).map_err(doing("status"))?;
    same!((known.parent, known.group), (me, child.task), "its parent and group");
    child.kill().map_err(doing("kill"))?;
    same!(child.wait().map(|exit| exit.kind), Ok(exit::KILLED), "its end");
    for (what, user, payer) in [("as the system", 0, 0), ("at the system's cost", musubi::start().user(), 1)] {
        let mut other = Request::decode(&request).map_err(doing("decode"))?;
        (other.user, other.payer) = (user, payer);
        let refused = posts.spawn(&other.encode(), group::NEW, &mut reason).and_then(|one| one.wait());
        same!(refused, Err(Error::Denied), "{what}");
        let mut line = [0; 64];
        same!(client.spawn(&other.encode(), group::NEW, &mut line), Err(Error::Denied), "{what}, by a call");
    }
    Ok(())
}

fn groups_end_together() -> Outcome {
    let first = start_in(group::NEW, &["park"])?;
    let own = first.task;
    let mut members = Vec::from([first]);
    for _ in 0..5 {
        members.push(start_in(own, &["spin"])?);
    }
    let outside = start(&["park"])?;
    holds!(group_of(outside)? != own, "it is in the group of another");
    same!(processes::join(outside.task, own), Ok(own), "a child is brought into a group");
    same!(processes::join(outside.task, group::NEW), Ok(outside.task), "and out of it");
    same!(processes::join(outside.task, 1_000_000_000), Err(Error::NotFound), "a group of nobody");
    same!(processes::kill(of_group(own)), Ok(6), "how many were ended");
    for member in members {
        same!(member.wait_for(END_NS).map(|exit| exit.kind), Ok(exit::KILLED), "how a member ended");
    }
    same!(processes::kill(of_group(own)), Err(Error::NotFound), "the group then");
    same!(processes::wait(outside.task, 0), Err(Error::TimedOut), "who had left it");
    outside.kill().map_err(doing("kill"))?;
    outside.wait().map(drop).map_err(doing("wait"))
}

/// A program that starts others as fast as it can, and they start others: after its group was ended nobody is left, nor comes.
fn the_dying_start_nobody() -> Outcome {
    // So that there is an end to it, which is not this program's.
    let limits = Limits { threads: 30, ..Limits::default() };
    for _ in 0..3 {
        let first = role(&["breed"]).limits(limits).group(group::NEW).spawn().map_err(doing("start"))?;
        let in_group = || {
            let all = processes::list().map_err(doing("list"))?;
            Ok::<_, String>(all.iter().filter(|one| one.group == first.task && one.over == 0).count())
        };
        while in_group()? < 8 {
            musubi::rt::thread::yield_now();
        }
        let ended = processes::kill(of_group(first.task)).map_err(doing("kill"))?;
        holds!(ended >= 1, "nobody was ended");
        first.wait().map_err(doing("wait"))?;
        let until = time::now_ns() + END_NS;
        while in_group()? > 0 {
            holds!(time::now_ns() < until, "{} go on", in_group()?);
            musubi::rt::thread::yield_now();
        }
        same!(processes::kill(of_group(first.task)), Err(Error::NotFound), "the group then");
    }
    Ok(())
}

/// The program: starts copies of itself, which do the same.
pub fn breed() -> i32 {
    loop {
        if start(&["breed"]).is_err() {
            musubi::rt::time::sleep_ns(1_000_000);
        }
        while processes::collect(whom::CHILD, 0).is_ok() {}
    }
}

fn orphans_go_on() -> Outcome {
    let parent = start_in(group::NEW, &["leave", "park"])?;
    let child = parent.wait().map_err(doing("wait"))?.code;
    let known = processes::status(child).map_err(doing("status"))?;
    same!((known.over, known.parent, known.group), (0, parent.task, parent.task), "an orphan");
    same!(processes::wait(child, 0), Err(Error::TimedOut), "who waits for it by its number");
    same!(processes::collect(whom::CHILD, 0), Err(Error::NotFound), "it is nobody's child");
    same!(processes::kill(of_group(parent.task)), Ok(1), "its group");
    let outcome = processes::wait(child, END_NS).map(|end| end.1.kind);
    holds!(matches!(outcome, Ok(exit::KILLED) | Err(Error::NotFound)), "its end is told as {outcome:?}");
    while processes::status(child).is_ok() {
        musubi::rt::thread::yield_now();
    }
    Ok(())
}

/// The program: starts one, and leaves it. Value: its number.
pub fn leave(words: &[&str]) -> i32 {
    start(words).map_or(-1, |child| child.task as i32)
}

fn refused_kills() -> Outcome {
    let client = client()?;
    let answers = Answers::new().map_err(doing("a post for answers"))?;
    let posts = client.by_post(&answers).map_err(doing("by_post"))?;
    let servers: Vec<u64> = task::list().filter(|one| one.user == 0).map(|one| one.task).collect();
    for server in servers {
        let by_call = client.kill(server);
        holds!(by_call.is_err_and(|e| e == Error::Denied || e.refusal().is_some()), "by a call: {by_call:?}");
        same!(posts.kill(server).and_then(|one| one.wait()), Err(Error::Denied), "by a message");
        holds!(client.kill(of_group(server)).is_err(), "the group of {server} was ended");
        holds!(client.join(server, group::NEW).is_err(), "{server} is in another group");
        holds!(client.limit(server, &[0; LIMITS]).is_err(), "the limits of {server} were set");
        same!(task::info(server).is_some(), true, "{server} is there");
    }
    same!(client.kill(whom::CHILD), Err(Error::BadArgument), "any child");
    let gone = status(0)?;
    gone.wait().map_err(doing("wait"))?;
    same!(client.kill(gone.task), Err(Error::NotFound), "who has ended");
    same!(client.forget(gone.task), Err(Error::NotFound), "forgetting it again");
    // A sibling is the same user's, but not one's child.
    let parked = start(&["park"])?;
    same!(client.forget(parked.task), Err(Error::Busy), "forgetting one that goes on");
    let sibling = start(&["meddle", &format!("{}", parked.task)])?;
    same!(sibling.wait().map(|exit| exit.code), Ok(0), "what a sibling may do (see the error stream)");
    same!(parked.wait().map(|exit| exit.kind), Ok(exit::KILLED), "how it ended");
    Ok(())
}

/// The program: may end a sibling, and nothing else.
pub fn meddle(other: u64) -> i32 {
    let try_all = || -> Outcome {
        same!(processes::join(other, group::NEW), Err(Error::Denied), "another group");
        same!(processes::limit(other, &Limits { threads: 1, ..Limits::default() }), Err(Error::Denied), "limits");
        let own = task::identity().task;
        same!(
            processes::limit(own, &Limits { threads: 1 << 40, ..Limits::default() }),
            Err(Error::Denied),
            "own limits"
        );
        same!(processes::kill(other), Ok(1), "ending it");
        same!(processes::wait(other, END_NS).map(|end| end.1.kind), Ok(exit::KILLED), "its end");
        same!(client()?.forget(other), Err(Error::Denied), "forgetting it");
        Ok(())
    };
    match try_all() {
        Ok(()) => 0,
        Err(why) => {
            musubi::eprintln!("meddle: {why}");
            1
        }
    }
}

fn limits_are_set_and_shown() -> Outcome {
    let limits = Limits { frames: 2000, sections: 60, reserve: 8 << 30, threads: 9 };
    let child = role(&["park"]).limits(limits).spawn().map_err(doing("start"))?;
    let shown = || task::info(child.task).map(|info| info.limits).ok_or("it is not there");
    same!(shown()?, limits, "as it was started");
    let fewer = Limits { threads: 3, sections: 70, ..Limits::default() };
    same!(processes::limit(child.task, &fewer), Ok(()), "setting");
    same!(shown()?, Limits { threads: 3, sections: 70, ..limits }, "0 leaves it");
    let all = Limits { frames: u64::MAX, sections: u64::MAX, reserve: u64::MAX, threads: u64::MAX };
    same!(processes::limit(child.task, &all), Ok(()), "asking for all there is");
    let mine = task::info(task::identity().task).ok_or("no own limits")?.limits;
    same!(shown()?, mine, "it gets as much as its parent has");
    child.kill().map_err(doing("kill"))?;
    child.wait().map_err(doing("wait"))?;
    same!(processes::limit(child.task, &fewer), Err(Error::NotFound), "of one that has ended");
    // It starts threads until there are no more, and says how many there were.
    let child = role(&["count-threads"]).spawn().map_err(doing("start"))?;
    same!(processes::limit(child.task, &Limits { threads: 5, ..Limits::default() }), Ok(()), "setting");
    same!(child.wait().map(|exit| (exit.kind, exit.code)), Ok((exit::EXITED, 5)), "threads that it had");
    Ok(())
}

/// The program: waits until its limit is small, and says how many threads it then may have, with its first one.
pub fn count_threads() -> i32 {
    let own = task::identity().task;
    while task::info(own).is_none_or(|info| info.limits.threads > 5) {
        musubi::rt::thread::yield_now();
    }
    let mut threads = Vec::with_capacity(16);
    while let Ok(one) = musubi::rt::thread::spawn(|| musubi::rt::time::sleep_ns(2_000_000_000), 0) {
        threads.push(one);
    }
    1 + threads.len() as i32
}

/// Bytes and words that are no requests: each is refused, and the server goes on.
fn what_is_no_request() -> Outcome {
    let client = client()?;
    let mut reason = [0; 64];
    let good = role(&["status", "0"]).request();
    for len in [0, 1, 8, 40, good.len() - 1] {
        same!(client.spawn(&good[..len], 0, &mut reason), Err(Error::BadArgument), "{len} bytes of a request");
    }
    same!(client.spawn(&alloc::vec![0; 60_000], 0, &mut reason), Err(Error::TooBig), "a long one");
    same!(client.spawn(&good, 1_000_000_000, &mut reason), Err(Error::NotFound), "in no group");
    let refused = Command::new(b"bin/no-such").spawn();
    same!(refused.err().map(|refused| refused.error), Some(Error::NotFound), "a program that is not there");
    let mut record = [0; RECORD];
    same!(client.status(0, &mut record), Err(Error::NotFound), "process 0");
    same!(client.next(u64::MAX, &mut record), Err(Error::NotFound), "behind the last");
    // Messages by hand: of another interface, of no method, with wild pointers.
    let answers = Post::any().map_err(doing("a post"))?;
    let everybody = musubi::AclEntry {
        principal: musubi::abi::rights::principal::ANY,
        rights: musubi::Rights::CALL.bits(),
        id: 0,
        text: musubi::abi::rights::ANY_TEXT,
    };
    answers.allow(&everybody).map_err(doing("allow"))?;
    let identity = ProcessesClient::IDENTITY;
    let methods = ProcessesClient::INTERFACE.methods.len() as u64;
    let asked = [opener::POST, identity.into(), 0, 0, 0, 0];
    let post = client.bound().call(methods, asked).and_then(result_of).map(Post).map_err(doing("its post"))?;
    let heads = [
        (request::head(identity ^ 1, 1, 0), Error::Refused),
        (request::head(identity, 1, 99), Error::BadArgument),
        (request::head(identity, 1, 0), Error::Refused),
        (request::head(identity, 1, 2), Error::Refused),
    ];
    for (head, wanted) in heads {
        post.send(head, [0xdead_0000, 0xffff, 0xdead_0000, 0xffff, 7, 7], Some(answers)).map_err(doing("send"))?;
        let answer = answers.receive(END_NS).map_err(doing("an answer"))?;
        let told = if answer.words[0] == 0 { answer.words[1] } else { answer.words[0] };
        same!(Error::from_word(told), Some(wanted), "the answer to {head:#x}");
    }
    same!(status(3)?.wait().map(|exit| exit.code), Ok(3), "a program after all that");
    Ok(())
}
