//! One command line in a fresh machine.

use crate::accel::Accel;
use crate::guard::Farewell;
use crate::load::Load;
use crate::options::Options;
use crate::outcome::{Outcome, told};
use crate::qemu::{self, CONSOLE, Console, Emulator, STREAMS};
use crate::{run, rundir};
use anyhow::{Context, Result};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, openat};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// What becomes of the guest's standard output and error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sink {
    /// Passed on to our own as they come.
    Pass,
    /// Kept for [`Finished`].
    Keep,
}

pub struct Exec<'a> {
    pub emulator: Emulator,
    pub options: &'a Options,
    /// With the words of the command line in it.
    pub load: Load<'a>,
    pub timeout: Duration,
    pub sink: Sink,
}

pub struct Finished {
    pub outcome: Outcome,
    /// Standard output and error, if they were kept.
    pub out: Vec<u8>,
    pub err: Vec<u8>,
    /// The kernel's log, and what QEMU itself said.
    pub console: String,
    pub took: Duration,
}

/// How long a guest that has told its outcome may take to power off.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often QEMU is looked at.
const TICK: Duration = Duration::from_millis(4);
/// How long output may gather before it is passed on.
const GATHER: Duration = Duration::from_millis(1);
const QEMU_LOG: &str = "qemu.log";

/// What the readers of the streams tell the main thread.
enum Event {
    /// A line of standard output.
    Line(String),
    /// The outcome has been told.
    Told,
    /// Nobody reads our own output any more.
    Unread,
}

impl Exec<'_> {
    /// Boots, runs, waits for the end. Errors are those of the host; the guest's are in the outcome.
    pub fn finish(&self) -> Result<Finished> {
        self.options.check()?;
        let dir = rundir::make()?;
        let words = qemu::kernel_words(self.options, self.load.parts.build_id, true);
        run::stow(self.options, &self.load, &words, dir.path())?;
        let machine = Machine {
            emulator: &self.emulator,
            options: self.options,
            kernel: &self.load.parts.kernel,
            words: &words,
            timeout: self.timeout,
        };
        machine.finish(dir.path(), self.sink, None)
    }
}

/// Told each line of a standard output that is kept, as it comes.
pub(crate) type Progress<'a> = &'a mut dyn FnMut(&str);

/// A machine whose guest keeps the protocol of `exec`; what it starts from is in its folder.
pub(crate) struct Machine<'a> {
    pub(crate) emulator: &'a Emulator,
    pub(crate) options: &'a Options,
    pub(crate) kernel: &'a Path,
    pub(crate) words: &'a str,
    pub(crate) timeout: Duration,
}

impl Machine<'_> {
    pub(crate) fn finish(&self, dir: &Path, sink: Sink, progress: Option<Progress>) -> Result<Finished> {
        let accel = Accel::choose(self.options.wish, self.options.cpus(), self.options.icount)?;
        let mut pipes = Vec::new();
        for (name, _) in STREAMS {
            pipes.push(pipe(&dir.join(name)).context("cannot make a named pipe")?);
        }
        let mut command = self.emulator.command(Farewell::Kill)?;
        command.args(qemu::arguments(self.options, accel, self.kernel, self.words, Console::Log));
        command.current_dir(dir).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(fs::File::create(dir.join(QEMU_LOG))?);
        let start = Instant::now();
        let mut child = command.spawn().context("QEMU does not start")?;

        let over = AtomicBool::new(false);
        let (events, inbox) = channel();
        let [out, err, status] = pipes.try_into().expect("there are three streams");
        let (kept, end) = thread::scope(|scope| {
            let over = &over;
            let reader = |pipe: fs::File, to: To| {
                let events = events.clone();
                scope.spawn(move || read(pipe, to, over, &events))
            };
            let (out_to, err_to) = match sink {
                Sink::Pass => (To::Stdout, To::Stderr),
                Sink::Keep if progress.is_some() => (To::Lines, To::Memory),
                Sink::Keep => (To::Memory, To::Memory),
            };
            let readers = [reader(out, out_to), reader(err, err_to), reader(status, To::Status)];
            let end = watch(&mut child, self.timeout, &inbox, progress);
            over.store(true, Ordering::Release);
            let kept = readers.map(|reader| reader.join().expect("readers do not panic"));
            (kept, end)
        });
        let [out, err, status] = kept;
        let end = end?;
        let outcome = if end.unread { Outcome::Unread } else { Outcome::judge(&status, end.qemu, end.timed_out) };
        Ok(Finished { outcome, out, err, console: console(dir), took: start.elapsed() })
    }
}

