//! What somebody's objects take of the kernel's heap, by what his ledger says.

use crate::Ledger;
use core::ops::Add;

/// How much it is, at the least and at the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Never less,
    pub least: u64,
    /// and never more.
    pub most: u64,
}

impl Weight {
    /// So many times as much.
    #[must_use]
    pub const fn times(self, count: u64) -> Weight {
        Weight { least: self.least.saturating_mul(count), most: self.most.saturating_mul(count) }
    }
}

impl Add for Weight {
    type Output = Weight;
    fn add(self, other: Weight) -> Weight {
        Weight { least: self.least.saturating_add(other.least), most: self.most.saturating_add(other.most) }
    }
}

/// What each object takes, but for its lists, which are counted as they are.
#[derive(Clone, Copy, Debug)]
pub struct Weights {
    /// A section.
    pub section: Weight,
    /// A thread; or a task, which counts as one.
    pub thread: Weight,
    /// A frame of its own: what is known of it.
    pub frame: Weight,
}

impl Ledger {
    /// What all that was taken, and not given back, takes of the heap.
    #[must_use]
    pub fn weight(&self, of: &Weights) -> Weight {
        let (used, lists) = (self.used(), Weight { least: 0, most: self.lists });
        of.section.times(used.sections) + of.thread.times(used.threads) + of.frame.times(self.own_frames()) + lists
    }
}
