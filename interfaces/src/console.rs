//! What is special about the console, beside its streams: for the shell.

use derive::interface;
use rt::{Caller, Error};

/// Ways to read the console.
pub mod mode {
    /// Lines with echo; `^D` ends the input, `^C` kills the foreground.
    pub const COOKED: u64 = 0;
    /// Every key at once, without echo.
    pub const RAW: u64 = 1;
}

#[interface]
pub trait Console {
    /// From now on only this task's text sets modes and says who is in the foreground, while it lives. User 0 only.
    #[repeat]
    fn is_controlled_by(&self, caller: &Caller, task: u64) -> Result<(), Error>;
    /// One of [`mode`].
    #[repeat]
    fn set_mode(&self, caller: &Caller, mode: u64) -> Result<(), Error>;
    /// Adds somebody ([`whom`](crate::processes::whom)) to those that `^C` ends; 0 takes all away.
    #[repeat]
    fn foreground(&self, caller: &Caller, whom: u64) -> Result<(), Error>;
    /// Columns and rows, as far as the console knows them.
    #[repeat]
    fn size(&self) -> (u64, u64);
    /// Entry address of the gates that the console is read and written by (interface `stream`): streams 0, 1 and 2.
    #[repeat]
    fn streams(&self) -> u64;
}
