//! Bytes in order: consoles and pipes. Streams are numbers of the server that offers them; a program finds its own three
//! in its start record.

use derive::interface;
use rt::{Caller, Error};

#[interface]
pub trait Stream {
    /// Writes some of `bytes`. Value: how many, at least one. `Dead` if nobody will read them.
    fn write(&self, caller: &Caller, id: u64, bytes: &[u8]) -> Result<u64, Error>;
    /// Reads into `buffer`, waiting until there is something. Value: how many; 0 at the end. What was read is taken out, so this is not
    /// repeated for a caller whose server ends in the middle: he hears `Dead`.
    #[when_short]
    fn read(&self, caller: &Caller, id: u64, buffer: &mut [u8]) -> Result<u64, Error>;
    /// Ends this side of the stream, where that means something: a pipe's reader sees its end.
    #[when_short]
    fn close(&self, caller: &Caller, id: u64) -> Result<(), Error>;
    /// Whether a person sits at the other end.
    #[repeat]
    fn is_console(&self, id: u64) -> bool;
}
