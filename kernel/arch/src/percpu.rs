//! The block that each processor finds at GS while the kernel runs. Layout known to `entry.S`.

use crate::cpu::{PROCESSORS_MAX, has, wrmsr};
use abi::info::feature;
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
    /// The page-table root that is loaded. Written before `cr3`, which is serialising: who changes tables and then reads
    /// this sees the processor, or the processor sees the change.
    pub root: AtomicU64,
    /// The running thread's roots, by the number of the domain.
    pub roots: AtomicU64,
    /// The way out of the kernel must look around.
    pub attention: AtomicU64,
    /// Bound calls and returns on the short way.
    pub crossings: AtomicU64,
    /// Roots loaded.
    pub views: AtomicU64,
    /// Key registers written.
    pub keys: AtomicU64,
    pub flags: AtomicU64,
    /// Registers of a program during the first instructions of a plain call.
    pub saved: [AtomicU64; 3],
    /// The running thread's card, and the first of those that the short way has put aside or taken up (pass.rs).
    pub bearer: AtomicU64,
    pub lap: AtomicU64,
    /// The text whose threads may pass the processor on.
    pub scheduler: AtomicU64,
    /// Cards by number, as `gate.S` looks for them.
    pub cards: AtomicU64,
    /// Address of the stack pointer that an interrupt loads.
    pub entry_stack: AtomicU64,
    /// Since when the running thread runs, in ticks.
    pub since: AtomicU64,
    /// Switches that the short way has made.
    pub passes: AtomicU64,
    /// Address of the word that says who runs here.
    pub running: AtomicU64,
    /// Light calls, and calls of the short way of messages after which their thread went on.
    pub stays: AtomicU64,
}

pub(crate) const FLAG_AVX: u64 = 1;
pub(crate) const FLAG_KEYS: u64 = 2;

impl Block {
    const fn new() -> Block {
        Block {
            context: AtomicU64::new(0),
            stack: AtomicU64::new(0),
            scratch: AtomicU64::new(0),
            index: AtomicU64::new(0),
            pending: AtomicU64::new(0),
            root: AtomicU64::new(0),
            roots: AtomicU64::new(0),
            attention: AtomicU64::new(1),
            crossings: AtomicU64::new(0),
            views: AtomicU64::new(0),
            keys: AtomicU64::new(0),
            flags: AtomicU64::new(0),
            saved: [const { AtomicU64::new(0) }; 3],
            bearer: AtomicU64::new(0),
            lap: AtomicU64::new(crate::pass::END),
            scheduler: AtomicU64::new(0),
            cards: AtomicU64::new(0),
            entry_stack: AtomicU64::new(0),
            since: AtomicU64::new(0),
            passes: AtomicU64::new(0),
            running: AtomicU64::new(0),
            stays: AtomicU64::new(0),
        }
    }
}

static BLOCKS: [Block; PROCESSORS_MAX] = [const { Block::new() }; PROCESSORS_MAX];

/// Where the short way notes who runs, until somebody wants to know.
static NOWHERE: AtomicU64 = AtomicU64::new(0);

const GS_BASE: u32 = 0xc000_0101;
const TSC_AUX: u32 = 0xc000_0103;

/// Makes `index`'s block this processor's own.
pub(crate) fn set_up(index: usize, stack_top: u64) {
    let block = &BLOCKS[index];
    block.index.store(index as u64, Ordering::Relaxed);
    block.stack.store(stack_top, Ordering::Relaxed);
    block.running.store(&raw const NOWHERE as u64, Ordering::Relaxed);
    block.cards.store(crate::pass::cards(index), Ordering::Relaxed);
    // SAFETY: the block is static.
    unsafe { wrmsr(GS_BASE, block as *const Block as u64) };
}

/// Notes for `gate.S` what the processor has.
pub(crate) fn set_flags() {
    let flag = |feature: u64, flag: u64| if has(feature) { flag } else { 0 };
    block().flags.store(flag(feature::AVX, FLAG_AVX) | flag(feature::PKU, FLAG_KEYS), Ordering::Relaxed);
    if has(feature::RDTSCP) {
        // SAFETY: the register exists then, and only `rdtscp` and `rdpid` read it.
        unsafe { wrmsr(TSC_AUX, index() as u64) };
    }
}

/// Index of this processor, 0 to `PROCESSORS_MAX - 1`.
#[inline]
pub fn index() -> usize {
    let index: u64;
    // SAFETY: GS points to this processor's block whenever Rust code of the kernel runs.
    unsafe { asm!("mov {}, gs:[24]", out(reg) index, options(nostack, preserves_flags, readonly)) }
    index as usize
}

/// The word at this offset of this processor's block: one instruction.
#[inline(always)]
pub(crate) fn word<const OFFSET: usize>() -> u64 {
    const { assert!(OFFSET < size_of::<Block>() && OFFSET.is_multiple_of(8)) };
    let value: u64;
    // SAFETY: GS points to this processor's block whenever Rust code of the kernel runs.
    unsafe { asm!("mov {}, gs:[{}]", out(reg) value, const OFFSET, options(nostack, preserves_flags, readonly)) }
    value
}

/// Writes that word, of those that only the processor itself writes.
#[inline(always)]
pub(crate) fn set_word<const OFFSET: usize>(value: u64) {
    const { assert!(OFFSET < size_of::<Block>() && OFFSET.is_multiple_of(8)) };
    // SAFETY: as above; the words are atomic.
    unsafe { asm!("mov gs:[{}], {}", const OFFSET, in(reg) value, options(nostack, preserves_flags)) }
}

#[inline]
pub(crate) fn block() -> &'static Block {
    &BLOCKS[index()]
}

#[inline]
pub(crate) fn block_of(index: usize) -> &'static Block {
    &BLOCKS[index]
}

/// What a processor counts of itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Bound calls and returns that the kernel made on its short way; each was an entry.
    pub crossings: u64,
    /// Page-table roots loaded.
    pub views: u64,
    /// Key registers written by the kernel.
    pub keys: u64,
    /// Switches between threads that the kernel made on its short way.
    pub passes: u64,
    /// Light calls, and calls with messages that it made there and whose thread went on.
    pub stays: u64,
}

/// What processor `index` has counted.
pub fn counts(index: usize) -> Counts {
    let block = &BLOCKS[index];
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Counts {
        crossings: get(&block.crossings),
        views: get(&block.views),
        keys: get(&block.keys),
        passes: get(&block.passes),
        stays: get(&block.stays),
    }
}

/// The root that processor `index` has loaded, or is about to.
#[inline]
pub fn root_of(index: usize) -> u64 {
    BLOCKS[index].root.load(Ordering::SeqCst)
}

/// Before processor `index` returns to user code, it looks around.
#[inline]
pub fn attend(index: usize) {
    BLOCKS[index].attention.store(1, Ordering::SeqCst);
}

/// Whether processor `index` must look around.
#[inline]
pub fn must_attend(index: usize) -> bool {
    BLOCKS[index].attention.load(Ordering::SeqCst) != 0
}

/// Processor `index` is about to look around.
#[inline]
pub fn attending(index: usize) {
    BLOCKS[index].attention.store(0, Ordering::SeqCst);
}

/// Takes the vectors noted while this processor idled, as bits from [`crate::apic::FIRST_VECTOR`] on.
pub fn take_pending() -> u64 {
    block().pending.swap(0, Ordering::Relaxed)
}
