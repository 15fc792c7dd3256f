//! What is known of the machine's interrupts, and where they come to.

use abi::Error;
use abi::calls::stub;
use abi::info::Interrupt;
use core::ptr;

use crate::Trap;

/// All interrupts that some driver has asked for.
pub fn all() -> impl Iterator<Item = Interrupt> {
    let lines = (0..).map_while(|index| {
        let mut out = Interrupt::default();
        stub::irq_info(&Trap, index, ptr::from_mut(&mut out) as u64).ok()?;
        Some(out)
    });
    lines.filter(|line| line.number != u64::MAX)
}

/// This interrupt comes to that processor from now on; `None`: to one that is idle.
///
/// # Errors
/// `NotFound`: there is no such interrupt or processor; `Denied`: not the system's.
pub fn route(number: u64, processor: Option<u64>) -> Result<(), Error> {
    stub::irq_route(&Trap, number, processor.unwrap_or(u64::MAX)).map(drop)
}
