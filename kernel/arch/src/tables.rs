//! Page tables of views: the hardware form of what a domain may touch, behind a safe interface.

use crate::frames::Frame;
use crate::gate::{self, Gate};
use crate::image::{self, Mem};
use crate::percpu;
use core::mem::ManuallyDrop;
use paging::{Gone, MapError, Prot, TableMem, Tables, Touched};

/// The tables of one view. Dropped only when no processor has them loaded.
pub struct ViewTables {
    tables: Option<Tables>,
    root: u64,
    /// The tables of the slice, but for the stacks, are another's.
    borrowed: bool,
    /// Others borrow them: they must stay.
    lent: bool,
    /// For a text in supervisor mode: no page of it is user mode's, so neither SMAP, SMEP nor keys are in its way.
    supervisor: bool,
}

const PAGE: u64 = 4096;

/// In [`ViewTables::root`], where the processor wants nothing: the view of a text in supervisor mode (`entry.S`).
const SUPERVISOR: u64 = 1;
/// In an entry: user mode may use what is below it.
const USER: u64 = 4;

/// Present, writable, for user code, accessed.
const LINK: u64 = 0x27;

/// Tables unlinked from a view, with all below them. They are freed after the shootdown: at the latest when this is dropped.
#[must_use = "drop it after the shootdown"]
#[derive(Default)]
pub struct Retired(Gone);

impl Drop for Retired {
    fn drop(&mut self) {
        self.0.free(&mut Mem, &mut { usize::MAX });
    }
}

