//! How a server that publishes its name nowhere says to whoever started it where it is: the name service itself, and all others in a
//! machine without one. The gate to call is in the environment of the started program, as a decimal number; others may know it by the name `ready`,
//! and are refused.

use derive::interface;
use rt::{Caller, Error};

/// The environment variable.
pub const VARIABLE: &str = "READY";
/// What the environment variables begin with that say where servers are, in a machine without a name service; the name follows.
pub const GATE: &str = "GATE_";

#[interface]
pub trait Ready {
    fn ready(&self, caller: &Caller, gate: u64) -> Result<(), Error>;
}
