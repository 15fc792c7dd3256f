//! What has happened on each processor, in order of time (docs/book/trace.md).

use super::table::Table;
use super::{misused, number, text};
use crate::io::Io;
use crate::say;
use crate::shell::Shell;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use musubi::abi::sched::event;
use musubi::abi::trace::{Event, Handler, kind};
use musubi::command::Command;
use musubi::trace::Record;
use musubi::{Error, ended, trace, why};

/// Begins each line of `--lines`, which are between whatever else is printed: see host/timeline.
const LINE: &str = "\u{1d}trace";
/// Events that `show` shows unless it is told how many.
const SHOWN: u64 = 40;

pub fn trace(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    let rest: Vec<&str> = words[1..].iter().map(|word| text(word)).collect();
    let done = match rest.as_slice() {
        ["on"] => trace::on().map(|_| 0),
        // (It can still be shown.)
        ["off"] => trace::pause().map(|()| 0),
        ["show"] => show(SHOWN, io),
        ["show", count] => match number(count.as_bytes()) {
            Some(count) => show(count, io),
            None => return misused(words, io),
        },
        ["handlers"] => trace::look().map(|trace| handlers(&trace, io)),
        ["--", _, ..] => during(&words[2..], false, io),
        ["--lines", "--", _, ..] => during(&words[3..], true, io),
        _ => return misused(words, io),
    };
    done.unwrap_or_else(|error| {
        match error {
            Error::NotFound => io.complain("trace", format_args!("it has not been on since boot: trace on")),
            error if error.refusal().is_some() => {
                io.complain("trace", format_args!("only who has switched it on may read it: trace on"));
            }
            error => io.complain("trace", format_args!("{}", why(error))),
        }
        1
    })
}

fn show(count: u64, io: &mut Io) -> Result<i32, Error> {
    let record = Record::of(&trace::look()?);
    let from = record.events.len().saturating_sub(usize::try_from(count).unwrap_or(usize::MAX));
    list(&record, from, io);
    Ok(0)
}

fn during(words: &[Vec<u8>], lines: bool, io: &mut Io) -> Result<i32, Error> {
    let (outcome, record, trace) = trace::during(|| run(words, io))?;
    if lines {
        print_lines(&record, io);
    } else {
        list(&record, 0, io);
        handlers(&trace, io);
    }
    Ok(outcome.unwrap_or_else(|why| {
        io.complain("trace", format_args!("{why}"));
        126
    }))
}

/// One word is a command line, several are a command: a program, or one that is built in, which another shell runs.
fn run(words: &[Vec<u8>], io: &Io) -> Result<i32, String> {
    let program = if words.len() > 1 || !words[0].contains(&b' ') { crate::shell::find(&words[0]) } else { None };
    let how = if words.len() == 1 { &b"-c"[..] } else { b"-w" };
    let mut command = match &program {
        Some(path) => Command::new(path).args(words),
        None => {
            let line = [&b"shell"[..], how].into_iter().chain(words.iter().map(Vec::as_slice));
            Command::new(b"bin/shell").args(line)
        }
    };
    for (i, stream) in io.streams().into_iter().enumerate() {
        command = command.stream(i, stream);
    }
    let child = command.spawn().map_err(|refused| format!("{}: cannot be run: {refused}", text(&words[0])))?;
    let how = child.wait().map_err(|e| why(e).to_string())?;
    let said = ended::describe(&how, ended::section_name);
    if !said.is_empty() {
        io.complain("trace", format_args!("{said}"));
    }
    Ok(ended::status(&how))
}

/// The events from this one on, for people.
fn list(record: &Record, from: usize, io: &mut Io) {
    let mut table = Table::new(&["us", "cpu", "thread", "task", "in", "what", ""], &[0, 1, 2]);
    let began = record.events.first().map_or(0, |(_, event)| event.time);
    for (processor, event) in &record.events[from.min(record.events.len())..] {
        let ns = event.time - began;
        let task = if event.task == 0 { String::from("-") } else { record.name(event.task) };
        table.row([
            format!("{}.{:03}", ns / 1000, ns % 1000),
            format!("{processor}"),
            format!("{}", event.thread),
            task,
            format!("{}", Handler(event.handler)),
            event.name().into(),
            detail(record, event),
        ]);
    }
    table.print(io);
    say!(io, "{} events, {} lost", record.events.len(), record.lost);
}

/// What `a` and `b` of an event say.
fn detail(record: &Record, event: &Event) -> String {
    let Event { a, b, .. } = *event;
    match event.kind {
        kind::ENTER => format!("{a:#x} at {b:#x}"),
        kind::LEAVE => format!("{a} ticks"),
        kind::SWITCH if b == 0 => format!("from {a}, handed over"),
        kind::SWITCH => format!("from {a}"),
        kind::WAKE | kind::HAND_OVER => format!("thread {a}"),
        kind::CALL | kind::RETURN => {
            format!("{} (depth {b})", record.text(a))
        }
        kind::PAGER | kind::PAGED => format!("section {a:#x}, offset {b:#x}"),
        kind::SHOOTDOWN => format!("processors {a:#b}"),
        kind::SCHED => format!("{}, thread {b}", event::WORDS.get(a as usize).unwrap_or(&"?")),
        kind::INTERRUPT => format!("vector {a:#x}"),
        kind::THREAD => format!("thread {a} of {}", record.name(b)),
        kind::THREAD_END => format!("thread {a}, code {b}"),
        kind::TASK => format!("task {}", event.task),
        kind::TASK_END => format!("{} ({a})", record.name(a)),
        _ => String::new(),
    }
}

fn handlers(trace: &musubi::rt::trace::Trace, io: &mut Io) -> i32 {
    let mut table = Table::new(&["way in", "times", "longest, ticks"], &[1, 2]);
    let mut all: Vec<_> = trace.handlers().collect();
    all.sort_by_key(|(_, longest, _)| core::cmp::Reverse(*longest));
    for (handler, longest, times) in all {
        table.row([format!("{}", Handler(handler)), format!("{times}"), format!("{longest}")]);
    }
    table.print(io);
    0
}

/// For programs: names of tasks, events, how many were lost.
fn print_lines(record: &Record, io: &Io) {
    let mut out = String::new();
    for (task, name) in &record.tasks {
        out.push_str(&format!("{LINE} task {task} {name}\n"));
    }
    for (processor, e) in &record.events {
        let Event { time, kind, handler, thread, task, text, a, b } = e;
        out.push_str(&format!("{LINE} event {processor} {time} {kind} {handler} {thread} {task} {text} {a} {b}\n"));
        if out.len() > 1 << 15 {
            let _ = io.errors.write_all(core::mem::take(&mut out).as_bytes());
        }
    }
    out.push_str(&format!("{LINE} lost {}\n", record.lost));
    let _ = io.errors.write_all(out.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_told_in_words() {
        let record = Record { tasks: Vec::from([(3, "echo".to_string())]), ..Record::default() };
        let event = |kind, a, b| Event { kind, a, b, ..Event::default() };
        assert_eq!(detail(&record, &event(kind::TASK_END, 3, 0)), "echo (3)");
        assert_eq!(detail(&record, &event(kind::SWITCH, 7, 0)), "from 7, handed over");
        assert_eq!(detail(&record, &event(kind::SHOOTDOWN, 5, 0)), "processors 0b101");
    }
}
