//! Tasks and threads.

use super::known::{Known, name, times};
use super::table::{Table, bytes, time as duration};
use super::{misused, number, sections, text};
use crate::io::Io;
use crate::say;
use crate::shell::{Job, Shell};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::Error;
use musubi::abi::layout::PAGE;
use musubi::abi::section::{class, kind};
use musubi::abi::task::{Limits, state};
use musubi::processes::{self, ProcessInfo};
use musubi::rt::{task, time as clock};
use musubi::stream::Stream;
use musubi::why;

pub fn ps(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    let show = match words {
        [_] => tasks,
        [_, word] if word == b"-t" => threads,
        [_, word] if word == b"-g" => groups,
        _ => return misused(words, io),
    };
    let shown = Known::look().and_then(|known| {
        show(&known, io)?;
        known.says_what_is_missing(io);
        Ok(())
    });
    match shown {
        Ok(()) => 0,
        Err(e) => {
            io.complain("ps", format_args!("{}", why(e)));
            1
        }
    }
}

/// What is not told of other users' tasks.
fn or_hidden(what: Option<String>) -> String {
    what.unwrap_or_else(|| String::from("-"))
}

/// What the kernel knows of tasks: who has started which, and in which group, only the process server does ([`groups`]).
fn tasks(known: &Known, io: &mut Io) -> Result<(), Error> {
    let mut table = Table::new(
        &["task", "payer", "user", "threads", "sections", "memory", "time", "class", "name"],
        &[0, 1, 2, 3, 4, 5, 6],
    );
    let (all, own) = (known.tasks(), known.own_tasks());
    let times = times(&all, &known.threads(), &known.all);
    for t in &all {
        let own = own.get(&t.number);
        table.row([
            format!("{}", t.number),
            or_hidden((t.payer != 0).then(|| format!("{}", t.payer))),
            format!("{}", t.user),
            format!("{}", t.threads),
            or_hidden(own.map(|own| format!("{}", own.used[1]))),
            or_hidden(own.map(|own| bytes(own.used[0] * PAGE))),
            duration(times.get(&t.number).copied().unwrap_or(0)),
            class_word(t.class).into(),
            name(t, own),
        ]);
    }
    table.print(io);
    apart(known, io);
    for task in own.values().filter(|task| task.pager != 0) {
        say!(io, "task {} has a pager for its threads: {}", task.number, sections::asked(task.pager, task.asked));
    }
    Ok(())
}

/// Who has started which program, and which belong together, as the process server says.
fn groups(known: &Known, io: &mut Io) -> Result<(), Error> {
    let mut table = Table::new(&["task", "parent", "group", "user", "name"], &[0, 1, 2, 3]);
    let own = known.own_tasks();
    let processes = processes::list()?;
    for t in known.tasks() {
        // What the system has started for itself is no process.
        let Some(process) = processes.iter().find(|one| one.task == t.number) else { continue };
        let numbers = [t.number, process.parent, process.group, t.user].map(|number| format!("{number}"));
        let [task, parent, group, user] = numbers;
        table.row([task, parent, group, user, name(&t, own.get(&t.number))]);
    }
    table.print(io);
    Ok(())
}

/// The word of a class of texts (SSS-61).
pub(super) fn class_word(class: u64) -> &'static str {
    class::WORDS.get(class as usize).unwrap_or(&"?")
}

/// Programs that could write the key register, so that calls of theirs and into them go by the kernel, and where.
fn apart(known: &Known, io: &mut Io) {
    for text in known.sections().iter().filter(|one| one.kind & 0xff == kind::TEXT && one.unclear != 0) {
        let (task, base, page) = (text.owner, text.base, text.unclear);
        say!(
            io,
            "task {task} is called by the kernel: its text {base:#x} could write the key register, in the page at {page:#x}"
        );
    }
}

