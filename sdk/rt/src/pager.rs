//! Being a pager (`abi::pager`): faults on pages of own sections, or those of the own task, are calls of this program. See the interface
//! `Pager`, and the book's page on pagers.

use abi::Error;
use abi::calls::stub;
pub use abi::pager::{LEVEL_MAX, TIME_NS, TRIES, answer, flag, miss, supply, why};

use crate::Trap;

/// What a page was that was to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Was {
    /// There was nothing to take.
    Absent,
    /// Not stored to since it was supplied.
    Clean,
    Dirty,
}

/// From now on faults on pages of the section at `base` that are absent or invalid go to the gate at `gate`, of this program. `level`: above
/// those of all sections that it needs meanwhile, and 1 at the least; `flags`: [`flag`].
///
/// # Errors
/// What the kernel answers.
pub fn set(base: u64, gate: u64, level: u64, flags: u64) -> Result<(), Error> {
    stub::section_pager(&Trap, base, gate, level, flags).map(drop)
}

/// No more. What is absent reads as zeroes from now on, as in any section.
///
/// # Errors
/// What the kernel answers.
pub fn end(base: u64) -> Result<(), Error> {
    stub::section_pager(&Trap, base, 0, 0, 0).map(drop)
}

/// From now on faults of this task's threads on pages that it makes invalid itself from now on go to `gate` first (0: no more).
///
/// # Errors
/// What the kernel answers.
pub fn set_for_task(gate: u64, flags: u64) -> Result<(), Error> {
    stub::task_pager(&Trap, 0, gate, flags).map(drop)
}

/// The page at `from`, in a section of this program, goes to `address` and is valid there. `flags`: [`supply`].
///
/// # Errors
/// What the kernel answers; nothing has moved then.
pub fn supply_page(address: u64, from: u64, flags: u64) -> Result<(), Error> {
    stub::page_supply(&Trap, address, from, flags).map(drop)
}

/// A page of zeroes comes to `address`.
///
/// # Errors
/// What the kernel answers.
pub fn supply_zeroes(address: u64, flags: u64) -> Result<(), Error> {
    stub::page_supply(&Trap, address, 0, flags).map(drop)
}

/// The page at `address` comes to `to`, in another section of this program, and is absent there.
///
/// # Errors
/// What the kernel answers; nothing has moved then.
pub fn take_page(address: u64, to: u64) -> Result<Was, Error> {
    stub::page_take(&Trap, address, to).map(was)
}

/// If the page at `address` is clean, it is absent, and its memory free.
///
/// # Errors
/// What the kernel answers.
pub fn drop_clean(address: u64) -> Result<Was, Error> {
    stub::page_take(&Trap, address, 0).map(was)
}

fn was(value: u64) -> Was {
    match value {
        abi::pager::page::CLEAN => Was::Clean,
        abi::pager::page::DIRTY => Was::Dirty,
        _ => Was::Absent,
    }
}
