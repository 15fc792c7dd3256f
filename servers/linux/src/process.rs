//! One Linux program while it runs, and one system call of it.

use abi::Rights;
use abi::frame::Frame;
use abi::start::StreamRef;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::answer::{Errno, Stop, errno, fail};
use crate::coverage::What;
use crate::descriptors::{Description, Descriptors, Object};
use crate::machine::Machine;
use crate::map::{Backing, Granted, Map};
use crate::server::Server;
use crate::signals::Signals;
use crate::sync::Mutex;
use crate::tree::{self, Entry, File, Node, Place, Tree};

/// Longest name of a program, with the zero at its end (`PR_SET_NAME`).
pub const NAME_LEN: usize = 16;
/// Most buffers of one `readv` or `writev`.
const IOV_MAX: u64 = 1024;
/// Most bytes that one call moves, as on Linux.
const COUNT_MAX: u64 = 0x7fff_f000;

/// A Linux program: a task with a window. The parts that calls change are behind locks of their own, and no lock is
/// held while another server is called.
#[derive(Debug)]
pub struct Process {
    /// Also its process number.
    pub task: u64,
    pub user: u64,
    /// Input, output and errors that it was started with.
    pub streams: [StreamRef; 3],
    /// Whether its calls are written to its error stream (`MUSUBI_STRACE` in the environment).
    pub trace: bool,
    /// The text that all code in the window counts as. It stays even when another program takes over.
    pub text: Arc<Backing>,
    pub tree: Arc<Tree>,
    pub map: Mutex<Map>,
    pub descriptors: Mutex<Descriptors>,
    /// Whether it has its first descriptors.
    pub looked: AtomicBool,
    pub signals: Mutex<Signals>,
    pub program: Mutex<ProgramName>,
    pub directory: Mutex<Vec<u8>>,
    pub umask: Mutex<u32>,
    /// Whether it has been told that there are no threads.
    pub told: AtomicBool,
}

impl Process {
    /// It has ended: lets go of its files, pipes and memory, whoever has this record. What somebody holds right now goes with him.
    pub fn release(&self) {
        release(&self.descriptors);
        release(&self.map);
    }
}

fn release<T: Default>(held: &Mutex<T>) {
    let gone = held.try_lock().map(|mut held| core::mem::take(&mut *held));
    // Without the lock: files are closed here.
    drop(gone);
}

/// What runs, and under which name.
#[derive(Clone, Debug, Default)]
pub struct ProgramName {
    pub path: Vec<u8>,
    pub file: File,
    pub name: Vec<u8>,
}

impl ProgramName {
    #[must_use]
    pub fn new(path: &[u8], file: File) -> ProgramName {
        let mut name = ProgramName { path: path.to_vec(), file, name: Vec::new() };
        name.rename(tree::last(path));
        name
    }

    pub fn rename(&mut self, name: &[u8]) {
        self.name = name[..name.len().min(NAME_LEN - 1)].to_vec();
    }
}

/// A system call, or another entry, of a program's thread.
pub struct Call<'a, M: Machine> {
    pub server: &'a Server<M>,
    pub process: &'a Process,
    pub frame: &'a mut Frame,
    /// When it was made first, in nanoseconds since the machine was started.
    pub since: u64,
}

