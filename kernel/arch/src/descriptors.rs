//! Segment, task-state and interrupt descriptors of each processor.

use crate::image;
use crate::percpu::{self, Block};
use alloc::boxed::Box;
use core::arch::asm;
use core::mem::offset_of;
use spin::Once;
use x86_64::VirtAddr;
use x86_64::instructions::segmentation::{CS, DS, ES, SS, Segment};
use x86_64::instructions::tables::load_tss;
use x86_64::structures::gdt::{Descriptor, GlobalDescriptorTable};
use x86_64::structures::tss::TaskStateSegment;

#[derive(Clone, Copy)]
#[repr(C)]
struct Gate {
    low: u16,
    selector: u16,
    ist: u8,
    attributes: u8,
    middle: u16,
    high: u32,
    reserved: u32,
}

#[repr(C, align(4096))]
struct Idt([Gate; 256]);

// SAFETY: labels in `entry.S`; only their addresses are used.
unsafe extern "C" {
    static vectors: u8;
    static fatal_vectors: u8;
}

/// The stack of all vectors but the fatal ones, counted from 1: where the running thread's registers are saved.
const ENTRY: u8 = 4;

static IDT: Once<Box<Idt>> = Once::new();

fn gate(handler: u64, ist: u8, user: bool) -> Gate {
    Gate {
        low: handler as u16,
        selector: 8,
        ist,
        attributes: if user { 0xee } else { 0x8e },
        middle: (handler >> 16) as u16,
        high: (handler >> 32) as u32,
        reserved: 0,
    }
}

fn idt() -> &'static Idt {
    IDT.call_once(|| {
        let (base, fatal) = (&raw const vectors as u64, &raw const fatal_vectors as u64);
        let mut table = Idt([gate(0, 0, false); 256]);
        for (i, entry) in table.0.iter_mut().enumerate() {
            // `int3` and `into` may be executed by programs; everything else that they `int` is a protection fault. On a stack that is
            // named here, since the processor changes no stack by itself where the program was in supervisor mode.
            *entry = gate(base + 16 * i as u64, ENTRY, i == 3 || i == 4);
        }
        table.0[2] = gate(fatal, 1, false);
        table.0[8] = gate(fatal + 16, 2, false);
        table.0[18] = gate(fatal + 32, 3, false);
        Box::new(table)
    })
}

/// Loads this processor's tables. Its kernel stack and exception stacks are already mapped.
pub(crate) fn set_up(index: usize) {
    let tss: &'static mut TaskStateSegment = Box::leak(Box::new(TaskStateSegment::new()));
    for ist in 0..3 {
        tss.interrupt_stack_table[ist] = VirtAddr::new(image::stack_top(index, ist + 1));
    }
    // Nothing runs yet: a fault is the kernel's.
    tss.interrupt_stack_table[ENTRY as usize - 1] = VirtAddr::new(image::stack_top(index, 1));
    // `entry.S` finds the stack of double faults two words below.
    let entry_stack = &raw const tss.interrupt_stack_table as u64 + 8 * (u64::from(ENTRY) - 1);
    percpu::block_of(index).entry_stack.store(entry_stack, core::sync::atomic::Ordering::Relaxed);
    let gdt: &'static mut GlobalDescriptorTable<8> = Box::leak(Box::new(GlobalDescriptorTable::empty()));
    let code = gdt.append(Descriptor::kernel_code_segment());
    let data = gdt.append(Descriptor::kernel_data_segment());
    let user_data = gdt.append(Descriptor::user_data_segment());
    let user_code = gdt.append(Descriptor::user_code_segment());
    assert!(
        code.0 == 8 && data.0 == 16 && user_data.0 == 0x1b && user_code.0 == 0x23,
        "selectors are known to entry.S"
    );
    // SAFETY: the TSS lives for ever.
    let task = gdt.append(unsafe { Descriptor::tss_segment_unchecked(tss) });
    gdt.load();
    #[repr(C, packed)]
    struct Pointer(u16, u64);
    let pointer = Pointer(size_of::<Idt>() as u16 - 1, idt() as *const Idt as u64);
    // SAFETY: the descriptors just loaded are what these selectors and tables mean.
    unsafe {
        CS::set_reg(code);
        SS::set_reg(data);
        DS::set_reg(data);
        ES::set_reg(data);
        load_tss(task);
        asm!("lidt [{}]", in(reg) &raw const pointer, options(readonly, nostack, preserves_flags));
    }
}

/// Where the processor pushes when an interrupt comes from a program.
#[inline]
pub(crate) fn set_entry_stack(top: u64) {
    let place = percpu::word::<{ offset_of!(Block, entry_stack) }>() as *mut u64;
    // SAFETY: `set_up` has put the address of the stack pointer in this processor's TSS there, and nobody else reads or writes that.
    unsafe { place.write_unaligned(top) };
}
