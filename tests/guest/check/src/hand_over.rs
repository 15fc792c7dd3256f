//! A hand-over goes straight to the receiver, and nobody else notices (K1-30, 49, 50).

use crate::posts::{ROUNDS, post};
use crate::report::{Check, Outcome, doing};
use crate::sched::with;
use crate::sections::everybody;
use crate::{holds, same};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::calls::number;
use musubi::abi::trace::{Event, kind};
use musubi::command::{Child, Command};
use musubi::rt::post::{self, FOR_EVER, Post};
use musubi::rt::trace::Trace;
use musubi::rt::{task, time};
use musubi::{Error, Rights, trace};

pub const CHECKS: &[Check] = &[
    ("nobody_else_enters_the_kernel", nobody_else_enters_the_kernel),
    ("the_published_collision_step_by_step", step_by_step),
    ("who_was_told_plainly_wastes_one_wake_up_at_most", mixed),
];

/// Where somebody decides who runs.
pub const BESIDE: &[Check] = &[("nobody_else_notices_beside_a_scheduler", beside_a_scheduler)];

const BATCHES: usize = 20;

/// By processor: entries of the kernel from user mode, switches between threads, interrupts.
fn counts() -> Vec<[u64; 3]> {
    task::processors().map(|p| [p.entries, p.switches, p.interrupts]).collect()
}

/// Threads that do not play, and how long each has run.
fn others(players: [u64; 2]) -> BTreeMap<u64, u64> {
    let threads = task::threads().filter(|one| !players.contains(&one.task));
    threads.map(|one| (one.thread, one.time)).collect()
}

/// What a batch has cost.
struct Spent {
    /// On the processors where nobody plays: entries and switches; and interrupts.
    wasted: u64,
    interrupts: u64,
    /// Entries where somebody does.
    own: u64,
}

fn spent(batch: impl FnOnce() -> Outcome) -> Result<Spent, String> {
    let before = counts();
    batch()?;
    let mut spent: Vec<[u64; 3]> =
        counts().iter().zip(&before).map(|(now, then)| [0, 1, 2].map(|i| now[i] - then[i])).collect();
    // They play on the one that was entered most often.
    spent.sort_unstable();
    let own = spent.pop().map_or(0, |[entries, ..]| entries);
    let wasted = spent.iter().map(|[entries, switches, _]| entries + switches).sum();
    Ok(Spent { wasted, interrupts: spent.iter().map(|[.., interrupts]| interrupts).sum(), own })
}

/// K1's published collision: two tasks send one another messages, other processors are idle, and one of them jumps in to run the
/// receiver while the sender's processor wants to as well. Here the others do nothing at all: no entry, no switch and no interrupt is
/// counted on them, in each of the batches. Only where a third thread has run meanwhile, which its time tells, is the batch done again;
/// where a moment comes that somebody had set on another processor long before (an interrupt that nobody is woken by); and where the machine's
/// clock is the host's, which may let a tick pass on the players' own. Where the clock counts instructions nothing else is forgiven.
fn nobody_else_enters_the_kernel() -> Outcome {
    let (there, back, other) = partner()?;
    let players = [task::identity().task, other.task];
    let round = |n| round(there, back, &other, n).map(drop);
    for batch in 0..BATCHES {
        let mut tries = Vec::new();
        loop {
            // A plain message wakes whoever is idle; from the first round on it is handed over.
            round(0)?;
            let before = others(players);
            let Spent { wasted, interrupts, own } = spent(|| (1..=ROUNDS).try_for_each(round))?;
            let after = others(players);
            let ran: Vec<u64> = after
                .iter()
                .filter(|(thread, time)| before.get(thread) != Some(time))
                .map(|(thread, _)| *thread)
                .collect();
            // Two calls of each round, and what ends the batch and counts it.
            let few = own <= 2 * ROUNDS + 8 + task::processors().count() as u64;
            if wasted + interrupts == 0 && few {
                break;
            }
            tries.push((wasted, interrupts, own, ran.clone()));
            holds!(
                wasted == 0 || !ran.is_empty(),
                "in batch {batch} nobody else has run, and there were wasted, interrupts, taken and threads that ran: {tries:?}"
            );
            let tries_max = match time::ticks_are_instructions() {
                true if !ran.is_empty() => TRIES_OF_ANOTHER,
                true if !few => 1,
                _ => TRIES,
            };
            holds!(
                tries.len() < tries_max,
                "batch {batch} wasted, was interrupted, took, and others that ran: {tries:?}"
            );
        }
    }
    // The counter can count: sent plainly by one who goes on, the message is another processor's affair. (Whoever waits instead may take
    // it up again before that one has come. Where instructions are counted processors take turns, and long ones: not there.)
    if task::processors().count() > 1 && !time::ticks_are_instructions() {
        let plainly = |n: u64| -> Outcome {
            there.send(1, [n; 6], None).map_err(doing("a plain message"))?;
            loop {
                match back.receive(0) {
                    Err(Error::TimedOut) => {}
                    answer => break answer.map(drop).map_err(doing("its answer")),
                }
            }
        };
        let Spent { wasted, interrupts, .. } = spent(|| (1..=ROUNDS).try_for_each(plainly))?;
        let seen = wasted + interrupts;
        holds!(seen > ROUNDS / 2, "of {ROUNDS} plain messages others have noticed {seen}");
    }
    part(there, back, &other)
}

