//! Linux programs, run by a personality.

use derive::interface;
use rt::{Caller, Error};

#[interface]
pub trait Linux {
    /// Starts the Linux program that lies in `[section, section + len)` as an encoded
    /// [`Request`](crate::request::Request) says. Value: the task. If it is refused, `reason` holds one line, ended by NUL.
    fn spawn(&self, caller: &Caller, request: &[u8], section: u64, len: u64, reason: &mut [u8]) -> Result<u64, Error>;
    /// System calls that programs made and nobody answers: the number of the one that comes `index`th, and how often it
    /// was made (0: no more).
    #[repeat]
    fn unknown(&self, index: u64) -> (u64, u64);
    /// Writes the line number `index` about what programs asked for and did not get (calls, and details of calls that
    /// are there), for people. Value: its length. `NotFound` at the end.
    #[repeat]
    fn refused(&self, index: u64, line: &mut [u8]) -> Result<u64, Error>;
}
