//! What the personality asks of the machine below it. On Musubi these are kernel calls and calls of other servers
//! (`musubi.rs`); in the tests on a host a traced process plays the part. Nothing else here knows where it runs.

use abi::frame::{Frame, Vectors};
use abi::start::StreamRef;
use abi::task::Limits;
use abi::{Error, Rights};
use alloc::vec::Vec;
use window::Section;

use crate::descriptors::{Name, OpenFile};
use crate::map::Granted;
use crate::tree::Entry;

/// What is known of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskState {
    /// Nanoseconds of processor time.
    pub time_ns: u64,
    /// Bytes of memory in use.
    pub memory: u64,
}

/// The machine's memory, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryState {
    pub total: u64,
    pub free: u64,
    pub tasks: u64,
}

/// Which clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    SinceBoot,
    Since1970,
}

/// # Errors
/// Every method that returns a result fails with what the kernel, or the server that was called, answers.
#[allow(clippy::missing_errors_doc, reason = "said once for the trait")]
pub trait Machine: Sync {
    /// A new task without threads, whose personality this server is going to be.
    /// What it uses counts for `payer`, too (0: the calling thread's task).
    fn task_create(&self, payer: u64, user: u64, limits: &Limits, name: &[u8]) -> Result<u64, Error>;
    /// Kills a task.
    fn task_kill(&self, task: u64) -> Result<(), Error>;
    /// `None` when it has ended.
    /// Ends one that this program has made and that has not begun.
    fn task_drop(&self, task: u64);
    fn task_state(&self, task: u64) -> Option<TaskState>;
    /// Who has started it, as the process server knows; 1 when that one has ended.
    fn parent(&self, task: u64) -> u64;
    /// Has a task that the calling thread's one has made and started known as its child, in its group. `Killed`: the calling thread's task
    /// is ending, perhaps with its group, and without the new one.
    fn task_adopt(&self, task: u64) -> Result<(), Error>;
    /// Makes this server the personality of a task; `text` is what all code in its window counts as.
    fn foreign_set(&self, task: u64, text: &Section) -> Result<(), Error>;
    /// Starts the task's thread.
    fn foreign_start(&self, task: u64, frame: &Frame) -> Result<(), Error>;

    /// A new section of zeroes that only this server reaches so far, on any thread.
    fn section_create(&self, len: u64, reserve: u64) -> Result<Section, Error>;
    /// A copy-on-write clone, likewise.
    fn section_clone(&self, original: &Section) -> Result<Section, Error>;
    /// A copy-on-write clone of the file at that address, of that length, as it is now: only to be looked at ([`Machine::view`]).
    fn snapshot(&self, file: u64, len: u64) -> Result<Section, Error>;
    /// Makes a section of data one of code.
    fn section_seal(&self, section: &Section) -> Result<(), Error>;
    fn section_resize(&self, section: &Section, len: u64) -> Result<(), Error>;
    fn section_delete(&self, section: &Section);
    fn section_name(&self, section: &Section, name: &[u8]);
    /// An ACL entry for (task, text).
    /// Whose is what begins there.
    fn section_owner(&self, section: &Section) -> Option<u64>;
    fn section_allow(&self, section: &Section, task: u64, text: u64, rights: Rights) -> Result<(), Error>;
    /// Lets a task pay for a section.
    fn section_give(&self, section: &Section, task: u64) -> Result<(), Error>;
    /// Writes to a section of this server.
    fn section_write(&self, section: &Section, offset: u64, bytes: &[u8]) -> Result<(), Error>;
    /// Writes to a section of this server what lies at an address, such as a file.
    fn section_load(&self, section: &Section, offset: u64, from: u64, len: u64) -> Result<(), Error>;

    fn window_map(
        &self,
        task: u64,
        address: u64,
        section: &Section,
        offset: u64,
        len: u64,
        rights: Rights,
    ) -> Result<(), Error>;
    fn window_unmap(&self, task: u64, address: u64, len: u64) -> Result<(), Error>;
    fn window_protect(&self, task: u64, address: u64, len: u64, rights: Rights) -> Result<(), Error>;

