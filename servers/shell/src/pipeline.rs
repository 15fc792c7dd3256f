//! Running commands that are joined by pipes: programs side by side, built-in ones in the shell itself, in their order.

use crate::builtins::{self, Timer};
use crate::io::{Input, Io, Output};
use crate::shell::{Command, Inner, Shell, describe};
use crate::terminal;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use musubi::abi::start::StreamRef;
use musubi::abi::task::{Exit, exit};
use musubi::command::Child;
use musubi::interfaces::pipes::PipesService;
use musubi::processes::{self, group};
use musubi::rt::{Condition, Mutex, Once, thread};
use musubi::stream::Stream;
use musubi::{Error, ended};

static PIPES: Once<PipesService> = Once::new();

/// The two ends of a new pipe: to read from and to write to.
fn pipe() -> Result<(Stream, Stream), Error> {
    let pipes = PIPES.get_or_try(|| musubi::names::server("pipes").map(PipesService::new))?;
    let (gate, id) = (pipes.streams()?, pipes.make()?);
    Ok((Stream(StreamRef { gate, id }), Stream(StreamRef { gate, id: id + 1 })))
}

/// How a program ended, for whoever waits for it.
#[derive(Default)]
struct Ending {
    exit: Mutex<Option<Result<Exit, Error>>>,
    changed: Condition,
}

/// A command of a pipeline.
struct Stage {
    name: String,
    child: Option<Child>,
    /// Where a program stands in a pipeline with others, a thread waits for it, so that its ends of pipes are closed at
    /// once.
    ending: Option<Arc<Ending>>,
    status: Option<i32>,
    /// Somebody has ended it, perhaps by `^C`.
    killed: bool,
}

impl Stage {
    fn new(inner: &Inner) -> Stage {
        let name = Command::of(inner.command.words.get(..1).unwrap_or_default());
        Stage { name: describe(&[name]), child: None, ending: None, status: None, killed: false }
    }

    /// As soon as the program has ended, closes `ends` and says how long it took.
    fn watch(&mut self, ends: Vec<Stream>, timer: Option<Timer>) {
        let Some(child) = self.child.filter(|_| timer.is_some() || !ends.is_empty()) else {
            return close(&ends);
        };
        let ending = Arc::new(Ending::default());
        let seen = ending.clone();
        let kept = ends.clone();
        let watcher = thread::spawn(
            move || {
                let exit = child.wait();
                close(&ends);
                timer.inspect(Timer::report);
                *seen.exit.lock() = Some(exit);
                seen.changed.notify_all();
            },
            0,
        );
        match watcher {
            Ok(_) => self.ending = Some(ending),
            Err(e) => {
                musubi::eprintln!("{}: cannot be watched: {e}", self.name);
                let _ = child.kill();
                close(&kept);
            }
        }
    }

    fn exit(&self, timeout_ns: u64) -> Result<Exit, Error> {
        let Some(ending) = &self.ending else {
            return self.child.map_or(Err(Error::NotFound), |child| child.wait_for(timeout_ns));
        };
        let mut exit = ending.exit.lock();
        loop {
            if let Some(exit) = *exit {
                return exit;
            }
            ending.changed.wait(&mut exit, timeout_ns)?;
        }
    }

    /// Waits for the program, and says so if it did not end by itself.
    fn wait(&mut self, timeout_ns: u64) {
        if self.status.is_some() {
            return;
        }
        match self.exit(timeout_ns) {
            Err(Error::TimedOut) => {}
            Err(e) => {
                musubi::eprintln!("{}: cannot be waited for: {e}", self.name);
                self.status = Some(ended::REFUSED);
            }
            Ok(exit) => {
                // The program's own sections are gone by now, so its name stands for its text.
                let name_of =
                    |base: u64| ended::section_name(base).or_else(|| (base == exit.text).then(|| self.name.clone()));
                let line = ended::describe(&exit, name_of);
                if !line.is_empty() {
                    musubi::eprintln!("{}: {line}", self.name);
                }
                self.status = Some(ended::status(&exit));
                self.killed = exit.kind == exit::KILLED;
            }
        }
    }
}

