//! The block that each processor finds at GS while the kernel runs. Layout known to `entry.S`.

use crate::cpu::{PROCESSORS_MAX, wrmsr};
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

/// What `entry.S` needs of a processor, and notes left by interrupts in the idle loop.
#[repr(C, align(64))]
pub(crate) struct Block {
    /// End of the running thread's registers.
    pub context: AtomicU64,
    /// Top of the kernel stack.
    pub stack: AtomicU64,
    pub scratch: AtomicU64,
    pub index: AtomicU64,
    /// Vectors 0x20 to 0x5f that came while idle, as bits.
    pub pending: AtomicU64,
}

impl Block {
    const fn new() -> Block {
        Block {
            context: AtomicU64::new(0),
            stack: AtomicU64::new(0),
            scratch: AtomicU64::new(0),
            index: AtomicU64::new(0),
            pending: AtomicU64::new(0),
        }
    }
}

static BLOCKS: [Block; PROCESSORS_MAX] = [const { Block::new() }; PROCESSORS_MAX];

const GS_BASE: u32 = 0xc000_0101;

/// Makes `index`'s block this processor's own.
pub(crate) fn set_up(index: usize, stack_top: u64) {
    let block = &BLOCKS[index];
    block.index.store(index as u64, Ordering::Relaxed);
    block.stack.store(stack_top, Ordering::Relaxed);
    // SAFETY: the block is static.
    unsafe { wrmsr(GS_BASE, block as *const Block as u64) };
}

/// Index of this processor, 0 to `PROCESSORS_MAX - 1`.
#[inline]
pub fn index() -> usize {
    let index: u64;
    // SAFETY: GS points to this processor's block whenever Rust code of the kernel runs.
    unsafe { asm!("mov {}, gs:[24]", out(reg) index, options(nostack, preserves_flags, readonly)) }
    index as usize
}

#[inline]
pub(crate) fn block() -> &'static Block {
    &BLOCKS[index()]
}

/// Takes the vectors noted while this processor idled, as bits from [`crate::apic::FIRST_VECTOR`] on.
pub fn take_pending() -> u64 {
    block().pending.swap(0, Ordering::Relaxed)
}
