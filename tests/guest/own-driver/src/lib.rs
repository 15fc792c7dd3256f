#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

use derive::interface;
use rt::Error;

/// Where it is found: in the place that init keeps for the keyboard's.
pub const NAME: &str = "keyboard";

#[interface]
pub trait Knocks {
    /// Whoever takes it for a keyboard reads here: `NotSupported`.
    fn read(&self) -> Result<(), Error>;
    /// Has the device interrupt once.
    fn knock(&self) -> Result<(), Error>;
    /// Messages of interrupts that the driver's thread has had, and bytes that it has taken.
    fn heard(&self) -> (u64, u64);
    /// Reads and writes its ports by calls in every way that there is. An error: one has answered otherwise than it should.
    fn ports(&self) -> Result<(), Error>;
    /// Writes to the kernel's log what a test on the host looks for there, and tries to write more. An error: as above.
    fn tell(&self) -> Result<(), Error>;
    /// Writes so many lines to the kernel's log, numbered from `first` on.
    fn say(&self, first: u64, count: u64) -> Result<(), Error>;
}
