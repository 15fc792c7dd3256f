//! The servers of the system, and who restarts them (docs/decisions/0011).

use derive::interface;
use rt::{Caller, Error};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What a server is doing.
pub mod state {
    /// It is being started.
    pub const STARTING: u64 = 0;
    /// It is there.
    pub const RUNNING: u64 = 1;
    /// It has ended, and is started again in a while.
    pub const WAITING: u64 = 2;
    /// Somebody has stopped it.
    pub const STOPPED: u64 = 3;
    /// It never became ready; nobody starts it again.
    pub const GIVEN_UP: u64 = 4;
}

/// How somebody may have a server ended and started.
pub mod act {
    /// Ends it, and starts it again.
    pub const RESTART: u64 = 0;
    /// Ends it for good.
    pub const STOP: u64 = 1;
    /// Starts one that was stopped or given up.
    pub const START: u64 = 2;
    /// Ends it as if it had failed.
    pub const KILL: u64 = 3;
}

/// What is known of a server. Its name and, behind a NUL, why it has ended last are told besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ServerInfo {
    /// One of [`state`].
    pub state: u64,
    /// 0 while there is none.
    pub task: u64,
    /// How often it was started again.
    pub restarts: u64,
    /// When the state began, in ns since boot.
    pub since: u64,
    /// Base of its text.
    pub text: u64,
    /// Whether the machine is of no use without it: it cannot be stopped, and is never given up.
    pub needed: u64,
}

/// Bytes of a [`ServerInfo`].
pub const RECORD: usize = size_of::<ServerInfo>();
/// Longest name and reason together that are told.
pub const TEXT_MAX: usize = 512;

#[interface]
pub trait Servers {
    /// Writes what is known of the server number `index`, and its name and last reason. Value: length of that text. `NotFound` at the end.
    #[repeat]
    #[when_short]
    fn status(&self, index: u64, record: &mut [u8; RECORD], text: &mut [u8]) -> Result<u64, Error>;
    /// One of [`act`], for the system and the person at the machine. Waits until it is done. `NotFound`: there is no such server;
    /// `Refused`: the machine is of no use without it; `Dead`: it was given up, or stopped meanwhile; `Changed`: it was to be stopped, and somebody
    /// else wanted it otherwise before it was.
    fn act(&self, caller: &Caller, name: &str, what: u64) -> Result<(), Error>;
    /// From now on a server is executed in this class (`abi::section::class`; NSys with the texts of the group `exclusion`, 0: by itself):
    /// it is restarted there. The levels of a scheduler are, too, the next time that they are started. For the system and the person at
    /// the machine. Errors: as `act`.
    fn place(&self, caller: &Caller, name: &str, class: u64, exclusion: u64) -> Result<(), Error>;
    /// Waits until the server in whose text this gate lies is there, if it is being restarted, for so many ns at most (`u64::MAX`: for
    /// ever). `NotFound`: there is none; `Dead`: it was stopped or given up; `TimedOut`.
    #[repeat]
    #[when_short]
    fn wait(&self, caller: &Caller, gate: u64, ns: u64) -> Result<(), Error>;
}
