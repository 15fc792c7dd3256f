//! The machine's devices, handed out by the first task to the system's drivers.

use derive::interface;
use rt::{Caller, Error};

/// Bytes of a device record (abi: boot.rs).
pub const RECORD: usize = size_of::<rt::abi::boot::DeviceRecord>();

/// What [`Devices::trace`] is asked for.
pub mod ask {
    /// It is off from now on, and the caller may not read it any more.
    pub const OFF: u64 = 0;
    /// It is on, and the caller may read it.
    pub const ON: u64 = 1;
    /// It is off, and the caller may still read it, if it may.
    pub const PAUSE: u64 = 2;
    /// A line of the greatest length that the kernel's log takes is written there, and nothing else is done: what stands before it and behind it can
    /// be told apart.
    pub const MARK: u64 = 3;
    /// A driver's call reads the state of the keyboard's controller, and nothing else is done.
    pub const PORT_READ: u64 = 4;
    /// One writes to a port of it at which nothing answers.
    pub const PORT_WRITE: u64 = 5;
    /// One writes as many bytes there as a call does.
    pub const PORT_BYTES: u64 = 6;
}

#[interface]
pub trait Devices {
    /// Gives the calling text the rights to use the device number `index` of `kind`, and writes its record. User 0 only;
    /// `Busy` while another program that lives has it.
    #[repeat]
    fn claim(&self, caller: &Caller, kind: u64, index: u64, record: &mut [u8; RECORD]) -> Result<(), Error>;

    /// Interrupt `number` comes to this processor from now on (K1-45); `u64::MAX`: to one that is idle. For the system and the person at
    /// the machine.
    #[repeat]
    fn route(&self, caller: &Caller, number: u64, processor: u64) -> Result<(), Error>;

    /// The trace of all processors, and what else is of use to who looks how long the kernel takes: one of [`ask`]. For the system and the person at the machine; only the text that asks may read it then
    /// (`abi::trace`), where the info section says.
    #[repeat]
    fn trace(&self, caller: &Caller, what: u64) -> Result<(), Error>;
}
