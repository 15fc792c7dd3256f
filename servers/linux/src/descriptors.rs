//! Open files. A *descriptor* is a number of one program; a *description* is what it stands for, shared by all the
//! descriptors that were made from it, with one position.

use abi::start::StreamRef;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::answer::{Errno, errno, fail};
use crate::sync::Mutex;
use crate::tree::{Device, Entry};

/// Most descriptors of one program, until it asks for fewer.
pub const DESCRIPTORS_MAX: usize = 1024;
/// Bytes that a pipe holds.
pub const PIPE_MAX: usize = 64 << 10;

/// An end of a pipe.
#[derive(Debug, Default)]
pub struct Pipe {
    pub bytes: Mutex<VecDeque<u8>>,
}

impl Pipe {
    /// Whether there is somebody at the other end, too: each end is one description.
    #[must_use]
    pub fn has_two_ends(self: &Arc<Pipe>) -> bool {
        Arc::strong_count(self) > 1
    }
}

/// One name in a directory that is being read.
#[derive(Clone, Debug)]
pub struct Name {
    pub name: Vec<u8>,
    pub entry: Entry,
}

/// A file that is open, by the file server's number: with the last one who has it, whatever becomes of him, it is closed.
pub struct OpenFile {
    number: u64,
    close: Box<dyn Fn(u64) + Send + Sync>,
}

impl OpenFile {
    #[must_use]
    pub fn new(number: u64, close: impl Fn(u64) + Send + Sync + 'static) -> OpenFile {
        OpenFile { number, close: Box::new(close) }
    }

    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        (self.close)(self.number);
    }
}

impl fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file {}", self.number)
    }
}

#[derive(Debug)]
pub enum Object {
    /// A stream that the program was started with.
    Stream {
        input: StreamRef,
        output: StreamRef,
        terminal: bool,
    },
    File(OpenFile),
    Directory(Vec<Name>),
    Device(Device),
    PipeReader(Arc<Pipe>),
    PipeWriter(Arc<Pipe>),
}

#[derive(Debug)]
pub struct Description {
    pub object: Object,
    /// Absolute path, empty for what has none.
    pub path: Vec<u8>,
    pub inode: u64,
    /// `O_*` of `open`, as `fcntl` shows and changes them.
    flags: AtomicU32,
    /// In bytes, or in names for a directory.
    pub position: Mutex<u64>,
}

impl Description {
    #[must_use]
    pub fn new(object: Object, path: &[u8], inode: u64, flags: u32) -> Arc<Description> {
        Arc::new(Description {
            object,
            path: path.to_vec(),
            inode,
            flags: AtomicU32::new(flags),
            position: Mutex::new(0),
        })
    }

    #[must_use]
    pub fn flags(&self) -> u32 {
        self.flags.load(Ordering::Relaxed)
    }

    pub fn set_flags(&self, flags: u32) {
        self.flags.store(flags, Ordering::Relaxed);
    }
}

/// What happens to a descriptor when the program is replaced by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExec {
    Keep,
    Close,
}

impl OnExec {
    #[must_use]
    pub fn from_flag(set: bool) -> OnExec {
        if set { OnExec::Close } else { OnExec::Keep }
    }
}

#[derive(Clone, Debug)]
struct Slot {
    description: Arc<Description>,
    on_exec: OnExec,
}

/// The descriptors of one program.
#[derive(Clone, Debug)]
pub struct Descriptors {
    slots: Vec<Option<Slot>>,
    limit: usize,
}

impl Default for Descriptors {
    fn default() -> Descriptors {
        Descriptors { slots: Vec::new(), limit: DESCRIPTORS_MAX }
    }
}

impl Descriptors {
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.min(DESCRIPTORS_MAX);
    }

    /// # Errors
    /// `EBADF`.
    pub fn get(&self, number: i32) -> Result<&Arc<Description>, Errno> {
        self.slot(number).map(|slot| &slot.description)
    }

    /// # Errors
    /// `EBADF`.
    pub fn on_exec(&self, number: i32) -> Result<OnExec, Errno> {
        self.slot(number).map(|slot| slot.on_exec)
    }

    /// # Errors
    /// `EBADF`.
    pub fn set_on_exec(&mut self, number: i32, on_exec: OnExec) -> Result<(), Errno> {
        let slot = usize::try_from(number).ok().and_then(|n| self.slots.get_mut(n)?.as_mut());
        slot.ok_or(Errno(errno::EBADF))?.on_exec = on_exec;
        Ok(())
    }

    fn slot(&self, number: i32) -> Result<&Slot, Errno> {
        usize::try_from(number).ok().and_then(|n| self.slots.get(n)?.as_ref()).ok_or(Errno(errno::EBADF))
    }

    /// Enters a description at the lowest free number from `least`.
    ///
    /// # Errors
    /// `EMFILE`; `EINVAL` if `least` is no possible number.
    pub fn add(&mut self, description: Arc<Description>, least: i32, on_exec: OnExec) -> Result<i32, Errno> {
        let least = usize::try_from(least).ok().filter(|&l| l < self.limit).ok_or(Errno(errno::EINVAL))?;
        let free = (least..self.slots.len()).find(|&n| self.slots[n].is_none());
        let number = free.unwrap_or(self.slots.len().max(least));
        if number >= self.limit {
            return fail(errno::EMFILE);
        }
        self.put(number, Slot { description, on_exec });
        Ok(number as i32)
    }

    /// Makes `to` stand for what `from` stands for. Value: what it stood for before.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn replace(&mut self, from: i32, to: i32, on_exec: OnExec) -> Result<Option<Arc<Description>>, Errno> {
        let description = self.get(from)?.clone();
        let to = usize::try_from(to).ok().filter(|&n| n < self.limit).ok_or(Errno(errno::EBADF))?;
        Ok(self.put(to, Slot { description, on_exec }))
    }

    fn put(&mut self, number: usize, slot: Slot) -> Option<Arc<Description>> {
        if self.slots.len() <= number {
            self.slots.resize(number + 1, None);
        }
        self.slots[number].replace(slot).map(|slot| slot.description)
    }

    /// # Errors
    /// `EBADF`.
    pub fn close(&mut self, number: i32) -> Result<Arc<Description>, Errno> {
        let slot = usize::try_from(number).ok().and_then(|n| self.slots.get_mut(n)?.take());
        slot.map(|slot| slot.description).ok_or(Errno(errno::EBADF))
    }

    /// Closes what is not kept when the program is replaced. Value: that.
    pub fn exec(&mut self) -> Vec<Arc<Description>> {
        let goes = |slot: &mut Slot| slot.on_exec == OnExec::Close;
        self.slots.iter_mut().filter_map(|slot| slot.take_if(goes)).map(|slot| slot.description).collect()
    }
}

#[cfg(test)]
mod tests;
