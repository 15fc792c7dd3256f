//! Files by path. What a file holds is a section: whoever may read the file reads it by loading, or asks for copies. Paths are
//! bytes, at most 4096, and begin at the root.

use derive::interface;
use rt::{Caller, Error};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What is known of a file or a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct FileInfo {
    /// Where the content begins; 0 for a directory, and for a file in which nothing was ever written.
    pub section: u64,
    pub len: u64,
    /// Seconds since 1970.
    pub mtime: i64,
    /// No other file has it.
    pub number: u64,
    /// The person (user) that it belongs to.
    pub owner: u64,
    /// Nine bits as in Unix, [`DIRECTORY`] and [`FIXED`].
    pub mode: u64,
}

/// In [`FileInfo::mode`].
pub const DIRECTORY: u64 = 0o040_000;
/// In [`FileInfo::mode`]: what lies at that address never changes, since whoever writes the file gets a copy elsewhere.
pub const FIXED: u64 = 1 << 32;
/// Bytes of a [`FileInfo`].
pub const RECORD: usize = size_of::<FileInfo>();
/// Longest path, and longest name.
pub const PATH_MAX: usize = 4096;
pub const NAME_MAX: usize = 255;
/// Longest file, bytes.
pub const LEN_MAX: u64 = 2 << 30;
/// Most bytes that one call reads or writes.
pub const PART_MAX: usize = 1 << 20;
/// What a task may have open at a time.
pub const OPEN_MAX: usize = 1024;
/// What all persons' tasks may have open: nobody's half of what is left is ever another one's.
pub const OPEN_ALL: usize = 64 * OPEN_MAX;
/// As an offset: the end, wherever that is by then.
pub const END: u64 = u64::MAX;
/// Bytes before the name in an entry of `list`: its number, whether it is a directory (1), the length of the name.
pub const ENTRY: usize = 10;

/// How a file is opened. Bits 32 and up hold the mode of one that is made.
pub mod how {
    pub const READ: u64 = 1;
    pub const WRITE: u64 = 2;
    /// Makes the file if it is not there.
    pub const CREATE: u64 = 4;
    /// With `CREATE`: it must not be there.
    pub const NEW: u64 = 8;
    /// Throws away what is in it.
    pub const EMPTY: u64 = 16;
    /// As a stream it is written at its end, whoever else writes.
    pub const APPEND: u64 = 32;
    pub const ALL: u64 = 63;

    /// With this mode if it is made.
    #[must_use]
    pub const fn mode(mode: u64) -> u64 {
        (mode & 0o777) << 32
    }
}

#[interface]
pub trait Files {
    /// Opens a file as [`how`] says and writes its [`FileInfo`]. Value: a number for the other calls. What is open stays even without
    /// a name, until it is closed, or the task has ended whose program has opened it.
    fn open(&self, caller: &Caller, path: &[u8], how: u64, record: &mut [u8; RECORD]) -> Result<u64, Error>;
    /// Closes what the calling thread's task, or the program that calls, has opened.
    #[when_short]
    fn close(&self, caller: &Caller, open: u64) -> Result<(), Error>;
    /// Copies from the offset `at`. Value: how many bytes, 0 at the end.
    #[when_short]
    fn read(&self, caller: &Caller, open: u64, at: u64, buffer: &mut [u8]) -> Result<u64, Error>;
    /// Writes at the offset `at` ([`END`]: at the end). Value: how many bytes (fewer where the quota ends).
    fn write(&self, caller: &Caller, open: u64, at: u64, bytes: &[u8]) -> Result<u64, Error>;
    /// Changes the length; what is added reads as zero.
    fn resize(&self, caller: &Caller, open: u64, len: u64) -> Result<(), Error>;
    /// Writes the [`FileInfo`] of what is open.
    #[repeat]
    #[when_short]
    fn status(&self, caller: &Caller, open: u64, record: &mut [u8; RECORD]) -> Result<(), Error>;
    /// Writes the [`FileInfo`] of what a path leads to.
    #[repeat]
    #[when_short]
    fn look(&self, caller: &Caller, path: &[u8], record: &mut [u8; RECORD]) -> Result<(), Error>;
    /// Writes as many entries of a directory as fit, from the first behind the name `after`. Value: bytes; 0 at the end.
    #[repeat]
    fn list(&self, caller: &Caller, path: &[u8], after: &[u8], entries: &mut [u8]) -> Result<u64, Error>;
    /// Makes a directory.
    fn make_directory(&self, caller: &Caller, path: &[u8], mode: u64) -> Result<(), Error>;
    /// Takes a file's name away.
    #[when_short]
    fn remove(&self, caller: &Caller, path: &[u8]) -> Result<(), Error>;
    /// Takes an empty directory away.
    #[when_short]
    fn remove_directory(&self, caller: &Caller, path: &[u8]) -> Result<(), Error>;
    /// Gives a file or directory another path, in the place of what is there.
    fn rename(&self, caller: &Caller, from: &[u8], to: &[u8]) -> Result<(), Error>;
    /// Sets who may do what; for the owner.
    #[repeat]
    fn set_mode(&self, caller: &Caller, path: &[u8], mode: u64) -> Result<(), Error>;
    /// Sets the time of the last change, seconds since 1970.
    #[repeat]
    fn set_time(&self, caller: &Caller, path: &[u8], mtime: i64) -> Result<(), Error>;
    /// Entry address of the gates (interface `stream`) by which what is open is read and written in order.
    #[repeat]
    fn streams(&self) -> u64;
    /// Frames that the files of the calling thread's person take.
    #[repeat]
    #[when_short]
    fn used(&self, caller: &Caller) -> Result<u64, Error>;
    /// As [`Files::look`], as `user` would: what he comes to. Of others the system alone may ask that.
    #[repeat]
    #[when_short]
    fn look_for(&self, caller: &Caller, user: u64, path: &[u8], record: &mut [u8; RECORD]) -> Result<(), Error>;
}
