//! The trace: what it says of a request, of a fault that a pager deals with and of a program's life; what is lost is counted; off means
//! that nothing is written; and strangers neither read it nor switch it (SSS-24).

use crate::pagers::{Does, paged, read};
use crate::refusals::refused;
use crate::report::{Check, Outcome, doing};
use crate::{holds, same};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::Rights;
use musubi::abi::calls::{number, stub};
use musubi::abi::layout::PAGE;
use musubi::abi::refusal::Object;
use musubi::abi::trace::{Event, RECORDS, handler, kind};
use musubi::command::Command;
use musubi::rt::post::{self, FOR_EVER, Post};
use musubi::rt::trace::Trace;
use musubi::rt::{Trap, info, probe, section, task, thread, time};
use musubi::trace::{self, Record};

pub const CHECKS: &[Check] = &[
    ("a_request_in_order", request),
    ("a_pagers_fault_in_order", pager),
    ("a_program_is_followed", program),
    ("every_processor_in_order", in_order),
    ("lost_events_are_counted", lost),
    ("off_means_nothing_is_written", off),
    ("strangers_neither_read_nor_switch_it", strangers),
    ("handlers_are_measured", handlers),
];

const PAGE_FAULT: u64 = handler::EXCEPTION + 14;

/// What was recorded while this was done, in order of time.
fn during<T>(what: impl FnOnce() -> Result<T, String>) -> Result<(T, Record, Trace), String> {
    let (done, record, seen) = trace::during(what).map_err(doing("tracing"))?;
    Ok((done?, record, seen))
}

/// Fails unless there are such events in this order, others between them or not.
fn holds_in_order(record: &Record, wanted: &[(&str, &dyn Fn(&Event) -> bool)]) -> Outcome {
    let mut at = 0;
    for (what, is_it) in wanted {
        let found = record.events[at..].iter().position(|(_, event)| is_it(event));
        let Some(found) = found else {
            let from: Vec<_> = record.events[at..].iter().take(12).map(|(_, event)| *event).collect();
            return Err(format!("no {what} after event {at} of {}; there came {from:?}", record.events.len()));
        };
        at += found + 1;
    }
    Ok(())
}

/// SSS-M: a question goes to who waits for it, which gets the processor, answers, and hands it back.
fn request() -> Outcome {
    let there = Post::any().map_err(doing("post"))?;
    let serves = move || {
        let Ok(mut question) = there.receive(FOR_EVER) else { return };
        while question.op != 0 {
            let Ok(next) = post::answer_and_receive(question.back, 2, question.words, there, FOR_EVER) else { return };
            question = next;
        }
        let _ = post::answer(question.back, 2, question.words);
    };
    let server = thread::spawn(serves, 0).map_err(doing("thread"))?;
    let (me, other) = (task::identity().thread, server.number());
    there.ask(1, [0; 6], FOR_EVER).map_err(doing("the first question"))?;
    let ((), record, _) =
        during(|| (0..3).try_for_each(|n| there.ask(1, [n; 6], FOR_EVER).map(drop).map_err(doing("asking"))))?;
    there.ask(0, [0; 6], FOR_EVER).map_err(doing("the last question"))?;
    server.join().map_err(doing("join"))?;
    there.free(true).map_err(doing("free"))?;
    let (call, answer) = (number("post_call"), number("post_answer"));
    let enters = |who, by| move |e: &Event| e.kind == kind::ENTER && e.thread == who && e.handler == by;
    let hands = |who, to| move |e: &Event| e.kind == kind::HAND_OVER && e.thread == who && e.a == to;
    let switches = |from, to| move |e: &Event| e.kind == kind::SWITCH && e.thread == to && e.a == from && e.b == 0;
    let leaves = |who| move |e: &Event| e.kind == kind::LEAVE && e.thread == who;
    for _ in 0..3 {
        holds_in_order(
            &record,
            &[
                ("question", &enters(me, call)),
                ("hand-over", &hands(me, other)),
                ("switch", &switches(me, other)),
                ("way out of the server", &leaves(other)),
                ("answer", &enters(other, answer)),
                ("hand-over back", &hands(other, me)),
                ("switch back", &switches(other, me)),
                ("way out", &leaves(me)),
            ],
        )?;
    }
    let questions = record.events.iter().filter(|(_, event)| enters(me, call)(event)).count();
    holds!(questions >= 3, "{questions} questions were seen");
    Ok(())
}