    /// Reads from the window of the calling thread, which belongs to `task`; and so on.
    fn window_read(&self, task: u64, from: Granted, to: &mut [u8]) -> Result<(), Error>;
    fn window_write(&self, task: u64, to: Granted, bytes: &[u8]) -> Result<(), Error>;
    /// Writes what lies at an address of the single space, such as a file.
    fn window_load(&self, task: u64, to: Granted, from: u64) -> Result<(), Error>;
    fn window_zero(&self, task: u64, to: Granted) -> Result<(), Error>;

    /// The vector registers of the calling thread's program, `task`, where it was stopped.
    fn vectors(&self, task: u64) -> Result<Vectors, Error>;
    /// Those with which it goes on.
    fn set_vectors(&self, task: u64, vectors: &Vectors) -> Result<(), Error>;

    /// What lies at an address of the single space, such as a file, if this server may read it.
    fn view(&self, from: u64, len: u64) -> Option<&'static [u8]>;

    /// Copies what lies there, which may be changed or taken away meanwhile. Whether all of it was there.
    fn copied(&self, from: u64, to: &mut [u8]) -> bool {
        self.view(from, to.len() as u64).inspect(|from| to.copy_from_slice(from)).is_some()
    }

    /// What an absolute path leads to, among the files of the system; for the person whose thread calls, as all that follows.
    fn file_look(&self, path: &[u8]) -> Result<Entry, Error>;
    /// As that person would.
    fn file_look_for(&self, user: u64, path: &[u8]) -> Result<Entry, Error>;
    /// Opens a file, as `musubi::interfaces::files::how` says. Value: its number, which is closed when the program ends at the latest.
    fn file_open(&self, path: &[u8], how: u64) -> Result<(OpenFile, Entry), Error>;
    fn file_status(&self, open: u64) -> Result<Entry, Error>;
    /// Writes at an offset; `u64::MAX`: at the end. Value: how many bytes.
    fn file_write(&self, open: u64, at: u64, bytes: &[u8]) -> Result<u64, Error>;
    fn file_resize(&self, open: u64, len: u64) -> Result<(), Error>;
    /// What is in a directory, by name; of the entries only inode and kind are meant.
    fn file_list(&self, path: &[u8]) -> Result<Vec<Name>, Error>;
    fn file_remove(&self, path: &[u8]) -> Result<(), Error>;
    fn file_rename(&self, from: &[u8], to: &[u8]) -> Result<(), Error>;
    fn file_set_mode(&self, path: &[u8], bits: u32) -> Result<(), Error>;
    fn file_set_time(&self, path: &[u8], mtime: i64) -> Result<(), Error>;
    fn directory_make(&self, path: &[u8], bits: u32) -> Result<(), Error>;
    fn directory_remove(&self, path: &[u8]) -> Result<(), Error>;

    /// Reads what there is, at least one byte; 0 at the end of the stream.
    fn stream_read(&self, stream: StreamRef, to: &mut [u8]) -> Result<usize, Error>;
    fn stream_write(&self, stream: StreamRef, bytes: &[u8]) -> Result<usize, Error>;
    /// Columns and rows if a person sits there.
    fn stream_terminal(&self, stream: StreamRef) -> Option<(u16, u16)>;

    /// Whether the thread that calls was killed: it is to leave soon.
    fn is_killed(&self) -> bool {
        false
    }

    /// Whether this server has no more memory than calls need that give some back.
    fn is_short(&self) -> bool {
        false
    }

    /// A number that is another one after each [`Machine::change`].
    fn changes(&self) -> u64;
    /// Something has changed that a call may wait for.
    fn change(&self);
    /// Waits until `changes` is not this number any more, or for that moment (nanoseconds since the machine was started). `Killed`: the
    /// program is to end.
    fn await_change(&self, seen: u64, until: u64) -> Result<(), Error>;

    /// Nanoseconds.
    fn clock(&self, clock: Clock) -> u64;
    fn yield_now(&self);
    fn processors(&self) -> usize;
    fn memory(&self) -> MemoryState;
    fn random(&self, to: &mut [u8]);
}
