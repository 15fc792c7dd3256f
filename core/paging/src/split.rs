//! Large pages of which a part is to be changed: they are split, or taken out.

use crate::entry::{Entry, span};
use crate::tables::{ENTRIES, ROOT, TableMem, index, read};

/// What has been done to the pages of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// How many entries changed. If none, no processor remembers anything of it.
    pub entries: u64,
    /// There was no memory to split a large page that lies in the range with a part: it was taken out as a whole. Processors have to
    /// forget all of it.
    pub more: bool,
}

impl Touched {
    /// Whether processors have anything to forget.
    #[must_use]
    #[inline]
    pub fn is_any(self) -> bool {
        self.entries > 0
    }

    #[inline]
    pub(crate) fn add(&mut self, other: Touched) {
        self.entries += other.entries;
        self.more |= other.more;
    }

    /// That of a large page that could not be split.
    pub(crate) const WHOLE: Touched = Touched { entries: 1, more: true };
}

/// Splits the large page that `at` in a table at `level` maps, for an address of its: a table of the next lower level takes its place, which maps the same
/// in the same way. What processors remember stays right. That table; `None`: there is no memory for it.
#[cold]
#[inline(never)]
pub(crate) fn split(mem: &mut impl TableMem, table: u64, level: u32, at: usize, user: bool) -> Option<u64> {
    let large = read(mem, table, at);
    let below = mem.alloc()?;
    for (at, part) in (0..ENTRIES).zip(large.parts(level)) {
        mem.write(below, at, part.0);
    }
    mem.write(table, at, Entry::link(below, user).0);
    Some(below)
}

/// From now on each page below the link that `at` in a directory is, which is held, says itself that it may not be stored to: so they can be told apart. What
/// processors remember stays right, or says less, which they find out by a fault.
#[cold]
#[inline(never)]
pub(crate) fn release(mem: &mut impl TableMem, directory: u64, at: usize) {
    let link = read(mem, directory, at);
    for page in 0..ENTRIES {
        let entry = read(mem, link.frame(), page);
        if entry.writable() {
            mem.write(link.frame(), page, entry.read_only().0);
        }
    }
    mem.write(directory, at, link.released().0);
}

/// Applies a change to what is not mapped by a lowest table, in `[at, end)` of the lower half: to the large page, shown or hidden, that is there; if only a part
/// of it lies in the range, it is split. What has been done, and from where on something is left to be done.
#[cold]
#[inline(never)]
pub(crate) fn each_large(
    mem: &mut impl TableMem,
    root: u64,
    at: u64,
    end: u64,
    change: &dyn Fn(Entry, u32) -> Option<Entry>,
) -> (Touched, u64) {
    let (mut table, mut level) = (root, ROOT);
    let (entry, index) = loop {
        let index = index(at, level);
        let entry = read(mem, table, index);
        if level == 2 || !entry.present() || entry.maps(level) {
            break (entry, index);
        }
        (table, level) = (entry.frame(), level - 1);
    };
    let first = at & !(span(level) - 1);
    let next = end.min(first.saturating_add(span(level)));
    let Some(new) = change(entry, level) else { return (Touched::default(), next) };
    if at == first && next - first == span(level) {
        mem.write(table, index, new.0);
        return (Touched { entries: 1, more: false }, next);
    }
    if entry.is_hidden() {
        // No processor remembers it, and what is left comes anew.
        mem.write(table, index, Entry::EMPTY.0);
        return (Touched::default(), next);
    }
    match split(mem, table, level, index, true) {
        Some(_) => (Touched::default(), at),
        None => {
            mem.write(table, index, Entry::EMPTY.0);
            (Touched::WHOLE, next)
        }
    }
}
