//! The two levels of a scheduler, running.

use crate::terms;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use board::{Board, Call, Desk, LEVELS, Step, Terms, reason};
use musubi::abi::rights::principal;
use musubi::abi::sched::reason::WORDS;
use musubi::abi::sched::{SeatInfo, event};
use musubi::command::{Child, Command};
use musubi::rt::{sched, section};
use musubi::{AclEntry, Caller, Error, Rights, ended};

/// A scheduler that was started.
pub struct Levels {
    pub name: String,
    fast: Child,
    high: Child,
    /// What had come of each seat before.
    before: Vec<u64>,
}

/// What has come of a seat so far: answers, and ends.
fn outcomes(seat: &SeatInfo) -> u64 {
    seat.named + seat.none + seat.lost + seat.dismissed
}

pub fn board_at(base: u64) -> Option<Board<'static>> {
    Board::new(sched::words(base).ok()?)
}

impl Levels {
    /// Starts both levels on empty boards.
    pub fn start(name: &str, boards: [u64; 2]) -> Result<Levels, (Error, String)> {
        boards.into_iter().filter_map(board_at).for_each(|board| board.clear(sched::seats().count()));
        let before = sched::seats().map(|seat| outcomes(&seat)).collect();
        let mut words = name.split(' ');
        let program = words.next().unwrap_or_default();
        let arguments: Vec<&str> = words.collect();
        let spawn = |path: &str| {
            let command = Command::new(path.as_bytes());
            let command = arguments.iter().fold(command, |command, word| command.arg(word.as_bytes()));
            command.spawn().map_err(|refused| (refused.error, format!("{path}: {refused}")))
        };
        let high = spawn(&format!("bin/sched-{program}"))?;
        // A policy may have a fast level of its own.
        let own = spawn(&format!("bin/fast-{program}"));
        let usual =
            |failed: (Error, String)| if failed.0 == Error::NotFound { spawn("bin/sched-fast") } else { Err(failed) };
        let fast = own.or_else(usual).inspect_err(|_| {
            let _ = high.kill();
        })?;
        Ok(Levels { name: String::from(name), fast, high, before })
    }

    /// Whether every seat is taken, and whoever sits there has begun to answer.
    pub fn decide(&self) -> bool {
        sched::seats().zip(&self.before).all(|(seat, before)| seat.thread != 0 && outcomes(&seat) > *before)
    }

    /// Whether a task is one of the levels.
    pub fn has(&self, task: u64) -> bool {
        task == self.fast.task || task == self.high.task
    }

    /// Whether a task is the high one.
    pub fn is_high(&self, task: u64) -> bool {
        task == self.high.task
    }

    /// How one of the levels has ended, if one has. First the high one: without it the fast one goes, too, before anybody looks.
    pub fn ended(&self) -> Option<String> {
        [("high", self.high), ("fast", self.fast)].into_iter().find_map(|(level, child)| {
            let how = child.wait_for(0).ok()?;
            let words = match ended::describe(&how, ended::section_name) {
                // So says a fast level that cannot go on without the high one.
                words if words.is_empty() && level == "fast" && how.code == Error::TimedOut.word() => {
                    return Some(String::from("the high level does not answer"));
                }
                words if words.is_empty() => format!("it ended with status {}", how.code),
                words => words,
            };
            Some(format!("the {level} level has failed: {words}"))
        })
    }

    pub fn stop(&self) {
        for child in [self.fast, self.high] {
            let _ = child.kill();
            let _ = child.wait_for(2_000_000_000);
        }
    }
}

/// Lets a level use a board: on whatever thread its code runs (it may be called as a procedure).
pub fn admit(base: u64, caller: &Caller) -> Result<u64, Error> {
    let rights = (Rights::READ | Rights::WRITE).bits();
    section::grant(base, &AclEntry { principal: principal::ANY, rights, id: 0, text: caller.text })?;
    Ok(base)
}

/// What there is to say of every processor.
pub fn state(levels: Option<&Levels>, base: u64, private: u64) -> Vec<String> {
    let mut lines = Vec::new();
    lines.push(match levels {
        Some(levels) => {
            format!("{} (fast level: task {}, high level: task {})", levels.name, levels.fast.task, levels.high.task)
        }
        None => String::from("none: the kernel's round robin"),
    });
    let board = board_at(base);
    for seat in sched::seats() {
        let processor = seat.processor as usize;
        let mut line = format!(
            "cpu {processor}: thread {}, asked {} named {} none {} lost {} missed {}, put out {}",
            seat.thread, seat.asked, seat.named, seat.none, seat.lost, seat.missed, seat.dismissed
        );
        if seat.dismissed > 0 {
            line += &format!(" (the last at {} ms: {})", seat.when / 1_000_000, put_out(&seat));
        }
        if let Some(board) = board.filter(|_| levels.is_some() && processor < board::PROCESSORS) {
            let desk = board.desk(processor);
            let [priority, quantum] = [reason::PRIORITY, reason::QUANTUM].map(|reason| desk.calls(reason));
            line += &format!("; high level called for priority {priority}, quantum {quantum}");
            let ([requests, answers, carried], wrong) = board.buffer(processor).steps();
            if requests > 0 {
                line +=
                    &format!("; requests {requests}, answers {answers}, carried out {carried}, out of order {wrong}");
            }
        }
        lines.push(line);
        if let Some(board) = board.filter(|_| levels.is_some() && processor < board::PROCESSORS) {
            lines.push(heard(processor, &board.desk(processor)));
        }
    }
    lines.extend(agreed(base).filter(|_| levels.is_some()));
    lines.extend([base, private].into_iter().flat_map(queues).filter(|_| levels.is_some()));
    lines
}

