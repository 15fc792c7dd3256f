//! The machine's switch.

use derive::interface;
use rt::{Caller, Error};

#[interface]
pub trait Power {
    /// Switches the machine off.
    #[repeat]
    #[when_short]
    fn off(&self, caller: &Caller, code: u64) -> Result<(), Error>;
}
