//! What is known of the machine's interrupts, and where they come to.

use abi::Error;
use abi::calls::stub;
use abi::info::Interrupt;

use crate::Trap;

/// All interrupts that some driver has asked for, read where the kernel counts them.
pub fn all() -> impl Iterator<Item = Interrupt> {
    let lines = crate::info::all().into_iter().flat_map(|all| all.interrupts());
    lines.map(|line| Interrupt {
        number: line.number - 1,
        vector: line.vector,
        section: line.section,
        text: line.text,
        way: line.way,
        processor: line.processor,
        pinned: line.pinned,
        came: line.came,
        idle: line.idle,
        missed: line.missed,
        longest_ns: line.longest_ns,
        marked: line.marked,
        longest_mark_ns: line.longest_mark_ns,
        last: line.last,
    })
}

/// This interrupt comes to that processor from now on; `None`: to one that is idle.
///
/// # Errors
/// `NotFound`: there is no such interrupt or processor; `Denied`: not the system's.
pub fn route(number: u64, processor: Option<u64>) -> Result<(), Error> {
    stub::irq_route(&Trap, number, processor.unwrap_or(u64::MAX)).map(drop)
}
