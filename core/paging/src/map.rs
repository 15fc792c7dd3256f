//! Entering pages.

use crate::entry::{Entry, Prot, span};
use crate::split::{release, split};
use crate::tables::{ROOT, TableMem, Tables, canonical, index, read};
use core::fmt;

/// What a mapping did to what was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapped {
    /// Nothing was mapped there: no processor can have remembered anything.
    New,
    /// The same was mapped there.
    Same,
    /// Something else was mapped there: processors may remember it.
    Replaced,
}

/// Why a page was not mapped. Nothing that was mapped has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapError {
    /// There is no memory for a table.
    NoMemory,
    /// No page is ever both.
    WriteAndExecute,
    /// The processor has no such address.
    NotCanonical,
    /// The address or the frame is not a multiple of the page's size, or the size is none that the processor has.
    Unaligned,
    /// There is a table where a large page should go, with smaller ones or with none. Or a page that could be stored to by a key, where one should go that
    /// nobody stores to and that has none: what was there has to be forgotten first.
    InTheWay,
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MapError::NoMemory => "no memory for a page table",
            MapError::WriteAndExecute => "writable and executable",
            MapError::NotCanonical => "not an address",
            MapError::Unaligned => "not aligned",
            MapError::InTheWay => "pages of another size are in the way",
        })
    }
}

impl core::error::Error for MapError {}

impl Tables {
    /// Maps the 4 KiB page at `address` to `frame`, in place of what was there. If that was a part of a large page, this one is split. Where the same
    /// frame could be stored to it still can: that is taken away by [`Tables::write_protect`] and by unmapping alone, which say so.
    ///
    /// # Errors
    /// [`MapError`]; nothing that was mapped has changed.
    pub fn map(&mut self, mem: &mut impl TableMem, address: u64, frame: u64, prot: Prot) -> Result<Mapped, MapError> {
        self.map_at(mem, 1, address, frame, prot)
    }

    /// Maps the 4 KiB page at `address`, of the lower half, in place of what was there, if there is a table for it. Whether it did.
    #[inline(always)]
    pub fn enter(&mut self, mem: &mut impl TableMem, address: u64, frame: u64, prot: Prot) -> bool {
        // No part of a page, and of the lower half.
        let odd = (address | frame) % span(1) | address >> 47;
        if odd != 0 || prot.write && prot.execute {
            return false;
        }
        let Some(table) = self.lowest(mem, address) else { return false };
        let at = index(address, 1);
        let (mut new, old) = (Entry::page(1, frame, prot), read(mem, table, at));
        if old.present() {
            let Some(instead) = new.in_place_of(old) else { return false };
            new = instead;
        }
        mem.write(table, at, new.0);
        true
    }

    /// Maps a page of `size` bytes, 4 KiB, 2 MiB or 1 GiB.
    ///
    /// # Errors
    /// [`MapError`]; nothing that was mapped has changed.
    pub fn map_sized(
        &mut self,
        mem: &mut impl TableMem,
        address: u64,
        frame: u64,
        size: u64,
        prot: Prot,
    ) -> Result<Mapped, MapError> {
        let level = [1, 2, 3].into_iter().find(|&level| span(level) == size).ok_or(MapError::Unaligned)?;
        self.map_at(mem, level, address, frame, prot)
    }

    fn map_at(
        &mut self,
        mem: &mut impl TableMem,
        level: u32,
        address: u64,
        frame: u64,
        prot: Prot,
    ) -> Result<Mapped, MapError> {
        let new = Entry::page(level, frame, prot);
        if prot.write && prot.execute {
            return Err(MapError::WriteAndExecute);
        }
        if !canonical(address) {
            return Err(MapError::NotCanonical);
        }
        if !(address | frame).is_multiple_of(span(level)) || new.frame() != frame {
            return Err(MapError::Unaligned);
        }
        let table = self.table_for(mem, level, address)?;
        let at = index(address, level);
        let old = read(mem, table, at);
        if !old.present() {
            mem.write(table, at, new.0);
            return Ok(Mapped::New);
        }
        if !old.maps(level) {
            return Err(MapError::InTheWay);
        }
        let new = new.in_place_of(old).ok_or(MapError::InTheWay)?;
        if old == new {
            return Ok(Mapped::Same);
        }
        mem.write(table, at, new.0);
        Ok(Mapped::Replaced)
    }

    /// The table at `level` that covers `address`; made, with those above it, if it is not there.
    fn table_for(&mut self, mem: &mut impl TableMem, level: u32, address: u64) -> Result<u64, MapError> {
        let user = address >> 47 == 0;
        let mut table = self.root;
        for above in (level + 1..=ROOT).rev() {
            let at = index(address, above);
            let entry = read(mem, table, at);
            table = if entry.maps(above) {
                split(mem, table, above, at, user).ok_or(MapError::NoMemory)?
            } else if entry.present() {
                if entry.is_held(above) {
                    release(mem, table, at);
                }
                entry.frame()
            } else {
                let below = mem.alloc().ok_or(MapError::NoMemory)?;
                mem.write(table, at, Entry::link(below, user).0);
                below
            };
        }
        Ok(table)
    }
}