impl Retired {
    /// Frees some, as long as there are steps left: a table, or a look at an entry. How many.
    pub fn free(&mut self, steps: &mut usize) -> u64 {
        self.0.free(&mut Mem, steps)
    }
    pub fn are_more_than(&self, few: u64) -> bool {
        self.0.are_more_than(&Mem, few)
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What was taken out of a view.
#[derive(Default)]
pub struct Out {
    pub any: bool,
    /// More than the range: [`Touched::more`].
    pub more: bool,
    /// Tables that became empty.
    pub tables: Retired,
}

/// Memory for tables, as somebody gives it who pays for it.
struct Given<F>(F);

impl<F: FnMut() -> Option<Frame>> TableMem for Given<F> {
    fn alloc(&mut self) -> Option<u64> {
        (self.0)().map(|frame| ManuallyDrop::new(frame).address())
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

/// Entries of a root for what its thread has for itself: the last slot of the node's slice, with the stacks.
const STACKS: usize =
    ((abi::layout::slice_base(abi::layout::UNNAMED_NODE) + abi::layout::SLICE_LEN) >> 39) as usize - 1;
/// How many tables those of the rest of the slice are.
pub const LENT: u64 = (STACKS - SHARED.start) as u64;
/// Entries of a root for that rest.
const SHARED: core::ops::Range<usize> = (abi::layout::slice_base(abi::layout::UNNAMED_NODE) >> 39) as usize..STACKS;

impl ViewTables {
    /// Empty tables with the kernel's upper half, for no thread in particular; `None` without memory.
    pub fn new() -> Option<ViewTables> {
        let mut tables = Tables::new(&mut Mem)?;
        tables.share_upper(&mut Mem, &Tables::from_root(image::root()));
        let root = tables.root();
        Some(ViewTables { tables: Some(tables), root, borrowed: false, lent: false, supervisor: false })
    }

    /// The same for one text that is placed in supervisor mode. Nobody borrows them.
    pub fn for_supervisor() -> Option<ViewTables> {
        let mut tables = ViewTables::new()?;
        tables.supervisor = true;
        Some(tables)
    }

    /// Shows a thread's gate, to be written only where keys guard it.
    pub fn show_gate(&mut self, gate: &Gate, guarded: bool) {
        for (slot, entry) in gate.links(guarded) {
            Mem.write(self.root, slot, if self.supervisor { entry & !USER } else { entry });
        }
    }

    /// Makes the tables that threads borrow, so that roots need not be changed later. `None` without memory.
    pub fn prepare_to_lend(&mut self) -> Option<()> {
        for slot in SHARED {
            let table = Mem.alloc()?;
            Mem.write(self.root, slot, table | LINK);
        }
        self.lent = true;
        Some(())
    }

    /// Shows everything but the stacks as `of` does, from now on: the tables below the root are the same.
    pub fn borrow(&mut self, of: &ViewTables) {
        for slot in SHARED {
            Mem.write(self.root, slot, Mem.read(of.root, slot));
        }
        self.borrowed = true;
    }

    /// For [`crate::cpu::load_root`].
    pub fn root(&self) -> u64 {
        if self.supervisor { self.root | SUPERVISOR } else { self.root }
    }

    /// Maps one page of `size` bytes for user code, which begins with this frame.
    ///
    /// # Errors
    /// No memory for a table; a table where a large page should go; or write and execute together.
    pub fn map(
        &mut self,
        address: u64,
        frame: &Frame,
        size: u64,
        prot: Prot,
        table: impl FnMut() -> Option<Frame>,
    ) -> Result<(), MapError> {
        assert!(address < 1 << 47 && prot.user, "views map user pages only");
        let tables = self.tables.as_mut().expect("live tables");
        let mapped = tables.map_sized(&mut Given(table), address, frame.address(), size, prot).map(drop);
        if self.supervisor {
            // What a page is, all entries that lead to it say together. Nobody runs in this view at the moment: it is one thread's.
            let slot = (address / SLOT_LEN) as usize;
            Mem.write(self.root, slot, Mem.read(self.root, slot) & !USER);
        }
        mapped
    }

    /// Maps one page for user code where there is a table for it. Whether it did.
    #[inline(always)]
    pub fn enter(&mut self, address: u64, frame: &Frame, prot: Prot) -> bool {
        assert!(prot.user, "views map user pages only");
        self.tables.as_mut().expect("live tables").enter(&mut Mem, address, frame.address(), prot)
    }

    /// Takes out a range of pages of the view's own, and leaves the tables.
    #[inline(always)]
    pub fn take_out(&mut self, base: u64, len: u64, table: impl FnMut() -> Option<Frame>) -> Touched {
        self.tables.as_mut().expect("live tables").take_out(&mut Given(table), base, len)
    }

    /// Unmaps a range.
    pub fn unmap(&mut self, base: u64, len: u64, mut table: impl FnMut() -> Option<Frame>) -> Out {
        let tables = self.tables.as_mut().expect("live tables");
        // The gate's slot lies in the lower half, but is not the view's.
        let (slot, end) = (gate::SLOT as u64 * SLOT_LEN, base.saturating_add(len));
        let mut out = Out::default();
        let own = if self.borrowed { STACKS as u64 * SLOT_LEN } else { slot + SLOT_LEN };
        let below = if self.borrowed { 0 } else { slot };
        for (from, to) in [(base, end.min(below)), (base.max(own), end)] {
            let mut mem = Given(&mut table);
            if from < to && !Tables::covers_table(from, to - from) && (from | to).is_multiple_of(PAGE) {
                let touched = tables.take_out(&mut mem, from, to - from);
                out.any |= touched.is_any();
                out.more |= touched.more;
            } else if from < to {
                let gone = if self.lent {
                    tables.unmap_shared(&mut mem, from, to - from)
                } else {
                    tables.unmap(&mut mem, from, to - from)
                };
                out.any |= gone.pages > 0;
                out.more |= gone.more;
                out.tables.0.join(gone.tables);
            }
        }
        out
    }

    /// Hides what is mapped in a range of pages: nobody can use it until it is shown.
    #[inline(always)]
    pub fn hide(&mut self, base: u64, len: u64, table: impl FnMut() -> Option<Frame>) -> Touched {
        self.tables.as_mut().expect("live tables").hide(&mut Given(table), base, len)
    }

    /// Shows what was hidden in a range of pages.
    #[inline]
    pub fn show(&mut self, base: u64, len: u64) {
        // (No page is split for that.)
        self.tables.as_mut().expect("live tables").show(&mut Mem, base, len);
    }

    /// The first address in a range at which there may be anything, or its end; so many entries are looked at.
    pub fn pass_over(&self, base: u64, len: u64, most: usize) -> u64 {
        self.tables.as_ref().expect("live tables").pass_over(&Mem, base, len, most)
    }

    /// Takes the right to write from a range.
    pub fn write_protect(&mut self, base: u64, len: u64, table: impl FnMut() -> Option<Frame>) -> Touched {
        self.tables.as_mut().expect("live tables").write_protect(&mut Given(table), base, len)
    }
}

impl Drop for ViewTables {
    fn drop(&mut self) {
        if let Some(tables) = self.tables.take() {
            assert!(!percpu::is_loaded(self.root), "a root that a processor has loaded is given back");
            let others = if self.borrowed { SHARED } else { 0..0 };
            for slot in others.chain([gate::SLOT]) {
                Mem.write(self.root, slot, 0);
            }
            tables.free_lower(&mut Mem);
        }
    }
}

/// Bytes that one entry of a root covers.
const SLOT_LEN: u64 = 1 << 39;

/// The kernel's own root: what an idle processor has loaded.
pub fn kernel_root() -> u64 {
    image::root()
}