/// Plain messages, each followed by so many questions, to one who waits for both.
const PLAIN: u64 = 64;
const QUESTIONS: u64 = 4;
/// Until a plain message has come and its receiver waits again, whose processor dozes then: it does for longer.
const WAITS_NS: u64 = 100_000;

/// One who was told something by a plain message waits for the next one where he is, on a processor that has nothing else to do; asked meanwhile, he goes on there,
/// and his asker's processor is left behind. That is a wake-up for nothing, once for each plain message at most: he hands over what he answers, and what is asked after that is handed to him.
fn mixed() -> Outcome {
    let there = post()?;
    there.allow(&everybody(Rights::READ)).map_err(doing("allow"))?;
    let words = ["check", "as", "post-answers", &format!("{}", there.0)];
    let other = Command::new(b"bin/check").args(words).spawn().map_err(doing("the other task"))?;
    let ask = |n: u64| -> Outcome {
        let got = there.ask(1, [n; 6], FOR_EVER).map_err(doing("a question"))?;
        same!(got.words[0], n + 1, "the answer to question {n}");
        Ok(())
    };
    let players = [task::identity().task, other.task];
    (0..4).try_for_each(ask)?;
    let mut tries = Vec::new();
    loop {
        let before = others(players);
        let mut wasted = 0;
        for n in 0..PLAIN {
            there.send(2, [n; 6], None).map_err(doing("a plain message"))?;
            let until = time::now_ns() + WAITS_NS;
            while time::now_ns() < until {
                core::hint::spin_loop();
            }
            for question in 0..QUESTIONS {
                wasted += u64::from(spent(|| ask(question))?.wasted > 0);
            }
        }
        if wasted <= PLAIN {
            break;
        }
        let ran = others(players) != before;
        tries.push((wasted, ran));
        let most = if ran { TRIES } else { 1 };
        holds!(
            tries.len() < most,
            "of {PLAIN} times {QUESTIONS} questions others noticed, and whether others ran: {tries:?}"
        );
    }
    there.send(0, [0; 6], None).map_err(doing("the last one"))?;
    same!(other.wait().map(|exit| exit.code), Ok(0), "how the other task ended");
    there.free(true).map_err(doing("freeing"))
}

/// The other program: takes what it is told, and answers what it is asked with one more, until operation 0.
pub fn role(there: u64) -> i32 {
    let serve = |there: Post| -> Result<(), Error> {
        let mut message = there.receive(FOR_EVER)?;
        while message.op != 0 {
            message = match message.back {
                0 => there.receive(FOR_EVER)?,
                question => post::answer_and_receive(question, 1, message.words.map(|word| word + 1), there, FOR_EVER)?,
            };
        }
        Ok(())
    };
    serve(Post(there)).map_or_else(|error| error.word() as i32, |()| 0)
}

/// A hand-over passes the scheduler by. It has moments of its own on every processor, so that something is counted there in some batches; if others
/// noticed messages it would be in each.
fn beside_a_scheduler() -> Outcome {
    with("ageing", || {
        let (there, back, other) = partner()?;
        let round = |n| round(there, back, &other, n).map(drop);
        let mut noisy = Vec::new();
        for batch in 0..BATCHES {
            round(0)?;
            let Spent { wasted, interrupts, own } = spent(|| (1..=ROUNDS).try_for_each(round))?;
            if wasted + interrupts > 0 || own > 2 * ROUNDS + 8 + task::processors().count() as u64 {
                noisy.push((batch, wasted, interrupts, own));
            }
        }
        holds!(
            2 * noisy.len() <= BATCHES,
            "of {BATCHES} batches these, which wasted, was interrupted and took: {noisy:?}"
        );
        part(there, back, &other)
    })
}

/// Another task that answers at one post what it gets at the other.
fn partner() -> Result<(Post, Post, Child), String> {
    let (there, back) = (post()?, post()?);
    there.allow(&everybody(Rights::READ)).map_err(doing("allow"))?;
    back.allow(&everybody(Rights::CALL)).map_err(doing("allow"))?;
    let words = ["check", "as", "post-echo", &format!("{}", there.0), &format!("{}", back.0)];
    let other = Command::new(b"bin/check").args(words).spawn().map_err(doing("the other task"))?;
    // Whose answers these are, as long as the posts are there: by the short way as by the long one.
    let me = task::identity();
    for _ in 0..3 {
        let got = there.send_and_receive(1, [1; 6], back, FOR_EVER).map_err(doing("the first rounds"))?;
        let text = task::threads().find(|one| one.thread == got.thread && one.task == other.task).map(|one| one.text);
        same!((got.task, got.user, got.node, Some(got.text)), (other.task, me.user, me.node, text), "who answers");
    }
    Ok((there, back, other))
}