fn close(ends: &[Stream]) {
    for end in ends {
        let _ = end.close();
    }
}

/// A pipeline whose programs run.
pub struct Running {
    stages: Vec<Stage>,
    /// Groups that are this pipeline's alone.
    groups: Vec<u64>,
}

impl Running {
    pub fn last_task(&self) -> Option<u64> {
        self.stages.last()?.child.map(|c| c.task)
    }

    pub fn tasks(&self) -> impl Iterator<Item = u64> {
        self.stages.iter().filter(|s| s.status.is_none()).filter_map(|s| s.child.map(|c| c.task))
    }

    /// Ends whoever is in its groups: what its programs have started, too.
    pub fn end_groups(&self) {
        for group in &self.groups {
            // Mostly nobody is there any more.
            let _ = processes::kill(processes::of_group(*group));
        }
    }

    pub fn over(&self) -> bool {
        self.stages.iter().all(|s| s.status.is_some())
    }

    /// The exit status, once all has ended.
    pub fn poll(&mut self) -> Option<i32> {
        self.stages.iter_mut().for_each(|s| s.wait(0));
        self.over().then(|| self.status())
    }

    /// Waits for one of the programs, if it is one of them. Value: whether it has ended.
    pub fn await_task(&mut self, task: u64, timeout_ns: u64) -> Option<bool> {
        let stage = self.stages.iter_mut().find(|s| s.child.is_some_and(|c| c.task == task))?;
        stage.wait(timeout_ns);
        Some(stage.status.is_some())
    }

    fn status(&self) -> i32 {
        self.stages.last().and_then(|s| s.status).unwrap_or(0)
    }

    fn wait(&mut self) -> i32 {
        while !self.over() {
            self.stages.iter_mut().for_each(|s| s.wait(u64::MAX));
        }
        self.status()
    }
}

/// Runs commands to their end. Value: the exit status of the last.
pub fn run(shell: &mut Shell, commands: &[Command]) -> i32 {
    let status = match start(shell, commands, true) {
        Ok(mut running) => {
            let status = running.wait();
            // What they have started ends with them.
            let killed = running.stages.iter().filter(|stage| stage.killed).filter_map(|stage| stage.child);
            let killed: Vec<u64> = killed.map(|child| child.task).collect();
            if shell.interactive && !killed.is_empty() {
                running.end_groups();
                builtins::end_children(shell, killed, &Io::own());
            }
            status
        }
        Err(status) => status,
    };
    terminal::no_foreground();
    status
}

