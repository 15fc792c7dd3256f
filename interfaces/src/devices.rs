//! The machine's devices, handed out by the loader to the system's drivers.

use derive::interface;
use rt::{Caller, Error};

/// Bytes of a device record (abi: boot.rs).
pub const RECORD: usize = size_of::<rt::abi::boot::DeviceRecord>();

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
}
