//! Keys, and what the key register says about each (Intel manual, volume 3, section 4.6.2).

use abi::Rights;

/// Keys that the processor has.
pub const KEYS: usize = 16;
/// Keys that classes can have: all 16 but those with a purpose of their own.
pub use abi::info::layout::CLASS_KEYS;

/// One of the processor's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u8);

/// The two bits of key `k` are at `2 * k`: no access, no stores.
const ACCESS_DISABLE: u32 = 1;
const WRITE_DISABLE: u32 = 2;

impl Key {
    /// Of the pages that every domain may read and nobody writes. Their page table entries are never writable.
    pub const PUBLIC: Key = Key(0);
    /// Of the gate's own memory, which every domain may read and only the gate writes.
    pub const GATE: Key = Key(1);

    /// The number that stands in a page table entry.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The key at a place among those of classes.
    pub(crate) const fn at(place: usize) -> Key {
        Key(place as u8 + 2)
    }

    /// Its place among those of classes. The first two have none.
    pub(crate) const fn place(self) -> usize {
        self.0 as usize - 2
    }

    /// `register` with what it says about this key replaced.
    pub(crate) const fn open(self, register: u32, rights: Rights) -> u32 {
        let bits = if !rights.contains(Rights::READ) {
            ACCESS_DISABLE | WRITE_DISABLE
        } else if !rights.contains(Rights::WRITE) {
            WRITE_DISABLE
        } else {
            0
        };
        let shift = 2 * self.0 as u32;
        register & !(3 << shift) | bits << shift
    }
}

const READ_WRITE: Rights = Rights::READ.union(Rights::WRITE);

/// The register while nothing but what everybody may read can be read.
pub const SHUT: u32 = Key::GATE.open(Key::PUBLIC.open(u32::MAX, Rights::READ), Rights::READ);

/// The register while the gate works: its own memory, and nothing of any class.
pub const OPEN: u32 = Key::GATE.open(SHUT, READ_WRITE);

/// What the registers of all domains have in common. (Stores to public pages are stopped by the page table.)
pub(crate) const DOMAIN: u32 = Key::PUBLIC.open(SHUT, READ_WRITE);
