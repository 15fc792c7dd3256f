//! One command line in a fresh machine.

use crate::accel::Accel;
use crate::guard::Farewell;
use crate::load::Load;
use crate::options::Options;
use crate::outcome::{Outcome, told};
use crate::qemu::{self, CONSOLE, CONSOLES, Console, Emulator, MEMORY};
use crate::stream::{self, Parts, Stream};
use crate::{run, rundir};
use anyhow::{Context, Result};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, openat};
use rustix::io::Errno;
use std::fs;
use std::io::{ErrorKind, Read};
use std::os::fd::BorrowedFd;
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

/// What the readers of the consoles tell the main thread.
enum Event {
    /// A line of standard output.
    Line(String),
    /// The outcome has been told.
    Told,
    /// Something could not be passed on: there is no point in going on.
    Stuck,
}

impl Exec<'_> {
    /// Boots, runs, waits for the end. Errors are those of the host; the guest's are in the outcome.
    pub fn finish(&self) -> Result<Finished> {
        self.finish_telling(None)
    }

    /// The same; of an output that is kept each line is told as it comes.
    pub fn finish_telling(&self, progress: Option<&mut dyn FnMut(&str)>) -> Result<Finished> {
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
        machine.finish(dir.path(), self.sink, progress)
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
        for (name, _) in CONSOLES {
            pipes.push(pipe(&dir.join(name)).context("cannot make a named pipe")?);
        }
        let memory = stream::make_memory(&dir.join(MEMORY))?;
        let mut command = self.emulator.command(Farewell::Kill)?;
        command.args(qemu::arguments(self.options, accel, self.kernel, self.words, Console::Log));
        command.current_dir(dir).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(fs::File::create(dir.join(QEMU_LOG))?);
        let start = Instant::now();
        let mut child = command.spawn().context("QEMU does not start")?;

        let over = AtomicBool::new(false);
        let (events, inbox) = channel();
        let [output, status] = pipes.try_into().expect("there are two consoles");
        let (printer, status, end) = thread::scope(|scope| {
            let over = &over;
            let (to_output, to_status) = (events.clone(), events.clone());
            let lines = progress.is_some().then(|| Lines { told: 0, to: events });
            let mut printer = Printer { sink, printed: Default::default(), lines, failed: None };
            let printer = scope.spawn(move || {
                let mut parts = Parts::new(memory);
                read(output, over, |bytes| {
                    let before = printer.failed.is_some();
                    if let Err(error) = parts.take(bytes, |stream, part| printer.print(stream, part)) {
                        printer.failed.get_or_insert(Outcome::Died(format!("{error:#}")));
                    }
                    // Reading goes on, so that the guest does not hang before it is stopped.
                    if printer.failed.is_some() && !before {
                        let _ = to_output.send(Event::Stuck);
                    }
                });
                printer
            });
            let status = scope.spawn(move || {
                let mut kept = Vec::new();
                read(status, over, |bytes| {
                    let before = told(&kept).is_some();
                    kept.extend_from_slice(bytes);
                    if !before && told(&kept).is_some() {
                        let _ = to_status.send(Event::Told);
                    }
                });
                kept
            });
            let end = watch(&mut child, self.timeout, &inbox, progress);
            over.store(true, Ordering::Release);
            let joined = "readers do not panic";
            (printer.join().expect(joined), status.join().expect(joined), end)
        });
        let [out, err] = printer.printed;
        let end = end?;
        let outcome = match printer.failed {
            Some(outcome) => outcome,
            None => Outcome::judge(&status, end.qemu, end.timed_out),
        };
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
}

/// Waits until QEMU has ended, and sees to it that it does. A guest that is asked for progress shows by each line that it
/// lives: its time begins again.
fn watch(child: &mut Child, timeout: Duration, inbox: &Receiver<Event>, mut progress: Option<Progress>) -> Result<End> {
    let mut deadline = Instant::now() + timeout;
    let (mut was_told, mut stuck) = (false, false);
    loop {
        if let Some(ended) = child.try_wait().context("waiting for QEMU")? {
            return Ok(End { qemu: Some(ended.code()), timed_out: false });
        }
        if stuck || Instant::now() >= deadline {
            // The error would be that it has ended by itself in between.
            let _ = child.kill();
            child.wait().context("waiting for QEMU")?;
            return Ok(End { qemu: None, timed_out: !was_told });
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
            Ok(Event::Stuck) => stuck = true,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => thread::sleep(TICK),
        }
    }
}

/// Passes on what the guest prints, or keeps it.
struct Printer {
    sink: Sink,
    /// Output and errors, if they are kept.
    printed: [Vec<u8>; 2],
    /// If each line of the output that is kept is told.
    lines: Option<Lines>,
    /// What it came to when something could not be passed on; nothing is after that.
    failed: Option<Outcome>,
}

impl Printer {
    fn print(&mut self, stream: Stream, bytes: &[u8]) {
        let [out, err] = &mut self.printed;
        let (kept, name, ours) = match stream {
            Stream::Output => (out, "standard output", rustix::stdio::stdout()),
            Stream::Errors => (err, "standard error", rustix::stdio::stderr()),
        };
        if self.sink == Sink::Keep {
            kept.extend_from_slice(bytes);
            if let (Some(lines), Stream::Output) = (&mut self.lines, stream) {
                lines.tell(kept);
            }
        } else if self.failed.is_none() {
            self.failed = pass(bytes, ours).err().map(|error| Outcome::unwritten(name, &error));
        }
    }
}

/// How far a kept output was told line by line, and to whom.
struct Lines {
    told: usize,
    to: Sender<Event>,
}

impl Lines {
    fn tell(&mut self, kept: &[u8]) {
        while let Some(length) = kept[self.told..].iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(&kept[self.told..self.told + length]).into_owned();
            let _ = self.to.send(Event::Line(line));
            self.told += length + 1;
        }
    }
}

/// A named pipe, and our end of it. A pipe gathers what QEMU writes byte by byte; a socket would keep each byte in a
/// message of its own.
fn pipe(path: &Path) -> Result<fs::File> {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    let ours = openat(CWD, path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    Ok(ours.into())
}

/// Reads one console to its end, which comes when QEMU is gone.
fn read(mut pipe: fs::File, over: &AtomicBool, mut each: impl FnMut(&[u8])) {
    let mut buffer = [0; 64 << 10];
    loop {
        // Asked before the attempt: what was written before the end is not missed.
        let last = over.load(Ordering::Acquire);
        match pipe.read(&mut buffer) {
            // Nobody has opened the other end yet, or nobody has it open any more.
            Ok(0) if last => return,
            Ok(0) => thread::sleep(TICK),
            Ok(len) => {
                each(&buffer[..len]);
                // Bytes come one by one: to be woken for each would cost more than to write it.
                thread::sleep(GATHER);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock && !last => thread::sleep(TICK),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Writes to one of our own streams. The library's own way would take a closed one for one that takes everything.
fn pass(mut bytes: &[u8], to: BorrowedFd<'_>) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(len) => bytes = &bytes[len..],
            Err(Errno::INTR) => {}
            // Somebody has made the stream one that does not wait.
            Err(Errno::AGAIN) => thread::sleep(TICK),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
