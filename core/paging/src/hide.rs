//! Pages that are not to be used for a while: the entry stays, so that using them again needs nobody to say once more how they are
//! mapped. And few pages taken out at once.

use crate::entry::{Entry, span};
use crate::split::{Touched, each_large, release};
use crate::tables::{ROOT, TableMem, Tables, index, read};

impl Tables {
    /// Hides the pages that are mapped in `[base, base + len)`, whole pages of the lower half. What is unmapped, mapped anew or made read-only
    /// meanwhile is not as it was when it is shown again.
    #[inline(always)]
    pub fn hide(&mut self, mem: &mut impl TableMem, base: u64, len: u64) -> Touched {
        self.each(mem, base, len, |entry, level| entry.maps(level).then(|| entry.hidden()))
    }

    /// Shows what was hidden; no processor has anything to forget. (A large page is shown again only as a whole: of a part of one nothing is known
    /// any more.)
    #[inline]
    pub fn show(&mut self, mem: &mut impl TableMem, base: u64, len: u64) -> Touched {
        self.each(mem, base, len, |entry, _| entry.is_hidden().then(|| entry.shown()))
    }

    /// Takes out the pages of `[base, base + len)`, whole pages of the lower half, and leaves the tables: what [`Tables::unmap`] does of a
    /// range that covers no table, with less ado.
    #[inline(always)]
    pub fn take_out(&mut self, mem: &mut impl TableMem, base: u64, len: u64) -> Touched {
        self.each(mem, base, len, |entry, level| (entry.maps(level) || entry.is_hidden()).then_some(Entry::EMPTY))
    }

    /// Whether `[base, base + len)` covers a table.
    #[must_use]
    pub fn covers_table(base: u64, len: u64) -> bool {
        let end = base.saturating_add(len);
        base.checked_next_multiple_of(span(2))
            .and_then(|first| first.checked_add(span(2)))
            .is_some_and(|table| table <= end)
    }

    /// Changes entries of pages, a table at a time.
    #[inline(always)]
    fn each(
        &mut self,
        mem: &mut impl TableMem,
        base: u64,
        len: u64,
        change: impl Fn(Entry, u32) -> Option<Entry>,
    ) -> Touched {
        if len == span(1)
            && let Some(table) = self.lowest(mem, base)
        {
            // Most are one page.
            let index = index(base, 1);
            let Some(new) = change(read(mem, table, index), 1) else { return Touched::default() };
            mem.write(table, index, new.0);
            return Touched { entries: 1, more: false };
        }
        let (mut touched, mut at, end) = (Touched::default(), base, base + len);
        while at < end {
            let Some(table) = self.lowest(mem, at) else {
                let (large, next) = each_large(mem, self.root, at, end, &change);
                touched.add(large);
                at = next;
                continue;
            };
            let until = end.min((at | (span(2) - 1)) + 1);
            while at < until {
                let index = index(at, 1);
                if let Some(new) = change(read(mem, table, index), 1) {
                    mem.write(table, index, new.0);
                    touched.entries += 1;
                }
                at += span(1);
            }
        }
        touched
    }

    /// The table that has the entry of the 4 KiB page at `address`. What is done once is likely to be done again nearby.
    #[inline(always)]
    pub(crate) fn lowest(&mut self, mem: &mut impl TableMem, address: u64) -> Option<u64> {
        let (span, [first, second, third]) = (address / span(2), &self.last);
        match span {
            _ if first.0 == span => Some(first.1),
            _ if second.0 == span => Some(second.1),
            _ if third.0 == span => Some(third.1),
            _ => self.find_lowest(mem, address),
        }
    }

    fn find_lowest(&mut self, mem: &mut impl TableMem, address: u64) -> Option<u64> {
        let directory = below::<3>(mem, below::<ROOT>(mem, self.root, address)?, address)?;
        if read(mem, directory, index(address, 2)).is_held(2) {
            release(mem, directory, index(address, 2));
        }
        let table = below::<2>(mem, directory, address)?;
        self.last = [(address / span(2), table), self.last[0], self.last[1]];
        Some(table)
    }
}

/// The table that the one at `LEVEL` links to for `address`.
#[inline]
fn below<const LEVEL: u32>(mem: &impl TableMem, table: u64, address: u64) -> Option<u64> {
    let entry = read(mem, table, index(address, LEVEL));
    (entry.present() && !entry.maps(LEVEL)).then(|| entry.frame())
}
