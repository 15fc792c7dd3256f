//! What the name service knows, kept by whoever restarts it: so names outlive it. The gate to call is in the environment of the
//! name service, as a decimal number.

use derive::interface;
use rt::{Caller, Error};

/// The environment variable.
pub const VARIABLE: &str = "LEDGER";

/// Words that are kept with a name: its gate, the task that answers there, and whether the name stands.
pub const RECORD: usize = 24;

#[interface]
pub trait Ledger {
    /// Keeps a name, or changes what is kept with it.
    #[repeat]
    fn keep(&self, caller: &Caller, name: &str, gate: u64, task: u64, stands: bool) -> Result<(), Error>;
    /// A name that is not used any more.
    #[repeat]
    fn forget(&self, caller: &Caller, name: &str) -> Result<(), Error>;
    /// Writes the name number `index` (by alphabet), and what is kept with it. Value: length of the name. `NotFound` at the end.
    #[repeat]
    fn nth(&self, caller: &Caller, index: u64, record: &mut [u8; RECORD], name: &mut [u8]) -> Result<u64, Error>;
}
