//! The server: the programs that run, and the two ways in. `spawn` starts a program on its caller's thread; `upcall` is
//! where a program's thread comes in when it enters the kernel.

use abi::Error;
use abi::frame::{Frame, reason};
use abi::start::StreamRef;
use abi::task::Limits;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use linux_raw_sys::general as linux;
use window::foreign::{After, Personality};

use crate::answer::{End, Errno, Stop, errno};
use crate::coverage::{Coverage, What};
use crate::descriptors::{Description, Descriptors, Object, OnExec};
use crate::family::Family;
use crate::images::Images;
use crate::load::Request;
use crate::machine::{Clock, Machine};
use crate::process::{Call, Process, ProgramName};
use crate::signals::{IGNORE, Sender};
use crate::sync::Mutex;
use crate::tree::{File, Node, Place, Tree};
use crate::{calls, trace};

/// A program to start.
#[derive(Clone, Debug)]
pub struct Spawn<'a> {
    /// As the person typed it or the loader found it; relative paths are relative to `/`.
    pub path: &'a [u8],
    pub arguments: &'a [Vec<u8>],
    /// `NAME=value`.
    pub environment: &'a [Vec<u8>],
    /// Input, output, errors.
    pub streams: [StreamRef; 3],
    /// Address and length of the program's file.
    pub file: u64,
    pub len: u64,
    pub user: u64,
    /// Limits that are 0 stand for as much as this server may have.
    pub limits: Limits,
    /// As in [`Machine::task_create`].
    pub payer: u64,
}

/// Why a program was not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    Defect(elf_plan::Refusal),
    NotReadable,
    /// A program for Musubi.
    Native,
    /// The dynamic linker of this path is not there.
    NoInterpreter(Vec<u8>),
    Arguments(Errno),
    Kernel(abi::Error),
}

impl From<elf_plan::Refusal> for Refusal {
    fn from(defect: elf_plan::Refusal) -> Refusal {
        Refusal::Defect(defect)
    }
}

impl From<abi::Error> for Refusal {
    fn from(error: abi::Error) -> Refusal {
        Refusal::Kernel(error)
    }
}

impl From<Refusal> for Errno {
    fn from(refusal: Refusal) -> Errno {
        match refusal {
            Refusal::Defect(_) | Refusal::Native => Errno(errno::ENOEXEC),
            Refusal::NotReadable => Errno(errno::EACCES),
            Refusal::NoInterpreter(_) => Errno(errno::ENOENT),
            Refusal::Arguments(errno) => errno,
            Refusal::Kernel(error) => error.into(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Defect(defect) => defect.fmt(f),
            Refusal::Native => f.write_str("a program for Musubi"),
            Refusal::NotReadable => f.write_str("the file may not be read by the Linux personality"),
            Refusal::NoInterpreter(path) => {
                write!(f, "its dynamic linker {} is not there", alloc::string::String::from_utf8_lossy(path))
            }
            Refusal::Arguments(_) => f.write_str("arguments and environment are too long"),
            Refusal::Kernel(error) => error.fmt(f),
        }
    }
}

/// How often somebody who waits looks for programs that were killed from outside.
const LOOK_NS: u64 = 500_000_000;

#[derive(Debug)]
pub struct Server<M: Machine> {
    pub machine: M,
    pub images: Images,
    pub coverage: Mutex<Coverage>,
    pub family: Mutex<Family>,
    processes: Mutex<BTreeMap<u64, Arc<Process>>>,
    /// The same names for all of them.
    tree: Arc<Tree>,
    /// When somebody who waits has looked for programs that were killed from outside, in nanoseconds since the machine was started.
    looked: AtomicU64,
}

/// What an entry of a program's thread has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Served {
    Done(After),
    /// As [`Stop::Wait`]: nothing was done.
    Wait(u64),
}

impl<M: Machine> Server<M> {
    pub fn new(machine: M) -> Server<M> {
        Server {
            machine,
            images: Images::default(),
            coverage: Mutex::default(),
            family: Mutex::default(),
            processes: Mutex::default(),
            tree: Arc::new(Tree::new()),
            looked: AtomicU64::new(0),
        }
    }

    /// Starts a program. Value: its task.
    ///
    /// # Errors
    /// Why not; nothing is left of it then.
    pub fn spawn(&self, spawn: &Spawn<'_>) -> Result<u64, Refusal> {
        self.reap();
        let task = self.machine.task_create(spawn.payer, spawn.user, &spawn.limits, crate::tree::last(spawn.path))?;
        let started = self.begin(task, spawn);
        if started.is_err() {
            self.remove(task);
            let _ = self.machine.task_kill(task);
        }
        started.map(|()| task)
    }

