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
use zerocopy::IntoBytes;

mod code;
mod plain;

pub use code::{Stopped, again, is_gate, send_to_kernel};
pub use plain::{Kept, Plain};

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
    /// By domain.
    roots: Vec<AtomicU64>,
    owned: u64,
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

fn word(at: u64) -> u64 {
    // SAFETY: every caller gives a word of a frame that a gate owns.
    unsafe { (direct(at) as *const u64).read_volatile() }
}

fn set_word(at: u64, value: u64) {
    // SAFETY: as above; nothing else in the kernel refers to it.
    unsafe { (direct(at) as *mut u64).write_volatile(value) }
}

fn prot(write: bool, execute: bool) -> Prot {
    // What is written here user code may write only while the gate has opened the key.
    Prot { write, execute, user: true, device: false, global: false, key: if write { KEY } else { 0 } }
}

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
            roots: Vec::new(),
            owned: 0,
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
        let frame = mem.alloc().ok_or(NoRoom)?;
        self.pages.insert(address, frame);
        self.map(mem, address, frame, prot)?;
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

    fn grow(&mut self, address: u64, write: bool, charge: &mut dyn FnMut() -> bool) -> Result<(), NoRoom> {
        let mut owned = 0;
        let made = self.page(&mut Charged(charge, &mut owned), address / PAGE * PAGE, prot(write, false));
        self.owned += owned;
        made.map(drop)
    }

    /// Where the roots are.
    pub(crate) fn roots(&self) -> u64 {
        self.roots.as_ptr() as u64
    }

    /// Makes it the running thread's on this processor.
    pub fn activate(&self) {
        percpu::block().roots.store(self.roots(), Ordering::Relaxed);
    }

    /// The frame on top: 0 is that of no call.
    #[inline]
    pub fn depth(&self) -> usize {
        ((word(self.head).wrapping_sub(FRAMES)) / FRAME_LEN) as usize
    }

    /// Makes frame `depth` the one on top.
    pub fn set_top(&mut self, depth: usize) {
        assert!(depth <= DEPTH_MAX);
        set_word(self.head, FRAMES + depth as u64 * FRAME_LEN);
    }

    fn frame_at(&self, depth: usize) -> u64 {
        assert!(depth <= DEPTH_MAX);
        match depth {
            0 => self.head + PAGE - FRAME_LEN,
            _ => self.frames + (depth as u64 - 1) * FRAME_LEN,
        }
    }

    #[inline]
    pub fn frame(&self, depth: usize) -> Frame {
        let at = self.frame_at(depth);
        Frame { rip: word(at), sp: word(at + 8), record: word(at + 16) }
    }

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
            self.grow(at, true, charge)?;
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

    fn at(&self, address: u64) -> Option<u64> {
        self.pages.get(&(address / PAGE * PAGE)).map(|frame| frame + address % PAGE)
    }

    /// Where the domain's stack pointer is while the thread is elsewhere.
    pub fn sp(&self, domain: u32) -> u64 {
        self.at(cell(domain)).map_or(0, word)
    }

    pub fn set_sp(&mut self, domain: u32, sp: u64) {
        if let Some(at) = self.at(cell(domain)) {
            set_word(at, sp);
        }
    }

    /// Calls that were made into the domain, modulo 2^32.
    pub fn calls(&self, domain: u32) -> u64 {
        self.at(cell(domain)).map_or(0, |at| word(at + 8) & 0xffff_ffff)
    }

    /// Reads a record by its address.
    pub fn record(&self, address: u64) -> Option<Record> {
        let at = self.at(address).filter(|_| address >= RECORDS && address.is_multiple_of(RECORD_LEN))?;
        let mut record = Record::default();
        for (i, part) in record.as_mut_bytes().chunks_exact_mut(8).enumerate() {
            part.copy_from_slice(&word(at + 8 * i as u64).to_le_bytes());
        }
        Some(record)
    }

    /// Writes a record; its counts of gates last, so that it is never used half written.
    ///
    /// # Errors
    /// `NoRoom`.
    pub fn set_record(
        &mut self,
        address: u64,
        record: &Record,
        charge: &mut dyn FnMut() -> bool,
    ) -> Result<(), NoRoom> {
        assert!(address >= RECORDS && address.is_multiple_of(RECORD_LEN));
        let page = address / PAGE * PAGE;
        if !self.pages.contains_key(&page) {
            self.grow(page, false, charge)?;
        }
        let at = self.pages[&page] + address % PAGE;
        let words: [u64; RECORD_LEN as usize / 8] = zerocopy::transmute!(*record);
        for (i, value) in words.iter().enumerate().skip(1) {
            set_word(at + 8 * i as u64, *value);
        }
        set_word(at, words[0]);
        Ok(())
    }

    /// Short calls into a domain until the kernel makes one the long way; 0: that does not matter.
    pub fn set_countdown(&mut self, domain: u32, calls: u32) {
        if let Some(at) = self.at(cell(domain) + 8) {
            set_word(at, word(at) & 0xffff_ffff | u64::from(calls) << 32);
        }
    }

    /// Nobody makes calls by this record any more. Those that are under way go on.
    pub fn clear_record(&mut self, address: u64) {
        if let (Some(direct), Some(gates)) = (self.at(address), self.at(address + 80)) {
            set_word(direct, 0);
            set_word(gates, 0);
        }
    }

    /// Makes sure that records of a domain can be read up to that of `binding`. Returns the length of what there is.
    ///
    /// # Errors
    /// `NoRoom`.
    pub fn reach(&mut self, domain: u32, binding: u64, charge: &mut dyn FnMut() -> bool) -> Result<u32, NoRoom> {
        let end = (binding + 1) * RECORD_LEN;
        for offset in (0..end).step_by(PAGE as usize) {
            if !self.pages.contains_key(&(records(domain) + offset)) {
                self.grow(records(domain) + offset, false, charge)?;
            }
        }
        let mut len = end.next_multiple_of(PAGE);
        while len < SPAN && self.pages.contains_key(&(records(domain) + len)) {
            len += PAGE;
        }
        Ok(len as u32)
    }

    /// Whether a call that came by this record is under way.
    pub fn is_in_use(&self, record: u64) -> bool {
        (0..=self.depth()).any(|depth| self.frame(depth).record == record)
    }

    /// Tells whatever text the thread executes (abi::gate::ATTENTION).
    pub fn tell(&mut self, bits: u64) {
        if let Some(at) = self.at(ATTENTION) {
            set_word(at, word(at) | bits);
        }
    }

    /// Nothing goes on where this frame says any more.
    pub fn forget_frame(&mut self, depth: usize) {
        set_word(self.frame_at(depth), 0);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        for &frame in self.pages.values() {
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
pub fn cell(domain: u32) -> u64 {
    CELLS + u64::from(domain) * CELL_LEN
}

/// Address of the records of a domain.
pub fn records(domain: u32) -> u64 {
    RECORDS + u64::from(domain) * SPAN
}

/// The domain that may call by the record at this address.
pub fn domain_of(record: u64) -> u32 {
    ((record - RECORDS) / SPAN) as u32
}

/// Whether a record belongs to no domain: the gate never calls by it.
pub fn is_loose(record: u64) -> bool {
    domain_of(record) == 0
}

/// The binding that the record at this address belongs to.
pub fn binding_of(record: u64) -> u64 {
    (record - RECORDS) % SPAN / RECORD_LEN
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
#[inline]
pub fn load_root(root: u64) {
    let block = percpu::block();
    if block.root.load(Ordering::Relaxed) != root {
        block.root.store(root, Ordering::SeqCst);
        cpu::load_root(root);
        let views = &block.views;
        views.store(views.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// Sets the key register, if the machine has one and it has another value.
#[inline]
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
    let keys = &percpu::block().keys;
    keys.store(keys.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}
