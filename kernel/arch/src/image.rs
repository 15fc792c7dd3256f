//! The kernel's own part of the address space: slots 256 to 271 of the page table (architecture, section 2).

use crate::cpu::{self, PROCESSORS_MAX};
use crate::frames;
use paging::{Prot, TableMem, Tables};
use spin::Once;

/// Physical memory, all of it, never executable.
pub(crate) const DIRECT: u64 = 0xffff_8000_0000_0000;
/// Slot 270: kernel stacks with guard pages, then device registers.
const STACKS: u64 = 0xffff_8700_0000_0000;
const DEVICES: u64 = STACKS + (1 << 30);
/// Slot 271: the image, at this plus its physical address.
pub(crate) const IMAGE: u64 = 0xffff_8780_0000_0000;

const PAGE: u64 = 4096;
const LARGE: u64 = 2 << 20;
const STACK_SLOT: u64 = 128 << 10;
/// What is mapped of a slot; the rest below it is guard.
const STACK_LEN: [u64; 4] = [64 << 10, 16 << 10, 16 << 10, 16 << 10];

// SAFETY: labels of the linker script; only their addresses are used.
unsafe extern "C" {
    static image_start: u8;
    static text_end: u8;
    static rodata_end: u8;
    static image_end: u8;
}

static ROOT: Once<u64> = Once::new();
static NEXT_DEVICE: spin::Mutex<u64> = spin::Mutex::new(DEVICES);

/// Physical range of the image with its boot part.
pub(crate) fn physical() -> (u64, u64) {
    (0x10_0000, &raw const image_end as u64 - IMAGE)
}

/// Addresses of the kernel's text.
pub(crate) fn text() -> core::ops::Range<u64> {
    &raw const image_start as u64..&raw const text_end as u64
}

/// Top of stack `which` (0: the kernel's, 1 to 3: NMI, double fault, machine check) of a processor.
pub(crate) fn stack_top(processor: usize, which: usize) -> u64 {
    STACKS + (processor as u64 * 4 + which as u64 + 1) * STACK_SLOT
}

/// Pointer into the direct map.
#[inline(always)]
pub(crate) fn direct(physical: u64) -> *mut u8 {
    (DIRECT + physical) as *mut u8
}

/// And back.
pub(crate) fn physical_of(direct: *const u8) -> u64 {
    direct as u64 - DIRECT
}

/// The kernel's root, with an empty lower half.
pub fn root() -> u64 {
    *ROOT.get().expect("kernel tables are built first")
}

pub(crate) struct Mem;

impl TableMem for Mem {
    fn alloc(&mut self) -> Option<u64> {
        frames::take_zeroed()
    }
    fn free(&mut self, table: u64) {
        frames::give(table);
    }
    fn read(&self, table: u64, index: usize) -> u64 {
        debug_assert!(index < 512);
        // SAFETY: `table` is a frame that this module's tables own.
        unsafe { (direct(table) as *const u64).add(index).read_volatile() }
    }
    fn write(&mut self, table: u64, index: usize, entry: u64) {
        debug_assert!(index < 512);
        // SAFETY: as above; entries are written whole, so a walker sees the old or the new one.
        unsafe { (direct(table) as *mut u64).add(index).write_volatile(entry) }
    }
}

fn prot(write: bool, execute: bool) -> Prot {
    Prot { write, execute, user: false, device: false, global: true, key: 0 }
}

/// Builds the kernel's final tables: W^X, guard pages, no identity mapping; then loads them. `top` is the end of RAM.
pub(crate) fn build(top: u64) {
    let mut tables = Tables::new(&mut Mem).expect("memory for the kernel's page tables");
    let (text_lo, text_hi) = (text().start - IMAGE, text().end - IMAGE);
    let (ro_hi, end) = (&raw const rodata_end as u64 - IMAGE, physical().1);
    let (block_lo, block_hi) = (text_lo / LARGE * LARGE, end.next_multiple_of(LARGE));
    let mut at = 0;
    // The direct map, at least 4 GiB for devices' and firmware's tables. Text and constants are read-only here, too.
    while at < top.max(4 << 30) {
        if (block_lo..block_hi).contains(&at) {
            for page in (at..at + LARGE).step_by(PAGE as usize) {
                let write = !(text_lo..ro_hi).contains(&page);
                tables.map(&mut Mem, DIRECT + page, page, prot(write, false)).expect("direct map");
            }
        } else {
            tables.map_sized(&mut Mem, DIRECT + at, at, LARGE, prot(true, false)).expect("direct map");
        }
        at += LARGE;
    }
    for page in (text_lo..end).step_by(PAGE as usize) {
        let (write, execute) = (page >= ro_hi, page < text_hi);
        tables.map(&mut Mem, IMAGE + page, page, prot(write, execute)).expect("image");
    }
    for processor in 0..PROCESSORS_MAX {
        for (which, len) in STACK_LEN.into_iter().enumerate() {
            // Further processors get their frames when they start.
            if processor == 0 {
                map_stack(&mut tables, processor, which, len);
            }
        }
    }
    // Make sure that every slot of the kernel's half that will ever be used exists before views copy them.
    tables.map(&mut Mem, DEVICES, 0, Prot { device: true, ..prot(true, false) }).expect("device slot");
    let _ = tables.unmap(&mut Mem, DEVICES, PAGE);
    ROOT.call_once(|| tables.root());
    cpu::load_root(tables.root());
}

fn map_stack(tables: &mut Tables, processor: usize, which: usize, len: u64) {
    let top = stack_top(processor, which);
    for page in (top - len..top).step_by(PAGE as usize) {
        let frame = frames::take_zeroed().expect("memory for kernel stacks");
        tables.map(&mut Mem, page, frame, prot(true, false)).expect("stack");
    }
}

/// Maps the stacks of a further processor.
pub(crate) fn map_stacks(processor: usize) {
    let mut tables = Tables::from_root(root());
    for (which, len) in STACK_LEN.into_iter().enumerate() {
        map_stack(&mut tables, processor, which, len);
    }
}

/// Maps a page of device registers, uncached. Boot only.
pub(crate) fn map_device(physical: u64) -> *mut u8 {
    let mut next = NEXT_DEVICE.lock();
    let at = *next;
    *next += PAGE;
    let prot = Prot { device: true, ..prot(true, false) };
    Tables::from_root(root()).map(&mut Mem, at, physical & !(PAGE - 1), prot).expect("device page");
    (at + physical % PAGE) as *mut u8
}
