//! A machine played by this host: a task is a traced process whose system calls the host's kernel hands to the tracer
//! instead of doing them, a section is a range of one shared file, and a window is what of it is mapped in the process.
//! So programs of this host run under the personality, with the real instructions and the real memory.

use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::fs::File as HostFile;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use abi::foreign::{Frame, reason};
use abi::layout::{GRANULE, SPACE_BASE, WINDOW_END};
use abi::start::StreamRef;
use abi::task::Limits;
use abi::{Error, Rights};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use personality::machine::{Clock, Machine, MemoryState, TaskState};
use personality::map::Granted;
use personality::server::{Server, Spawn};
use personality::tree::{File, Mode};
use window::Section;
use window::foreign::{After, Personality};

/// What stands in for every new process until its own program is mapped. Statically linked, so that little is in the way.
const STAND_IN: [&str; 3] = ["/bin/busybox", "sleep", "1000"];

struct Task {
    child: Child,
    memory: HostFile,
    /// Address of a `syscall` instruction that stays mapped: in the vDSO, far above any window.
    gate: u64,
    start: Option<Frame>,
}

impl Task {
    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Lets the process make a system call of the host.
    fn host_call(&self, number: i64, arguments: [u64; 6]) -> i64 {
        let before = ptrace::getregs(self.pid()).unwrap();
        let mut registers = before;
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        (registers.rdi, registers.rsi, registers.rdx) = (rdi, rsi, rdx);
        (registers.r10, registers.r8, registers.r9) = (r10, r8, r9);
        (registers.rax, registers.orig_rax, registers.rip) = (number as u64, u64::MAX, self.gate);
        ptrace::setregs(self.pid(), registers).unwrap();
        let after = loop {
            // The first step may only leave the call that the process was stopped at.
            ptrace::step(self.pid(), None).unwrap();
            let stopped = waitpid(self.pid(), None).unwrap();
            assert!(matches!(stopped, WaitStatus::Stopped(_, Signal::SIGTRAP)), "{stopped:?}");
            let after = ptrace::getregs(self.pid()).unwrap();
            if after.rip != self.gate {
                break after;
            }
        };
        ptrace::setregs(self.pid(), before).unwrap();
        after.rax as i64
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One stream: what was written to it, or what is to be read.
#[derive(Default)]
pub struct Stream {
    pub bytes: Vec<u8>,
    pub closed: bool,
    pub terminal: bool,
}

pub struct Played {
    space: HostFile,
    space_fd: OwnedFd,
    next: Mutex<u64>,
    live: Mutex<HashMap<u64, (u64, Option<u64>)>>,
    tasks: Mutex<HashMap<u64, Task>>,
    files: Mutex<Vec<(Vec<u8>, File)>>,
    pub streams: Mutex<HashMap<u64, Stream>>,
    views: Mutex<HashMap<(u64, u64), &'static [u8]>>,
}

impl Played {
    pub fn new() -> Played {
        // Inherited by the traced processes, which map it.
        let space_fd = memfd_create("space", MFdFlags::empty()).unwrap();
        let space = HostFile::from(space_fd.try_clone().unwrap());
        space.set_len(1 << 40).unwrap();
        Played {
            space,
            space_fd,
            next: Mutex::new(SPACE_BASE + GRANULE),
            live: Mutex::default(),
            tasks: Mutex::default(),
            files: Mutex::default(),
            streams: Mutex::default(),
            views: Mutex::default(),
        }
    }

    fn allocate(&self, len: u64) -> u64 {
        let mut next = self.next.lock().unwrap();
        let base = *next;
        *next += len.max(1).next_multiple_of(GRANULE);
        base
    }

    pub fn put(&self, name: &[u8], bytes: &[u8], mode: Mode, mtime: i64) -> File {
        let address = if bytes.is_empty() { 0 } else { self.allocate(bytes.len() as u64) };
        if address != 0 {
            self.space.write_all_at(bytes, address - SPACE_BASE).unwrap();
        }
        let file = File { address, len: bytes.len() as u64, mtime, mode };
        self.files.lock().unwrap().push((name.to_vec(), file));
        file
    }

    /// Sections that exist, but for files.
    pub fn sections(&self) -> usize {
        self.live.lock().unwrap().len()
    }

    fn base_of(&self, section: &Section) -> Result<u64, Error> {
        let live = self.live.lock().unwrap();
        if live.contains_key(&section.base()) { Ok(section.base() - SPACE_BASE) } else { Err(Error::NotFound) }
    }

    fn copy(&self, to: u64, from: u64, len: u64) {
        let mut bytes = vec![0; len as usize];
        self.space.read_exact_at(&mut bytes, from).unwrap();
        self.space.write_all_at(&bytes, to).unwrap();
    }

    fn task<T>(&self, task: u64, act: impl FnOnce(&mut Task) -> T) -> Result<T, Error> {
        self.tasks.lock().unwrap().get_mut(&task).map(act).ok_or(Error::NotFound)
    }
}

fn ok(answer: i64) -> Result<(), Error> {
    if answer < 0 { Err(Error::BadArgument) } else { Ok(()) }
}

impl Machine for Played {
    fn task_create(&self, _user: u64, _limits: &Limits, _name: &[u8]) -> Result<u64, Error> {
        let child = Command::new(STAND_IN[0])
            .args(&STAND_IN[1..])
            // No restartable sequences: the host's kernel would write to memory that is about to go.
            .env("GLIBC_TUNABLES", "glibc.pthread.rseq=0")
            .stdin(Stdio::null())
            .spawn()
            .map_err(|_| Error::NotFound)?;
        let pid = Pid::from_raw(child.id() as i32);
        let options = Options::PTRACE_O_EXITKILL | Options::PTRACE_O_TRACESYSGOOD;
        ptrace::seize(pid, options).map_err(|_| Error::Denied)?;
        ptrace::interrupt(pid).unwrap();
        waitpid(pid, None).unwrap();
        let memory = HostFile::options().read(true).write(true).open(format!("/proc/{pid}/mem")).unwrap();
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let vdso = maps.lines().find(|line| line.ends_with("[vdso]")).unwrap();
        let (start, end) = vdso.split(' ').next().unwrap().split_once('-').unwrap();
        let at = |s: &str| u64::from_str_radix(s, 16).unwrap();
        let mut code = vec![0; (at(end) - at(start)) as usize];
        memory.read_exact_at(&mut code, at(start)).unwrap();
        let gate = at(start) + code.windows(2).position(|two| two == [0x0f, 0x05]).unwrap() as u64;
        let task = Task { child, memory, gate, start: None };
        ok(task.host_call(nix::libc::SYS_munmap, [0x1_0000, WINDOW_END - 0x1_0000, 0, 0, 0, 0]))?;
        let number = u64::from(task.child.id());
        self.tasks.lock().unwrap().insert(number, task);
        Ok(number)
    }

    fn task_kill(&self, task: u64) -> Result<(), Error> {
        self.tasks.lock().unwrap().remove(&task).map(drop).ok_or(Error::NotFound)?;
        self.live.lock().unwrap().retain(|_, (_, owner)| *owner != Some(task));
        Ok(())
    }

    fn task_state(&self, task: u64) -> Option<TaskState> {
        self.task(task, |_| TaskState { parent: 1, time_ns: 20_000_000, memory: 1 << 20 }).ok()
    }

    fn foreign_set(&self, task: u64, _text: &Section) -> Result<(), Error> {
        self.task(task, |_| ())
    }

    fn foreign_start(&self, task: u64, frame: &Frame) -> Result<(), Error> {
        self.task(task, |task| task.start = Some(*frame))
    }

    fn section_create(&self, len: u64, reserve: u64) -> Result<Section, Error> {
        let base = self.allocate(reserve);
        self.live.lock().unwrap().insert(base, (len, None));
        Ok(Section::played(base, reserve))
    }

    fn section_clone(&self, original: &Section) -> Result<Section, Error> {
        let from = self.base_of(original)?;
        let len = self.live.lock().unwrap()[&original.base()].0;
        let clone = self.section_create(len, len + 4096)?;
        self.copy(clone.base() - SPACE_BASE, from, len);
        Ok(clone)
    }

    fn section_seal(&self, section: &Section) -> Result<(), Error> {
        self.base_of(section).map(drop)
    }

    fn section_resize(&self, section: &Section, len: u64) -> Result<(), Error> {
        let base = self.base_of(section)?;
        let room = section.reserve().next_multiple_of(GRANULE);
        let mut live = self.live.lock().unwrap();
        let entry = live.get_mut(&section.base()).ok_or(Error::NotFound)?;
        if len > room {
            return Err(Error::TooBig);
        }
        if len < entry.0 {
            self.space.write_all_at(&vec![0; (entry.0 - len) as usize], base + len).unwrap();
        }
        entry.0 = len;
        Ok(())
    }

    fn section_delete(&self, section: &Section) {
        let gone = self.live.lock().unwrap().remove(&section.base());
        assert!(gone.is_some(), "a section is deleted once");
    }

    fn section_name(&self, _section: &Section, _name: &[u8]) {}

    fn section_allow(&self, section: &Section, _task: u64, _text: u64, _rights: Rights) -> Result<(), Error> {
        self.base_of(section).map(drop)
    }

    fn section_give(&self, section: &Section, task: u64) -> Result<(), Error> {
        let mut live = self.live.lock().unwrap();
        live.get_mut(&section.base()).ok_or(Error::NotFound)?.1 = Some(task);
        Ok(())
    }

    fn section_write(&self, section: &Section, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let base = self.base_of(section)?;
        self.space.write_all_at(bytes, base + offset).unwrap();
        Ok(())
    }

    fn section_load(&self, section: &Section, offset: u64, from: u64, len: u64) -> Result<(), Error> {
        let base = self.base_of(section)?;
        if len > 0 {
            self.copy(base + offset, from - SPACE_BASE, len);
        }
        Ok(())
    }

    fn window_map(&self, task: u64, at: u64, section: &Section, offset: u64, len: u64, rights: Rights) -> Result<(), Error> {
        let base = self.base_of(section)?;
        assert!(at + len <= WINDOW_END && offset + len <= self.live.lock().unwrap()[&section.base()].0);
        let fd = self.space_fd.as_raw_fd() as u64;
        let flags = (nix::libc::MAP_SHARED | nix::libc::MAP_FIXED) as u64;
        let arguments = [at, len, u64::from(rights.bits()), flags, fd, base + offset];
        self.task(task, |task| ok(task.host_call(nix::libc::SYS_mmap, arguments)))?
    }

    fn window_unmap(&self, task: u64, address: u64, len: u64) -> Result<(), Error> {
        self.task(task, |task| ok(task.host_call(nix::libc::SYS_munmap, [address, len, 0, 0, 0, 0])))?
    }

    fn window_protect(&self, task: u64, address: u64, len: u64, rights: Rights) -> Result<(), Error> {
        let arguments = [address, len, u64::from(rights.bits()), 0, 0, 0];
        self.task(task, |task| ok(task.host_call(nix::libc::SYS_mprotect, arguments)))?
    }

    fn window_read(&self, task: u64, from: Granted, to: &mut [u8]) -> Result<(), Error> {
        assert_eq!(from.len(), to.len() as u64);
        self.task(task, |task| task.memory.read_exact_at(to, from.address()).expect("what was granted is mapped"))
    }

    fn window_write(&self, task: u64, to: Granted, bytes: &[u8]) -> Result<(), Error> {
        assert_eq!(to.len(), bytes.len() as u64);
        self.task(task, |task| task.memory.write_all_at(bytes, to.address()).expect("what was granted is mapped"))
    }

    fn window_load(&self, task: u64, to: Granted, from: u64) -> Result<(), Error> {
        let mut bytes = vec![0; to.len() as usize];
        self.space.read_exact_at(&mut bytes, from - SPACE_BASE).unwrap();
        self.window_write(task, to, &bytes)
    }

    fn window_zero(&self, task: u64, to: Granted) -> Result<(), Error> {
        self.window_write(task, to, &vec![0; to.len() as usize])
    }

    fn view(&self, from: u64, len: u64) -> Option<&'static [u8]> {
        if len == 0 {
            return Some(&[]);
        }
        let from = from.checked_sub(SPACE_BASE)?;
        // Kept for ever, like a file on Musubi.
        Some(*self.views.lock().unwrap().entry((from, len)).or_insert_with(|| {
            let mut bytes = vec![0; len as usize];
            self.space.read_exact_at(&mut bytes, from).unwrap();
            bytes.leak()
        }))
    }

    fn files(&self) -> Result<Vec<(Vec<u8>, File)>, Error> {
        Ok(self.files.lock().unwrap().clone())
    }

    fn file_open(&self, path: &[u8]) -> Result<File, Error> {
        let plain = |name: &[u8]| name.strip_prefix(b"/").unwrap_or(name).to_vec();
        let files = self.files.lock().unwrap();
        files.iter().find(|(name, _)| plain(name) == plain(path)).map(|(_, file)| *file).ok_or(Error::NotFound)
    }

    fn stream_read(&self, stream: StreamRef, to: &mut [u8]) -> Result<usize, Error> {
        let mut streams = self.streams.lock().unwrap();
        let stream = streams.get_mut(&stream.id).ok_or(Error::NotFound)?;
        let n = to.len().min(stream.bytes.len());
        to[..n].copy_from_slice(&stream.bytes[..n]);
        stream.bytes.drain(..n);
        Ok(n)
    }

    fn stream_write(&self, stream: StreamRef, bytes: &[u8]) -> Result<usize, Error> {
        let mut streams = self.streams.lock().unwrap();
        let stream = streams.get_mut(&stream.id).ok_or(Error::NotFound)?;
        if stream.closed {
            return Err(Error::Dead);
        }
        // Some only, as a pipe may do.
        let n = bytes.len().min(5000);
        stream.bytes.extend_from_slice(&bytes[..n]);
        Ok(n)
    }

    fn stream_terminal(&self, stream: StreamRef) -> Option<(u16, u16)> {
        let streams = self.streams.lock().unwrap();
        streams.get(&stream.id).filter(|stream| stream.terminal).map(|_| (80, 25))
    }

    fn clock(&self, clock: Clock) -> u64 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
        match clock {
            Clock::Since1970 => now,
            Clock::SinceBoot => now % (1 << 40),
        }
    }

