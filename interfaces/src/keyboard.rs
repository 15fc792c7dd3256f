//! A keyboard, for whoever makes lines of what is typed.

use derive::interface;
use rt::{Caller, Error};

/// How the driver hears of the keyboard's interrupts.
pub mod way {
    /// The scheduler calls it.
    pub const CALL: u64 = 0;
    /// A thread of its own is woken.
    pub const THREAD: u64 = 1;
}

#[interface]
pub trait Keyboard {
    /// Waits for what is typed; bytes as a terminal sends them. For the first text of the system's that reads, while it lives.
    #[repeat]
    fn read(&self, caller: &Caller, buffer: &mut [u8]) -> Result<u64, Error>;
    /// One of [`way`], for measuring.
    #[repeat]
    fn listen(&self, caller: &Caller, way: u64) -> Result<(), Error>;
    /// Has the controller send a byte that means nothing, and waits for it. Ticks of the processor from before the port was
    /// written to the first instruction of the handler.
    #[repeat]
    fn probe(&self, caller: &Caller) -> Result<u64, Error>;
    /// Ticks that it takes to write a port, as the driver does for a probe.
    #[repeat]
    fn write_time(&self, caller: &Caller) -> Result<u64, Error>;
    /// How often the scheduler has called the handler, and how often the driver's own thread has looked.
    #[repeat]
    fn handled(&self) -> (u64, u64);
}
