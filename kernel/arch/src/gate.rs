//! What the gate needs, per thread (abi::gate, `gate.S`, docs/decisions/0006): the frames of the calls that the thread
//! is in, the calls that it may make, and the page-table roots of the domains that it has been in. Every root of the
//! thread shows it at the same place, to user code in slot 128 (where keys and page protection say what can be written)
//! and to the kernel in slot 269.

use crate::cpu::{self, has};
use crate::image::{Mem, direct};
use crate::{frames, percpu};
use abi::gate::{ATTENTION, BINDINGS_MAX, DEPTH_MAX, GATE_BASE, Record};
use abi::info::feature;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};
use paging::{Prot, TableMem, Tables};

mod code;
mod plain;
mod records;

pub use code::{Stopped, again, is_gate, send_to_kernel};
pub use plain::{Kept, Plain};
pub use records::{binding_of, domain_of, is_loose, records};

const PAGE: u64 = 4096;
/// Slots of a root: the thread's gate for user code, and the same for the kernel.
pub(crate) const SLOT: usize = 128;
pub(crate) const ALIAS_SLOT: usize = 269;
const WRITE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

const GIB: u64 = 1 << 30;
/// The head, frames and cells: what the gate writes.
const STATE: u64 = GATE_BASE + GIB;
const HEAD: u64 = STATE + 0x1000;
/// The first frame, the last words of the head's page; the page after it holds as many as a thread can be deep in calls.
const FRAMES: u64 = HEAD + PAGE - FRAME_LEN;
const FRAME_LEN: u64 = 32;
const CELLS: u64 = STATE + 0x1_0000;
const CELL_LEN: u64 = 16;
/// Domains that one thread may have.
pub const DOMAINS_MAX: u32 = 4096;
const RECORDS: u64 = GATE_BASE + 2 * GIB;
const RECORD_LEN: u64 = size_of::<Record>() as u64;
/// Room for the records of one domain.
const SPAN: u64 = BINDINGS_MAX * RECORD_LEN;

const _: () = assert!(ATTENTION - RECORDS < RECORD_LEN);
const _: () = assert!(DEPTH_MAX as u64 * FRAME_LEN == PAGE && CELLS + DOMAINS_MAX as u64 * CELL_LEN <= RECORDS);

/// The register's value where no class has a key: pages of key 0 can be used, the gate's read.
pub const REGISTER_PLAIN: u32 = 0xffff_fff8;
/// Key of the gate's own memory.
pub const KEY: u8 = 1;

/// A frame: where the caller goes on, the callee's stack pointer at the entry, the record by which it was entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub rip: u64,
    pub sp: u64,
    pub record: u64,
}

/// Of a countdown ([`Gate::set_countdown`]): as good as never.
pub const NEVER: u32 = i32::MAX.cast_unsigned();

/// In [`Frame::rip`]: the kernel made the call.
pub const BY_KERNEL: u64 = 1 << 63;
/// It is a plain call: [`Gate::kept`] has what it keeps.
pub const PLAIN: u64 = 1 << 62;
/// There is more to it than the frame says (window code, the first frame).
pub const MORE: u64 = 1 << 61;

/// A thread's gate.
pub struct Gate {
    tables: Option<Tables>,
    /// The table below the root, with everything.
    link: u64,
    /// The same for views where keys do not guard the state, since a program in it may write the key register: the state can
    /// only be read, and on machines without keys it is not there.
    shown: u64,
    head: u64,
    frames: u64,
    /// Further pages (cells, records), by address.
    pages: BTreeMap<u64, u64>,
    /// The first pages of cells and of records, which all threads need all the time; 0: not there.
    cells: u64,
    loose: u64,
    /// Counts what may have changed a record.
    changes: u64,
    /// By domain.
    roots: Vec<AtomicU64>,
    owned: u64,
    /// A frame that was paid for, and could not be mapped: there was no room for a table.
    spare: Option<u64>,
}

