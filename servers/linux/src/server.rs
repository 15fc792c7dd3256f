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
use core::sync::atomic::AtomicBool;
use linux_raw_sys::general as linux;
use window::foreign::{After, Personality};

use crate::answer::{Errno, Stop, errno};
use crate::coverage::{Coverage, What};
use crate::descriptors::{Description, Descriptors, Object, OnExec};
use crate::images::Images;
use crate::load::Request;
use crate::machine::Machine;
use crate::process::{Call, Process, ProgramName};
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

#[derive(Debug)]
pub struct Server<M: Machine> {
    pub machine: M,
    pub images: Images,
    pub coverage: Mutex<Coverage>,
    processes: Mutex<BTreeMap<u64, Arc<Process>>>,
}

impl<M: Machine> Server<M> {
    pub fn new(machine: M) -> Server<M> {
        Server { machine, images: Images::default(), coverage: Mutex::default(), processes: Mutex::default() }
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
            self.forget(task);
            let _ = self.machine.task_kill(task);
        }
        started.map(|()| task)
    }

    fn begin(&self, task: u64, spawn: &Spawn<'_>) -> Result<(), Refusal> {
        let tree = Tree::new();
        let mut file = File { address: spawn.file, len: spawn.len, ..File::default() };
        let path = crate::tree::normal(spawn.path);
        let found = self.look(&tree, &path).ok().and_then(|place| place.entry);
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
            tree: Arc::new(tree),
            map: Mutex::new(loaded.map),
            descriptors: Mutex::new(self.standard(&spawn.streams)),
            signals: Mutex::default(),
            program: Mutex::new(ProgramName::new(&path, file)),
            directory: Mutex::new(b"/".to_vec()),
            umask: Mutex::new(0o022),
            told: AtomicBool::new(false),
        };
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

    /// Serves an entry of a program's thread; what it changes in the frame takes effect.
    fn serve(&self, frame: &mut Frame) -> After {
        let task = frame.task;
        let Some(process) = self.processes.lock().get(&task).cloned() else {
            return After::End { task, code: 128 + u64::from(linux::SIGKILL) };
        };
        let mut call = Call { server: self, process: &process, frame };
        let ended = match call.frame.reason {
            reason::SYSCALL => self.system_call(&mut call),
            _ => Err(fault(&call)),
        };
        match ended {
            Ok(()) => After::Return,
            Err(code) => {
                self.forget(task);
                After::End { task, code }
            }
        }
    }

    /// `Err` with the exit code when the program ends.
    fn system_call(&self, call: &mut Call<'_, M>) -> Result<(), u64> {
        let f = &*call.frame;
        let (number, arguments) = (f.rax, [f.rdi, f.rsi, f.rdx, f.r10, f.r8, f.r9]);
        let answer = calls::dispatch(call, number, arguments).unwrap_or_else(|| {
            let program = call.process.program.lock().name.clone();
            self.coverage.lock().record(What::Call(number), &program);
            Err(Stop::Error(Errno(errno::ENOSYS)))
        });
        if call.process.trace {
            call.say(trace::line(number, arguments, answer).as_bytes());
        }
        match answer {
            Ok(value) => call.frame.rax = value,
            Err(Stop::Error(Errno(errno))) => call.frame.rax = (-i64::from(errno)) as u64,
            Err(Stop::Resume) => {}
            Err(Stop::End(code)) => return Err(code),
        }
        calls::signal::deliver(call)
    }

    fn forget(&self, task: u64) {
        let gone = self.processes.lock().remove(&task);
        drop(gone);
    }

    /// Forgets programs that were killed from outside, which no upcall tells of.
    fn reap(&self) {
        let tasks: Vec<u64> = self.processes.lock().keys().copied().collect();
        for task in tasks.into_iter().filter(|&task| self.machine.task_state(task).is_none()) {
            self.forget(task);
        }
    }

    /// A program that runs, by its task.
    #[must_use]
    pub fn process(&self, task: u64) -> Option<Arc<Process>> {
        self.processes.lock().get(&task).cloned()
    }
}

impl<M: Machine> Personality for Server<M> {
    fn upcall(&self, frame: &mut Frame) -> After {
        self.serve(frame)
    }
}

/// A fault of the program: says so, and answers the exit code that a shell on Linux would show.
fn fault<M: Machine>(call: &Call<'_, M>) -> u64 {
    let (signal, line) = trace::fault(call.frame);
    call.say(line.as_bytes());
    128 + signal
}