impl Finished {
    /// The last lines of the console.
    pub fn tail(&self, lines: usize) -> String {
        let all: Vec<&str> = self.console.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

fn console(dir: &Path) -> String {
    let read = |name| String::from_utf8_lossy(&fs::read(dir.join(name)).unwrap_or_default()).into_owned();
    let (mut console, qemu) = (read(CONSOLE), read(QEMU_LOG));
    if !qemu.is_empty() {
        console.push_str(&format!("\n--- QEMU said:\n{qemu}"));
    }
    console
}

/// How the machine ended.
struct End {
    /// QEMU's exit status if it ended by itself (`None` inside: by a signal).
    qemu: Option<Option<i32>>,
    timed_out: bool,
    unread: bool,
}

/// Waits until QEMU has ended, and sees to it that it does. A guest that is asked for progress shows by each line that it
/// lives: its time begins again.
fn watch(child: &mut Child, timeout: Duration, inbox: &Receiver<Event>, mut progress: Option<Progress>) -> Result<End> {
    let mut deadline = Instant::now() + timeout;
    let (mut was_told, mut unread) = (false, false);
    loop {
        if let Some(ended) = child.try_wait().context("waiting for QEMU")? {
            return Ok(End { qemu: Some(ended.code()), timed_out: false, unread });
        }
        if unread || Instant::now() >= deadline {
            // The error would be that it has ended by itself in between.
            let _ = child.kill();
            child.wait().context("waiting for QEMU")?;
            return Ok(End { qemu: None, timed_out: !was_told, unread });
        }
        match inbox.recv_timeout(TICK) {
            Ok(Event::Line(line)) => {
                if let Some(progress) = &mut progress {
                    progress(&line);
                }
                if !was_told {
                    deadline = Instant::now() + timeout;
                }
            }
            Ok(Event::Told) => {
                was_told = true;
                deadline = Instant::now() + PATIENCE;
            }
            Ok(Event::Unread) => unread = true,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => thread::sleep(TICK),
        }
    }
}

/// Where a stream goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    Stdout,
    Stderr,
    Memory,
    /// Memory, and each line is told.
    Lines,
    Status,
}

/// A named pipe, and our end of it. A pipe gathers what QEMU writes byte by byte; a socket would keep each byte in a
/// message of its own.
fn pipe(path: &Path) -> Result<fs::File> {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    let ours = openat(CWD, path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    Ok(ours.into())
}

/// Reads one stream to its end, which comes when QEMU is gone; returns what was kept.
fn read(mut pipe: fs::File, to: To, over: &AtomicBool, events: &Sender<Event>) -> Vec<u8> {
    let (mut kept, mut shown) = (Vec::new(), 0);
    let mut buffer = [0; 64 << 10];
    let mut broken = false;
    loop {
        // Asked before the attempt: what was written before the end is not missed.
        let last = over.load(Ordering::Acquire);
        let bytes = match pipe.read(&mut buffer) {
            // Nobody has opened the other end yet, or nobody has it open any more.
            Ok(0) if last => return kept,
            Ok(0) => {
                thread::sleep(TICK);
                continue;
            }
            Ok(len) => &buffer[..len],
            Err(error) if error.kind() == ErrorKind::WouldBlock && !last => {
                thread::sleep(TICK);
                continue;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return kept,
        };
        let written = match to {
            To::Stdout => pass(bytes, &mut std::io::stdout().lock()),
            To::Stderr => pass(bytes, &mut std::io::stderr().lock()),
            To::Memory => {
                kept.extend_from_slice(bytes);
                Ok(())
            }
            To::Lines => {
                kept.extend_from_slice(bytes);
                while let Some(length) = kept[shown..].iter().position(|byte| *byte == b'\n') {
                    let line = String::from_utf8_lossy(&kept[shown..shown + length]).into_owned();
                    let _ = events.send(Event::Line(line));
                    shown += length + 1;
                }
                Ok(())
            }
            To::Status => {
                let before = told(&kept).is_some();
                kept.extend_from_slice(bytes);
                if !before && told(&kept).is_some() {
                    let _ = events.send(Event::Told);
                }
                Ok(())
            }
        };
        if written.is_err() && !broken {
            // Reading goes on, so that the guest does not hang before it is stopped.
            broken = true;
            let _ = events.send(Event::Unread);
        }
        // Bytes come one by one: to be woken for each would cost more than to write it.
        thread::sleep(GATHER);
    }
}

fn pass(bytes: &[u8], to: &mut impl Write) -> std::io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}

#[cfg(test)]
mod tests;
