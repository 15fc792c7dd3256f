//! Rights, principals and ACL entries (architecture, sections 1 and 3; CUBIX-8, 9, 16).

use bitflags::bitflags;
use core::fmt;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

bitflags! {
    /// What an entry allows. There are no negative rights: no entry, no right.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Rights: u32 {
        const READ = 1;
        const WRITE = 2;
        /// Fetch instructions with one's own rights.
        const EXECUTE = 4;
        /// Enter at an exported gate (for a post: send).
        const CALL = 8;
        /// Read and change the ACL, resize, clone, give away and delete.
        const CHANGE_ACL = 16;
        /// The device behind the section may be told to reach memory by itself.
        const DMA = 32;
    }
}

/// Each right with its letter and its name, in the order in which they are shown.
const SHOWN: [(Rights, &str, &str); 6] = [
    (Rights::READ, "r", "read"),
    (Rights::WRITE, "w", "write"),
    (Rights::EXECUTE, "x", "execute"),
    (Rights::CALL, "c", "call"),
    (Rights::CHANGE_ACL, "a", "change-acl"),
    (Rights::DMA, "d", "dma"),
];

impl fmt::Display for Rights {
    /// Six letters in a fixed order, `-` for what is missing: `rwxcad`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SHOWN.iter().try_for_each(|(right, letter, _)| f.write_str(if self.contains(*right) { letter } else { "-" }))
    }
}

impl Rights {
    /// The names of the rights: `read`, or `read+write`; `access` without any.
    #[must_use]
    pub const fn words(self) -> Words {
        Words(self)
    }
}

/// See [`Rights::words`].
#[derive(Clone, Copy, Debug)]
pub struct Words(Rights);

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("access");
        }
        let mut between = "";
        for (_, _, name) in SHOWN.iter().filter(|(right, ..)| self.0.contains(*right)) {
            write!(f, "{between}{name}")?;
            between = "+";
        }
        Ok(())
    }
}

/// Kinds of principal in an [`AclEntry`].
pub mod principal {
    pub const ANY: u32 = 0;
    pub const THREAD: u32 = 1;
    pub const TASK: u32 = 2;
    pub const USER: u32 = 3;
    pub const NODE: u32 = 4;
}

/// `text` of an entry that matches every text section.
pub const ANY_TEXT: u64 = 0;

/// One ACL entry as programs write and read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct AclEntry {
    /// One of [`principal`].
    pub principal: u32,
    /// Bits of [`Rights`]; 0 in `acl_set` removes the entry of this (principal, id, text).
    pub rights: u32,
    /// Number of the thread, task, user or node; 0 for any.
    pub id: u64,
    /// Base address of a text section, or [`ANY_TEXT`]. An original text matches all its clones.
    pub text: u64,
}

/// Most entries that one section's ACL holds.
pub const ACL_MAX: usize = 1024;
