//! The shell's state, and how a line is run.

use crate::batch::{self, Place};
use crate::glob::{self, Part};
use crate::io::Io;
use crate::parse::{self, Piece, Redirect, When, Word};
use crate::{builtins, pipeline, terminal};
use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::task::Limits;
use musubi::command::{Child, Command as Program};
use musubi::ended;
use musubi::processes::{self, group};
use musubi::{Error, Start};

/// Names and values.
pub type Variables = Vec<(Vec<u8>, Vec<u8>)>;

/// A command as it is run: with the values of variables, and the paths of patterns, in it.
#[derive(Clone, Debug, Default)]
pub struct Command {
    /// For this command alone; without words, for the shell.
    pub assignments: Variables,
    pub words: Vec<Vec<u8>>,
    /// Files in the place of streams.
    pub redirects: Vec<(Redirect, Vec<u8>)>,
}

impl Command {
    pub fn of(words: &[Vec<u8>]) -> Command {
        Command { words: words.to_vec(), ..Command::default() }
    }

    /// A built-in command as a program that runs beside this shell: another shell.
    pub fn aside(&self) -> Command {
        let words = [&b"bin/shell"[..], b"-w"].into_iter().map(<[u8]>::to_vec).chain(self.words.iter().cloned());
        Command { assignments: self.assignments.clone(), words: words.collect(), redirects: Vec::new() }
    }

    /// What the shell does itself.
    pub fn builtin(&self) -> bool {
        self.words.first().is_none_or(|name| builtins::find(name).is_some())
    }

    /// Without `limit`, `time` and `debug` before it. Where these are misused they stay, and say so when they are run.
    pub fn inner(&self, limits: Limits) -> Inner {
        let mut debug = false;
        let mut inner = Inner { command: self.clone(), limits, timed: false };
        while let Some((name, rest)) = inner.command.words.split_first() {
            let words = match name.as_slice() {
                b"limit" => builtins::limited(rest, &mut inner.limits).ok(),
                b"time" if !rest.is_empty() => Some(rest),
                b"debug" if !rest.is_empty() => {
                    debug = true;
                    Some(rest)
                }
                _ => None,
            };
            let Some(words) = words.map(<[_]>::to_vec) else { break };
            inner.timed |= name == b"time";
            inner.command.words = words;
        }
        if debug {
            inner.command.assignments.push((b"MUSUBI_DEBUG".to_vec(), b"1".to_vec()));
        }
        inner
    }
}

/// What a command comes down to, and how it is run.
pub struct Inner {
    pub command: Command,
    pub limits: Limits,
    /// Somebody wants to know how long it takes.
    pub timed: bool,
}

/// A pipeline that runs while the shell goes on.
pub struct Job {
    pub number: usize,
    pub line: String,
    pub running: pipeline::Running,
}

pub struct Shell {
    /// `$?`.
    pub status: i32,
    /// What programs find in their environment.
    pub variables: Variables,
    pub jobs: Vec<Job>,
    pub history: Vec<String>,
    /// What programs may use at most; 0: as is usual.
    pub limits: Limits,
    /// Set by `exit`.
    pub leaving: Option<i32>,
    /// Somebody types, and `^C` ends what they wait for.
    pub interactive: bool,
    /// Each pipeline is a group of processes. A shell that is in a group itself leaves what it starts there, where it ends with it.
    pub groups: bool,
    /// Where it is in files whose lines it runs, the innermost last.
    pub places: Vec<Place>,
    /// What the file was given: `$1` and on.
    pub words: Vec<Vec<u8>>,
}

impl Shell {
    pub fn new(start: &Start) -> Shell {
        let split = |entry: &[u8]| {
            let at = entry.iter().position(|&b| b == b'=')?;
            Some((entry[..at].to_vec(), entry[at + 1..].to_vec()))
        };
        Shell {
            status: 0,
            variables: start.env().filter_map(split).collect(),
            jobs: Vec::new(),
            history: Vec::new(),
            limits: Limits::default(),
            leaving: None,
            interactive: false,
            groups: processes::status(start.task()).is_err(),
            places: Vec::new(),
            words: Vec::new(),
        }
    }