/// There and back; by which thread.
fn round(there: Post, back: Post, other: &Child, n: u64) -> Result<u64, String> {
    let got = there.send_and_receive(1, [n; 6], back, FOR_EVER).map_err(doing("a round"))?;
    same!((got.words[0], got.task), (n + 1, other.task), "round {n}, and whose answer it is");
    Ok(got.thread)
}

fn part(there: Post, back: Post, other: &Child) -> Outcome {
    there.send(0, [0; 6], None).map_err(doing("the last one"))?;
    same!(other.wait().map(|exit| exit.code), Ok(0), "how the other task ended");
    same!(there.free(true).and_then(|()| back.free(true)), Ok(()), "freeing");
    Ok(())
}

/// What the trace has of a round is the published steps without the collision: A asks the kernel to send and receive (2, 3), B has the
/// processor and leaves the kernel (4, 6, 7), and the same from B to A (9, 12, 13). Between them nobody is woken, and no other processor does
/// anything at all (5, 8, 10, 11).
fn step_by_step() -> Outcome {
    let (there, back, other) = partner()?;
    let mut found = Ok(());
    let tries = if time::ticks_are_instructions() { TRIES_OF_ANOTHER } else { TRIES };
    for _ in 0..tries {
        let traced = trace::on().map_err(doing("tracing"))?;
        let events = traced_rounds(&traced, there, back, &other);
        trace::off().map_err(doing("tracing no more"))?;
        let (events, b) = events?;
        found = steps(&events, task::identity().thread, b);
        if found.is_ok() {
            break;
        }
    }
    found.map_err(|why| format!("in {tries} tries there was always something else; in the last one {why}"))?;
    part(there, back, &other)
}

/// Rounds that are looked at one by one.
const STEPS: u64 = 20;

/// What is recorded of so many rounds, by processor, and with whom they were played.
fn traced_rounds(traced: &Trace, there: Post, back: Post, other: &Child) -> Result<(Vec<(usize, Event)>, u64), String> {
    // A plain message wakes whoever is idle; from then on it is handed over.
    let b = round(there, back, other, 0)?;
    let mut readers = traced.from_now();
    (1..=STEPS).try_for_each(|n| round(there, back, other, n).map(drop))?;
    let all = readers.iter_mut().enumerate();
    let events =
        all.flat_map(|(processor, reader)| core::iter::from_fn(|| reader.take()).map(move |event| (processor, event)));
    Ok((events.collect(), b))
}

/// Whether the events are those of rounds between thread `a` and thread `b`, and nothing else.
fn steps(events: &[(usize, Event)], a: u64, b: u64) -> Outcome {
    let call = number("post_call");
    let is_a_call = |(_, e): &(usize, Event)| e.kind == kind::ENTER && e.handler == call;
    let from = events.iter().position(is_a_call).ok_or("nobody sends")?;
    let to = events.iter().rposition(|(_, e)| e.kind == kind::LEAVE && e.thread == a).ok_or("nobody comes back")?;
    let (first, last) = (events[from], events[to]);
    let elsewhere =
        |(processor, e): &&(usize, Event)| *processor != first.0 && (first.1.time..=last.1.time).contains(&e.time);
    if let Some((processor, event)) = events.iter().find(elsewhere) {
        return Err(format!("processor {processor} did {event:?}"));
    }
    let here: Vec<&Event> = events.iter().filter(|one| one.0 == first.0).map(|one| &one.1).collect();
    let mut here = here.into_iter().skip_while(|e| !(e.kind == kind::ENTER && e.handler == call));
    for n in 0..2 * STEPS {
        let (from, to) = if n % 2 == 0 { (a, b) } else { (b, a) };
        let wanted: [(&str, &dyn Fn(&Event) -> bool); 4] = [
            ("enters", &|e| e.kind == kind::ENTER && e.handler == call && e.thread == from),
            ("hands over", &|e| e.kind == kind::HAND_OVER && e.thread == from && e.a == to),
            ("switches", &|e| e.kind == kind::SWITCH && (e.thread, e.a, e.b) == (to, from, 0)),
            ("leaves", &|e| e.kind == kind::LEAVE && e.thread == to),
        ];
        for (what, is_it) in wanted {
            let event = here.next();
            holds!(event.is_some_and(is_it), "in message {n} nobody {what}, but {event:?}");
        }
    }
    Ok(())
}

/// So often at most is a batch done again; where instructions are counted and a third thread has run (`files` looks twice a second
/// whether those who have something open still live), which may take two.
const TRIES: usize = 40;
const TRIES_OF_ANOTHER: usize = 4;