/// Starts the programs and runs what is built in, in the background by another shell. The error is an exit status.
pub fn start(shell: &mut Shell, commands: &[Command], foreground: bool) -> Result<Running, i32> {
    let inner: Vec<Inner> = commands.iter().map(|command| command.inner(shell.limits)).collect();
    // In the background what is built in must not hold this shell up; and what `^C` is to end must be a task.
    let here: Vec<bool> = inner
        .iter()
        .map(|inner| {
            let waits = inner.command.words.first().is_some_and(|name| builtins::waits(name));
            inner.command.builtin() && foreground && !(shell.interactive && waits)
        })
        .collect();
    let mut stages = Vec::new();
    let mut groups: Vec<u64> = Vec::new();
    let mut builtin = Vec::new();
    let mut input = if foreground { Io::own().input } else { Input::Stream(Stream(StreamRef::default())) };
    // The end of the last pipe that the next command reads.
    let mut reads: Option<Stream> = None;
    for (i, (command, inner)) in commands.iter().zip(inner).enumerate() {
        let mut io = Io { input, place: shell.named(""), ..Io::own() };
        input = Io::own().input;
        let mut ends: Vec<Stream> = reads.take().into_iter().collect();
        let is_builtin = here[i];
        let mut feed = None;
        if let Some(&next_is_builtin) = here.get(i + 1) {
            // What a built-in command prints is kept until it is over: it runs on this thread, which has others to run.
            if is_builtin {
                io.output = Output::Kept(Vec::new());
            }
            if !(is_builtin && next_is_builtin) {
                let (from, to) = pipe().map_err(|e| {
                    musubi::eprintln!("shell: no pipe: {}", musubi::why(e));
                    ended::REFUSED
                })?;
                if is_builtin {
                    feed = Some(to);
                } else {
                    io.output = Output::Stream(to);
                    ends.push(to);
                }
                input = Input::Stream(from);
                reads = Some(from);
            }
        }
        let mut stage = Stage::new(&inner);
        if let Err((path, error)) = io.redirect(&command.redirects, &mut ends) {
            let own = Io { place: io.place, ..Io::own() };
            own.complain("shell", format_args!("{}: {}", path.escape_ascii(), musubi::why(error)));
            stage.status = Some(1);
            close(&ends);
            close(feed.as_slice());
        } else if is_builtin {
            builtin.push(Builtin { stage: i, inner, io, ends, feed });
        } else {
            let timer = (inner.timed && !inner.command.builtin()).then(|| Timer::start(&io));
            let group = if shell.groups { groups.last().copied().unwrap_or(group::NEW) } else { group::SAME };
            let child = if inner.command.builtin() {
                shell.spawn(&command.aside(), shell.limits, &io, (group, foreground))
            } else {
                shell.spawn(&inner.command, inner.limits, &io, (group, foreground))
            };
            match child {
                Ok(child) => {
                    let own = processes::status(child.task).map(|info| info.group);
                    groups.extend(own.ok().filter(|own| shell.groups && *own != group));
                    stage.child = Some(child);
                }
                Err(status) => stage.status = Some(status),
            }
            stage.watch(ends, timer);
        }
        stages.push(stage);
    }
    let mut kept = None;
    for mut command in builtin {
        if let Some(bytes) = kept.take() {
            command.io.input = Input::Kept(bytes);
        }
        let status = run_builtin(shell, &command.inner, &mut command.io);
        close(&command.ends);
        stages[command.stage].status = Some(status);
        match (command.io.output, command.feed) {
            (Output::Kept(bytes), Some(to)) => feed(to, bytes),
            (Output::Kept(bytes), None) => kept = Some(bytes),
            (Output::Stream(_), Some(to)) => close(&[to]),
            _ => {}
        }
    }
    Ok(Running { stages, groups })
}

/// A built-in command of a pipeline, before it runs.
struct Builtin {
    stage: usize,
    inner: Inner,
    io: Io,
    /// Ends of pipes to close when it is over.
    ends: Vec<Stream>,
    /// Where its output goes then, if a program reads it.
    feed: Option<Stream>,
}

/// Writes bytes into a pipe on a thread of their own, as fast as they are read.
fn feed(to: Stream, bytes: Vec<u8>) {
    let writer = thread::spawn(
        move || {
            let _ = to.write_all(&bytes);
            let _ = to.close();
        },
        0,
    );
    if let Err(e) = writer {
        musubi::eprintln!("shell: no thread for a pipe: {e}");
        let _ = to.close();
    }
}

/// Runs a built-in command here and now.
fn run_builtin(shell: &mut Shell, inner: &Inner, io: &mut Io) -> i32 {
    let command = &inner.command;
    let Some(name) = command.words.first() else {
        command.assignments.iter().for_each(|(name, value)| shell.set(name, value));
        return 0;
    };
    let Some(builtin) = builtins::find(name) else { return ended::NOT_FOUND };
    let timer = inner.timed.then(|| Timer::start(io));
    let before = core::mem::replace(&mut shell.limits, inner.limits);
    let status = shell.with(&command.assignments, |shell| builtins::run(builtin, shell, &command.words, io));
    shell.limits = before;
    timer.inspect(Timer::report);
    status
}
