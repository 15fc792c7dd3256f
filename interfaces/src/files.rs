//! Files by name. A file is a section: whoever knows its address reads it by loading.

use derive::interface;
use rt::{Caller, Error};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Where a file is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct FileInfo {
    /// Base address; 0 for an empty file.
    pub section: u64,
    pub len: u64,
    /// Seconds since 1970.
    pub mtime: i64,
    /// Union of `abi::boot::flag`.
    pub flags: u64,
}

/// Bytes of a [`FileInfo`].
pub const RECORD: usize = size_of::<FileInfo>();

#[interface]
pub trait Files {
    /// Finds a file and writes its [`FileInfo`]. Everybody may read it from then on.
    fn lookup(&self, caller: &Caller, path: &[u8], record: &mut [u8; RECORD]) -> Result<(), Error>;
    /// Writes the [`FileInfo`] and the name of the file number `index`. Value: length of the name. `NotFound` at the end.
    fn list(&self, index: u64, record: &mut [u8; RECORD], name: &mut [u8]) -> Result<u64, Error>;
}
