//! Why text is not clear, for people.

use crate::PAGE;
use crate::encoding::{LEN, Rules};
use crate::search::{Found, find, find_across, head, tail};
use core::fmt;

/// What makes a text not clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Why {
    /// Address of the page that it begins in.
    pub page: u64,
    /// What is there.
    pub found: Found,
}

impl Why {
    /// Address of its first byte.
    pub const fn address(&self) -> u64 {
        self.page + self.found.offset as u64
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Found { encoding, offset } = self.found;
        let across = if offset > PAGE - LEN { " and the one behind it" } else { "" };
        write!(f, "{encoding} at offset {offset:#x} of page {:#x}{across}; the program is called by EPC-S", self.page)
    }
}

/// Reads executable pages in the order of their addresses, as far as something is found. Those with consecutive addresses
/// lie side by side.
pub fn judge<'a>(pages: impl IntoIterator<Item = (u64, &'a [u8; PAGE])>, rules: Rules) -> Option<Why> {
    let mut left: Option<(u64, &[u8; PAGE])> = None;
    pages.into_iter().find_map(|(address, page)| {
        let beside = left.replace((address, page)).filter(|(before, _)| before + PAGE as u64 == address);
        let across = beside.and_then(|(before, bytes)| {
            find_across(tail(bytes), head(page), rules).map(|found| Why { page: before, found })
        });
        across.or_else(|| find(page, rules).map(|found| Why { page: address, found }))
    })
}
