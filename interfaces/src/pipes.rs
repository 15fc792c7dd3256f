//! Pipes between programs.

use derive::interface;
use rt::{Caller, Error};

#[interface]
pub trait Pipes {
    /// A new pipe, by a number that nobody can guess. Value: the stream to read from; the one to write to has the next number. Whoever made it closes both.
    /// (One that its server has ended with is gone with it, so that another one may be made.)
    #[repeat]
    fn make(&self, caller: &Caller) -> Result<u64, Error>;
    /// Entry address of the gates that these streams are read and written by (interface `stream`).
    #[repeat]
    fn streams(&self) -> u64;
}
