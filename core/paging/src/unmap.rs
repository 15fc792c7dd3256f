//! Taking pages out, and taking away the right to write.

use crate::entry::{Entry, span};
use crate::gone::Gone;
use crate::split::{Touched, split};
use crate::tables::{ENTRIES, NOWHERE, ROOT, TRANSLATED, TableMem, Tables, UPPER, index, read};

/// What [`Tables::unmap`] took out.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use = "the tables must be freed, after the shootdown"]
pub struct Unmapped {
    /// How many 4 KiB pages were mapped by entries that were emptied: without those that tables have taken with them.
    pub pages: u64,
    /// Tables that are not linked any more, as they were. A processor may be walking them until it has been told; then the caller
    /// frees them.
    pub tables: Gone,
    /// More was taken out than the range: see [`Touched::more`].
    pub more: bool,
}

impl Unmapped {
    /// Whether nothing was taken out, so that no processor has anything to forget. (One that looked for a page and found
    /// none does not remember that, but it may remember the table in which it looked.)
    pub fn is_empty(&self) -> bool {
        self.pages == 0 && self.tables.is_empty()
    }
}

/// A part of one half of the address space, in the 48 bits that are translated. `last` belongs to it.
#[derive(Clone, Copy)]
struct Range {
    first: u64,
    last: u64,
}

impl Range {
    /// The pages that `[base, base + len)` touches, as far as they lie in the half of `base`.
    fn new(base: u64, len: u64) -> Option<Range> {
        let last = base.saturating_add(len.checked_sub(1)?);
        let half = TRANSLATED / 2;
        let end_of_half = if base <= half { half } else { u64::MAX };
        if base > half && base < !half {
            return None;
        }
        let page = span(1) - 1;
        Some(Range { first: base & TRANSLATED & !page, last: (last.min(end_of_half) & TRANSLATED) | page })
    }

    /// The part of it that lies in the entry at `first` of a table at `level`.
    fn covers(self, first: u64, level: u32) -> bool {
        self.first <= first && first + (span(level) - 1) <= self.last
    }

    /// The entries of a table at `level`, whose first address is `first`, that the range touches, with the first
    /// address of each.
    fn entries(self, first: u64, level: u32) -> impl Iterator<Item = (usize, u64)> {
        let from = if self.first > first { index(self.first, level) } else { 0 };
        let end_of_table = first + (span(level) * ENTRIES as u64 - 1);
        let to = if self.last < end_of_table { index(self.last, level) } else { ENTRIES - 1 };
        (from..=to).map(move |index| (index, first + index as u64 * span(level)))
    }
}

impl Tables {
    /// Takes out all pages that `[base, base + len)` touches, and the tables that it covers wholly, with those above them
    /// that are empty now (but none that hangs on the upper half of the root, which all roots share). A large page of which
    /// the range covers a part is split. When a table goes, processors forget all of its span, or everything.
    pub fn unmap(&mut self, mem: &mut impl TableMem, base: u64, len: u64) -> Unmapped {
        self.unmap_with(mem, base, len, false)
    }

    /// The same, but keeps what hangs on the root: other roots share it.
    pub fn unmap_shared(&mut self, mem: &mut impl TableMem, base: u64, len: u64) -> Unmapped {
        self.unmap_with(mem, base, len, true)
    }

    fn unmap_with(&mut self, mem: &mut impl TableMem, base: u64, len: u64, keep: bool) -> Unmapped {
        let mut out = Unmapped::default();
        if let Some(range) = Range::new(base, len) {
            unmap(mem, self.root, ROOT, 0, range, keep, &mut out);
        }
        if !out.tables.is_empty() {
            self.last = NOWHERE;
        }
        out
    }

    /// Makes all pages that `[base, base + len)` touches read-only; a large one of which it covers a part is split. Of a table that it covers wholly the link says
    /// so, until something is done in there. If nothing changed, no processor can be writing there.
    pub fn write_protect(&mut self, mem: &mut impl TableMem, base: u64, len: u64) -> Touched {
        // Of those that are held none is known.
        self.last = NOWHERE;
        Range::new(base, len).map_or(Touched::default(), |range| write_protect(mem, self.root, ROOT, 0, range))
    }

    /// Passes over what is empty: the first address in `[base, base + len)` at which there may be anything, or the end. Entries of tables of
    /// pages are not looked at, and of the others no more than `most`: where that was not enough there may be nothing.
    pub fn pass_over(&self, mem: &impl TableMem, base: u64, len: u64, mut most: usize) -> u64 {
        let found = Range::new(base, len).and_then(|range| {
            let found = first_used(mem, self.root, ROOT, 0, range, &mut most)?;
            Some(base + found.saturating_sub(base & TRANSLATED))
        });
        found.unwrap_or(base.saturating_add(len))
    }
}

