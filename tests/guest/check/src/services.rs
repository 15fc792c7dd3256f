//! Servers behind gate and post: the same methods, by messages that are answered later. Whatever ends, and whatever is sent there,
//! each request is answered or its sender hears why not.

mod floods;
mod lent;
pub mod pipes;
mod short;
mod starts;
pub mod strangers;
mod system;
mod wild;

use crate::memory::{await_word, data, store};
use crate::peer::{Peer, op, six};
use crate::report::{Check, Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::layout::PAGE;
use musubi::abi::rights::{ANY_TEXT, principal};
use musubi::command::{Child, Command};
use musubi::interfaces::counter::{CounterClient, CounterLater};
use musubi::interfaces::names::{NAME_MAX, NamesClient};
use musubi::rt::answers::join_all;
use musubi::rt::bound::result_of;
use musubi::rt::later::{Answer, Later};
use musubi::rt::post::{FOR_EVER, Post};
use musubi::rt::request;
use musubi::rt::serve::Count;
use musubi::rt::{Answers, section, task, thread, time};
use musubi::{AclEntry, Error, Rights, names};

pub use short::role as keeper;
pub use system::every_server_by_both_ways;

pub const CHECKS: &[Check] = &[
    ("the_client_chooses", the_client_chooses),
    ("answers_come_in_any_order", answers_come_in_any_order),
    ("any_idle_processor_serves", any_idle_processor_serves),
    ("futures_of_several_servers", futures_of_several_servers),
    ("memory_is_lent_from_the_binding", memory_is_lent_from_the_binding),
    ("memory_is_lent_until_the_answer", lent::until_the_answer),
    ("the_sender_is_told", the_sender_is_told),
    ("every_server_by_both_ways", system::every_server_by_both_ways),
    ("streams_by_their_posts", system::streams_by_their_posts),
    ("streams_of_many_gates", system::streams_of_many_gates),
    ("a_pipe_ends_with_its_users", pipes::a_pipe_ends_with_its_users),
    ("no_program_has_all_pipes", pipes::no_program_has_all_pipes),
    ("every_skeleton_refuses", wild::every_skeleton_refuses),
    ("a_file_that_may_not_be_read", system::a_file_that_may_not_be_read),
    ("started_by_the_loaders_post", starts::started_by_the_loaders_post),
    ("only_what_may_be_read_is_started", starts::only_what_may_be_read_is_started),
    ("answers_that_cannot_be_written", system::answers_that_cannot_be_written),
    ("of_another_interface", of_another_interface),
    ("a_method_that_faults", a_method_that_faults),
    ("a_server_without_memory_refuses", short::a_server_without_memory_refuses),
    ("a_server_that_ends", a_server_that_ends),
    ("the_next_server_goes_on", the_next_server_goes_on),
    ("clients_that_end_harm_nobody", clients_that_end_harm_nobody),
    ("who_collects_nothing_harms_nobody", floods::who_collects_nothing_harms_nobody),
    ("a_flood_at_random", floods::a_flood_at_random),
    ("who_waits_leaves_little_lying", floods::who_waits_leaves_little_lying),
    ("what_waits_is_answered_to_nobody_else", strangers::what_waits_is_answered_to_nobody_else),
    ("what_lay_in_the_queue_is_answered_to_nobody_else", strangers::what_lay_in_the_queue_is_answered_to_nobody_else),
    ("what_was_kept_is_answered_to_nobody_else", strangers::what_was_kept_is_answered_to_nobody_else),
];

/// How many milliseconds a peer is given that ends as it is asked to.
const END_NS: u64 = 20_000_000_000;

fn answers() -> Result<Answers, String> {
    Answers::new().map_err(doing("a post for answers"))
}

fn by_post<'a>(peer: &'a Peer, answers: &'a Answers) -> Result<Later<'a>, String> {
    Later::by_post(&peer.bound, answers, 1, 0).map_err(doing("by_post"))
}

/// A request that does an [`op`].
fn send<'a>(to: &Later<'a>, what: u64, words: &[u64]) -> Result<Answer<'a, u64>, String> {
    let posted = to.begin(false, 0, six(what, words), []).map_err(doing("sending"))?;
    Ok(Answer::of(posted, result_of))
}

fn ask(to: &Later, what: u64, words: &[u64]) -> Result<u64, Error> {
    to.begin(false, 0, six(what, words), [])?.wait().and_then(result_of)
}

