//! What came with the image: for the file server, which gives it its places in the tree.

use derive::interface;
use rt::{Caller, Error};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A file of the boot pack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PackInfo {
    /// Base address; 0 for an empty file.
    pub section: u64,
    pub len: u64,
    /// Seconds since 1970.
    pub mtime: i64,
    /// Union of `abi::boot::flag`.
    pub flags: u64,
}

/// Bytes of a [`PackInfo`].
pub const RECORD: usize = size_of::<PackInfo>();

#[interface]
pub trait Pack {
    /// Writes the [`PackInfo`] and the name of the file number `index`; everybody may read it from then on. Value: length of the
    /// name. `NotFound` at the end. User 0 only.
    #[repeat]
    fn take(&self, caller: &Caller, index: u64, record: &mut [u8; RECORD], name: &mut [u8]) -> Result<u64, Error>;
}