/// Why the last one lost a seat, and how long it was until the kernel went on with its threads.
fn put_out(seat: &SeatInfo) -> String {
    let why = WORDS.get(seat.reason as usize).unwrap_or(&"?");
    format!(
        "{why}, after {} ms; threads went on in turn {} us after it was asked",
        seat.decided_ms,
        seat.took_ns / 1000
    )
}

/// The processors on which the high level was given up, a line each.
pub fn given_up(base: u64) -> impl Iterator<Item = String> {
    let desks = board_at(base).into_iter().flat_map(|board| (0..board::PROCESSORS).map(move |n| (n, board.desk(n))));
    let desks = desks.take(sched::seats().count().min(board::PROCESSORS));
    desks.filter_map(|(n, desk)| {
        let (waited, absent) = desk.given_up()?;
        let did = if absent { "waited for something itself" } else { "was at it" };
        Some(format!("cpu {n}: the high level was given up after {} us, when it {did}", waited / 1000))
    })
}

/// The seats that were lost, a line each.
pub fn losses() -> impl Iterator<Item = String> {
    sched::seats().filter(|seat| seat.dismissed > 0).map(|seat| format!("cpu {}: {}", seat.processor, put_out(&seat)))
}

/// The events that the fast level of a processor has seen, by kind, and the calls that came without the kernel.
fn heard(processor: usize, desk: &Desk) -> String {
    let kinds = (1..event::WORDS.len()).chain([0]).map(|kind| (event::WORDS[kind], desk.seen(kind as u32)));
    let mut line = format!("cpu {processor} heard of:");
    for (words, count) in kinds.chain([("called by threads themselves", desk.entered())]) {
        line += &format!(" {words} {count},");
    }
    line.pop();
    line
}

/// The latest steps between the levels of the initial version, of each processor.
pub fn trace(base: u64) -> impl Iterator<Item = String> {
    let processors = sched::seats().count().min(board::PROCESSORS);
    let all = board_at(base).into_iter().flat_map(move |board| (0..processors).map(move |n| (n, board.buffer(n))));
    all.filter_map(|(processor, buffer)| {
        let mut line = format!("cpu {processor}:");
        for (n, step) in buffer.latest() {
            line += &match step {
                Step::Request => format!(" {n} request,"),
                Step::Answer { thread } => format!(" {n} event buffer: thread {thread},"),
                Step::Switch { thread } => format!(" {n} switch to thread {thread},"),
                Step::Back { thread } => format!(" {n} no switch to thread {thread},"),
            };
        }
        (line.pop() == Some(',')).then_some(line)
    })
}

/// The latest calls of the high level on each processor, and why: the first one's number is how many there were before.
pub fn calls(base: u64) -> impl Iterator<Item = String> {
    let processors = sched::seats().count().min(board::PROCESSORS);
    let all = board_at(base).into_iter().flat_map(move |board| {
        (0..processors).flat_map(move |processor| {
            board.desk(processor).latest_calls().map(move |call| (processor, call)).collect::<Vec<_>>()
        })
    });
    all.map(|(processor, (number, Call { why, thread, when }))| {
        let why = match why {
            reason::PRIORITY if terms::carries(thread) => {
                String::from("terms are proposed, which is told as a priority")
            }
            reason::PRIORITY => format!("thread {thread} is to have another priority"),
            reason::QUANTUM if thread == 0 => String::from("a quantum that had begun before it sat down has ended"),
            reason::QUANTUM => format!("the quantum of thread {thread} has ended"),
            other => format!("for no reason ({other})"),
        };
        format!("cpu {processor} call {number} at {} us: {why}", when / 1000)
    })
}

/// What threads have agreed on.
fn agreed(base: u64) -> impl Iterator<Item = String> {
    let all = board_at(base).into_iter().flat_map(|board| board.priorities().all());
    all.map(|(thread, level, agreed)| {
        let words = match agreed.terms() {
            Terms::Usual => String::new(),
            Terms::Share { weight } => format!("a share of {weight}, had {} turns", agreed.turns()),
            Terms::Periodic { period, deadline, budget } => format!(
                "{} us in each {} us, by {} us; needed more {} times",
                budget / 1000,
                period / 1000,
                deadline / 1000,
                agreed.turns()
            ),
            Terms::Job { job } => format!("of job {} of user {}", job & 0xffff_ffff, job >> 32),
        };
        let homes: Vec<String> =
            (0..64).filter(|cpu| agreed.homes() >> cpu & 1 != 0).map(|cpu| format!("{cpu}")).collect();
        let homes = if homes.is_empty() { String::new() } else { format!(", on cpu {}", homes.join(" ")) };
        format!("thread {thread}, level {level}: {words}{homes}")
    })
}

/// Who is in the queues of a board.
pub fn queues(base: u64) -> impl Iterator<Item = String> {
    let processors = sched::seats().count().min(board::PROCESSORS);
    let all = board_at(base).into_iter().flat_map(move |board| {
        (0..processors).flat_map(move |processor| (0..LEVELS).map(move |level| (board, processor, level)))
    });
    all.filter_map(|(board, processor, level)| {
        let threads: Vec<String> = board.queue(processor).all(level).map(|ready| format!("{}", ready.thread)).collect();
        (!threads.is_empty()).then(|| format!("cpu {processor} level {level}: {}", threads.join(" ")))
    })
}