    fn begin(&self, task: u64, spawn: &Spawn<'_>) -> Result<(), Refusal> {
        let mut file = File { address: spawn.file, len: spawn.len, ..File::default() };
        let path = crate::tree::normal(spawn.path);
        let found = self.look(&self.tree, &path).ok().and_then(|place| place.entry);
        if let Some(Node::File(known)) = found.map(|entry| entry.node).filter(|_| spawn.file != 0)
            && known.address == spawn.file
        {
            file = known;
        }
        let (arguments, environment) = (spawn.arguments, spawn.environment);
        let request = Request { task, user: spawn.user, path: &path, file, arguments, environment, text: None };
        let loaded = self.load(&request)?;
        self.machine.foreign_set(task, &loaded.text.section)?;
        self.install(task, &loaded.map)?;
        let process = Process {
            task,
            user: spawn.user,
            streams: spawn.streams,
            trace: spawn.environment.iter().any(|v| v.starts_with(b"MUSUBI_STRACE=")),
            text: loaded.text,
            tree: self.tree.clone(),
            map: Mutex::new(loaded.map),
            descriptors: Mutex::default(),
            looked: AtomicBool::new(false),
            signals: Mutex::default(),
            program: Mutex::new(ProgramName::new(&path, file)),
            directory: Mutex::new(b"/".to_vec()),
            umask: Mutex::new(0o022),
            told: AtomicBool::new(false),
        };
        self.family.lock().enter(task);
        self.processes.lock().insert(task, Arc::new(process));
        self.machine.foreign_start(task, &loaded.frame)?;
        Ok(())
    }

    /// What an absolute path leads to: among this server's own names, or among the system's files.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ENAMETOOLONG`, `EACCES`.
    pub fn look(&self, tree: &Tree, whole: &[u8]) -> Result<Place, Errno> {
        let path = crate::tree::normal(whole);
        if tree.owns(&path) {
            return tree.walk(b"/", whole);
        }
        match self.machine.file_look(whole) {
            Ok(entry) => Ok(Place { path, entry: Some(entry) }),
            Err(Error::NotFound) => Ok(Place { path, entry: None }),
            Err(Error::TooBig) => Err(Errno(errno::ENAMETOOLONG)),
            Err(error) => Err(error.into()),
        }
    }

    /// The first descriptors. What streams are is asked on the program's own thread, when it comes in here first: who starts a program names
    /// any gate, and a start by message runs on a thread of the system's, which would call another method of any server there.
    fn look_at_streams(&self, process: &Process) {
        if !process.looked.load(Ordering::Relaxed) && !process.looked.swap(true, Ordering::Relaxed) {
            let standard = self.standard(&process.streams);
            *process.descriptors.lock() = standard;
        }
    }

    /// Descriptors 0, 1 and 2.
    fn standard(&self, streams: &[StreamRef; 3]) -> Descriptors {
        let mut descriptors = Descriptors::default();
        for (stream, flags) in streams.iter().zip([linux::O_RDONLY, linux::O_WRONLY, linux::O_WRONLY]) {
            let terminal = self.machine.stream_terminal(*stream).is_some();
            let flags = if terminal { linux::O_RDWR } else { flags };
            // What is typed comes from the first, and what is printed goes to the second, whichever is used.
            let (input, output) = if terminal { (streams[0], streams[1]) } else { (*stream, *stream) };
            let object = Object::Stream { input, output, terminal };
            let path: &[u8] = if terminal { b"/dev/tty" } else { b"" };
            // The table is empty and has room for three.
            let _ = descriptors.add(Description::new(object, path, 0, flags), 0, OnExec::Keep);
        }
        descriptors
    }

    /// Serves an entry of a program's thread, which came in at that moment (nanoseconds since the machine was started); what it changes in
    /// the frame takes effect. Where it has to wait it is called again, with the same frame.
    pub fn attempt(&self, frame: &mut Frame, since: u64) -> Served {
        let task = frame.task;
        let Some(process) = self.process(task) else {
            return Served::Done(After::End { task, code: End::by(linux::SIGKILL.into()).code() });
        };
        let served = {
            let mut call = Call { server: self, process: &process, frame, since };
            match call.frame.reason {
                reason::SYSCALL => {
                    self.look_at_streams(&process);
                    self.system_call(&mut call)
                }
                _ => calls::signal::fault(&mut call).map_err(Stop::End),
            }
        };
        // Its descriptors go before anybody hears of its end.
        drop(process);
        match served {
            Err(Stop::End(end)) => {
                self.end(task, end);
                Served::Done(After::End { task, code: end.code() })
            }
            Err(Stop::Wait(until)) => Served::Wait(until),
            _ => Served::Done(After::Return),
        }
    }

