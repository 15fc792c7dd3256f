#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod invalidate;
mod owed;
mod places;

pub use invalidate::Invalidate;
pub use owed::Owed;
pub use paging::Prot;
pub use places::{Place, Places};

use abi::Rights;
use abi::section::kind;

/// What an instruction does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Loads.
    Read,
    /// Stores (and perhaps loads).
    Write,
    /// Is fetched.
    Execute,
}

impl Access {
    /// The rights that it takes. Reading is always among them: the hardware allows nothing without it.
    pub const fn needs(self) -> Rights {
        match self {
            Access::Read => Rights::READ,
            Access::Write => Rights::READ.union(Rights::WRITE),
            Access::Execute => Rights::READ.union(Rights::EXECUTE),
        }
    }

    /// The right that the access is called after.
    pub const fn right(self) -> Rights {
        match self {
            Access::Read => Rights::READ,
            Access::Write => Rights::WRITE,
            Access::Execute => Rights::EXECUTE,
        }
    }

    /// Of what is `missing` for the access, what people want to hear of: the right that was used, if it is among them.
    /// (Reading goes with every access.)
    pub const fn named(self, missing: Rights) -> Rights {
        if missing.contains(self.right()) { self.right() } else { missing }
    }
}

/// What any entry can give at most on the memory of a kind of section.
#[must_use]
pub const fn at_most(section_kind: u64) -> Rights {
    match section_kind {
        kind::TEXT => Rights::READ.union(Rights::EXECUTE),
        kind::DATA | kind::STACK | kind::DEVICE => Rights::READ.union(Rights::WRITE),
        _ => Rights::empty(),
    }
}

/// What a window's protection allows. On this processor a page that can be written or executed can be read, and
/// programs with a window of their own rely on it.
fn window(protection: Rights) -> Rights {
    if protection.intersects(Rights::WRITE | Rights::EXECUTE) { protection | Rights::READ } else { protection }
}

/// The protection that a page gets in the view of a domain that has `rights` on its section and has just tried
/// `access`: all that the domain may do there, so that it faults once. `window_protection` is that of the window mapping
/// by which it came, if it did.
///
/// # Errors
/// The rights that are missing for the access, never none. (For people: a right that the kind of section or the window
/// excludes is missing too.)
pub fn decide(
    rights: Rights,
    section_kind: u64,
    access: Access,
    window_protection: Option<Rights>,
) -> Result<Prot, Rights> {
    let allowed = rights & at_most(section_kind) & window_protection.map_or(Rights::all(), window);
    let missing = access.needs() - allowed;
    if !missing.is_empty() {
        return Err(missing);
    }
    Ok(Prot {
        write: allowed.contains(Rights::WRITE),
        execute: allowed.contains(Rights::EXECUTE),
        user: true,
        device: section_kind == kind::DEVICE,
        global: false,
        key: 0,
    })
}

/// The protection that the page is mapped with, when it is `exclusive` (nobody else can see it) or not: a store to a
/// page that is shared must fault, so that it gets a copy first.
#[must_use]
pub fn while_shared(prot: Prot, exclusive: bool) -> Prot {
    Prot { write: prot.write && exclusive, ..prot }
}

#[cfg(test)]
mod tests;
