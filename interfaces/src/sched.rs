//! Which scheduler the processors have.

use derive::interface;
use rt::{Caller, Error};

#[interface]
pub trait Sched {
    /// Another scheduler from now on: the program `bin/sched-NAME` for the high level (and `bin/fast-NAME` for the fast one,
    /// if there is one), or none (the kernel's round robin). Further words are its arguments.
    fn choose(&self, name: &str) -> Result<(), Error>;
    /// Line `index` of what there is to say (`log` 0: of the state; 1: of what has happened). Value: its length.
    fn line(&self, log: u64, index: u64, line: &mut [u8]) -> Result<u64, Error>;
    /// For the levels themselves: the section that they share.
    fn board(&self, caller: &Caller) -> Result<u64, Error>;
}
