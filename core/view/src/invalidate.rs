//! The duty to make every processor forget.

use acl::Change;

/// A range of addresses in which rights or pages were taken away. Every processor must drop what its views and its TLB
/// hold of it before the change counts as done, and before a frame from there is used again.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "until every processor has forgotten the range, the old rights still work"]
pub struct Invalidate {
    /// First address.
    pub base: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Invalidate {
    /// What follows from a change of the ACL of the section at `[base, base + len)`: something only if somebody may
    /// have lost a right. Rights that were gained are found out by the next fault.
    pub fn after(change: Change, base: u64, len: u64) -> Option<Invalidate> {
        match change {
            Change::Same | Change::Grew => None,
            Change::Shrank => Some(Invalidate { base, len }),
        }
    }

    /// Whether the address is to be forgotten.
    pub fn covers(&self, address: u64) -> bool {
        address.checked_sub(self.base).is_some_and(|offset| offset < self.len)
    }
}
