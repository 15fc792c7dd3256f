//! One entry of a table, as the Intel manual (volume 3, section 4.5) lays it out.

/// What a mapping allows, and how it is cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prot {
    /// Stores are allowed.
    pub write: bool,
    /// Instruction fetches are allowed.
    pub execute: bool,
    /// User mode may use it. (Supervisor mode then may not: SMEP and SMAP.)
    pub user: bool,
    /// A device's registers: not cached.
    pub device: bool,
    /// Stays in the TLB when the root is changed.
    pub global: bool,
    /// Protection key, 0 to 15.
    pub key: u8,
}

const PRESENT: u64 = 1 << 0;
const WRITE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const WRITE_THROUGH: u64 = 1 << 3;
const CACHE_DISABLE: u64 = 1 << 4;
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;
/// In a directory: the entry maps a large page.
const LARGE: u64 = 1 << 7;
const GLOBAL: u64 = 1 << 8;
/// Of the bits that processors leave to us: the page is not there, but what was said of it is.
const HIDDEN: u64 = 1 << 9;
const KEY_SHIFT: u32 = 59;
const KEY: u64 = 0xf << KEY_SHIFT;
const NO_EXECUTE: u64 = 1 << 63;
/// Bits 12 to 51.
const FRAME: u64 = 0x000f_ffff_ffff_f000;

/// Bytes that one entry of a table at `level` covers; level 1 is the lowest.
pub(crate) const fn span(level: u32) -> u64 {
    1 << (12 + 9 * (level - 1))
}

/// An entry as it stands in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(pub(crate) u64);

impl Entry {
    pub(crate) const EMPTY: Entry = Entry(0);

    /// The link to a table of the next lower level.
    pub(crate) const fn link(table: u64, user: bool) -> Entry {
        Entry(table | PRESENT | WRITE | ACCESSED | if user { USER } else { 0 })
    }

    /// The entry in a table at `level` that maps `frame`.
    pub(crate) fn page(level: u32, frame: u64, prot: Prot) -> Entry {
        let flags = [
            (prot.write, WRITE),
            (prot.user, USER),
            (prot.device, WRITE_THROUGH | CACHE_DISABLE),
            (level > 1, LARGE),
            (prot.global, GLOBAL),
            (!prot.execute, NO_EXECUTE),
        ];
        let set = flags.iter().filter(|(on, _)| *on).fold(PRESENT | ACCESSED | DIRTY, |all, (_, bit)| all | bit);
        Entry(frame & FRAME | set | u64::from(prot.key) << KEY_SHIFT & KEY)
    }

    pub(crate) const fn present(self) -> bool {
        self.0 & PRESENT != 0
    }

    /// Whether the entry, in a table at `level`, maps a page (and is not a link).
    pub(crate) const fn maps(self, level: u32) -> bool {
        self.present() && (level == 1 || self.0 & LARGE != 0)
    }

    /// The frame that is mapped or the table that is linked.
    pub(crate) const fn frame(self) -> u64 {
        self.0 & FRAME
    }

    /// The frame of a page, as an entry of a table at `level` maps it. (Bit 12 of a large page's entry is a caching attribute, not an address bit.)
    pub(crate) const fn first_frame(self, level: u32) -> u64 {
        self.frame() & !(span(level) - 1)
    }

    /// Of an entry that maps a large page at `level`: the entries of a table one level below that map its parts in the same way.
    pub(crate) fn parts(self, level: u32) -> impl Iterator<Item = Entry> {
        let first = Entry::page(level - 1, self.first_frame(level), self.prot());
        (first.0..).step_by(span(level - 1) as usize).map(Entry)
    }

    pub(crate) const fn writable(self) -> bool {
        self.0 & WRITE != 0
    }

    /// What is to stand in the place of `old`, which maps something. None: where a key kept stores away from a page that can be stored to, and nothing but this
    /// entry would, that has to be forgotten first.
    ///
    /// Otherwise no right to store is taken from it. An entry that has it is told so when it goes (its page is shared, or somebody loses a right), and
    /// everybody forgets it then: if it went unnoticed, processors would go on storing by what they remember, and whoever takes the right away would find
    /// nothing to be forgotten.
    #[cold]
    pub(crate) const fn in_place_of(self, old: Entry) -> Option<Entry> {
        if old.writable() && !self.writable() && old.0 & KEY != 0 && self.0 & KEY == 0 {
            return None;
        }
        let keeps = old.writable() && old.frame() == self.frame() && self.0 & NO_EXECUTE != 0;
        Some(if keeps { Entry(self.0 | WRITE) } else { self })
    }

    /// Whether the entry, in a table at `level`, links to a table through which nothing may be stored, whatever that says of its pages. Such a link saves saying
    /// so of each, and only links to the lowest tables are.
    pub(crate) const fn is_held(self, level: u32) -> bool {
        level == 2 && self.present() && !self.maps(level) && !self.writable()
    }

    /// The link that allows what its table says.
    pub(crate) const fn released(self) -> Entry {
        Entry(self.0 | WRITE)
    }

    pub(crate) const fn read_only(self) -> Entry {
        Entry(self.0 & !WRITE)
    }

    /// The same, for nobody to use. The frame is written upside down: a processor that speculates with what stands in an entry that is
    /// not present finds no memory there (L1TF).
    pub(crate) const fn hidden(self) -> Entry {
        Entry((self.0 & !PRESENT | HIDDEN) ^ FRAME)
    }

    pub(crate) const fn is_hidden(self) -> bool {
        self.0 & (PRESENT | HIDDEN) == HIDDEN
    }

    /// What it was before it was hidden.
    pub(crate) const fn shown(self) -> Entry {
        Entry((self.0 ^ FRAME) & !HIDDEN | PRESENT)
    }

    pub(crate) fn prot(self) -> Prot {
        let has = |bit| self.0 & bit != 0;
        Prot {
            write: has(WRITE),
            execute: !has(NO_EXECUTE),
            user: has(USER),
            device: has(CACHE_DISABLE),
            global: has(GLOBAL),
            key: ((self.0 & KEY) >> KEY_SHIFT) as u8,
        }
    }
}