    fn sleep(&self, ns: u64) -> Result<(), Error> {
        std::thread::sleep(std::time::Duration::from_nanos(ns));
        Ok(())
    }

    fn yield_now(&self) {}

    fn processors(&self) -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    fn memory(&self) -> MemoryState {
        MemoryState { total: 1 << 30, free: 1 << 29, tasks: 1 }
    }

    fn random(&self, to: &mut [u8]) {
        to.iter_mut().enumerate().for_each(|(i, byte)| *byte = i as u8 ^ 0x5a);
    }
}

/// What a program printed, and how it ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub output: Vec<u8>,
    pub errors: Vec<u8>,
    pub code: u64,
}

/// Runs one program to its end.
pub fn run(server: &Server<Played>, arguments: &[&str], input: &[u8]) -> Outcome {
    let trace = std::env::var("TRACE").is_ok();
    let environment: &[&str] = if trace { &["PATH=/bin", "MUSUBI_STRACE=1"] } else { &["PATH=/bin"] };
    run_with(server, arguments, environment, input, |_| {})
}

pub fn run_with(
    server: &Server<Played>,
    arguments: &[&str],
    environment: &[&str],
    input: &[u8],
    prepare: impl FnOnce(&mut HashMap<u64, Stream>),
) -> Outcome {
    let machine = &server.machine;
    {
        let mut streams = machine.streams.lock().unwrap();
        streams.insert(0, Stream { bytes: input.to_vec(), ..Stream::default() });
        streams.insert(1, Stream::default());
        streams.insert(2, Stream::default());
        prepare(&mut streams);
    }
    let path = arguments[0].as_bytes();
    let file = machine.file_open(path).unwrap();
    let all = |list: &[&str]| list.iter().map(|s| s.as_bytes().to_vec()).collect::<Vec<_>>();
    let task = server
        .spawn(&Spawn {
            path,
            arguments: &all(arguments),
            environment: &all(environment),
            streams: [0, 1, 2].map(|id| StreamRef { gate: 1, id }),
            file: file.address,
            len: file.len,
            user: 0,
            limits: Limits::default(),
            parent: 1,
        })
        .unwrap_or_else(|refusal| panic!("{refusal}"));
    let code = follow(server, task);
    let mut streams = machine.streams.lock().unwrap();
    let mut take = |id| streams.remove(&id).map(|s: Stream| s.bytes).unwrap_or_default();
    Outcome { output: take(1), errors: take(2), code }
}