/// Why a gate cannot grow: no memory, or the quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// Tables and pages that a gate asks for, each paid for when it is there.
struct Charged<'a>(&'a mut dyn FnMut() -> bool, &'a mut u64);

impl TableMem for Charged<'_> {
    fn alloc(&mut self) -> Option<u64> {
        let frame = Mem.alloc()?;
        if (self.0)() {
            *self.1 += 1;
            return Some(frame);
        }
        Mem.free(frame);
        None
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

#[inline(always)]
fn word(at: u64) -> u64 {
    // SAFETY: every caller gives a word of a frame that a gate owns.
    unsafe { (direct(at) as *const u64).read_volatile() }
}

#[inline(always)]
fn set_word(at: u64, value: u64) {
    // SAFETY: as above; nothing else in the kernel refers to it.
    unsafe { (direct(at) as *mut u64).write_volatile(value) }
}

fn prot(write: bool, execute: bool) -> Prot {
    // What is written here user code may write only while the gate has opened the key.
    Prot { write, execute, user: true, device: false, global: false, key: if write { KEY } else { 0 } }
}

/// For the kernel alone: whoever the thread is in could read the others.
const SECRET: Prot = Prot { write: true, execute: false, user: false, device: false, global: false, key: 0 };

impl Gate {
    /// A gate with no calls in it. `charge` is asked before each frame of memory.
    ///
    /// # Errors
    /// `NoRoom`.
    pub fn new(charge: &mut dyn FnMut() -> bool) -> Result<Gate, NoRoom> {
        let mut owned = 0;
        let mem = &mut Charged(charge, &mut owned);
        let tables = Tables::new(mem).ok_or(NoRoom)?;
        let mut gate = Gate {
            tables: Some(tables),
            link: 0,
            shown: 0,
            head: 0,
            frames: 0,
            pages: BTreeMap::new(),
            cells: 0,
            loose: 0,
            changes: 0,
            roots: Vec::new(),
            owned: 0,
            spare: None,
        };
        gate.map(mem, GATE_BASE, code::page(), prot(false, true))?;
        let root = gate.tables.as_ref().expect("live tables").root();
        gate.link = Mem.read(root, SLOT);
        gate.shown = mem.alloc().ok_or(NoRoom)?;
        gate.head = gate.page(mem, HEAD, prot(true, false))?;
        gate.frames = gate.page(mem, HEAD + PAGE, prot(true, false))?;
        gate.set_top(0);
        gate.owned = owned;
        Ok(gate)
    }

    fn map(&mut self, mem: &mut Charged<'_>, address: u64, frame: u64, prot: Prot) -> Result<(), NoRoom> {
        self.tables.as_mut().expect("live tables").map(mem, address, frame, prot).map(drop).map_err(|_| NoRoom)
    }

    fn page(&mut self, mem: &mut Charged<'_>, address: u64, prot: Prot) -> Result<u64, NoRoom> {
        let frame = self.spare.take().or_else(|| mem.alloc()).ok_or(NoRoom)?;
        // The kernel reads there without looking: it is known only when it is there.
        self.map(mem, address, frame, prot).inspect_err(|_| self.spare = Some(frame))?;
        self.pages.insert(address, frame);
        match address {
            CELLS => self.cells = frame,
            RECORDS => self.loose = frame,
            _ => {}
        }
        // Nobody but the kernel makes calls there.
        for part in 0..4 {
            let (entry, is_state) = (Mem.read(self.link & ADDRESS, part), part as u64 * GIB == STATE - GATE_BASE);
            let shown = match is_state {
                true if !has(feature::PKU) => 0,
                true => entry & !WRITE,
                false => entry,
            };
            Mem.write(self.shown, part, shown);
        }
        Ok(frame)
    }

    /// How many frames of memory it has asked for.
    pub fn owned(&self) -> u64 {
        self.owned
    }

    /// The entries of a root by which user code and the kernel reach it.
    pub(crate) fn links(&self, guarded: bool) -> [(usize, u64); 2] {
        let user = if guarded { self.link } else { self.link & !ADDRESS | self.shown };
        [(SLOT, user), (ALIAS_SLOT, self.link & !USER)]
    }

    fn grow(&mut self, address: u64, prot: Prot, charge: &mut dyn FnMut() -> bool) -> Result<(), NoRoom> {
        let mut owned = 0;
        let made = self.page(&mut Charged(charge, &mut owned), address / PAGE * PAGE, prot);
        self.owned += owned;
        made.map(drop)
    }

    /// Where the roots are.
    pub(crate) fn roots(&self) -> u64 {
        self.roots.as_ptr() as u64
    }

    /// Makes it the running thread's on this processor.
    #[inline]
    pub fn activate(&self) {
        percpu::block().roots.store(self.roots(), Ordering::Relaxed);
    }

    /// The frame on top: 0 is that of no call. (Who jumps to the gate's way back where no call is has taken off one too many, until his fault
    /// mends that.)
    #[inline]
    pub fn depth(&self) -> usize {
        let depth = word(self.head).wrapping_sub(FRAMES) / FRAME_LEN;
        if depth <= DEPTH_MAX as u64 { depth as usize } else { 0 }
    }

    /// Whether the frame on top is this one, and was entered by this record.
    #[inline(always)]
    pub fn is_at(&self, depth: usize, record: u64) -> bool {
        let top = FRAMES.wrapping_add((depth as u64).wrapping_mul(FRAME_LEN));
        word(self.head) == top && word(self.frame_at(depth) + 16) == record
    }

    /// Makes frame `depth` the one on top.
    #[inline]
    pub fn set_top(&mut self, depth: usize) {
        assert!(depth <= DEPTH_MAX);
        set_word(self.head, FRAMES + depth as u64 * FRAME_LEN);
    }

    #[inline(always)]
    fn frame_at(&self, depth: usize) -> u64 {
        assert!(depth <= DEPTH_MAX);
        match depth {
            0 => self.head + PAGE - FRAME_LEN,
            _ => self.frames + (depth as u64 - 1) * FRAME_LEN,
        }
    }

    #[inline(always)]
    pub fn frame(&self, depth: usize) -> Frame {
        let at = self.frame_at(depth);
        Frame { rip: word(at), sp: word(at + 8), record: word(at + 16) }
    }

    /// By which record a frame was entered.
    #[inline(always)]
    pub fn record_at(&self, depth: usize) -> u64 {
        word(self.frame_at(depth) + 16)
    }

    #[inline(always)]
    pub fn set_frame(&mut self, depth: usize, frame: Frame) {
        let at = self.frame_at(depth);
        set_word(at, frame.rip);
        set_word(at + 8, frame.sp);
        set_word(at + 16, frame.record);
    }

    /// Makes a domain's cell and remembers the root of its view. The stack pointer is where the next call enters it.
    ///
    /// # Errors
    /// `NoRoom`.
    pub fn add_domain(
        &mut self,
        domain: u32,
        sp: u64,
        root: u64,
        charge: &mut dyn FnMut() -> bool,
    ) -> Result<(), NoRoom> {
        let at = cell(domain);
        if domain >= DOMAINS_MAX {
            return Err(NoRoom);
        }
        if !self.pages.contains_key(&(at / PAGE * PAGE)) {
            self.grow(at, prot(true, false), charge)?;
        }
        self.set_sp(domain, sp);
        while self.roots.len() <= domain as usize {
            self.roots.push(AtomicU64::new(0));
        }
        self.set_root(domain, root);
        Ok(())
    }

    /// The root that the domain runs with from its next entry on.
    pub fn set_root(&self, domain: u32, root: u64) {
        self.roots[domain as usize].store(root, Ordering::Relaxed);
    }

    pub fn root(&self, domain: u32) -> u64 {
        self.roots[domain as usize].load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn at(&self, address: u64) -> Option<u64> {
        let near = match address / PAGE * PAGE {
            CELLS => self.cells,
            RECORDS => self.loose,
            _ => 0,
        };
        if near != 0 { Some(near + address % PAGE) } else { self.far(address) }
    }

    #[inline(never)]
    fn far(&self, address: u64) -> Option<u64> {
        self.pages.get(&(address / PAGE * PAGE)).map(|frame| frame + address % PAGE)
    }

    /// Where the domain's stack pointer is while the thread is elsewhere.
    #[inline(always)]
    pub fn sp(&self, domain: u32) -> u64 {
        self.at(cell(domain)).map_or(0, word)
    }

    #[inline(always)]
    pub fn set_sp(&mut self, domain: u32, sp: u64) {
        if let Some(at) = self.at(cell(domain)) {
            set_word(at, sp);
        }
    }

    /// Calls that were made into the domain, modulo 2^32.
    pub fn calls(&self, domain: u32) -> u64 {
        self.at(cell(domain)).map_or(0, |at| word(at + 8) & 0xffff_ffff)
    }

    /// Short calls into a domain until the kernel makes one the long way, [`NEVER`] at most. Until it is set again so are all after that one, whatever has become of it.
    pub fn set_countdown(&mut self, domain: u32, calls: u32) {
        if let Some(at) = self.at(cell(domain) + 8) {
            set_word(at, word(at) & 0xffff_ffff | u64::from(calls) << 32);
        }
    }

    /// Tells whatever text the thread executes (abi::gate::ATTENTION).
    pub fn tell(&mut self, bits: u64) {
        if let Some(at) = self.at(ATTENTION) {
            set_word(at, word(at) | bits);
        }
    }

    /// Nothing goes on where this frame says any more.
    #[inline]
    pub fn forget_frame(&mut self, depth: usize) {
        set_word(self.frame_at(depth), 0);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        for &frame in self.pages.values().chain(&self.spare) {
            frames::give(frame);
        }
        if let Some(tables) = self.tables.take() {
            tables.free_lower(&mut Mem);
        }
        if self.shown != 0 {
            frames::give(self.shown);
        }
    }
}

/// Address of a domain's cell.
#[inline]
pub fn cell(domain: u32) -> u64 {
    CELLS + u64::from(domain) * CELL_LEN
}

/// Whether an address lies where the frames would go on if a thread could be deeper in calls.
pub fn is_frame_guard(address: u64) -> bool {
    (HEAD + 2 * PAGE..HEAD + 3 * PAGE).contains(&address)
}

/// Whether an address lies in the state.
pub fn is_state(address: u64) -> bool {
    (STATE..STATE + GIB).contains(&address)
}

/// Whether an address lies among the records.
pub fn is_record(address: u64) -> bool {
    (RECORDS..RECORDS + u64::from(DOMAINS_MAX) * SPAN).contains(&address)
}

/// Makes a page-table root this processor's, if it is not.
#[inline(always)]
pub fn load_root(root: u64) {
    let block = percpu::block();
    if block.root.load(Ordering::Relaxed) != root {
        block.root.store(root, Ordering::SeqCst);
        cpu::load_root(root);
        percpu::add(&block.counters.views, 1);
    }
}

/// Sets the key register, if the machine has one and it has another value.
#[inline(always)]
pub fn set_register(value: u32) {
    if !has(feature::PKU) {
        return;
    }
    // SAFETY: keys concern pages of user code only, which the kernel never touches; CR4.PKE is set.
    unsafe {
        let now: u32;
        asm!("rdpkru", in("ecx") 0, out("eax") now, out("edx") _, options(nomem, nostack));
        if now == value {
            return;
        }
        asm!("wrpkru", in("eax") value, in("ecx") 0, in("edx") 0, options(nostack));
    }
    percpu::add(&percpu::block().counters.keys, 1);
}
