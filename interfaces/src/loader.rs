//! Starting programs.

use derive::interface;
use rt::{Caller, Error};

#[interface]
pub trait Loader {
    /// Starts a program as an encoded [`Request`](crate::request::Request) says, as a child of the calling thread's task.
    /// Value: the task. If it is refused, `reason` holds one line for people, ended by NUL.
    fn spawn(&self, caller: &Caller, request: &[u8], reason: &mut [u8]) -> Result<u64, Error>;
}
