//! The tables of one view: making them, reading them, sharing the kernel's half.

use crate::entry::{Entry, Prot, span};
use crate::gone::Gone;

/// Entries in a table.
pub(crate) const ENTRIES: usize = 512;
/// Level of the root.
pub(crate) const ROOT: u32 = 4;
/// Root entries from here on are the upper half: the kernel's, shared by all roots.
pub(crate) const UPPER: usize = ENTRIES / 2;
/// The 48 bits of an address that are translated.
pub(crate) const TRANSLATED: u64 = span(ROOT) * ENTRIES as u64 - 1;

/// Where tables are kept. A table is named by its physical address.
pub trait TableMem {
    /// A table full of zeroes; `None` if there is no memory.
    fn alloc(&mut self) -> Option<u64>;
    /// Takes a table back that no processor can be walking.
    fn free(&mut self, table: u64);
    /// The entry at `index`, below 512.
    fn read(&self, table: u64, index: usize) -> u64;
    /// Stores the entry at `index` in one access, so that a processor that is walking sees the old or the new one.
    fn write(&mut self, table: u64, index: usize, entry: u64);
}

/// The page tables of one view. It does not own them: [`Tables::free_lower`] must be called in the end. Only by it are tables taken out:
/// it remembers where it was last.
#[derive(Debug)]
pub struct Tables {
    pub(crate) root: u64,
    /// The three lowest tables that were last found, and for which addresses; [`NOWHERE`]: none.
    pub(crate) last: [(u64, u64); 3],
}

/// No address is in these spans of lowest tables.
pub(crate) const NOWHERE: [(u64, u64); 3] = [(u64::MAX, 0); 3];

/// Whether bits 47 to 63 of the address are equal.
pub(crate) const fn canonical(address: u64) -> bool {
    let top = address >> 47;
    top == 0 || top == 0x1_ffff
}

/// The index of an address in a table at `level`.
pub(crate) const fn index(address: u64, level: u32) -> usize {
    (address / span(level)) as usize % ENTRIES
}

pub(crate) fn read(mem: &impl TableMem, table: u64, index: usize) -> Entry {
    Entry(mem.read(table, index))
}

impl Tables {
    /// New tables that map nothing; `None` if there is no memory.
    pub fn new(mem: &mut impl TableMem) -> Option<Tables> {
        Some(Tables { root: mem.alloc()?, last: NOWHERE })
    }

    /// The tables of a root that exists already.
    pub fn from_root(root: u64) -> Tables {
        Tables { root, last: NOWHERE }
    }

    /// Physical address of the root table.
    pub fn root(&self) -> u64 {
        self.root
    }

    /// The 4 KiB frame that `address` is mapped to, and how.
    pub fn translate(&self, mem: &impl TableMem, address: u64) -> Option<(u64, Prot)> {
        if !canonical(address) {
            return None;
        }
        let (mut table, mut is_held) = (self.root, false);
        for level in (1..=ROOT).rev() {
            let entry = read(mem, table, index(address, level));
            if entry.maps(level) {
                let within = address & (span(level) - 1) & !(span(1) - 1);
                let prot = entry.prot();
                return Some((entry.first_frame(level) + within, Prot { write: prot.write && !is_held, ..prot }));
            }
            is_held |= entry.is_held(level);
            if !entry.present() {
                return None;
            }
            table = entry.frame();
        }
        None
    }

    /// Makes the upper half the same as that of `from`: the kernel's half is shared by all views.
    pub fn share_upper(&mut self, mem: &mut impl TableMem, from: &Tables) {
        for index in UPPER..ENTRIES {
            let entry = mem.read(from.root, index);
            mem.write(self.root, index, entry);
        }
    }

    /// Frees all tables of the lower half, and the root. No processor may be using them.
    pub fn free_lower(self, mem: &mut impl TableMem) {
        let mut gone = Gone::default();
        for entry in (0..UPPER).map(|index| read(mem, self.root, index)) {
            if entry.present() {
                gone.push(entry.frame(), ROOT - 1);
            }
        }
        gone.free(mem, &mut { usize::MAX });
        mem.free(self.root);
    }

    /// How many tables the lower half consists of, without the root.
    pub fn tables(&self, mem: &impl TableMem) -> u64 {
        (0..UPPER).map(|index| count(mem, read(mem, self.root, index), ROOT)).sum()
    }
}

/// Counts the tables that `entry`, which stands in a table at `level`, links to.
fn count(mem: &impl TableMem, entry: Entry, level: u32) -> u64 {
    if !entry.present() || entry.maps(level) {
        return 0;
    }
    let below = |index| count(mem, read(mem, entry.frame(), index), level - 1);
    1 + if level > 2 { (0..ENTRIES).map(below).sum() } else { 0 }
}