fn counter(name: &str) -> Result<(Child, CounterClient), String> {
    let name = format!("{name}-{}", musubi::start().task());
    let child = Command::new(b"bin/counter").arg(name.as_bytes()).spawn().map_err(doing("counter"))?;
    let gate = names::await_name(&name, END_NS).map_err(doing("its name"))?;
    Ok((child, CounterClient::bind(gate).map_err(doing("bind"))?))
}

/// The same sum, by calls, by messages and by ITC.
fn the_client_chooses() -> Outcome {
    let (child, counter) = counter("counter")?;
    let answers = answers()?;
    let posts = counter.by_post(&answers).map_err(doing("by_post"))?;
    same!(counter.add(40), Ok(40), "by the gate");
    let later = posts.add(2).map_err(doing("sending"))?;
    same!(later.wait(), Ok(42), "by the post");
    same!(counter.get(), Ok(42), "by the gate again");
    same!(posts.divide(0).map_err(doing("sending"))?.wait(), Err(Error::Faulted), "what faults");
    same!(posts.divide(2).map_err(doing("sending"))?.wait(), Ok(21), "what does not");
    let itc = CounterClient::bind_itc(counter.bound().gate(), 0).map_err(doing("bind_itc"))?;
    same!(itc.add(1), Ok(43), "by a line");
    same!(itc.later().add(1).map_err(doing("sending"))?.wait(), Ok(44), "by a line, later");
    same!(counter.later().add(1).map_err(doing("sending"))?.wait(), Ok(45), "by the gate, for later: at once");
    itc.unbind().map_err(doing("unbind"))?;
    let asks = CounterClient::bind_post(counter.bound().gate(), 0).map_err(doing("bind_post"))?;
    same!(asks.add(1), Ok(46), "as a question");
    same!(asks.divide(0), Err(Error::Faulted), "a question that faults");
    let posts = asks.by_post(&answers).map_err(doing("by_post"))?;
    same!(posts.add(1).map_err(doing("sending"))?.wait(), Ok(47), "by the post, from a client that asks");
    same!(asks.get(), Ok(47), "as a question again");
    asks.unbind().map_err(doing("unbind"))?;
    same!(answers.strangers(), 0, "other messages");
    child.kill().map_err(doing("kill"))?;
    let known = names::lookup("names").or_else(|_| Ok(musubi::start().names())).map_err(|e: Error| format!("{e}"))?;
    let client = NamesClient::bind_with_args(known, PAGE).map_err(doing("bind names"))?;
    let posts = client.by_post(&answers).map_err(doing("names by_post"))?;
    let asks = NamesClient::bind_post(known, PAGE).map_err(doing("names bind_post"))?;
    same!(asks.lookup("files"), client.lookup("files"), "a name that is copied to be lent, as a question");
    same!(asks.lookup("no-such-name"), Err(Error::NotFound), "a name that nobody has, as a question");
    let files = posts.lookup("files").map_err(doing("sending"))?;
    let nothing = posts.lookup("no-such-name").map_err(doing("sending"))?;
    same!(nothing.wait(), Err(Error::NotFound), "a name that nobody has");
    same!(files.wait(), client.lookup("files"), "a name, by both");
    let mut name = client.alloc(NAME_MAX).map_err(doing("a loan"))?;
    let len = posts.list(0, &mut name).map_err(doing("sending"))?.wait().map_err(doing("list"))?;
    let all = names::list().map_err(doing("all names"))?;
    same!(Some(&name[..len as usize]), all.first().map(|name| name.as_bytes()), "the first name, by both");
    Ok(())
}