    /// `Err` when the program ends, or waits.
    fn system_call(&self, call: &mut Call<'_, M>) -> Result<(), Stop> {
        let f = &*call.frame;
        // (In 64 bits of a register: Linux looks at the lower half.)
        let (number, arguments) = (f.rax & u64::from(u32::MAX), [f.rdi, f.rsi, f.rdx, f.r10, f.r8, f.r9]);
        let is_refused = self.machine.is_short() && !calls::gives_back(call, number, arguments);
        let dispatch = |call: &mut Call<'_, M>| calls::dispatch(call, number, arguments);
        // Nothing was begun yet: in the middle there would be nobody to say that there is no memory.
        let answer = if is_refused { Some(Err(Stop::Error(Errno(errno::ENOMEM)))) } else { dispatch(call) };
        let mut answer = answer.unwrap_or_else(|| {
            let program = call.process.program.lock().name.clone();
            self.coverage.lock().record(What::Call(number), &program);
            Err(Stop::Error(Errno(errno::ENOSYS)))
        });
        if let Err(Stop::Wait(_)) = answer {
            let interrupted = call.process.signals.lock().interrupts();
            match interrupted {
                None => return answer.map(drop),
                // After the handler the program makes the call again: the instruction has two bytes, the number is still where it was.
                Some(true) => {
                    call.frame.rip = call.frame.rip.wrapping_sub(2);
                    answer = Err(Stop::Resume);
                }
                Some(false) => answer = Err(Stop::Error(Errno(errno::EINTR))),
            }
        }
        if call.process.trace {
            call.say(trace::line(number, arguments, answer).as_bytes());
        }
        match answer {
            Ok(value) => call.frame.rax = value,
            Err(Stop::Error(Errno(errno))) => call.frame.rax = (-i64::from(errno)) as u64,
            Err(Stop::Resume) => {}
            Err(stop) => return Err(stop),
        }
        calls::signal::deliver(call).map_err(Stop::End)
    }

    /// A program that was started by another one is there from now on.
    pub fn born(&self, parent: u64, child: Process) {
        self.family.lock().born(parent, child.task);
        self.processes.lock().insert(child.task, Arc::new(child));
    }

    /// It was not started after all.
    pub fn remove(&self, task: u64) {
        self.family.lock().remove(task);
        drop(self.forget(task));
    }

    /// Whoever still has it may never come back: a thread that is ended inside of another server lets go of nothing.
    fn forget(&self, task: u64) -> Option<Arc<Process>> {
        let gone = self.processes.lock().remove(&task)?;
        gone.release();
        Some(gone)
    }

    /// A program has ended: its parent is told, and who waits looks again.
    pub fn end(&self, task: u64, end: End) {
        let user = self.forget(task).map_or(0, |process| process.user);
        let sigchld = u64::from(linux::SIGCHLD);
        let told = |parent| self.process(parent).filter(|of| is_told(of, sigchld));
        // Not let go of in the middle: if it is the last one that has it, its files are closed then.
        let mut kept = Vec::new();
        let mut is_told = |parent| {
            let of = self.process(parent);
            let is_told = of.as_ref().is_some_and(|of| is_told(of, sigchld));
            kept.extend(of);
            is_told
        };
        let parent = self.family.lock().end(task, end, &mut is_told);
        drop(kept);
        if let Some(parent) = parent.and_then(told) {
            let code = if let End::Exit(_) = end { linux::CLD_EXITED } else { linux::CLD_KILLED };
            parent.signals.lock().raise(sigchld, Sender { code: code as i32, task, user });
        }
        self.machine.change();
    }

    /// Ends a program, as a signal does.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn kill(&self, task: u64, signal: u64) -> Result<(), Error> {
        let end = End::by(signal);
        self.family.lock().kill(task, end);
        self.machine.task_kill(task)?;
        self.end(task, end);
        Ok(())
    }

    /// Learns of programs that were killed from outside, which no upcall tells of.
    pub fn reap(&self) {
        for task in self.all().into_iter().filter(|&task| self.machine.task_state(task).is_none()) {
            self.end(task, End::by(linux::SIGKILL.into()));
        }
    }

    /// Until when somebody waits at a time who may wait for what others do: who of them was killed from outside does nothing more.
    fn look_at(&self, until: u64) -> u64 {
        if self.processes.lock().len() < 2 {
            return until;
        }
        until.min(self.machine.clock(Clock::SinceBoot) + LOOK_NS)
    }

    /// One of those who wait looks for them.
    fn look_around(&self) {
        let (now, last) = (self.machine.clock(Clock::SinceBoot), self.looked.load(Ordering::Relaxed));
        let is_late = now.saturating_sub(last) >= LOOK_NS;
        if is_late && self.looked.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.reap();
        }
    }

    /// All programs that run.
    #[must_use]
    pub fn all(&self) -> Vec<u64> {
        self.processes.lock().keys().copied().collect()
    }

    /// A program that runs, by its task.
    #[must_use]
    pub fn process(&self, task: u64) -> Option<Arc<Process>> {
        self.processes.lock().get(&task).cloned()
    }
}

impl<M: Machine> Personality for Server<M> {
    fn upcall(&self, frame: &mut Frame) -> After {
        let (task, since) = (frame.task, self.machine.clock(Clock::SinceBoot));
        loop {
            let seen = self.machine.changes();
            match self.attempt(frame, since) {
                Served::Done(after) => return after,
                Served::Wait(until) => {
                    if self.machine.await_change(seen, self.look_at(until)).is_err() {
                        let end = End::by(linux::SIGKILL.into());
                        self.end(task, end);
                        return After::End { task, code: end.code() };
                    }
                    self.look_around();
                }
            }
        }
    }
}

/// Whether a program wants to hear of its children's ends.
fn is_told(process: &Process, sigchld: u64) -> bool {
    process.signals.lock().action(sigchld).is_some_and(|action| action.handler != IGNORE)
}
