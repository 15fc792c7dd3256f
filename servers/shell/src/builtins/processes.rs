//! Tasks and threads.

use super::table::{Table, bytes, time as duration};
use super::{misused, number, text};
use crate::io::Io;
use crate::pipeline;
use crate::say;
use crate::shell::{Command, Shell};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::Error;
use musubi::abi::layout::PAGE;
use musubi::abi::task::state;
use musubi::rt::{task, time as clock};
use musubi::why;

pub fn ps(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    match words {
        [_] => tasks(io),
        [_, word] if word == b"-t" => threads(io),
        _ => return misused(words, io),
    }
    0
}

fn tasks(io: &mut Io) {
    let mut table = Table::new(
        &["task", "parent", "user", "threads", "sections", "memory", "time", "name"],
        &[0, 1, 2, 3, 4, 5, 6],
    );
    for t in task::list() {
        let name = musubi::ended::text(&t.name);
        let name = if t.foreign != 0 { format!("{name} (Linux)") } else { name };
        table.row([
            format!("{}", t.task),
            format!("{}", t.parent),
            format!("{}", t.user),
            format!("{}", t.threads),
            format!("{}", t.used.sections),
            bytes(t.used.frames * PAGE),
            duration(t.time),
            name,
        ]);
    }
    table.print(io);
}

fn threads(io: &mut Io) {
    let mut table =
        Table::new(&["thread", "task", "state", "processor", "depth", "faults", "time", "text"], &[0, 1, 3, 4, 5, 6]);
    for t in task::threads() {
        let how = match t.state {
            state::READY => "ready",
            state::RUNNING => "running",
            state::WAITING => "waiting",
            _ => "ended",
        };
        let name = musubi::ended::section_name(t.text).unwrap_or_default();
        table.row([
            format!("{}", t.thread),
            format!("{}", t.task),
            how.into(),
            format!("{}", t.processor),
            format!("{}", t.depth),
            format!("{}", t.faults),
            duration(t.time),
            format!("{:#x} {name}", t.text),
        ]);
    }
    table.print(io);
}

pub fn jobs(shell: &mut Shell, _: &[Vec<u8>], io: &mut Io) -> i32 {
    shell.report_jobs();
    for job in &shell.jobs {
        let tasks: Vec<String> = job.running.tasks().map(|t| format!("{t}")).collect();
        say!(io, "[{}] {} (task {})", job.number, job.line, tasks.join(" "));
    }
    0
}

/// How long `kill` waits for those it has killed. Inside another program a thread has a second.
const PATIENCE_NS: u64 = 2_000_000_000;

pub fn kill(shell: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    if words.len() < 2 {
        return misused(words, io);
    }
    let mut status = 0;
    let mut killed = Vec::new();
    for word in &words[1..] {
        let tasks: Vec<u64> = match word.strip_prefix(b"%") {
            Some(job) => {
                let job = number(job).and_then(|n| shell.jobs.iter().find(|j| j.number as u64 == n));
                job.map(|j| j.running.tasks().collect()).unwrap_or_default()
            }
            None => number(word).into_iter().collect(),
        };
        if tasks.is_empty() {
            io.complain("kill", format_args!("{}: no such task or job", text(word)));
            status = 1;
        }
        for t in tasks {
            match task::kill(t) {
                Ok(()) => killed.push(t),
                Err(e) => {
                    io.complain("kill", format_args!("{t}: {}", why(e)));
                    status = 1;
                }
            }
        }
    }
    let until = clock::now_ns() + PATIENCE_NS;
    for t in killed {
        if !has_ended(shell, t, until.saturating_sub(clock::now_ns())) {
            io.complain("kill", format_args!("{t}: is still ending"));
        }
    }
    status
}

/// Waits for the end of a task that was killed. The shell's own programs are waited for where they are noted.
fn has_ended(shell: &mut Shell, t: u64, timeout_ns: u64) -> bool {
    let own = shell.jobs.iter_mut().find_map(|job| job.running.await_task(t, timeout_ns));
    own.unwrap_or_else(|| !matches!(task::wait(t, timeout_ns), Err(Error::TimedOut)))
}

pub fn limit(shell: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    let mut limits = shell.limits;
    let mut rest = &words[1..];
    while let Some((word, others)) = rest.split_first()
        && let Some((name, value)) = text(word).split_once('=')
    {
        let field = match name {
            "frames" => &mut limits.frames,
            "sections" => &mut limits.sections,
            "reserve" => &mut limits.reserve,
            "threads" => &mut limits.threads,
            _ => return misused(words, io),
        };
        let Some(value) = number(value.as_bytes()) else { return misused(words, io) };
        *field = value;
        rest = others;
    }
    if rest.is_empty() {
        return misused(words, io);
    }
    let before = core::mem::replace(&mut shell.limits, limits);
    let status = pipeline::run(shell, &[Command::of(rest)]);
    shell.limits = before;
    status
}

pub fn time(shell: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    if words.len() < 2 {
        return misused(words, io);
    }
    let (began, ticks) = (clock::now_ns(), clock::ticks());
    let status = pipeline::run(shell, &[Command::of(&words[1..])]);
    let (ns, ticks) = (clock::now_ns() - began, clock::ticks() - ticks);
    let line = format!("{} ({ticks} ticks of the processor)\n", duration(ns));
    let _ = io.errors.write_all(line.as_bytes());
    status
}
