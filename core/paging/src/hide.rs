//! Pages that are not to be used for a while: the entry stays, so that using them again needs nobody to say once more how they are
//! mapped.

use crate::entry::{Entry, span};
use crate::tables::{ENTRIES, ROOT, TableMem, Tables, index, read};

impl Tables {
    /// Hides the 4 KiB pages that are mapped in `[base, base + len)`, whole pages of the lower half. Returns how many: if 0, no processor
    /// remembers any. What is unmapped, mapped anew or made read-only meanwhile is not as it was when it is shown again.
    pub fn hide(&mut self, mem: &mut impl TableMem, base: u64, len: u64) -> u64 {
        self.each(mem, base, len, |entry| entry.maps(1).then(|| entry.hidden()))
    }

    /// Shows what was hidden. Returns how many pages; no processor has anything to forget.
    pub fn show(&mut self, mem: &mut impl TableMem, base: u64, len: u64) -> u64 {
        self.each(mem, base, len, |entry| entry.is_hidden().then(|| entry.shown()))
    }

    /// Changes entries of pages, a table at a time.
    fn each(&mut self, mem: &mut impl TableMem, base: u64, len: u64, change: impl Fn(Entry) -> Option<Entry>) -> u64 {
        let (mut changed, mut at, end) = (0, base, base + len);
        while at < end {
            let first = index(at, 1);
            let count = (ENTRIES - first).min(((end - at) / span(1)) as usize).max(1);
            if let Some(table) = self.lowest(mem, at) {
                for index in first..first + count {
                    if let Some(new) = change(read(mem, table, index)) {
                        mem.write(table, index, new.0);
                        changed += 1;
                    }
                }
            }
            at += count as u64 * span(1);
        }
        changed
    }

    /// The table that has the entry of the 4 KiB page at `address`.
    fn lowest(&self, mem: &impl TableMem, address: u64) -> Option<u64> {
        let mut table = self.root;
        for level in (2..=ROOT).rev() {
            let entry = read(mem, table, index(address, level));
            if !entry.present() || entry.maps(level) {
                return None;
            }
            table = entry.frame();
        }
        Some(table)
    }
}
