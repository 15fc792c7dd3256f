//! Starting programs.

use derive::interface;
use rt::{Caller, Error};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Where instances of a program stand, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Place {
    /// Base of the text, and the end of what that reserves: its gates lie in between.
    pub text: u64,
    pub end: u64,
    /// The text that they are all clones of.
    pub original: u64,
}

/// Bytes of a [`Place`].
pub const PLACE: usize = size_of::<Place>();

#[interface]
pub trait Loader {
    /// Starts a program as an encoded [`Request`](crate::request::Request) says, as a child of the calling thread's task.
    /// Value: the task. If it is refused, `reason` holds one line for people, ended by NUL. By message it is the sender's task's child, and
    /// the loader reads the file on a thread of its own: one whose mode lets the request's user read and execute it, and everybody read it.
    fn spawn(&self, caller: &Caller, request: &[u8], reason: &mut [u8]) -> Result<u64, Error>;
    /// Keeps a place for the program in the member `path` of the boot pack: those that are started there have the same addresses, one
    /// after the other. Writes an encoded [`Place`]. User 0 only.
    fn place(&self, caller: &Caller, path: &[u8], place: &mut [u8; PLACE]) -> Result<(), Error>;
    /// As `spawn`, the program of a place (by the base of its text). `Exists` while the one before is there. User 0 only.
    fn spawn_at(&self, caller: &Caller, place: u64, request: &[u8], reason: &mut [u8]) -> Result<u64, Error>;
    /// From now on the program of this name that came with the image is executed in this class (`abi::section::class`; NSys with the
    /// texts of the group `exclusion`, 0: by itself) unless its request says otherwise. User 0 only.
    fn place_as(&self, caller: &Caller, name: &str, class: u64, exclusion: u64) -> Result<(), Error>;
    /// From now on programs are found by the file server whose gates (interface `files`) are at `gate`. User 0 only.
    fn use_files(&self, caller: &Caller, gate: u64) -> Result<(), Error>;
    /// From now on Linux programs are run by the personality whose gates (interface `linux`) are at `gate`; 0: by nobody. User 0 only.
    fn use_linux(&self, caller: &Caller, gate: u64) -> Result<(), Error>;
}