/// Serves a task's entries until it ends. Answers its exit code.
fn follow(server: &Server<Played>, number: u64) -> u64 {
    let (pid, start) = server.machine.task(number, |task| (task.pid(), task.start.take().unwrap())).unwrap();
    let mut registers = ptrace::getregs(pid).unwrap();
    let mut frame = start;
    loop {
        put_registers(&mut registers, &frame);
        ptrace::setregs(pid, registers).unwrap();
        ptrace::sysemu(pid, None).unwrap();
        let stopped = waitpid(pid, None).unwrap();
        registers = ptrace::getregs(pid).unwrap();
        frame = frame_of(&registers, number);
        match stopped {
            WaitStatus::PtraceSyscall(_) => frame.rax = registers.orig_rax,
            WaitStatus::Stopped(_, Signal::SIGSEGV) => {
                frame.reason = reason::FAULT;
                frame.right = u64::from(Rights::READ.bits());
            }
            WaitStatus::Stopped(_, signal) => {
                frame.reason = reason::EXCEPTION;
                frame.address = match signal {
                    Signal::SIGFPE => 0,
                    Signal::SIGTRAP => 3,
                    Signal::SIGILL => 6,
                    other => panic!("the program got {other}"),
                };
            }
            other => panic!("{other:?}"),
        }
        if let After::End { task, code } = server.upcall(&mut frame) {
            assert_eq!(task, number);
            server.machine.task_kill(task).unwrap();
            return code;
        }
    }
}

