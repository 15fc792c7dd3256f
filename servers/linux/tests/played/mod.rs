//! A machine played by this host: a task is a traced process whose system calls the host's kernel hands to the tracer
//! instead of doing them, a section is a range of one shared file, and a window is what of it is mapped in the process.
//! So programs of this host run under the personality, with the real instructions and the real memory.

#![allow(dead_code, unused_imports, reason = "each file of tests uses its own part")]

mod files;
mod process;
mod puppet;
mod run;

pub use files::Mode;
pub use puppet::Puppet;
pub use run::{Outcome, on_host, possible, run, run_with};

use std::collections::HashMap;
use std::fs::File as HostFile;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use abi::frame::{Frame, Vectors};
use abi::layout::{GRANULE, SPACE_BASE, WINDOW_END};
use abi::start::StreamRef;
use abi::task::Limits;
use abi::{Error, Rights};
use linux_raw_sys::general::{AT_FDCWD, MAP_ANONYMOUS, MAP_PRIVATE, PROT_READ, PROT_WRITE};
use musubi::interfaces::files::how;
use nix::sys::memfd::{MFdFlags, memfd_create};
use personality::calls::to;
use personality::descriptors::{Name, OpenFile};
use personality::machine::{Clock, Machine, MemoryState, TaskState};
use personality::map::Granted;
use personality::tree::{Entry, File, Node};
use process::{Task, ok};
use window::Section;

/// What calls are made with.
pub const PAGE: u64 = 4096;
pub const RW: u64 = (PROT_READ | PROT_WRITE) as u64;
pub const PRIVATE: u64 = (MAP_PRIVATE | MAP_ANONYMOUS) as u64;
pub const NO_FD: u64 = u64::MAX;
pub const HERE: u64 = AT_FDCWD as i64 as u64;

