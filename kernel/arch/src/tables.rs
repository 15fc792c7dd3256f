//! Page tables of views: the hardware form of what a domain may touch, behind a safe interface.

use crate::frames::Frame;
use crate::image::{self, Mem};
use alloc::vec::Vec;
use paging::{MapError, Prot, TableMem, Tables};

/// The tables of one view. Dropped only when no processor has them loaded.
pub struct ViewTables {
    tables: Option<Tables>,
    root: u64,
}

/// Tables unlinked from a view. They are freed when this is dropped, which must be after the shootdown.
#[must_use = "drop it after the shootdown"]
#[derive(Default)]
pub struct Retired(Vec<u64>);

impl Drop for Retired {
    fn drop(&mut self) {
        for &table in &self.0 {
            Mem.free(table);
        }
    }
}

impl Retired {
    pub fn len(&self) -> usize {
        self.0.len()
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Memory for tables, each new one asked for (a quota) before it is taken.
struct Charged<'a>(&'a mut dyn FnMut() -> bool);

impl TableMem for Charged<'_> {
    fn alloc(&mut self) -> Option<u64> {
        if (self.0)() { Mem.alloc() } else { None }
    }
    fn free(&mut self, table: u64) {
        Mem.free(table);
    }
    fn read(&self, table: u64, index: usize) -> u64 {
        Mem.read(table, index)
    }
    fn write(&mut self, table: u64, index: usize, entry: u64) {
        Mem.write(table, index, entry);
    }
}

impl ViewTables {
    /// Empty tables with the kernel's upper half; `None` without memory.
    pub fn new() -> Option<ViewTables> {
        let mut tables = Tables::new(&mut Mem)?;
        tables.share_upper(&mut Mem, &Tables::from_root(image::root()));
        let root = tables.root();
        Some(ViewTables { tables: Some(tables), root })
    }

    /// For [`crate::cpu::load_root`].
    pub fn root(&self) -> u64 {
        self.root
    }

    /// Maps one page for user code. `charge` is asked before each new table.
    ///
    /// # Errors
    /// No memory (or `charge` said no), or write and execute together.
    pub fn map(
        &mut self,
        address: u64,
        frame: &Frame,
        prot: Prot,
        charge: &mut dyn FnMut() -> bool,
    ) -> Result<(), MapError> {
        assert!(address < 1 << 47 && prot.user, "views map user pages only");
        let tables = self.tables.as_mut().expect("live tables");
        tables.map(&mut Charged(charge), address, frame.address(), prot).map(drop)
    }

    /// Unmaps a range. Whether anything was mapped, and the tables that became empty.
    pub fn unmap(&mut self, base: u64, len: u64) -> (bool, Retired) {
        let gone = self.tables.as_mut().expect("live tables").unmap(&mut Mem, base, len);
        (gone.pages > 0, Retired(gone.tables))
    }

    /// Takes the right to write from a range. Whether anything changed.
    pub fn write_protect(&mut self, base: u64, len: u64) -> bool {
        self.tables.as_mut().expect("live tables").write_protect(&mut Mem, base, len) > 0
    }
}

impl Drop for ViewTables {
    fn drop(&mut self) {
        if let Some(tables) = self.tables.take() {
            tables.free_lower(&mut Mem);
        }
    }
}

/// The kernel's own root: what an idle processor has loaded.
pub fn kernel_root() -> u64 {
    image::root()
}