/// The fault, the call of the pager, its return, and the access once more: without another fault.
fn pager() -> Outcome {
    let (pages, own) = paged(2, Does::Validate, 0)?;
    let at = pages.base() + PAGE;
    section::invalidate(at, PAGE).map_err(doing("invalidate"))?;
    own.calls();
    let (value, record, _) = during(|| Ok(read(at)))?;
    same!((value, own.calls()), (Some(2), 1), "what was read, and how often the pager was asked");
    let me = task::identity().thread;
    let faults = |e: &Event| e.kind == kind::ENTER && e.thread == me && e.handler == PAGE_FAULT && e.a == at;
    let of_pager = |wanted| move |e: &Event| e.kind == wanted && e.thread == me && (e.a, e.b) == (pages_base(at), PAGE);
    let validates = |e: &Event| e.kind == kind::ENTER && e.thread == me && e.handler == number("page_validate");
    let leaves = |e: &Event| e.kind == kind::LEAVE && e.thread == me;
    holds_in_order(
        &record,
        &[
            ("fault", &faults),
            ("call of the pager", &of_pager(kind::PAGER)),
            ("way out to it", &leaves),
            ("validation", &validates),
            ("return of the pager", &of_pager(kind::PAGED)),
            ("way out to the access", &leaves),
        ],
    )?;
    let count = record.events.iter().filter(|(_, event)| faults(event)).count();
    same!(count, 1, "faults at that address");
    pages.delete().map_err(doing("delete"))
}

fn pages_base(at: u64) -> u64 {
    at - PAGE
}

fn program() -> Outcome {
    let (ended, record, _) = during(|| {
        let child = Command::new(b"bin/check").args(["check", "as", "status", "7"]).spawn().map_err(doing("start"))?;
        let task = child.task;
        child.wait().map(|exit| (task, exit.code)).map_err(doing("wait"))
    })?;
    let (task, code) = ended;
    same!(code, 7, "how it ended");
    same!(record.lost, 0, "events lost");
    let thread = record.events.iter().find(|(_, e)| e.kind == kind::THREAD && e.b == task).map_or(0, |(_, e)| e.a);
    holds_in_order(
        &record,
        &[
            ("task", &|e: &Event| e.kind == kind::TASK && e.task == task),
            ("thread", &|e: &Event| e.kind == kind::THREAD && (e.a, e.b) == (thread, task)),
            ("switch to it", &|e: &Event| e.kind == kind::SWITCH && e.thread == thread && e.task == task),
            ("first way out", &|e: &Event| e.kind == kind::LEAVE && e.thread == thread),
            ("its end", &|e: &Event| e.kind == kind::THREAD_END && e.a == thread),
            ("the task's end", &|e: &Event| e.kind == kind::TASK_END && e.a == task),
        ],
    )?;
    same!(record.name(task), "check", "its name, though it has ended");
    Ok(())
}

/// On each processor time does not go back, who leaves is who runs, and the kernel is entered before it is left.
fn in_order() -> Outcome {
    let busy = || {
        let body = |n: usize| {
            for i in 0..200_u64 {
                match (n as u64 + i) % 3 {
                    0 => time::sleep_ns(0),
                    1 => time::sleep_ns(10_000),
                    _ => drop(task::memory()),
                }
            }
        };
        thread::together(4, body).map_err(doing("threads"))
    };
    let ((), record, seen) = during(busy)?;
    let processors = task::processors().count();
    let all: BTreeSet<usize> = record.events.iter().map(|(processor, _)| *processor).collect();
    holds!(all.iter().all(|one| *one < processors) && !all.is_empty(), "processors {all:?}");
    for processor in all {
        let own: Vec<&Event> = record.events.iter().filter(|one| one.0 == processor).map(|one| &one.1).collect();
        let mut inside = None;
        for pair in own.windows(2) {
            holds!(pair[0].time <= pair[1].time, "{:?} is before {:?}", pair[1], pair[0]);
        }
        for event in own {
            match event.kind {
                kind::ENTER => {
                    holds!(inside != Some(true) || record.lost > 0, "entered twice: {event:?}");
                    inside = Some(true);
                }
                kind::LEAVE => {
                    holds!(inside != Some(false) || record.lost > 0, "left twice: {event:?}");
                    holds!(event.thread != 0 && event.task != 0, "nobody leaves: {event:?}");
                    inside = Some(false);
                }
                _ => {}
            }
        }
    }
    holds!((0..processors).all(|one| !seen.is_on(one)), "it is still on");
    Ok(())
}

/// How many records each processor has written.
fn heads(seen: &Trace) -> Vec<u64> {
    seen.written().collect()
}

