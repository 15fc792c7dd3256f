//! Processes (docs/decisions/0012): what was started by whom, how it has ended, and what belongs together.

use derive::interface;
use rt::abi::section::NAME_LEN;
use rt::abi::task::{Exit, Limits};
use rt::{Caller, Error};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// In the place of a group.
pub mod group {
    /// Whoever starts it is in that one, too; if that is in none, a new one.
    pub const SAME: u64 = 0;
    /// A new one, with the number of its first process.
    pub const NEW: u64 = u64::MAX;
}

/// Who is meant: the number of a process, or one of these.
pub mod whom {
    /// Any child.
    pub const CHILD: u64 = 0;
    /// Added to the number of a group: each in it.
    pub const GROUP: u64 = 1 << 63;
}

/// A process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ProcessInfo {
    /// Its number, that of its task.
    pub task: u64,
    /// Who has started it, also when that one has ended.
    pub parent: u64,
    pub group: u64,
    pub user: u64,
    /// Not 0: it has ended, as `exit` says; and the greater the later.
    pub over: u64,
    pub exit: Exit,
    pub name: [u8; NAME_LEN],
}

/// Bytes of a [`ProcessInfo`], and of [`Limits`].
pub const RECORD: usize = size_of::<ProcessInfo>();
pub const LIMITS: usize = size_of::<Limits>();

#[interface]
pub trait Processes {
    /// Starts a program as an encoded [`Request`](crate::request::Request) says, as a child of the calling thread's task, in a group
    /// ([`group`], or one of the same user's). Value: its number. If it is refused, `reason` holds one line for people, ended by NUL.
    /// `Busy`: asked by a message while the sender's own start is under way, or so many of the sender's are; as for the others.
    fn spawn(&self, caller: &Caller, request: &[u8], group: u64, reason: &mut [u8]) -> Result<u64, Error>;
    /// Waits at most `timeout` ns until somebody ([`whom`]) has ended. Value: a child that has ended and was not forgotten, of any or of this
    /// group; or the process itself, of the same user. `NotFound`: there is nobody to wait for.
    #[repeat]
    #[when_short]
    fn wait(&self, caller: &Caller, whom: u64, timeout: u64) -> Result<u64, Error>;
    /// Writes what is known of a process as a [`ProcessInfo`]. How it has ended is told to the same user's.
    #[repeat]
    #[when_short]
    fn status(&self, caller: &Caller, task: u64, record: &mut [u8; RECORD]) -> Result<(), Error>;
    /// A child that has ended need not be known any more.
    #[repeat]
    #[when_short]
    fn forget(&self, caller: &Caller, task: u64) -> Result<(), Error>;
    /// Ends somebody of the same user's. Value: how many processes. `NotFound`: nobody was there.
    #[repeat]
    #[when_short]
    fn kill(&self, caller: &Caller, whom: u64) -> Result<u64, Error>;
    /// Brings the caller or a child of it (by its number) into a group ([`group::NEW`], or one of the same user's). Value: the group.
    /// `Killed`: it is being ended, or who brings it, and then so is it.
    #[repeat]
    fn join(&self, caller: &Caller, task: u64, group: u64) -> Result<u64, Error>;
    /// Writes the first process with a number above `after` as `status` does. Value: its number. `NotFound` at the end.
    #[repeat]
    #[when_short]
    fn next(&self, caller: &Caller, after: u64, record: &mut [u8; RECORD]) -> Result<u64, Error>;
    /// Sets what a process may use from now on, as encoded [`Limits`] (0: as before): for those that it descends from, at most what they
    /// may use themselves.
    #[repeat]
    fn limit(&self, caller: &Caller, task: u64, limits: &[u8; LIMITS]) -> Result<(), Error>;
}
