//! The clock: what time it is, and messages at a moment.

use derive::interface;
use rt::{Caller, Error};

/// Messages of one task that may wait for their moments.
pub const EACH: usize = 64;

#[interface]
pub trait Clock {
    /// Nanoseconds since boot, and since 1970 (UTC).
    #[repeat]
    fn now(&self) -> (u64, u64);
    /// Waits until that moment, in ns since boot. Value: what time it is then. Asked by a message, it answers at that moment; `Quota`: of one
    /// task [`EACH`] wait already, or of one user as many as there is room for.
    #[repeat]
    fn wait_until(&self, caller: &Caller, at: u64) -> Result<u64, Error>;
}