fn threads(known: &Known, io: &mut Io) -> Result<(), Error> {
    let mut table = Table::new(
        &["thread", "task", "state", "processor", "depth", "faults", "time", "class", "text"],
        &[0, 1, 3, 4, 5, 6],
    );
    let own = known.own_threads();
    for t in known.threads() {
        let how = match t.state {
            state::READY => "ready",
            state::RUNNING => "running",
            state::WAITING => "waiting",
            _ => "ended",
        };
        let own = own.get(&t.thread);
        table.row([
            format!("{}", t.thread),
            format!("{}", t.task),
            how.into(),
            format!("{}", t.processor),
            or_hidden(own.map(|own| format!("{}", own.depth))),
            format!("{}", t.faults),
            duration(t.time),
            or_hidden(own.map(|own| class_word(own.class).into())),
            or_hidden(own.map(|own| format!("{:#x} {}", own.text, known.section_name(own.text).unwrap_or_default()))),
        ]);
    }
    table.print(io);
    Ok(())
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

impl Shell {
    /// A job by what stands behind the `%`.
    fn job(&self, word: &[u8]) -> Option<&Job> {
        let number = number(word)?;
        self.jobs.iter().find(|job| job.number as u64 == number)
    }

    /// Its tasks that have not ended.
    pub fn tasks_of_job(&self, word: &[u8]) -> Vec<u64> {
        self.job(word).map(|job| job.running.tasks().collect()).unwrap_or_default()
    }
}

pub fn kill(shell: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    if words.len() < 2 {
        return misused(words, io);
    }
    let mut status = 0;
    let mut killed = Vec::new();
    let (mut jobs, mut jobs_of) = (Vec::new(), Vec::new());
    for word in &words[1..] {
        let tasks: Vec<u64> = match word.strip_prefix(b"%") {
            Some(job) => {
                jobs_of.extend(shell.job(job).map(|j| j.number));
                shell.tasks_of_job(job)
            }
            None => number(word).into_iter().collect(),
        };
        if tasks.is_empty() {
            io.complain("kill", format_args!("{}: no such task or job", text(word)));
            status = 1;
        }
        let is_job = word.starts_with(b"%");
        if is_job {
            jobs.extend(&tasks);
        }
        status |= end(&tasks, is_job, &mut killed, io);
    }
    // With whatever else is in their groups.
    shell.jobs.iter().filter(|job| jobs_of.contains(&job.number)).for_each(|job| job.running.end_groups());
    await_ends(shell, &killed, io);
    status | end_children(shell, jobs, io)
}

/// Ends what these tasks have started, and what that has started. They have ended themselves, so they start no more.
pub fn end_children(shell: &mut Shell, mut parents: Vec<u64>, io: &Io) -> i32 {
    let mut status = 0;
    loop {
        let theirs = |t: &&ProcessInfo| t.over == 0 && parents.contains(&t.parent) && !parents.contains(&t.task);
        let all = processes::list().unwrap_or_default();
        let children: Vec<u64> = all.iter().filter(theirs).map(|t| t.task).collect();
        if children.is_empty() {
            return status;
        }
        let mut killed = Vec::new();
        status |= end(&children, true, &mut killed, io);
        await_ends(shell, &killed, io);
        parents.extend(children);
    }
}

fn await_ends(shell: &mut Shell, killed: &[u64], io: &Io) {
    let until = clock::now_ns() + PATIENCE_NS;
    for &t in killed {
        if !has_ended(shell, t, until.saturating_sub(clock::now_ns())) {
            io.complain("kill", format_args!("{t}: is still ending"));
        }
    }
}

/// Kills tasks, and notes which. Those that were there just now may have ended by themselves: the others of a pipe mostly do when one is
/// killed. Value: a status.
fn end(tasks: &[u64], were_there: bool, killed: &mut Vec<u64>, io: &Io) -> i32 {
    let mut status = 0;
    for &t in tasks {
        match task::kill(t) {
            Ok(()) => killed.push(t),
            Err(Error::NotFound) if were_there => killed.push(t),
            Err(e) => {
                io.complain("kill", format_args!("{t}: {}", why(e)));
                status = 1;
            }
        }
    }
    status
}

/// Waits for the end of a task that was killed. The shell's own programs are waited for where they are noted.
fn has_ended(shell: &mut Shell, t: u64, timeout_ns: u64) -> bool {
    let own = shell.jobs.iter_mut().find_map(|job| job.running.await_task(t, timeout_ns));
    own.unwrap_or_else(|| !matches!(processes::wait(t, timeout_ns), Err(Error::TimedOut)))
}

/// Reads limits before a command. Value: the command.
///
/// # Errors
/// What is wrong, if it is more than that nothing was said.
pub fn limited<'a>(words: &'a [Vec<u8>], limits: &mut Limits) -> Result<&'a [Vec<u8>], String> {
    let mut rest = words;
    while let Some((word, others)) = rest.split_first()
        && let Some((name, value)) = text(word).split_once('=')
    {
        let field = match name {
            "frames" => &mut limits.frames,
            "sections" => &mut limits.sections,
            "reserve" => &mut limits.reserve,
            "threads" => &mut limits.threads,
            _ => return Err(format!("{name}: cannot be limited")),
        };
        *field = match number(value.as_bytes()) {
            // To the kernel it means as much as its parent may have.
            Some(0) => return Err(format!("{name}=0: a program needs at least 1")),
            Some(value) => value,
            None => return Err(format!("{name}={value}: not a number")),
        };
        rest = others;
    }
    if rest.is_empty() { Err("no command".into()) } else { Ok(rest) }
}

