//! Pipes between programs.

use derive::interface;
use rt::{Caller, Error};

#[interface]
pub trait Pipes {
    /// A new pipe. Value: the stream to read from; the one to write to has the next number. Whoever made it closes both.
    fn make(&self, caller: &Caller) -> Result<u64, Error>;
    /// Entry address of the gates that these streams are read and written by (interface `stream`).
    fn streams(&self) -> u64;
}