    /// The status to leave with.
    pub fn finish(&self) -> i32 {
        self.leaving.unwrap_or(self.status)
    }

    pub fn environment(&self) -> Vec<Vec<u8>> {
        self.variables.iter().map(|(name, value)| [name.as_slice(), value].join(&b'=')).collect()
    }

    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        match self.variables.iter_mut().find(|v| v.0 == name) {
            Some(variable) => variable.1 = value.to_vec(),
            None => self.variables.push((name.to_vec(), value.to_vec())),
        }
    }

    /// Runs a line.
    pub fn line(&mut self, line: &[u8]) {
        let pipelines = match parse::parse(line) {
            Ok(pipelines) => pipelines,
            Err(why) => {
                self.complain("shell", format_args!("{why}"));
                self.status = 2;
                return;
            }
        };
        for pipeline in pipelines {
            let run = match pipeline.when {
                When::Always => true,
                When::IfTrue => self.status == 0,
                When::IfFalse => self.status != 0,
            };
            if !run {
                continue;
            }
            let commands: Vec<Command> = pipeline.commands.iter().map(|command| self.ready(command)).collect();
            if pipeline.background {
                self.start_job(&commands);
            } else {
                self.status = pipeline::run(self, &commands);
            }
            if self.leaving.is_some() {
                return;
            }
        }
    }

    /// Runs one command whose words are taken as they are.
    pub fn command(&mut self, words: &[Vec<u8>]) {
        self.status = pipeline::run(self, &[Command::of(words)]);
    }

    fn ready(&self, command: &parse::Command) -> Command {
        Command {
            assignments: command.assignments.iter().map(|(name, value)| (name.clone(), self.expand(value))).collect(),
            words: command.words.iter().flat_map(|word| self.apart(word)).flat_map(|word| self.paths(&word)).collect(),
            redirects: command.redirects.iter().map(|(to, word)| (*to, self.expand(word))).collect(),
        }
    }

    /// The paths that a word with patterns stands for. If there are none it stands for itself, as every other does.
    fn paths(&self, word: &Word) -> Vec<Vec<u8>> {
        if !word.iter().any(|piece| matches!(piece, Piece::Pattern(..))) {
            return Vec::from([self.expand(word)]);
        }
        let parts = |piece: &Piece| match piece {
            Piece::Pattern(part, _) => Vec::from([part.clone()]),
            other => self.expand(core::slice::from_ref(other)).into_iter().map(Part::Byte).collect(),
        };
        let pattern: Vec<Part> = word.iter().flat_map(parts).collect();
        let files = musubi::files::tree(b"");
        let found = glob::expand(&pattern, files.iter().map(Vec::as_slice));
        if found.is_empty() { Vec::from([self.expand(word)]) } else { found }
    }

    fn expand(&self, word: &[Piece]) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in word {
            match piece {
                Piece::Text(text) | Piece::Pattern(_, text) => out.extend_from_slice(text),
                Piece::Variable(name) if name == b"?" => out.extend(alloc::format!("{}", self.status).bytes()),
                Piece::Variable(name) => match self.parameter(name) {
                    Some(value) => out.extend(value),
                    None => {
                        let value = self.variables.iter().find(|v| v.0 == *name);
                        out.extend(value.iter().flat_map(|v| v.1.iter()));
                    }
                },
            }
        }
        out
    }

    fn start_job(&mut self, commands: &[Command]) {
        let number = self.jobs.iter().map(|j| j.number + 1).max().unwrap_or(1);
        match pipeline::start(self, commands, false) {
            Ok(running) => {
                let line = describe(commands);
                musubi::println!("[{number}] task {}", running.last_task().unwrap_or(0));
                self.jobs.push(Job { number, line, running });
                self.status = 0;
            }
            Err(status) => self.status = status,
        }
    }

    /// Says which jobs have ended since.
    pub fn report_jobs(&mut self) {
        for job in &mut self.jobs {
            if let Some(status) = job.running.poll() {
                musubi::println!("[{}] {} ended with {status}", job.number, job.line);
            }
        }
        self.jobs.retain(|job| !job.running.over());
    }

    /// Starts the program of a command. The error is an exit status, and has been explained on the error stream.
    pub fn spawn(
        &mut self,
        command: &Command,
        limits: Limits,
        io: &Io,
        (group, foreground): (u64, bool),
    ) -> Result<Child, i32> {
        let mut words = command.words.clone();
        let shown = String::from_utf8_lossy(&words[0]).into_owned();
        let not_found = || {
            io.complain(&shown, format_args!("not found"));
            ended::NOT_FOUND
        };
        let mut path = find_or_shell(&words[0]).ok_or_else(not_found)?;
        // A batch is run by what its first line says.
        if is_executable(&path)
            && let Some(interpreter) = batch::interpreter(&path)
        {
            let by = find_or_shell(&interpreter[0]).ok_or_else(not_found)?;
            words = interpreter.into_iter().chain([path]).chain(words.into_iter().skip(1)).collect();
            path = by;
        }
        let environment = self.with(&command.assignments, |shell| shell.environment());
        let mut program = Program::new(&path).args(words).env(environment).limits(limits);
        for (i, stream) in io.streams().into_iter().enumerate() {
            program = program.stream(i, stream);
        }
        // The others of its group may have ended already.
        let started = match program.clone().group(group).spawn() {
            Err(refused) if refused.error == Error::NotFound && group != group::SAME => {
                program.group(group::NEW).spawn()
            }
            started => started,
        };
        match started {
            Ok(child) => {
                if foreground {
                    let own = processes::status(child.task).ok().filter(|_| self.groups);
                    terminal::foreground(own.map_or(child.task, |own| processes::of_group(own.group)));
                }
                Ok(child)
            }
            Err(refused) => {
                io.complain(&shown, format_args!("cannot be run: {refused}"));
                Err(if refused.error == Error::NotFound { ended::NOT_FOUND } else { ended::REFUSED })
            }
        }
    }

    /// Does something while variables have other values.
    pub fn with<T>(&mut self, assignments: &Variables, body: impl FnOnce(&mut Shell) -> T) -> T {
        if assignments.is_empty() {
            return body(self);
        }
        let before = self.variables.clone();
        assignments.iter().for_each(|(name, value)| self.set(name, value));
        let result = body(self);
        self.variables = before;
        result
    }
}

