//! The shell's state, and how a line is run.

use crate::io::Io;
use crate::parse::{self, Piece, When, Word};
use crate::{builtins, pipeline, terminal};
use alloc::string::String;
use alloc::vec::Vec;
use musubi::command::{Child, Command};
use musubi::ended;
use musubi::{Error, Start};

/// A pipeline that runs while the shell goes on.
pub struct Job {
    pub number: usize,
    pub line: String,
    pub running: pipeline::Running,
}

pub struct Shell {
    /// `$?`.
    pub status: i32,
    /// Names and values: what programs find in their environment.
    pub variables: Vec<(Vec<u8>, Vec<u8>)>,
    pub jobs: Vec<Job>,
    pub history: Vec<String>,
    /// Set by `exit`.
    pub leaving: Option<i32>,
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
            leaving: None,
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
                musubi::eprintln!("shell: {why}");
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
            let commands: Vec<Vec<Vec<u8>>> =
                pipeline.commands.iter().map(|words| words.iter().map(|w| self.expand(w)).collect()).collect();
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
        self.status = pipeline::run(self, &[words.to_vec()]);
    }

    fn expand(&self, word: &Word) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in word {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Variable(name) if name == b"?" => out.extend(alloc::format!("{}", self.status).bytes()),
                Piece::Variable(name) => {
                    let value = self.variables.iter().find(|v| v.0 == *name);
                    out.extend(value.iter().flat_map(|v| v.1.iter()));
                }
            }
        }
        out
    }

    fn start_job(&mut self, commands: &[Vec<Vec<u8>>]) {
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
    pub fn spawn(&self, words: &[Vec<u8>], io: &mut Io, foreground: bool) -> Result<Child, i32> {
        let name = &words[0];
        let shown = String::from_utf8_lossy(name).into_owned();
        let Some(path) = find(name) else {
            io.complain(&shown, format_args!("not found"));
            return Err(ended::NOT_FOUND);
        };
        let mut command = Command::new(&path).args(words).env(self.environment());
        for (i, stream) in io.streams().into_iter().enumerate() {
            command = command.stream(i, stream);
        }
        match command.spawn() {
            Ok(child) => {
                if foreground {
                    terminal::foreground(child.task);
                }
                Ok(child)
            }
            Err(refused) => {
                io.complain(&shown, format_args!("cannot be run: {refused}"));
                Err(if refused.error == Error::NotFound { ended::NOT_FOUND } else { ended::REFUSED })
            }
        }
    }

    pub fn is_builtin(words: &[Vec<u8>]) -> bool {
        builtins::find(&words[0]).is_some() || assignment(words).is_some()
    }
}

/// `NAME=value` alone.
pub fn assignment(words: &[Vec<u8>]) -> Option<(&[u8], &[u8])> {
    let [word] = words else { return None };
    let at = word.iter().position(|&b| b == b'=')?;
    let proper = word[..at]
        .iter()
        .enumerate()
        .all(|(i, b)| *b == b'_' || b.is_ascii_alphabetic() || (i > 0 && b.is_ascii_digit()));
    (at > 0 && proper).then(|| (&word[..at], &word[at + 1..]))
}

/// A command as somebody could have typed it.
pub fn describe(commands: &[Vec<Vec<u8>>]) -> String {
    let command =
        |words: &Vec<Vec<u8>>| words.iter().map(|w| String::from_utf8_lossy(w).into_owned()).collect::<Vec<_>>();
    commands.iter().map(|c| command(c).join(" ")).collect::<Vec<_>>().join(" | ")
}

/// The file of a program: as typed, or in `bin`.
fn find(name: &[u8]) -> Option<Vec<u8>> {
    if musubi::files::find(name).is_ok() {
        return Some(name.to_vec());
    }
    let in_bin = [&b"bin/"[..], name].concat();
    (!name.contains(&b'/') && musubi::files::find(&in_bin).is_ok()).then_some(in_bin)
}
