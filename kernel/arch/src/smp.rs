//! Starting the further processors.

use crate::{apic, cpu, descriptors, entry, image, percpu, time};
use core::arch::global_asm;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use paging::{Prot, TableMem, Tables};
use spin::Once;

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
    static ap_called: u8;
    static ap_open: u8;
}

// SAFETY: `kernel!` defines it with this type.
unsafe extern "Rust" {
    /// Defined by the kernel proper: runs on each further processor.
    safe fn kernel_processor(index: usize) -> !;
}

static STARTED: AtomicUsize = AtomicUsize::new(0);

/// How long a processor has to answer each of two calls, how long after them, and how long to arrive when it has answered; in
/// ns. A machine on a busy host may stop one of its processors for seconds.
const CALL_NS: u64 = 200_000_000;
const PATIENCE_NS: u64 = 5_000_000_000;
const ARRIVAL_NS: u64 = 60_000_000_000;

/// The code below 1 MiB and its words.
struct Trampoline(*mut u8);

impl Trampoline {
    /// Copies the code there, once: a late processor may still be executing it.
    fn get() -> Trampoline {
        static COPIED: Once = Once::new();
        let place = image::direct(TRAMPOLINE);
        COPIED.call_once(|| {
            // SAFETY: the first MiB is never given to the allocator; the symbols delimit the code that is copied.
            unsafe {
                let begin = &raw const ap_begin;
                place.copy_from_nonoverlapping(begin, (&raw const ap_end).offset_from(begin) as usize);
            }
        });
        Trampoline(place)
    }

    fn at(&self, symbol: *const u8) -> *mut u8 {
        // SAFETY: the symbols lie in the code that was copied.
        unsafe { self.0.add(symbol.offset_from(&raw const ap_begin) as usize) }
    }

    fn set(&self, symbol: *const u8, value: u64) {
        // SAFETY: one of the words that `processor.S` reads after it has been let in.
        unsafe { self.at(symbol).cast::<u64>().write_unaligned(value) };
    }

    fn word(&self, symbol: *const u8) -> &AtomicU32 {
        // SAFETY: an aligned word, read and written at once on both sides.
        unsafe { &*self.at(symbol).cast::<AtomicU32>() }
    }
}

/// Starts the processor with controller id `id` as processor `index`. Whether it came up.
///
/// # Panics
/// If it begins and does not arrive: it may be executing anything.
pub fn start(index: usize, id: u32) -> bool {
    image::map_stacks(index);
    // A root that also maps the trampoline at its own address, below 4 GiB, for the first instructions with paging on.
    let Some(mut tables) = low_root() else { return false };
    let trampoline = Trampoline::get();
    let open = trampoline.word(&raw const ap_open);
    trampoline.set(&raw const ap_root, tables.root());
    trampoline.set(&raw const ap_stack, image::stack_top(index, 0));
    trampoline.set(&raw const ap_index, index as u64);
    trampoline.set(&raw const ap_entry, processor_main as *const () as u64);
    // The number that `cpuid` tells has eight bits.
    trampoline.word(&raw const ap_called).store(id & 0xff, Ordering::SeqCst);
    open.store(1, Ordering::SeqCst);
    let before = STARTED.load(Ordering::SeqCst);
    let comes = |ns: u64| {
        let until = time::now() + ns;
        while STARTED.load(Ordering::SeqCst) == before && time::now() < until {
            cpu::relax();
        }
        STARTED.load(Ordering::SeqCst) != before
    };
    apic::send_init(id);
    time::wait(10_000_000);
    let mut up = false;
    for _ in 0..2 {
        if !up {
            apic::send_start(id, (TRAMPOLINE >> 12) as u8);
            up = comes(CALL_NS);
        }
    }
    up = up || comes(PATIENCE_NS);
    // From now on it is not let in any more. If it is in already, it comes.
    if !up && open.swap(0, Ordering::SeqCst) == 0 {
        up = comes(ARRIVAL_NS);
        assert!(up, "processor {id} has begun to start and does not arrive");
    }
    let _ = tables.unmap(&mut image::Mem, TRAMPOLINE, 4096);
    tables.free_lower(&mut image::Mem);
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