fn first_used(mem: &impl TableMem, table: u64, level: u32, first: u64, range: Range, most: &mut usize) -> Option<u64> {
    for (at, first) in range.entries(first, level) {
        let entry = read(mem, table, at);
        if *most == 0 || entry.maps(level) || level == 2 && entry != Entry::EMPTY || entry.is_hidden() {
            return Some(first.max(range.first));
        }
        *most -= 1;
        if entry.present()
            && let Some(found) = first_used(mem, entry.frame(), level - 1, first, range, most)
        {
            return Some(found);
        }
    }
    None
}

fn unmap(mem: &mut impl TableMem, table: u64, level: u32, first: u64, range: Range, keep: bool, out: &mut Unmapped) {
    if level == 1 {
        return out.pages += each_page(mem, table, first, range, |_| Entry::EMPTY);
    }
    for (at, first) in range.entries(first, level) {
        let mut entry = read(mem, table, at);
        if entry == Entry::EMPTY {
            continue;
        }
        let covered = range.covers(first, level);
        if !covered && entry.maps(level) && split(mem, table, level, at, is_lower(first)).is_some() {
            entry = read(mem, table, at);
        }
        if entry.maps(level) {
            mem.write(table, at, Entry::EMPTY.0);
            out.pages += span(level) / span(1);
            out.more |= !covered;
        } else if entry.is_hidden() {
            // No processor remembers it.
            mem.write(table, at, Entry::EMPTY.0);
        } else if entry.present() {
            let before = out.tables.tops();
            // What hangs on the upper half of a root hangs on all roots.
            let shared = level == ROOT && (keep || at >= UPPER);
            if covered && !shared {
                // What hangs on it goes with it, however much that is.
                mem.write(table, at, Entry::EMPTY.0);
                out.tables.push(entry.frame(), level - 1);
                continue;
            }
            unmap(mem, entry.frame(), level - 1, first, range, keep, out);
            // Looked for only where a table went: a table of pages is likely to get a page again.
            if !shared && out.tables.tops() > before && is_empty(mem, entry.frame()) {
                mem.write(table, at, Entry::EMPTY.0);
                out.tables.push_empty(entry.frame());
            }
        }
    }
}

/// Changes all entries of a lowest table that a range touches, shown or hidden. How many of those that processors may remember are not as they were.
#[inline]
fn each_page(mem: &mut impl TableMem, table: u64, first: u64, range: Range, change: impl Fn(Entry) -> Entry) -> u64 {
    let mut changed = 0;
    for (at, _) in range.entries(first, 1) {
        let entry = read(mem, table, at);
        let new = change(entry);
        if new != entry {
            mem.write(table, at, new.0);
            changed += u64::from(entry.present());
        }
    }
    changed
}

fn is_lower(address: u64) -> bool {
    address <= TRANSLATED / 2
}

fn is_empty(mem: &impl TableMem, table: u64) -> bool {
    (0..ENTRIES).all(|at| !read(mem, table, at).present())
}

fn write_protect(mem: &mut impl TableMem, table: u64, level: u32, first: u64, range: Range) -> Touched {
    if level == 1 {
        return Touched { entries: each_page(mem, table, first, range, Entry::read_only), more: false };
    }
    let mut touched = Touched::default();
    for (at, first) in range.entries(first, level) {
        let mut entry = read(mem, table, at);
        if entry == Entry::EMPTY {
            continue;
        }
        let covered = range.covers(first, level);
        if !covered && entry.maps(level) && entry.writable() && split(mem, table, level, at, is_lower(first)).is_some()
        {
            entry = read(mem, table, at);
        }
        if entry.maps(level) {
            if entry.writable() {
                mem.write(table, at, entry.read_only().0);
                touched.add(Touched { entries: 1, more: !covered });
            }
        } else if entry.is_hidden() {
            mem.write(table, at, entry.read_only().0);
        } else if level == 2 && covered && is_lower(first) {
            if entry.writable() {
                mem.write(table, at, entry.read_only().0);
                touched.add(Touched { entries: 1, more: false });
            }
        } else if entry.present() && !entry.is_held(level) {
            touched.add(write_protect(mem, entry.frame(), level - 1, first, range));
        }
    }
    touched
}
