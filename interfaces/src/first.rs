//! What everything stands on, and who begins it: the first task. It is there for init, and for the loader that init has it start.

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
pub trait First {
    /// Keeps a place for the program in the member `path` of the boot pack: those that are started there have the same addresses, one
    /// after the other. Writes an encoded [`Place`]. User 0 only.
    #[repeat]
    fn place(&self, caller: &Caller, path: &[u8], place: &mut [u8; PLACE]) -> Result<(), Error>;
    /// Starts the program of a place (by the base of its text) as an encoded [`Request`](crate::request::Request) says, whatever its path
    /// is. It pays for itself, and nobody but who has started it is told of its end. Value: the task. If it is refused, `reason` holds one line for people, ended by NUL.
    /// `Exists` while the one before is there. User 0 only.
    fn spawn_at(&self, caller: &Caller, place: u64, request: &[u8], reason: &mut [u8]) -> Result<u64, Error>;
    /// The calling text may read the boot manifest, and say where texts are executed (`abi::info::layout::Machine::placing`), from now on.
    /// Value: where the manifest lies. For the loader at its place.
    #[repeat]
    fn manifest(&self, caller: &Caller) -> Result<u64, Error>;
    /// The calling text may read the file number `index` of the manifest from now on; and, if that is a program for Musubi, make instances of it
    /// that count as each other's. Value: the text that they are clones of; 0: it is no such program. For the loader at its place.
    #[repeat]
    fn original(&self, caller: &Caller, index: u64) -> Result<u64, Error>;
}
