//! Rights, principals and ACL entries (architecture, sections 1 and 3; CUBIX-8, 9, 16).

use bitflags::bitflags;
use core::fmt::{self, Write};
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

/// The rights in the order of their bits. (Texts that are taken apart, because a table of texts would be addresses, which
/// make every start of a program longer.)
const LETTERS: &str = "rwxcad";
const NAMES: &str = "read write execute call change-acl dma";

impl Rights {
    fn has(self, bit: usize) -> bool {
        self.bits() >> bit & 1 != 0
    }

    /// The names of the rights: `read`, or `read+write`; `access` without any.
    #[must_use]
    pub const fn words(self) -> Words {
        Words(self)
    }
}

impl fmt::Display for Rights {
    /// Six letters in a fixed order, `-` for what is missing: `rwxcad`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        LETTERS.chars().enumerate().try_for_each(|(bit, letter)| f.write_char(if self.has(bit) { letter } else { '-' }))
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
        let mut first = true;
        for (_, name) in NAMES.split(' ').enumerate().filter(|(bit, _)| self.0.has(*bit)) {
            if !core::mem::take(&mut first) {
                f.write_char('+')?;
            }
            f.write_str(name)?;
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
