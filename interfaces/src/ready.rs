//! How the name service, which nobody can look up, says to whoever started it where it is. The gate to call is in the
//! environment of the started program, as a decimal number.

use derive::interface;
use rt::{Caller, Error};

/// The environment variable.
pub const VARIABLE: &str = "READY";

#[interface]
pub trait Ready {
    fn ready(&self, caller: &Caller, gate: u64) -> Result<(), Error>;
}
