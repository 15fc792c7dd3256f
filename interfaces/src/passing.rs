//! What every thread may ask of the scheduler by EPC (docs/decisions/0007): without the kernel, as far as the threads concerned
//! are on one processor.

use derive::interface;
use rt::{Caller, Error};

#[interface]
pub trait Passing {
    /// Sleeps until somebody wakes the calling thread. `Changed`: it was woken by something else, and may sleep again.
    #[when_short]
    fn sleep(&self, caller: &Caller) -> Result<(), Error>;
    /// Wakes a thread. One that does not sleep will not the next time.
    #[when_short]
    fn wake_up(&self, caller: &Caller, thread: u64) -> Result<(), Error>;
    /// Both in one: the processor goes from the calling thread to the one that is woken.
    #[when_short]
    fn pass(&self, caller: &Caller, thread: u64) -> Result<(), Error>;
    /// How often threads have called one of the others on this processor. Those that the machine has not: `BadArgument`.
    #[when_short]
    fn entered(&self, processor: u64) -> Result<u64, Error>;
}