fn frame_of(r: &nix::libc::user_regs_struct, task: u64) -> Frame {
    Frame {
        rax: r.rax,
        rbx: r.rbx,
        rcx: r.rcx,
        rdx: r.rdx,
        rsi: r.rsi,
        rdi: r.rdi,
        rbp: r.rbp,
        rsp: r.rsp,
        r8: r.r8,
        r9: r.r9,
        r10: r.r10,
        r11: r.r11,
        r12: r.r12,
        r13: r.r13,
        r14: r.r14,
        r15: r.r15,
        rip: r.rip,
        rflags: r.eflags,
        fs_base: r.fs_base,
        gs_base: r.gs_base,
        reason: reason::SYSCALL,
        task,
        thread: task,
        ..Frame::default()
    }
}

fn put_registers(r: &mut nix::libc::user_regs_struct, f: &Frame) {
    (r.rax, r.rbx, r.rcx, r.rdx) = (f.rax, f.rbx, f.rcx, f.rdx);
    (r.rsi, r.rdi, r.rbp, r.rsp) = (f.rsi, f.rdi, f.rbp, f.rsp);
    (r.r8, r.r9, r.r10, r.r11) = (f.r8, f.r9, f.r10, f.r11);
    (r.r12, r.r13, r.r14, r.r15) = (f.r12, f.r13, f.r14, f.r15);
    (r.rip, r.eflags, r.fs_base, r.gs_base) = (f.rip, f.rflags, f.fs_base, f.gs_base);
    r.orig_rax = u64::MAX;
}

