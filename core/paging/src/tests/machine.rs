//! An emulated machine: memory for tables, and processors that remember whatever a real one may remember until they are
//! told to forget it. The meaning of an entry is written down here once more, from the manual.

use crate::{Prot, TableMem};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// Tables by physical address, each with its entries that are not 0. A table that was freed is never given out again, and
/// must not be touched.
#[derive(Default)]
pub struct Memory {
    pub tables: BTreeMap<u64, BTreeMap<usize, u64>>,
    pub made: u64,
    /// How many more tables there is memory for.
    pub room: u64,
    /// How many entries were read or written.
    pub touched: Cell<u64>,
}

impl TableMem for Memory {
    fn alloc(&mut self) -> Option<u64> {
        self.room = self.room.checked_sub(1)?;
        self.made += 1;
        // High addresses, so that a bit that is lost is noticed.
        let table = 0x000f_f000_0000_0000 + self.made * 4096;
        self.tables.insert(table, BTreeMap::new());
        Some(table)
    }

    fn free(&mut self, table: u64) {
        assert!(self.tables.remove(&table).is_some(), "{table:x} is freed twice");
        self.room += 1;
    }

    fn read(&self, table: u64, index: usize) -> u64 {
        self.touched.set(self.touched.get() + 1);
        let table = self.tables.get(&table).expect("a table that is walked exists");
        table.get(&index).copied().unwrap_or(0)
    }

    fn write(&mut self, table: u64, index: usize, entry: u64) {
        self.touched.set(self.touched.get() + 1);
        let table = self.tables.get_mut(&table).expect("a table that is written exists");
        if entry == 0 {
            table.remove(&index);
        } else {
            table.insert(index, entry);
        }
    }
}

pub fn span(level: u32) -> u64 {
    [0, 1 << 12, 1 << 21, 1 << 30, 1 << 39][level as usize]
}

fn index(address: u64, level: u32) -> usize {
    (address >> (12 + 9 * (level - 1)) & 511) as usize
}

fn prot(entry: u64) -> Prot {
    Prot {
        write: entry >> 1 & 1 == 1,
        execute: entry >> 63 == 0,
        user: entry >> 2 & 1 == 1,
        device: entry >> 3 & 3 == 3,
        global: entry >> 8 & 1 == 1,
        key: (entry >> 59 & 15) as u8,
    }
}

/// A processor: what it remembers of pages (4 KiB of them, however large) and of tables.
#[derive(Default)]
pub struct Processor {
    pages: BTreeMap<u64, (u64, Prot)>,
    /// (level of the entry, first address that the entry covers) -> the table that it links to, and whether anything may be stored through it
    links: BTreeMap<(u32, u64), (u64, bool)>,
}

impl Processor {
    /// What the processor takes an access to `address` to go to.
    pub fn access(&mut self, memory: &Memory, root: u64, address: u64) -> Option<(u64, Prot)> {
        let page = address & !0xfff;
        if let Some(known) = self.pages.get(&page) {
            return Some(*known);
        }
        let start = |level| address & !(span(level) - 1);
        let known = (2..=4)
            .find_map(|level| self.links.get(&(level, start(level))).map(|&(table, write)| (level - 1, table, write)));
        let (mut level, mut table, mut write) = known.unwrap_or((4, root, true));
        loop {
            let entry = memory.read(table, index(address, level));
            if entry & 1 == 0 {
                return None;
            }
            assert!(level < 4 || entry >> 7 & 1 == 0, "the bit is reserved in the root");
            if level == 1 || entry >> 7 & 1 == 1 {
                let frame = entry & 0x000f_ffff_ffff_f000;
                assert!(frame % span(level) == 0, "reserved bits of a large page");
                let own = prot(entry);
                let found = (frame + (page & (span(level) - 1)), Prot { write: own.write && write, ..own });
                self.pages.insert(page, found);
                return Some(found);
            }
            let upper = address >> 47 != 0;
            let is_lowest = level == 2 && !upper;
            assert!((is_lowest || entry >> 1 & 1 == 1) && entry >> 63 == 0, "links allow everything, but stores");
            assert!(entry >> 2 & 1 == u64::from(!upper), "user mode is kept out of the upper half");
            table = entry & 0x000f_ffff_ffff_f000;
            write &= entry >> 1 & 1 == 1;
            self.links.insert((level, start(level)), (table, write));
            level -= 1;
        }
    }

    /// The shootdown of `[first, last]`: exactly that is forgotten.
    pub fn forget(&mut self, first: u64, last: u64) {
        self.pages.retain(|page, _| *page > last || page + 0xfff < first);
        self.links.retain(|(level, start), _| *start > last || start + (span(*level) - 1) < first);
    }
}

/// All tables below `root`, each with the level of its entries and its first address in 48 bits; and all entries that
/// map a page.
pub fn survey(memory: &Memory, root: u64) -> (BTreeMap<u64, (u32, u64)>, Vec<u64>) {
    let mut tables = BTreeMap::new();
    let mut pages = Vec::new();
    let mut todo = vec![(root, 4, 0)];
    while let Some((table, level, start)) = todo.pop() {
        for (&index, &entry) in memory.tables[&table].iter().filter(|(_, entry)| *entry & 1 == 1) {
            if level == 1 || entry >> 7 & 1 == 1 {
                pages.push(entry);
            } else {
                let below = entry & 0x000f_ffff_ffff_f000;
                let start = start + index as u64 * span(level);
                assert!(tables.insert(below, (level - 1, start)).is_none(), "a table hangs in two places");
                todo.push((below, level - 1, start));
            }
        }
    }
    (tables, pages)
}

/// The addresses of tables.
pub fn names(tables: &BTreeMap<u64, (u32, u64)>) -> BTreeSet<u64> {
    tables.keys().copied().collect()
}