/// What a program may use, and uses.
pub fn quota(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    let Some(task) = words.get(1).and_then(|word| number(word)) else { return misused(words, io) };
    let mut limits = Limits::default();
    // `limit` reads the same words before a command.
    let asked: Vec<Vec<u8>> = words[2..].iter().cloned().chain([b"-".to_vec()]).collect();
    match limited(&asked, &mut limits) {
        Ok([_]) => {}
        Ok(_) => return misused(words, io),
        Err(wrong) => {
            io.complain("quota", format_args!("{wrong}"));
            return 2;
        }
    }
    if words.len() > 2
        && let Err(e) = processes::limit(task, &limits)
    {
        io.complain("quota", format_args!("{task}: {}", why(e)));
        return 1;
    }
    let Some(info) = task::info(task) else {
        io.complain("quota", format_args!("{task}: no such task"));
        return 1;
    };
    let mut table = Table::new(&["", "used", "limit"], &[1, 2]);
    let (used, most) = (info.used, info.limits);
    table.row(["frames".into(), format!("{}", used.frames), format!("{}", most.frames)]);
    table.row(["sections".into(), format!("{}", used.sections), format!("{}", most.sections)]);
    table.row(["reserve".into(), bytes(used.reserve), bytes(most.reserve)]);
    table.row(["threads".into(), format!("{}", used.threads), format!("{}", most.threads)]);
    table.print(io);
    0
}

/// What can be run is run without it (`Command::inner`); this says why it cannot.
pub fn limit(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    if let Err(why) = limited(&words[1..], &mut Limits::default()) {
        io.complain("limit", format_args!("{why}"));
    }
    misused(words, io)
}

/// As `limit`.
pub fn time(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    misused(words, io)
}

/// How long something takes.
pub struct Timer {
    began: u64,
    ticks: u64,
    errors: Stream,
}

impl Timer {
    pub fn start(io: &Io) -> Timer {
        Timer { began: clock::now_ns(), ticks: clock::ticks(), errors: io.errors }
    }

    pub fn report(&self) {
        let (ns, ticks) = (clock::now_ns() - self.began, clock::ticks() - self.ticks);
        let line = format!("{} ({ticks} ticks of the processor)\n", duration(ns));
        let _ = self.errors.write_all(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<(Limits, usize), String> {
        let words: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let mut limits = Limits::default();
        let rest = limited(&words, &mut limits)?.len();
        Ok((limits, rest))
    }

    #[test]
    fn limits_before_a_command() {
        let wanted = Limits { frames: 3000, threads: 4, ..Limits::default() };
        assert_eq!(read("frames=3000 threads=4 check as a=b"), Ok((wanted, 3)));
        assert_eq!(read("spin").map(|read| read.0), Ok(Limits::default()));
    }

    #[test]
    fn limits_that_are_none() {
        for field in ["frames", "sections", "reserve", "threads"] {
            assert_eq!(read(&format!("{field}=0 spin")), Err(format!("{field}=0: a program needs at least 1")));
        }
        for wrong in ["threads=x spin", "thread=1 spin", "threads=1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