/// A command as somebody could have typed it.
pub fn describe(commands: &[Command]) -> String {
    let word = |w: &[u8]| String::from_utf8_lossy(w).into_owned();
    let command = |c: &Command| {
        let assignments = c.assignments.iter().map(|(name, value)| word(&[name.as_slice(), value].join(&b'=')));
        assignments.chain(c.words.iter().map(|w| word(w))).collect::<Vec<_>>()
    };
    commands.iter().map(|c| command(c).join(" ")).collect::<Vec<_>>().join(" | ")
}

/// The same; where there is no program `sh`, this one is it.
fn find_or_shell(name: &[u8]) -> Option<Vec<u8>> {
    let is_shell = [&b"sh"[..], b"bin/sh", b"/bin/sh"].contains(&name);
    find(name).filter(|_| !is_shell || has_files()).or_else(|| is_shell.then(|| b"bin/shell".to_vec()))
}

fn is_executable(path: &[u8]) -> bool {
    musubi::files::find(path).is_ok_and(|info| info.mode & 0o111 != 0)
}

fn has_files() -> bool {
    musubi::files::find(b"/") != Err(Error::NoServer)
}

/// The file of a program: as typed, or in `bin`. Without files the loader knows what came with the image.
pub fn find(name: &[u8]) -> Option<Vec<u8>> {
    let is_file = |path: &[u8]| musubi::files::find(path).is_ok_and(|info| !musubi::files::is_directory(&info));
    let is_path = name.contains(&b'/');
    if is_file(name) || is_path && !has_files() {
        return Some(name.to_vec());
    }
    let in_bin = [&b"bin/"[..], name].concat();
    (!is_path && (is_file(&in_bin) || !has_files())).then_some(in_bin)
}