/// The same command on this host, in a directory with the same files.
pub fn on_host(directory: &std::path::Path, arguments: &[&str], input: &[u8]) -> Outcome {
    use std::io::Write;
    let mut child = Command::new(OsStr::from_bytes(b"/bin/busybox"))
        .args(&arguments[1..])
        .current_dir(directory)
        .env_clear()
        .env("PATH", "/bin")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that does not read its input may have ended before.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let code = std::os::unix::process::ExitStatusExt::signal(&output.status)
        .map_or_else(|| output.status.code().unwrap() as u64, |signal| 128 + signal as u64);
    Outcome { output: output.stdout, errors: output.stderr, code }
}

/// Whether this host can play the machine.
pub fn possible() -> bool {
    let there = CString::new(STAND_IN[0]).is_ok() && std::path::Path::new(STAND_IN[0]).exists();
    if !there {
        eprintln!("skipped: no {}", STAND_IN[0]);
        return false;
    }
    let machine = Played::new();
    let made = machine.task_create(0, &Limits::default(), b"try");
    if let Err(error) = &made {
        eprintln!("skipped: a process cannot be traced here: {error}");
    }
    made.is_ok()
}

/// A program that is loaded but does not run: the test makes its system calls for it.
pub struct Puppet<'a> {
    pub server: &'a Server<Played>,
    pub task: u64,
    frame: Frame,
}