/// What was written between is either read or counted, to the last one.
fn lost() -> Outcome {
    let seen = trace::on().map_err(doing("on"))?;
    let before = heads(&seen);
    let mut readers = seen.from_now();
    let first: u64 = before.iter().zip(&heads(&seen)).map(|(before, now)| now - before).sum();
    while heads(&seen).iter().zip(&before).all(|(now, before)| now - before < 2 * RECORDS + first) {
        time::sleep_ns(0);
    }
    trace::pause().map_err(doing("pause"))?;
    // Who was writing is done.
    time::sleep_ns(2_000_000);
    let after = heads(&seen);
    let mut all_lost = 0;
    for (processor, reader) in readers.iter_mut().enumerate() {
        let read = core::iter::from_fn(|| reader.take()).count() as u64;
        all_lost += reader.lost();
        holds!(read <= RECORDS, "{read} were read of {RECORDS}");
        let written = after[processor] - before[processor];
        holds!(read + reader.lost() <= written, "{read} read and {} lost of {written}", reader.lost());
        // (It was made a moment after `before` was looked at.)
        holds!(read + reader.lost() + first + 64 >= written, "{read} read and {} lost of {written}", reader.lost());
    }
    holds!(all_lost > RECORDS / 2, "{all_lost} were lost");
    trace::off().map_err(doing("off"))
}

fn off() -> Outcome {
    let seen = trace::on().map_err(doing("on"))?;
    holds!((0..task::processors().count()).all(|one| seen.is_on(one)), "it is not on");
    let begun = heads(&seen);
    time::sleep_ns(0);
    holds!(heads(&seen) > begun, "nothing is written while it is on");
    trace::pause().map_err(doing("pause"))?;
    time::sleep_ns(2_000_000);
    let (before, times) = (heads(&seen), seen.handlers().collect::<Vec<_>>());
    for _ in 0..1000 {
        time::sleep_ns(0);
    }
    let body = || time::sleep_ns(1_000_000);
    thread::spawn(body, 0).and_then(|one| one.join()).map_err(doing("a thread"))?;
    let child = Command::new(b"bin/check").args(["check", "as", "status", "0"]).spawn().map_err(doing("start"))?;
    child.wait().map_err(doing("wait"))?;
    same!(heads(&seen), before, "records written while it is off");
    same!(seen.handlers().collect::<Vec<_>>(), times, "times measured while it is off");
    trace::off().map_err(doing("off"))
}

/// It tells about everybody's threads: the system and the person at the machine switch it, and only the text that asked for it reads.
fn strangers() -> Outcome {
    // Another program of the same person has it on.
    let shell = Command::new(b"bin/shell").args(["shell", "-c", "trace on"]).spawn().map_err(doing("start"))?;
    same!(shell.wait().map(|exit| exit.code), Ok(0), "trace on");
    let base = section::list().find(|one| one.name.starts_with(b"trace\0")).map_or(0, |one| one.base);
    holds!(base != 0, "no section of that name");
    holds!(!section::may(base, 8, Rights::READ, section::Who::Own), "a stranger may read it");
    holds!(!section::may(base, 8, Rights::WRITE, section::Who::Own), "a stranger may write it");
    let child = Command::new(b"bin/check").args(["check", "as", "peek", &format!("{base}")]).spawn();
    let ended = child.and_then(|child| Ok(child.wait().map(|exit| exit.cause))).map_err(doing("a stranger"))?;
    same!(ended, Ok(musubi::abi::task::cause::DENIED), "how a stranger that reads it ends");
    for what in [0, 1] {
        refused(stub::trace_set(&Trap, 0, what), Object::System, "switching it without the system")?;
    }
    // The info section says where it is, and nobody is asked: who has not switched it on may not read it.
    same!(info::all().map(|all| all.machine().trace), Ok(base), "where it is, as everybody is told");
    let hidden = Object::Section(base, Rights::READ);
    refused(trace::look(), hidden, "a look at what another program has switched on")?;
    // Who asks may read, not write, until it says that it is done.
    let seen = trace::on().map_err(doing("on"))?;
    holds!(seen.is_on(0), "it is not on");
    trace::pause().map_err(doing("pause"))?;
    let paused = trace::look().map_err(doing("look"))?;
    holds!(!paused.is_on(0) && paused.written().sum::<u64>() > 0, "what was recorded is not read when it is off");
    let _ = probe::read(base);
    holds!(!section::may(base, 8, Rights::WRITE, section::Who::Own), "a reader may write it");
    same!(section::grant(base, &crate::sections::everybody(Rights::READ)).is_err(), true, "a reader lets others read");
    trace::off().map_err(doing("off"))?;
    holds!(!section::may(base, 8, Rights::READ, section::Who::Own), "it may still read it");
    Ok(())
}

fn handlers() -> Outcome {
    let ((), _, seen) = during(|| {
        (0..10).for_each(|_| time::sleep_ns(0));
        (0..10).for_each(|_| _ = task::own());
        Ok(())
    })?;
    for name in ["sleep", "get_taskid_light"] {
        let found = seen.handlers().find(|(handler, ..)| *handler == number(name));
        holds!(
            found.is_some_and(|(_, longest, times)| longest > 0 && times >= 10),
            "{name}: {found:?} (longest, and how often)"
        );
    }
    Ok(())
}
