//! Rights, principals and ACL entries (architecture, sections 1 and 3; CUBIX-8, 9, 16).

use bitflags::bitflags;
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

impl core::fmt::Display for Rights {
    /// Six letters in a fixed order, `-` for what is missing: `rwxcad`.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for (right, letter) in [
            (Rights::READ, "r"),
            (Rights::WRITE, "w"),
            (Rights::EXECUTE, "x"),
            (Rights::CALL, "c"),
            (Rights::CHANGE_ACL, "a"),
            (Rights::DMA, "d"),
        ] {
            f.write_str(if self.contains(right) { letter } else { "-" })?;
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