fn answers_come_in_any_order() -> Outcome {
    let peer = Peer::start_with_post(0, 3)?;
    let answers = answers()?;
    let to = by_post(&peer, &answers)?;
    let flag = data(PAGE).map_err(doing("create"))?;
    section::grant(flag.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    // One takes long; others overtake it.
    let mut slow = send(&to, op::SLEEP, &[flag.base(), 300_000_000])?;
    await_word(flag.base());
    holds!(!slow.is_ready(), "it cannot be ready");
    same!(slow.wait_for(1_000_000), Err(Error::TimedOut), "waiting for a moment");
    let quick = send(&to, op::ADD, &[5])?;
    same!(quick.wait(), Ok(5), "one that overtakes");
    same!(slow.wait_for(FOR_EVER), Ok(0), "the slow one");
    same!(slow.wait_for(FOR_EVER), Err(Error::NotFound), "once more");
    drop(slow);
    // Many are under way, and are waited for the other way round.
    let all: Result<Vec<_>, String> = (0..200).map(|n| send(&to, op::ANSWER, &[0, n])).collect();
    for (n, answer) in all?.into_iter().enumerate().rev() {
        same!(answer.wait(), Ok(n as u64), "answer {n}");
    }
    // What nobody wants is thrown away when it comes.
    for _ in 0..100 {
        drop(send(&to, op::ADD, &[1])?);
    }
    let until = time::now_ns() + END_NS;
    while ask(&to, op::ADD, &[0]).map_err(doing("asking"))? < 105 {
        holds!(time::now_ns() < until, "what nobody waits for is not done");
    }
    let mut ready = send(&to, op::ADD, &[0])?;
    while !ready.is_ready() {
        thread::yield_now();
    }
    same!(ready.wait(), Ok(105), "the sum");
    same!(answers.strangers(), 0, "other messages");
    peer.end()
}

/// As many requests as there are processors, to one post: all are served at one moment, each by a processor that nobody has named.
fn any_idle_processor_serves() -> Outcome {
    let count = task::processors().count() as u64;
    let peer = Peer::start_with_post(0, 0)?;
    let answers = answers()?;
    let to = by_post(&peer, &answers)?;
    let place = data(PAGE).map_err(doing("create"))?;
    section::grant(place.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let all: Result<Vec<_>, String> = (0..count).map(|n| send(&to, op::MEET, &[place.base(), n, count])).collect();
    for (n, one) in all?.into_iter().enumerate() {
        same!(one.wait(), Ok(0), "request {n} of {count}");
    }
    peer.end()
}

fn futures_of_several_servers() -> Outcome {
    let (first, one) = counter("one")?;
    let (second, other) = counter("other")?;
    let answers = answers()?;
    let (a, b) = (one.by_post(&answers), other.by_post(&answers));
    let (a, b) = (a.map_err(doing("by_post"))?, b.map_err(doing("by_post"))?);
    let both = async {
        let (x, y) = (a.add(1)?, b.add(10)?);
        let x = x.await? + 1;
        let z = a.add(x)?;
        Ok::<u64, Error>(y.await? + z.await?)
    };
    same!(answers.block_on(both), Ok(Ok(13)), "1 and 2 at one, 10 at the other");
    let all: Result<Vec<_>, Error> = (0..40).map(|n| if n % 2 == 0 { a.add(0) } else { b.add(0) }).collect();
    let sums = answers.block_on(join_all(all.map_err(doing("sending"))?)).map_err(doing("block_on"))?;
    let expected: Vec<_> = (0..40).map(|n| Ok(if n % 2 == 0 { 3 } else { 10 })).collect();
    same!(sums, expected, "all answers");
    same!(answers.block_on(core::future::pending::<()>()), Err(Error::NotFound), "waiting for nothing");
    // One ends; what it owes is an error, what the other one owes comes.
    first.kill().map_err(doing("kill"))?;
    let owed = [a.add(1), b.add(1)];
    match owed {
        [Err(Error::NotFound), Ok(y)] => same!(y.wait(), Ok(11), "of the other"),
        [Ok(x), Ok(y)] => same!((x.wait(), y.wait()), (Err(Error::Dead), Ok(11)), "of both"),
        other => return Err(format!("sending to both: {other:?}")),
    }
    second.kill().map_err(doing("kill"))
}

fn memory_is_lent_from_the_binding() -> Outcome {
    let answers = answers()?;
    let gate = musubi::start().names();
    let client = NamesClient::bind_with_args(gate, PAGE).map_err(doing("bind"))?;
    let posts = client.by_post(&answers).map_err(doing("by_post"))?;
    let mut own = [0; 16];
    same!(posts.list(0, &mut own).err(), Some(Error::BadAddress), "own memory to be written");
    let long = "x".repeat(2 * PAGE as usize);
    same!(posts.lookup(&long).err(), Some(Error::TooBig), "a name longer than the argument section");
    let wall: Vec<_> = (0..64).map_while(|_| client.alloc(64).ok()).collect();
    same!(posts.lookup("files").err(), Some(Error::Busy), "an argument section in use");
    drop(wall);
    // What is named without being lent.
    let methods = NamesClient::INTERFACE.methods.len() as u64;
    let raw = Later::by_post_shared(client.bound(), &answers, methods, NamesClient::IDENTITY);
    let raw = raw.map_err(doing("by_post_shared"))?;
    let text = section::info(gate).map_err(doing("its text"))?.base;
    let shared = data(PAGE).map_err(doing("create"))?;
    section::grant(shared.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let (args, len) = (client.bound().binding().args, client.bound().binding().args_len);
    let before = posts.count(Count::Refused).map_err(doing("counting"))?;
    let bad = [
        ("the server's text", text, 4),
        ("what all may read", shared.base(), 4),
        ("nothing", 8, 4),
        ("the end of the argument section", args + len - 2, 4),
        ("all of memory", args, u64::MAX),
        ("before it", args - 1, 2),
    ];
    for (name, at, len) in bad {
        let outcome =
            raw.begin(false, 1, [at, len, 0, 0, 0, 0], []).map_err(doing("sending"))?.wait().and_then(result_of);
        same!(outcome, Err(Error::Refused), "a pointer to {name}");
    }
    same!(posts.count(Count::Refused), Ok(before + bad.len() as u64), "what the server has counted");
    // A client without a section has none to name: the check is its own, and another one's does not help it.
    let bare = NamesClient::bind_with_args(gate, 0).map_err(doing("bind"))?;
    let bare = bare.by_post(&answers).map_err(doing("by_post"))?;
    same!(bare.lookup("files").err(), Some(Error::BadAddress), "without an argument section");
    let raw = raw.begin(false, 1, [args, 4, 0, 0, 0, 0], []).map_err(doing("sending"))?.wait().and_then(result_of);
    same!(raw, Err(Error::NotFound), "four zeros in it are a name that nobody has");
    // Taken back under the server: an error, and the server goes on.
    client.unbind().map_err(doing("unbind"))?;
    same!(names::lookup("files").is_ok(), true, "afterwards");
    Ok(())
}

fn the_sender_is_told() -> Outcome {
    let peer = Peer::start_with_post(0, 1)?;
    let answers = answers()?;
    let to = by_post(&peer, &answers)?;
    let me = task::identity();
    let told = to.begin(false, 0, six(op::CALLER, &[]), []).map_err(doing("sending"))?.wait();
    same!(told, Ok([me.task, me.text]), "by the post");
    same!(peer.pair(op::CALLER), Ok([me.task, me.text]), "by the gate");
    let [walks, text] =
        to.begin(false, 0, six(op::WHO, &[]), []).map_err(doing("sending"))?.wait().map_err(doing("who"))?;
    holds!(walks != me.thread && text == peer.text, "it runs on thread {walks} in text {text:#x}");
    // What is not one's own is not one's to publish, by whatever way.
    let client = NamesClient::bind_with_args(musubi::start().names(), PAGE).map_err(doing("bind"))?;
    let posts = client.by_post(&answers).map_err(doing("by_post"))?;
    let outcome = posts.publish("not-mine", peer.gate).map_err(doing("sending"))?.wait();
    same!(outcome, client.publish("not-mine", peer.gate), "publishing another's gate, by both");
    peer.end()
}

/// A message that no stub would send, and the answer to it.
fn raw(to: Post, op: u32, words: [u64; 6]) -> Result<(u32, [u64; 6]), Error> {
    to.ask(op, words, FOR_EVER).map(|answer| (answer.op, answer.words))
}

fn post_of(peer: &Peer) -> Result<Post, String> {
    peer.bound.call(1, [1, 0, 0, 0, 0, 0]).and_then(result_of).map(Post).map_err(doing("its post"))
}

fn of_another_interface() -> Outcome {
    let peer = Peer::start_with_post(0, 2)?;
    let post = post_of(&peer)?;
    let answers = answers()?;
    let to = by_post(&peer, &answers)?;
    for n in 1..20u32 {
        let head = request::head(n * 37, n, 0);
        let answer = raw(post, head, six(op::ADD, &[1]));
        same!(answer, Ok((head, [Error::Refused.word(), 0, 0, 0, 0, 0])), "interface {n}");
        let head = request::head(0, n, u64::from(n));
        let answer = raw(post, head, six(op::ADD, &[1]));
        same!(answer, Ok((head, [Error::BadArgument.word(), 0, 0, 0, 0, 0])), "method {n}");
    }
    same!(to.count(1, Count::Refused), Ok(38), "what the server has counted");
    // By the client's side: the stub of another interface, told where the post is, and asking where it is.
    answers.admit(&everybody(Rights::CALL)).map_err(doing("admit"))?;
    let stranger = CounterLater::to(post, &answers);
    same!(stranger.add(1).map_err(doing("sending"))?.wait(), Err(Error::Refused), "the stub of a counter");
    let (child, counter) = counter("counter")?;
    let lost = Later::by_post(counter.bound(), &answers, 3, 0);
    same!(lost.err(), Some(Error::Refused), "asking a counter for the post of a peer");
    child.kill().map_err(doing("kill"))?;
    let plain = Peer::start()?;
    let none = Later::by_post(&plain.bound, &answers, 1, 0).err();
    same!(none, Some(Error::NotSupported), "a server without a post");
    // Nobody hears of a message without a way back; it is counted.
    post.send(request::head(99, 0, 0), [0; 6], None).map_err(doing("sending"))?;
    same!(ask(&to, op::ADD, &[0]), Ok(0), "nothing was done");
    let until = time::now_ns() + END_NS;
    while to.count(1, Count::Refused) != Ok(40) {
        holds!(time::now_ns() < until, "{:?} were counted", to.count(1, Count::Refused));
    }
    plain.end()?;
    peer.end()
}

fn a_method_that_faults() -> Outcome {
    let peer = Peer::start_with_post(0, 2)?;
    let answers = answers()?;
    let to = by_post(&peer, &answers)?;
    let post = post_of(&peer)?;
    for n in 1..=20 {
        same!(ask(&to, op::FAULT, &[]), Err(Error::Faulted), "fault {n}");
        same!(ask(&to, op::THREAD_EXIT, &[0]), Err(Error::Dead), "a method that ends its thread, {n}");
        same!(ask(&to, op::ADD, &[1]), Ok(n), "the request after it");
        let told = raw(post, 0, six(op::FAULT, &[])).map(|(_, words)| words[0]);
        same!(told, Ok(Error::Faulted.word()), "a question");
    }
    same!(to.count(1, Count::Faulted), Ok(60), "what the server has counted");
    same!(ask(&to, 9999, &[]), Err(Error::NoSuchCall), "an operation that is not there");
    same!(peer.call(op::ADD, &[0]), Ok(20), "the sum, by the gate");
    peer.end()
}

/// In the middle of a request, with others in the queue.
fn a_server_that_ends() -> Outcome {
    for how in ["exit", "panic", "killed", "text"] {
        let peer = Peer::start_with_post(0, 2)?;
        let answers = answers()?;
        let to = by_post(&peer, &answers)?;
        let flags = data(PAGE).map_err(doing("create"))?;
        section::grant(flags.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
        same!(ask(&to, op::ADD, &[1]), Ok(1), "a request before");
        let post = post_of(&peer)?;
        let busy = send(&to, op::LOOP, &[flags.base()])?;
        await_word(flags.base());
        let last = match how {
            "exit" => send(&to, op::EXIT, &[1])?,
            "panic" => send(&to, op::PANIC, &[])?,
            _ => send(&to, op::LOOP, &[flags.base() + 8])?,
        };
        let queued: Vec<_> = (0..5).map_while(|_| send(&to, op::ADD, &[1]).ok()).collect();
        match how {
            "killed" => {
                await_word(flags.base() + 8);
                musubi::rt::task::kill(owner(peer.text)?).map_err(doing("kill"))?;
            }
            "text" => drop(peer.call(op::OWN, &[crate::peer::own::DELETE_TEXT, 0])),
            _ => {}
        }
        same!(last.wait(), Err(Error::Dead), "{how}: the request in which it ends");
        same!(busy.wait(), Err(Error::Dead), "{how}: another one that it was serving");
        for one in queued {
            let outcome = one.wait();
            // One of the two threads may have got to it.
            holds!(outcome == Err(Error::Dead) || outcome.is_ok(), "{how}: one in the queue: {outcome:?}");
        }
        same!(answers.under_way(), 0, "{how}: under way");
        let _ = peer.child.wait_for(END_NS);
        same!(post.send(0, [0; 6], None), Err(Error::NotFound), "{how}: its post");
        same!(to.begin(false, 0, [0; 6], []).err(), Some(Error::NotFound), "{how}: a request after that");
        peer.bound.unbind().map_err(doing("unbind"))?;
        flags.delete().map_err(doing("delete"))?;
    }
    Ok(())
}

fn owner(text: u64) -> Result<u64, String> {
    section::info(text).map(|info| info.owner).map_err(doing("its task"))
}

fn supervised() -> Result<Post, String> {
    let post = Post::any().map_err(doing("a post"))?;
    let both = Rights::READ | Rights::CALL;
    let entry = AclEntry { principal: principal::ANY, rights: both.bits(), id: 0, text: ANY_TEXT };
    post.allow(&entry).map_err(doing("allowing"))?;
    Ok(post)
}

/// The post is its supervisor's: what was not received yet stays for the next server.
fn the_next_server_goes_on() -> Outcome {
    let post = supervised()?;
    let answers = answers()?;
    let first = Peer::start_with_post(post.0, 1)?;
    let to = by_post(&first, &answers)?;
    let flags = data(PAGE).map_err(doing("create"))?;
    section::grant(flags.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    same!(ask(&to, op::ADD, &[100]), Ok(100), "the first server");
    let lost = send(&to, op::LOOP, &[flags.base()])?;
    await_word(flags.base());
    let queued: Result<Vec<_>, String> = (0..5).map(|_| send(&to, op::ADD, &[1])).collect();
    let mut queued = queued?;
    musubi::rt::task::kill(owner(first.text)?).map_err(doing("kill"))?;
    let _ = first.child.wait_for(END_NS);
    same!(queued[0].wait_for(50_000_000), Err(Error::TimedOut), "there is no server now");
    let second = Peer::start_with_post(post.0, 2)?;
    let mut sums: Vec<u64> = Vec::new();
    for one in queued {
        sums.push(one.wait().map_err(doing("one that was in the queue"))?);
    }
    sums.sort_unstable();
    same!(sums, [1, 2, 3, 4, 5], "the sums of the second server");
    same!(lost.wait(), Err(Error::Dead), "the one that the first was serving");
    same!(ask(&to, op::ADD, &[1]), Ok(6), "by the same way to the next server");
    // The second is not taken for dead while it is only slow.
    store(flags.base(), 0);
    let slow = send(&to, op::SLEEP, &[flags.base(), 400_000_000])?;
    same!(slow.wait(), Ok(0), "a slow one");
    same!(answers.strangers(), 0, "other messages");
    second.end()?;
    post.free(true).map_err(doing("freeing"))
}

/// A client with requests under way, and how it ends; or one that sends anything.
pub fn role(how: &str, gate: u64, count: u64) -> i32 {
    match how {
        "flood" => return i32::from(floods::flood(Post(gate), count).is_err()),
        "wild" => return wild::wild(count),
        "ask-and-leave" => return i32::from(starts::ask_and_leave().is_err()),
        "collect-nothing" => return i32::from(floods::collect_nothing(gate, count).is_err()),
        _ => {}
    }
    let (Ok(bound), Ok(answers)) = (musubi::rt::Bound::bind(gate, PAGE), Answers::new()) else { return 1 };
    let Ok(to) = Later::by_post(&bound, &answers, 1, 0) else { return 1 };
    let all: Vec<_> = (0..50).map_while(|_| to.begin(false, 0, six(op::ADD, &[1]), []).ok()).collect();
    match how {
        "exit" => task::exit(0),
        "fault" => {
            musubi::rt::probe::write(8);
            1
        }
        _ => i32::from(all.into_iter().any(|one| one.wait().is_err())),
    }
}

fn clients_that_end_harm_nobody() -> Outcome {
    let peer = Peer::start_with_post(0, 2)?;
    let answers = answers()?;
    let to = by_post(&peer, &answers)?;
    let gate = format!("{}", peer.gate);
    for how in ["exit", "fault", "wait", "exit", "wait", "fault"] {
        let child = Command::new(b"bin/check").args(["check", "as", "services", how, &gate]).spawn();
        let exit = child.map_err(doing("a client"))?.wait_for(END_NS).map_err(doing("its end"))?;
        holds!(how == "fault" || exit.code == 0, "{how}: {}", exit.code);
        same!(ask(&to, op::ADD, &[0]).is_ok(), true, "the server, after {how}");
    }
    // All that was sent is done: messages of the dead stay.
    let until = time::now_ns() + END_NS;
    while ask(&to, op::ADD, &[0]) != Ok(300) {
        holds!(time::now_ns() < until, "the sum is {:?}", ask(&to, op::ADD, &[0]));
    }
    peer.end()
}
