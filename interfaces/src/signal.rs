//! What a signal starts (SSS-105 to 121): `rt::mbcf` makes its first gate the program of a structure.

use derive::interface;
use rt::Error;

#[interface]
pub trait Signalled {
    /// A signal has come to `structure`; its data are in the structure's queue or buffer. `named`: the program that the sender has asked for, for a
    /// structure whose program decides that; 0: none, or it was stored while another one ran. This runs on the thread that the structure names,
    /// in the middle of whatever that does: it takes no locks that the thread's own code takes, the heap's neither. What it answers nobody hears.
    #[when_short]
    fn signal(&self, structure: u64, named: u64) -> Result<(), Error>;
}
