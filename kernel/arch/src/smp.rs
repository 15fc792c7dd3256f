//! Starting the further processors.

use crate::{apic, cpu, descriptors, entry, image, percpu, time};
use core::arch::global_asm;
use core::sync::atomic::{AtomicUsize, Ordering};
use paging::{Prot, TableMem, Tables};

global_asm!(include_str!("../../boot/processor.S"), options(att_syntax));

/// Below 1 MiB, free on every machine that boots by BIOS, UEFI or PVH; the start-up interrupt names it as a page number.
const TRAMPOLINE: u64 = 0x8000;

// SAFETY: labels in `processor.S`; only their addresses are used.
unsafe extern "C" {
    static ap_begin: u8;
    static ap_end: u8;
    static ap_root: u8;
    static ap_stack: u8;
    static ap_index: u8;
    static ap_entry: u8;
}

// SAFETY: `kernel!` defines it with this type.
unsafe extern "Rust" {
    /// Defined by the kernel proper: runs on each further processor.
    safe fn kernel_processor(index: usize) -> !;
}

static STARTED: AtomicUsize = AtomicUsize::new(0);

/// Starts the processor with controller id `id` as processor `index`. Whether it came up.
pub fn start(index: usize, id: u32) -> bool {
    image::map_stacks(index);
    // A root that also maps the trampoline at its own address, below 4 GiB, for the first instructions with paging on.
    let Some(mut tables) = low_root() else { return false };
    let place = image::direct(TRAMPOLINE);
    // SAFETY: the first MiB is never given to the allocator; the symbols delimit the code that is copied.
    unsafe {
        let begin = &raw const ap_begin;
        let len = (&raw const ap_end).offset_from(begin) as usize;
        place.copy_from_nonoverlapping(begin, len);
        let set = |symbol: *const u8, value: u64| {
            place.add(symbol.offset_from(begin) as usize).cast::<u64>().write_unaligned(value);
        };
        set(&raw const ap_root, tables.root());
        set(&raw const ap_stack, image::stack_top(index, 0));
        set(&raw const ap_index, index as u64);
        set(&raw const ap_entry, processor_main as *const () as u64);
    }
    let before = STARTED.load(Ordering::SeqCst);
    apic::send_init(id);
    time::wait(10_000_000);
    for _ in 0..2 {
        apic::send_start(id, (TRAMPOLINE >> 12) as u8);
        let until = time::now() + 200_000_000;
        while STARTED.load(Ordering::SeqCst) == before && time::now() < until {
            cpu::relax();
        }
    }
    let up = STARTED.load(Ordering::SeqCst) != before;
    if up {
        let _ = tables.unmap(&mut image::Mem, TRAMPOLINE, 4096);
        tables.free_lower(&mut image::Mem);
    }
    up
}

fn low_root() -> Option<Tables> {
    let mut mem = LowMem;
    let mut tables = Tables::new(&mut mem)?;
    tables.share_upper(&mut mem, &Tables::from_root(image::root()));
    let prot = Prot { write: false, execute: true, user: false, device: false, global: false, key: 0 };
    tables.map(&mut mem, TRAMPOLINE, TRAMPOLINE, prot).ok()?;
    Some(tables)
}

/// Table memory whose addresses fit the 32 bits that a starting processor can load.
struct LowMem;

impl TableMem for LowMem {
    fn alloc(&mut self) -> Option<u64> {
        image::Mem.alloc().filter(|&frame| frame < 1 << 32)
    }
    fn free(&mut self, table: u64) {
        image::Mem.free(table);
    }
    fn read(&self, table: u64, index: usize) -> u64 {
        image::Mem.read(table, index)
    }
    fn write(&mut self, table: u64, index: usize, entry: u64) {
        image::Mem.write(table, index, entry);
    }
}

extern "C" fn processor_main(index: usize) -> ! {
    percpu::set_up(index, image::stack_top(index, 0));
    cpu::set_up();
    cpu::load_root(image::root());
    descriptors::set_up(index);
    entry::set_up();
    apic::set_up();
    STARTED.fetch_add(1, Ordering::SeqCst);
    kernel_processor(index)
}