/// Most bytes of a file that is written.
const ROOM: u64 = 64 << 20;

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
    files: Arc<Mutex<files::Files>>,
    pub streams: Mutex<HashMap<u64, Stream>>,
    changes: Mutex<u64>,
    /// Whom calls were passed on to (`personality::calls::to`), since somebody has asked.
    pub passed: Arc<Mutex<u8>>,
    /// Whether all threads are killed.
    pub killed: AtomicBool,
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
            files: Arc::default(),
            streams: Mutex::default(),
            changes: Mutex::default(),
            passed: Arc::default(),
            killed: AtomicBool::default(),
        }
    }

    fn pass(&self, to: u8) {
        *self.passed.lock().unwrap() |= to;
    }

    fn allocate(&self, len: u64) -> u64 {
        let mut next = self.next.lock().unwrap();
        let base = *next;
        *next += len.max(1).next_multiple_of(GRANULE);
        base
    }

    fn seconds(&self) -> i64 {
        (self.clock(Clock::Since1970) / 1_000_000_000) as i64
    }

    /// Changes a file, in a place of its own.
    fn change<T>(&self, open: u64, change: impl FnOnce(&mut File) -> T) -> Result<T, Error> {
        let (shared, asked) = self.files.lock().unwrap().opened(open)?;
        if asked & how::WRITE == 0 {
            return Err(Error::Denied);
        }
        let mut entry = shared.lock().unwrap();
        entry.mode.mtime = self.seconds();
        let Node::File(file) = &mut entry.node else { return Err(Error::IsADirectory) };
        if file.fixed || file.address == 0 {
            let address = self.allocate(ROOM);
            if file.len > 0 {
                self.copy(address - SPACE_BASE, file.address - SPACE_BASE, file.len);
            }
            *file = File { address, fixed: false, ..*file };
        }
        Ok(change(file))
    }

    /// The tasks that have a thread to start.
    pub fn started(&self) -> Vec<u64> {
        self.tasks.lock().unwrap().iter().filter(|(_, task)| task.start.is_some()).map(|(number, _)| *number).collect()
    }

    /// Files that are open.
    pub fn open_files(&self) -> usize {
        self.files.lock().unwrap().open.len()
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

impl Machine for Played {
    fn task_create(&self, _payer: u64, _user: u64, _limits: &Limits, _name: &[u8]) -> Result<u64, Error> {
        let task = Task::start()?;
        let number = task.pid().as_raw() as u64;
        self.tasks.lock().unwrap().insert(number, task);
        Ok(number)
    }

    fn task_kill(&self, task: u64) -> Result<(), Error> {
        self.tasks.lock().unwrap().remove(&task).map(drop).ok_or(Error::NotFound)?;
        self.live.lock().unwrap().retain(|_, (_, owner)| *owner != Some(task));
        Ok(())
    }

    fn task_drop(&self, task: u64) {
        let _ = self.task_kill(task);
    }
    fn task_state(&self, task: u64) -> Option<TaskState> {
        self.task(task, |_| TaskState { time_ns: 20_000_000, memory: 1 << 20 }).ok()
    }

    fn parent(&self, _task: u64) -> u64 {
        self.pass(to::PROCESSES);
        1
    }
    fn task_adopt(&self, task: u64) -> Result<(), Error> {
        self.pass(to::PROCESSES);
        self.task(task, |_| ())
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
        let clone = self.section_create(len, original.reserve().max(len + 4096))?;
        self.copy(clone.base() - SPACE_BASE, from, len);
        Ok(clone)
    }

    fn snapshot(&self, file: u64, len: u64) -> Result<Section, Error> {
        let made = self.section_create(len, len)?;
        self.copy(made.base() - SPACE_BASE, file - SPACE_BASE, len);
        Ok(made)
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

    fn section_owner(&self, section: &Section) -> Option<u64> {
        self.live.lock().unwrap().get(&section.base())?.1
    }
    fn section_allow(&self, section: &Section, _: u64, _: u64, _: Rights) -> Result<(), Error> {
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

    fn window_map(
        &self,
        task: u64,
        at: u64,
        section: &Section,
        offset: u64,
        len: u64,
        rights: Rights,
    ) -> Result<(), Error> {
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

    fn vectors(&self, task: u64) -> Result<Vectors, Error> {
        self.task(task, |task| task.vectors())
    }

    fn set_vectors(&self, task: u64, vectors: &Vectors) -> Result<(), Error> {
        self.task(task, |task| task.set_vectors(vectors))
    }

    fn view(&self, from: u64, len: u64) -> Option<&'static [u8]> {
        if len == 0 {
            return Some(&[]);
        }
        let from = from.checked_sub(SPACE_BASE)?;
        // As it is now: nobody here looks for long.
        let mut bytes = vec![0; len as usize];
        self.space.read_exact_at(&mut bytes, from).unwrap();
        Some(bytes.leak())
    }

    fn file_look(&self, path: &[u8]) -> Result<Entry, Error> {
        self.pass(to::FILES);
        self.files.lock().unwrap().find(path).map(|found| *found.lock().unwrap())
    }

    fn file_look_for(&self, user: u64, path: &[u8]) -> Result<Entry, Error> {
        self.files.lock().unwrap().look_for(user, path)
    }

    fn file_open(&self, path: &[u8], how: u64) -> Result<(OpenFile, Entry), Error> {
        self.pass(to::FILES);
        let now = self.seconds();
        let (files, passed) = (self.files.clone(), self.passed.clone());
        let close = move |number| {
            *passed.lock().unwrap() |= to::FILES;
            assert!(files.lock().unwrap().open.remove(&number).is_some());
        };
        let (number, entry) = self.files.lock().unwrap().open(path, how, now)?;
        Ok((OpenFile::new(number, close), entry))
    }

    fn file_status(&self, open: u64) -> Result<Entry, Error> {
        self.pass(to::FILES);
        self.files.lock().unwrap().opened(open).map(|open| *open.0.lock().unwrap())
    }

    fn file_write(&self, open: u64, at: u64, bytes: &[u8]) -> Result<u64, Error> {
        self.pass(to::FILES);
        self.change(open, |file| {
            let at = if at == u64::MAX { file.len } else { at };
            self.space.write_all_at(bytes, file.address - SPACE_BASE + at).unwrap();
            file.len = file.len.max(at + bytes.len() as u64);
            bytes.len() as u64
        })
    }

    fn file_resize(&self, open: u64, len: u64) -> Result<(), Error> {
        self.pass(to::FILES);
        self.change(open, |file| {
            if len < file.len {
                let zeroes = vec![0; (file.len - len) as usize];
                self.space.write_all_at(&zeroes, file.address - SPACE_BASE + len).unwrap();
            }
            file.len = len;
        })
    }

    fn file_list(&self, path: &[u8]) -> Result<Vec<Name>, Error> {
        self.pass(to::FILES);
        self.files.lock().unwrap().list(path)
    }

    fn file_remove(&self, path: &[u8]) -> Result<(), Error> {
        self.pass(to::FILES);
        self.files.lock().unwrap().remove(path, false)
    }

    fn file_rename(&self, from: &[u8], to: &[u8]) -> Result<(), Error> {
        self.pass(to::FILES);
        self.files.lock().unwrap().rename(from, to)
    }

    fn file_set_mode(&self, path: &[u8], bits: u32) -> Result<(), Error> {
        self.pass(to::FILES);
        let found = self.files.lock().unwrap().find(path)?;
        found.lock().unwrap().mode.bits = bits;
        Ok(())
    }

    fn file_set_time(&self, path: &[u8], mtime: i64) -> Result<(), Error> {
        self.pass(to::FILES);
        let found = self.files.lock().unwrap().find(path)?;
        found.lock().unwrap().mode.mtime = mtime;
        Ok(())
    }

    fn directory_make(&self, path: &[u8], bits: u32) -> Result<(), Error> {
        self.pass(to::FILES);
        let now = self.seconds();
        self.files.lock().unwrap().make(path, bits, now)
    }

    fn directory_remove(&self, path: &[u8]) -> Result<(), Error> {
        self.pass(to::FILES);
        self.files.lock().unwrap().remove(path, true)
    }

    fn stream_read(&self, stream: StreamRef, to: &mut [u8]) -> Result<usize, Error> {
        self.pass(to::STREAMS);
        let mut streams = self.streams.lock().unwrap();
        let stream = streams.get_mut(&stream.id).ok_or(Error::NotFound)?;
        let n = to.len().min(stream.bytes.len());
        to[..n].copy_from_slice(&stream.bytes[..n]);
        stream.bytes.drain(..n);
        Ok(n)
    }

    fn stream_write(&self, stream: StreamRef, bytes: &[u8]) -> Result<usize, Error> {
        self.pass(to::STREAMS);
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
        self.pass(to::STREAMS);
        let streams = self.streams.lock().unwrap();
        streams.get(&stream.id).filter(|stream| stream.terminal).map(|_| (80, 25))
    }

    fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }

    fn changes(&self) -> u64 {
        *self.changes.lock().unwrap()
    }

    fn change(&self) {
        *self.changes.lock().unwrap() += 1;
    }
    fn await_change(&self, _seen: u64, until: u64) -> Result<(), Error> {
        assert_ne!(until, u64::MAX, "nobody is there who could change anything");
        let left = until.saturating_sub(self.clock(Clock::SinceBoot));
        std::thread::sleep(std::time::Duration::from_nanos(left));
        Ok(())
    }

    fn clock(&self, clock: Clock) -> u64 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
        if matches!(clock, Clock::Since1970) { now } else { now % (1 << 40) }
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
