//! Sections as programs see them (CUBIX-7, 8).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Kinds of section.
pub mod kind {
    pub const DATA: u64 = 0;
    pub const TEXT: u64 = 1;
    /// A device's memory: never cloned, never zeroed.
    pub const DEVICE: u64 = 2;
    /// A device's I/O ports: no memory behind its addresses, reached by `port_read` and `port_write`.
    pub const PORTS: u64 = 3;
    /// A stack: its second page is a guard, below it lies the thread's area for the text.
    pub const STACK: u64 = 4;
    /// A post: no memory either; made by `post_get`, with the rights call (send), read (receive), change-acl (free).
    pub const POST: u64 = 5;
}

/// Flags of `section_create` and `section_clone`.
pub mod flag {
    /// The first ACL entry names any principal in the executing text instead of the executing task in it: for what a
    /// server must reach on every caller's thread.
    pub const ANY_PRINCIPAL: u64 = 1;
    /// `section_clone`: the clone of a text is a plain data section (for relocation before it is sealed).
    pub const AS_DATA: u64 = 2;
    /// `section_create`: it is mapped in no view that several programs share, since protection keys stop no speculative access
    /// (`docs/decisions/0013`). Who touches it lives in a view of its own from then on, and its calls are made by the kernel. A
    /// clone is secret, too.
    pub const SECRET: u64 = 4;
    /// Flags that [`SectionInfo`](super::SectionInfo) shows.
    pub const SHOWN: u64 = SECRET;
}

/// Attributes of real pages (`page_alloc`, SSS-38); 0: 4 KiB each, wherever there is memory.
pub mod real {
    /// Pages of 2 MiB: address and length are multiples of that.
    pub const SIZE_2M: u64 = 1;
    /// Pages of 1 GiB, on processors with `info::feature::PAGES_1G`: address and length are multiples of that.
    pub const SIZE_1G: u64 = 2;
    /// The memory of all of them is in a row, whatever their size.
    pub const CONTIGUOUS: u64 = 4;
    pub const ALL: u64 = SIZE_2M | SIZE_1G | CONTIGUOUS;

    /// Bytes of a page with these attributes; `None`: there is no such page.
    #[must_use]
    pub const fn size(attributes: u64) -> Option<u64> {
        match attributes & (SIZE_2M | SIZE_1G) {
            _ if attributes & !ALL != 0 => None,
            0 => Some(crate::layout::PAGE),
            SIZE_2M => Some(2 << 20),
            SIZE_1G => Some(1 << 30),
            _ => None,
        }
    }
}

/// Classes of texts (SSS-61): in which mode they are executed, and whether they are preempted there.
pub mod class {
    pub const PUSR: u64 = 0;
    pub const PSYS: u64 = 1;
    pub const NSYS: u64 = 2;
    /// By number.
    pub const WORDS: [&str; 3] = ["pusr", "psys", "nsys"];

    /// The number of a class by its word.
    #[must_use]
    pub fn named(word: &str) -> Option<u64> {
        WORDS.iter().position(|&class| class == word).map(|number| number as u64)
    }
}

/// Where a text is executed (`text_place`), and how long NSys code has kept processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Placed {
    /// One of [`class`].
    pub class: u64,
    /// NSys: one thread in the texts of a group runs at a time, on the whole machine.
    pub group: u64,
    /// 1: it was NSys, and has run for too long without a switch point.
    pub lost: u64,
    /// NSys: runs that were longer than a quantum (10 ms), and the longest, ns (counted from when the kernel first saw it running).
    pub long_runs: u64,
    pub longest_ns: u64,
}

/// Longest name of a section or task, in bytes.
pub const NAME_LEN: usize = 32;

/// What `section_info` writes.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SectionInfo {
    pub base: u64,
    /// Length in bytes, and what is reserved.
    pub len: u64,
    pub reserve: u64,
    /// One of [`kind`].
    pub kind: u64,
    /// Task that pays for it.
    pub owner: u64,
    /// The text that this one is a clone of (transitively), or its own base.
    pub original: u64,
    /// Pages with memory behind them. (What these are `section_pages` counts.)
    pub resident: u64,
    /// Entries in the ACL.
    pub entries: u64,
    /// Union of `Rights` that the asker has.
    pub rights: u64,
    /// First gate address and number of gates (texts).
    pub gates: u64,
    pub gate_count: u64,
    /// NUL-padded.
    pub name: [u8; NAME_LEN],
    /// Those of [`flag::SHOWN`] that it has.
    pub flags: u64,
    /// Of a text that could write the key register: the first page where it could, so that whoever runs it is called by the kernel; 0: none.
    pub unclear: u64,
    /// Pages that were made invalid.
    pub invalid: u64,
    /// The text of its pager, and its level; 0: none.
    pub pager: u64,
    pub level: u64,
    /// Texts.
    pub placed: Placed,
    /// Kind ports: the first port, and from bit 16 on how many.
    pub ports: u64,
}

/// What `section_pages` adds to, part by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SectionPages {
    /// Pages with memory behind them, and how many of these are shared copy-on-write.
    pub resident: u64,
    pub shared: u64,
    /// Of these pages, how many lie in a row with those around them, so that they can be mapped as pages of 2 MiB or 1 GiB; and in how many
    /// pieces of memory all lie.
    pub large: u64,
    pub pieces: u64,
}
