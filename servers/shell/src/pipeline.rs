//! Running commands that are joined by pipes: programs side by side, built-in ones in the shell itself, in their order.

use crate::io::{Input, Io, Output};
use crate::shell::{Shell, assignment, describe};
use crate::{builtins, terminal};
use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::start::StreamRef;
use musubi::command::Child;
use musubi::interfaces::pipes::PipesClient;
use musubi::rt::Once;
use musubi::stream::Stream;
use musubi::{Error, ended};

static PIPES: Once<PipesClient> = Once::new();

/// The two ends of a new pipe: to read from and to write to.
fn pipe() -> Result<(Stream, Stream), Error> {
    let pipes = PIPES.get_or_try(|| PipesClient::bind(musubi::names::lookup("pipes")?))?;
    let (gate, id) = (pipes.streams()?, pipes.make()?);
    Ok((Stream(StreamRef { gate, id }), Stream(StreamRef { gate, id: id + 1 })))
}

/// A command of a pipeline.
struct Stage {
    name: String,
    child: Option<Child>,
    status: Option<i32>,
    /// Ends of pipes that are closed when it is over.
    ends: Vec<Stream>,
}

impl Stage {
    fn over(&mut self, status: i32) {
        self.status = Some(status);
        self.ends.drain(..).for_each(|end| {
            let _ = end.close();
        });
    }

    /// Waits for the program, and says so if it did not end by itself.
    fn wait(&mut self, timeout_ns: u64) {
        let Some(child) = self.child.filter(|_| self.status.is_none()) else { return };
        match child.wait_for(timeout_ns) {
            Err(Error::TimedOut) => {}
            Err(e) => {
                musubi::eprintln!("{}: cannot be waited for: {e}", self.name);
                self.over(ended::REFUSED);
            }
            Ok(exit) => {
                // The program's own sections are gone by now, so its name stands for its text.
                let name_of = |base: u64| {
                    ended::section_name(base).or_else(|| (base == exit.text).then(|| self.name.clone()))
                };
                let line = ended::describe(&exit, name_of);
                if !line.is_empty() {
                    musubi::eprintln!("{}: {line}", self.name);
                }
                self.over(ended::status(&exit));
            }
        }
    }
}

/// A pipeline whose programs run.
pub struct Running {
    stages: Vec<Stage>,
}

impl Running {
    pub fn last_task(&self) -> Option<u64> {
        self.stages.last()?.child.map(|c| c.task)
    }

    pub fn tasks(&self) -> impl Iterator<Item = u64> {
        self.stages.iter().filter(|s| s.status.is_none()).filter_map(|s| s.child.map(|c| c.task))
    }

    pub fn over(&self) -> bool {
        self.stages.iter().all(|s| s.status.is_some())
    }

    /// The exit status, once all has ended.
    pub fn poll(&mut self) -> Option<i32> {
        if self.over() {
            return None;
        }
        self.stages.iter_mut().for_each(|s| s.wait(0));
        self.over().then(|| self.status())
    }

    fn status(&self) -> i32 {
        self.stages.last().and_then(|s| s.status).unwrap_or(0)
    }

    fn wait(mut self) -> i32 {
        // In turns: a stage that ends closes its ends, which may be what another one waits for.
        while !self.over() {
            let several = self.stages.iter().filter(|s| s.status.is_none()).count() > 1;
            let patience = if several { 2_000_000 } else { u64::MAX };
            self.stages.iter_mut().for_each(|s| s.wait(patience));
        }
        self.status()
    }
}

/// Runs commands to their end. Value: the exit status of the last.
pub fn run(shell: &mut Shell, commands: &[Vec<Vec<u8>>]) -> i32 {
    let status = match start(shell, commands, true) {
        Ok(running) => running.wait(),
        Err(status) => status,
    };
    terminal::no_foreground();
    status
}

/// Starts the programs and runs what is built in. The error is an exit status.
pub fn start(shell: &mut Shell, commands: &[Vec<Vec<u8>>], foreground: bool) -> Result<Running, i32> {
    let mut stages = Vec::new();
    let mut builtin = Vec::new();
    let mut input = if foreground { Io::own().input } else { Input::Stream(Stream(StreamRef::default())) };
    let mut ends = Vec::new();
    for (i, words) in commands.iter().enumerate() {
        let mut stage =
            Stage { name: describe(&[words[..1].to_vec()]), child: None, status: None, ends: core::mem::take(&mut ends) };
        let mut io = Io { input, ..Io::own() };
        input = Io::own().input;
        if let Some(next) = commands.get(i + 1) {
            if Shell::is_builtin(words) && Shell::is_builtin(next) {
                // Both run here, one after the other: what lies between them is kept.
                io.output = Output::Kept(Vec::new());
            } else {
                let (from, to) = pipe().map_err(|e| {
                    musubi::eprintln!("shell: no pipe: {e}");
                    ended::REFUSED
                })?;
                io.output = Output::Stream(to);
                stage.ends.push(to);
                input = Input::Stream(from);
                ends.push(from);
            }
        }
        if Shell::is_builtin(words) {
            builtin.push((i, io));
        } else {
            match shell.spawn(words, &mut io, foreground) {
                Ok(child) => stage.child = Some(child),
                Err(status) => stage.over(status),
            }
        }
        stages.push(stage);
    }
    let mut kept = None;
    for (i, mut io) in builtin {
        if let Some(bytes) = kept.take() {
            io.input = Input::Kept(bytes);
        }
        let status = run_builtin(shell, &commands[i], &mut io);
        if let Output::Kept(bytes) = io.output {
            kept = Some(bytes);
        }
        stages[i].over(status);
    }
    Ok(Running { stages })
}

/// Runs a built-in command here and now.
pub fn run_builtin(shell: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    if let Some((name, value)) = assignment(words) {
        shell.set(name, value);
        return 0;
    }
    builtins::find(&words[0]).map_or(ended::NOT_FOUND, |builtin| (builtin.run)(shell, words, io))
}
