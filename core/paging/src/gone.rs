//! Tables that were taken out, with all that hangs on them.

use crate::tables::{ENTRIES, TableMem, read};
use alloc::vec::Vec;

/// Tables that hang on no root any more, and all below them. A processor may be walking them until it has been told; then they are freed, a stretch at a
/// time: there may be any number of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "the tables must be freed, after the shootdown"]
pub struct Gone(Vec<Table>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Table {
    table: u64,
    level: u32,
    /// The entry that is looked at next for what hangs on the table.
    next: usize,
}

impl Gone {
    pub(crate) fn push(&mut self, table: u64, level: u32) {
        self.0.push(Table { table, level, next: 0 });
    }

    /// One on which nothing hangs.
    pub(crate) fn push_empty(&mut self, table: u64) {
        self.0.push(Table { table, level: 1, next: 0 });
    }

    /// How many were taken out, without those below them.
    #[must_use]
    pub fn tops(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none (any more).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// With what was taken out elsewhere.
    pub fn join(&mut self, other: Gone) {
        self.0.extend(other.0);
    }

    /// Frees tables as long as there are `steps` left: one is an entry looked at, or a table freed. How many tables.
    pub fn free(&mut self, mem: &mut impl TableMem, steps: &mut usize) -> u64 {
        let mut freed = 0;
        while *steps > 0 && !self.is_empty() {
            *steps -= 1;
            if let Some(table) = self.step(mem) {
                mem.free(table);
                freed += 1;
            }
        }
        freed
    }

    /// Whether they are more than `few`.
    #[must_use]
    pub fn are_more_than(&self, mem: &impl TableMem, few: u64) -> bool {
        let (mut rest, mut left) = (self.clone(), few);
        while !rest.is_empty() {
            if rest.step(mem).is_some() {
                if left == 0 {
                    return true;
                }
                left -= 1;
            }
        }
        false
    }

    /// Goes on by an entry, or takes a table from the list on which nothing hangs that is not taken from it already.
    fn step(&mut self, mem: &impl TableMem) -> Option<u64> {
        let top = self.0.last_mut()?;
        if top.level == 1 || top.next == ENTRIES {
            return self.0.pop().map(|top| top.table);
        }
        let (entry, level) = (read(mem, top.table, top.next), top.level);
        top.next += 1;
        if entry.present() && !entry.maps(level) {
            self.push(entry.frame(), level - 1);
        }
        None
    }
}