impl Puppet<'_> {
    pub fn new(server: &Server<Played>) -> Puppet<'_> {
        {
            let mut streams = server.machine.streams.lock().unwrap();
            (0..3).for_each(|id| drop(streams.insert(id, Stream::default())));
        }
        let file = server.machine.file_open(b"busybox").unwrap();
        let task = server
            .spawn(&Spawn {
                path: b"busybox",
                arguments: &[b"busybox".to_vec()],
                environment: &[],
                streams: [0, 1, 2].map(|id| StreamRef { gate: 1, id }),
                file: file.address,
                len: file.len,
                user: 1,
                limits: Limits::default(),
                parent: 1,
            })
            .unwrap();
        let frame = server.machine.task(task, |task| task.start.take().unwrap()).unwrap();
        Puppet { server, task, frame }
    }

    /// One call. `Err` with the exit code if it ended the program.
    pub fn try_call(&mut self, number: u64, arguments: &[u64]) -> Result<i64, u64> {
        let mut six = [0; 6];
        six[..arguments.len()].copy_from_slice(arguments);
        let mut frame = Frame { rax: number, task: self.task, thread: self.task, ..self.frame };
        [frame.rdi, frame.rsi, frame.rdx, frame.r10, frame.r8, frame.r9] = six;
        match self.server.upcall(&mut frame) {
            After::Return => Ok(frame.rax as i64),
            After::End { code, .. } => Err(code),
        }
    }

    pub fn call(&mut self, number: u64, arguments: &[u64]) -> i64 {
        self.try_call(number, arguments).expect("it does not end the program")
    }

    pub fn peek(&self, address: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.server.machine.task(self.task, |task| task.memory.read_exact_at(&mut bytes, address).unwrap()).unwrap();
        bytes
    }

    pub fn poke(&self, address: u64, bytes: &[u8]) {
        self.server.machine.task(self.task, |task| task.memory.write_all_at(bytes, address).unwrap()).unwrap();
    }

    /// What the host says is mapped in the window: (start, end, rights).
    pub fn mapped(&self) -> Vec<(u64, u64, Rights)> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.task)).unwrap();
        let mut ranges: Vec<(u64, u64, Rights)> = Vec::new();
        for line in maps.lines() {
            let (range, rest) = line.split_once(' ').unwrap();
            let (start, end) = range.split_once('-').unwrap();
            let at = |s: &str| u64::from_str_radix(s, 16).unwrap();
            let mut rights = Rights::empty();
            rights.set(Rights::READ, rest.as_bytes()[0] == b'r');
            rights.set(Rights::WRITE, rest.as_bytes()[1] == b'w');
            rights.set(Rights::EXECUTE, rest.as_bytes()[2] == b'x');
            if at(start) < WINDOW_END {
                join(&mut ranges, (at(start), at(end), rights));
            }
        }
        ranges
    }

    /// What the personality has on record.
    pub fn recorded(&self) -> Vec<(u64, u64, Rights)> {
        let process = self.server.process(self.task).unwrap();
        let mut ranges = Vec::new();
        for (range, piece) in process.map.lock().iter().filter(|(_, piece)| !piece.rights.is_empty()) {
            join(&mut ranges, (range.start, range.end, piece.rights));
        }
        ranges
    }
}

fn join(ranges: &mut Vec<(u64, u64, Rights)>, next: (u64, u64, Rights)) {
    match ranges.last_mut() {
        Some(last) if last.1 == next.0 && last.2 == next.2 => last.1 = next.1,
        _ => ranges.push(next),
    }
}

impl Drop for Puppet<'_> {
    fn drop(&mut self) {
        let _ = self.server.machine.task_kill(self.task);
    }
}
