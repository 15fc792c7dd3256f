#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod ends;
mod marks;
mod weight;

pub use marks::{Marks, Turn, is_short};
pub use weight::{Weight, Weights};

use abi::Error;
use abi::task::Limits;

/// What is counted. The units are those of [`Limits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// 4 KiB frames, page tables included.
    Frames,
    /// Sections.
    Sections,
    /// Bytes of address space.
    Reserve,
    /// Threads.
    Threads,
}

impl Resource {
    /// Why no more of it is had.
    pub const fn exceeded(self) -> Error {
        match self {
            Resource::Frames => Error::MemoryQuota,
            Resource::Sections => Error::SectionQuota,
            Resource::Reserve => Error::SpaceQuota,
            Resource::Threads => Error::ThreadQuota,
        }
    }
}

/// What is counted beside it, and never refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Bytes of the kernel's heap that lists of its objects take at the most.
    Lists,
    /// Frames that are somebody else's, too, who keeps them.
    Shared,
}

/// The ledger of one task. What is used grows within the limits only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    used: Limits,
    limits: Limits,
    /// Frames of these that are somebody else's, too, who keeps them.
    shared: u64,
    /// Bytes of the kernel's heap that lists of its objects take at the most.
    lists: u64,
}

/// The field of a record that counts a resource.
fn field(limits: &mut Limits, what: Resource) -> &mut u64 {
    match what {
        Resource::Frames => &mut limits.frames,
        Resource::Sections => &mut limits.sections,
        Resource::Reserve => &mut limits.reserve,
        Resource::Threads => &mut limits.threads,
    }
}

impl Ledger {
    /// A ledger with nothing used.
    pub fn new(limits: Limits) -> Ledger {
        Ledger { used: Limits::default(), limits, shared: 0, lists: 0 }
    }

    /// Takes `amount` more.
    ///
    /// # Errors
    /// That of the resource, if it were more than the limit; nothing was taken.
    pub fn charge(&mut self, what: Resource, amount: u64) -> Result<(), Error> {
        let limit = *field(&mut self.limits, what);
        let used = field(&mut self.used, what);
        let after = used.checked_add(amount).filter(|&after| after <= limit).ok_or(what.exceeded())?;
        *used = after;
        Ok(())
    }

    /// Takes `amount` more, though it may be more than the limit: of what is not refused. Then nothing else is had until it is less.
    pub fn charge_beyond(&mut self, what: Resource, amount: u64) {
        let used = field(&mut self.used, what);
        *used = used.saturating_add(amount);
    }

    /// Gives `amount` back. To give back more than was taken is a mistake of the caller; nothing is used then.
    pub fn release(&mut self, what: Resource, amount: u64) {
        let used = field(&mut self.used, what);
        debug_assert!(*used >= amount, "{what:?}: {amount} given back of {used}");
        *used = used.saturating_sub(amount);
    }

    /// Of one of its objects so much is counted beside what was taken, and not as much as before.
    pub fn counts(&mut self, what: Beside, before: u64, now: u64) {
        let counted = match what {
            Beside::Lists => &mut self.lists,
            Beside::Shared => &mut self.shared,
        };
        debug_assert!(*counted >= before, "{before} of {counted}: {what:?}");
        *counted = counted.saturating_sub(before) + now;
    }

    /// Frames of these that are somebody else's, too, who keeps them.
    pub fn shared(&self) -> u64 {
        self.shared
    }

    /// Bytes of the kernel's heap that lists of its objects take at the most.
    pub fn lists(&self) -> u64 {
        self.lists
    }

    /// Frames that would be there if it had none of them.
    pub fn own_frames(&self) -> u64 {
        self.used.frames.saturating_sub(self.shared)
    }

    /// What is used.
    pub fn used(&self) -> Limits {
        self.used
    }

    /// What may be used.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Sets what may be used from now on; 0: as before. What is used stays, even where it is more: then nothing is had until it is less.
    pub fn limit(&mut self, to: &Limits) {
        let set = |limit: &mut u64, to: u64| *limit = if to == 0 { *limit } else { to };
        set(&mut self.limits.frames, to.frames);
        set(&mut self.limits.sections, to.sections);
        set(&mut self.limits.reserve, to.reserve);
        set(&mut self.limits.threads, to.threads);
    }

    /// Whether all of `child` would fit into what is not used: a task cannot give a child more than it has left.
    pub fn fits(&self, child: &Limits) -> bool {
        let left = |limit: u64, used: u64| limit.saturating_sub(used);
        child.frames <= left(self.limits.frames, self.used.frames)
            && child.sections <= left(self.limits.sections, self.used.sections)
            && child.reserve <= left(self.limits.reserve, self.used.reserve)
            && child.threads <= left(self.limits.threads, self.used.threads)
    }
}

#[cfg(test)]
mod tests;
