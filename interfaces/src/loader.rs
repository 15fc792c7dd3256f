//! Starting programs.

use derive::interface;
use rt::{Caller, Error};

/// What the loader finds in its environment, since the one before had been told: as [`Loader::use_files`] and [`Loader::use_linux`], decimal
/// numbers; and by program, whose name follows, [`Loader::place_as`]: the class, a blank, and the group.
pub const FILES: &str = "FILES";
pub const LINUX: &str = "LINUX";
pub const PLACED: &str = "PLACED_";

#[interface]
pub trait Loader {
    /// Starts a program as an encoded [`Request`](crate::request::Request) says, as a child of the calling thread's task.
    /// Value: the task. If it is refused, `reason` holds one line for people, ended by NUL. By message it is the sender's task's child, and
    /// the loader reads the file on a thread of its own: one whose mode lets the request's user read and execute it, and everybody read it.
    fn spawn(&self, caller: &Caller, request: &[u8], reason: &mut [u8]) -> Result<u64, Error>;
    /// From now on the program of this name that came with the image is executed in this class (`abi::section::class`; NSys with the
    /// texts of the group `exclusion`, 0: by itself) unless its request says otherwise. User 0 only.
    #[repeat]
    fn place_as(&self, caller: &Caller, name: &str, class: u64, exclusion: u64) -> Result<(), Error>;
    /// From now on programs are found by the file server whose gates (interface `files`) are at `gate`. User 0 only.
    #[repeat]
    fn use_files(&self, caller: &Caller, gate: u64) -> Result<(), Error>;
    /// From now on Linux programs are run by the personality whose gates (interface `linux`) are at `gate`; 0: by nobody. User 0 only.
    #[repeat]
    fn use_linux(&self, caller: &Caller, gate: u64) -> Result<(), Error>;
}