impl<M: Machine> Call<'_, M> {
    #[must_use]
    pub fn machine(&self) -> &M {
        &self.server.machine
    }

    /// # Errors
    /// `EFAULT`.
    pub fn grant(&self, address: u64, len: u64, need: Rights) -> Result<Granted, Errno> {
        self.process.map.lock().grant(address, len, need)
    }

    /// # Errors
    /// `EFAULT`.
    pub fn read_into(&self, address: u64, to: &mut [u8]) -> Result<(), Errno> {
        let from = self.grant(address, to.len() as u64, Rights::READ)?;
        Ok(self.machine().window_read(self.process.task, from, to)?)
    }

    /// # Errors
    /// `EFAULT`.
    pub fn read_array<const N: usize>(&self, address: u64) -> Result<[u8; N], Errno> {
        let mut bytes = [0; N];
        self.read_into(address, &mut bytes)?;
        Ok(bytes)
    }

    /// # Errors
    /// `EFAULT`.
    pub fn read_word(&self, address: u64) -> Result<u64, Errno> {
        self.read_array(address).map(u64::from_le_bytes)
    }

    /// # Errors
    /// `EFAULT`.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        let to = self.grant(address, bytes.len() as u64, Rights::WRITE)?;
        Ok(self.machine().window_write(self.process.task, to, bytes)?)
    }

    /// A string up to its zero, of less than `max` bytes.
    ///
    /// # Errors
    /// `EFAULT`; `too_long` if there is no zero in time.
    pub fn string(&self, address: u64, max: usize, too_long: u32) -> Result<Vec<u8>, Errno> {
        let mut string = Vec::new();
        let mut at = address;
        while string.len() < max {
            // Up to a boundary that no mapping ends within, since what lies behind the zero need not be mapped.
            let len = (128 - at % 128).min((max - string.len()) as u64);
            let mut chunk = [0; 128];
            let chunk = &mut chunk[..len as usize];
            self.read_into(at, chunk)?;
            if let Some(end) = chunk.iter().position(|&c| c == 0) {
                string.extend_from_slice(&chunk[..end]);
                return Ok(string);
            }
            string.extend_from_slice(chunk);
            at = at.checked_add(len).ok_or(Errno(errno::EFAULT))?;
        }
        fail(too_long)
    }

    /// # Errors
    /// `EFAULT`, `ENAMETOOLONG`.
    pub fn path(&self, address: u64) -> Result<Vec<u8>, Errno> {
        self.string(address, tree::PATH_MAX, errno::ENAMETOOLONG)
    }

    /// The buffers of `readv` and `writev`: (address, length).
    ///
    /// # Errors
    /// `EINVAL`, `EFAULT`.
    pub fn buffers(&self, address: u64, count: u64) -> Result<Vec<(u64, u64)>, Errno> {
        if count > IOV_MAX {
            return fail(errno::EINVAL);
        }
        let mut total = 0u64;
        let mut buffers = Vec::with_capacity(count as usize);
        for i in 0..count {
            // struct iovec: a pointer and a length.
            let at = address.checked_add(16 * i).ok_or(Errno(errno::EFAULT))?;
            let len = self.read_word(at.checked_add(8).ok_or(Errno(errno::EFAULT))?)?;
            total = total.checked_add(len).filter(|&t| i64::try_from(t).is_ok()).ok_or(Errno(errno::EINVAL))?;
            buffers.push((self.read_word(at)?, len.min(COUNT_MAX)));
        }
        Ok(buffers)
    }

    /// # Errors
    /// `EBADF`.
    pub fn description(&self, fd: i32) -> Result<Arc<Description>, Errno> {
        self.process.descriptors.lock().get(fd).cloned()
    }

    /// What a path leads to, from an open directory or `AT_FDCWD`.
    ///
    /// # Errors
    /// As for the path; `EBADF`, `ENOTDIR` for the directory.
    pub fn walk(&self, directory: i32, path: &[u8]) -> Result<Place, Errno> {
        let from = match path.first() {
            Some(b'/') => Vec::new(),
            _ if directory == linux_raw_sys::general::AT_FDCWD => self.process.directory.lock().clone(),
            _ => {
                let open = self.description(directory)?;
                if !matches!(open.object, Object::Directory(_)) {
                    return fail(errno::ENOTDIR);
                }
                open.path.clone()
            }
        };
        if path.is_empty() {
            return fail(errno::ENOENT);
        }
        let whole = if path[0] == b'/' { path.to_vec() } else { [&from[..], b"/", path].concat() };
        self.server.look(&self.process.tree, &whole)
    }

    /// The same, and there must be something. The link to the program itself is followed.
    ///
    /// # Errors
    /// As `walk`, and `ENOENT`.
    pub fn find(&self, directory: i32, path: &[u8]) -> Result<(Vec<u8>, Entry), Errno> {
        let place = self.walk(directory, path)?;
        let entry = place.entry.ok_or(Errno(errno::ENOENT))?;
        match entry.node {
            Node::Program => {
                let program = self.process.program.lock().clone();
                // By now another file may have its name.
                let now = self.server.look(&self.process.tree, &program.path).ok().and_then(|place| place.entry);
                let known = now.map_or(entry, |now| Entry { node: Node::File(program.file), ..now });
                Ok((program.path, Entry { node: Node::File(program.file), ..known }))
            }
            _ => Ok((place.path, entry)),
        }
    }

    /// A description that a descriptor no longer stands for: with the last one the file is closed.
    pub fn discard(&self, description: Option<Arc<Description>>) {
        match description.and_then(Arc::into_inner).map(|description| description.object) {
            Some(end @ (Object::PipeReader(_) | Object::PipeWriter(_))) => {
                drop(end);
                // Who waits at the other end waits for nobody now.
                self.machine().change();
            }
            _ => {}
        }
    }

    /// Where an open file lies now, and how long it is.
    ///
    /// # Errors
    /// `EIO` if it is no file any more, which cannot be.
    pub fn file(&self, open: u64) -> Result<File, Errno> {
        match self.machine().file_status(open)?.node {
            Node::File(file) => Ok(file),
            _ => fail(errno::EIO),
        }
    }

    /// Counts something that is not implemented, and refuses it.
    ///
    /// # Errors
    /// Always.
    pub fn refuse<T>(&self, what: &'static str, value: u64, errno: u32) -> Result<T, Stop> {
        self.note(what, value);
        fail(errno)
    }

    /// Counts something that is not implemented.
    pub fn note(&self, what: &'static str, value: u64) {
        let program = self.process.program.lock().name.clone();
        self.server.coverage.lock().record(What::Detail(what, value), &program);
    }

    /// Writes a line to the program's error stream, as the personality.
    pub fn say(&self, line: &[u8]) {
        let mut rest = line;
        while !rest.is_empty() {
            match self.machine().stream_write(self.process.streams[2], rest) {
                Ok(n) if n > 0 => rest = &rest[n.min(rest.len())..],
                _ => return,
            }
        }
    }

    /// Says once what is not there.
    pub fn tell_once(&self, line: &[u8]) {
        if !self.process.told.swap(true, Ordering::Relaxed) {
            self.say(line);
        }
    }
}
