//! What a driver offers to the scheduler (CUBIX-U10): its part of an interrupt that must be done at once.

use derive::interface;
use rt::Error;

#[interface(called_up)]
pub trait Interrupt {
    /// The interrupt of the device at `section` has come, or may have. Whether the driver's thread is to do the rest. It runs on the
    /// scheduler's thread: it must not wait, and is ended if it takes more than about four milliseconds. `Busy`: it is being done already.
    #[when_short]
    fn arrived(&self, section: u64) -> Result<bool, Error>;
}
