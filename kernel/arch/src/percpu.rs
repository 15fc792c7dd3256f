//! The block that each processor finds at GS while the kernel runs. Layout known to `entry.S`.

use crate::cpu::{PROCESSORS_MAX, has, wrmsr};
use crate::frames::Frame;
use crate::shown::TOLD;
use abi::info::layout::Counts;
use abi::info::{STOPS, feature};
use core::arch::asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What `entry.S` needs of a processor, and notes left by interrupts in the idle loop.
#[repr(C, align(4096))]
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
    /// Not 0: the way out of the kernel must look around, or what happens is recorded.
    pub attention: AtomicU64,
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
    /// Address of the word that says who runs here.
    pub running: AtomicU64,
    /// Address of the block itself.
    pub own: AtomicU64,
    /// Address of the processor's shelf of the heap.
    pub shelf: AtomicU64,
    /// Address of what the kernel proper has of the processor; 0: nothing yet.
    pub kernels: AtomicU64,
    /// How many cards the lap has.
    pub lapped: AtomicU64,
    /// A page of its own, which every program may read: nothing else is in it.
    pub counters: Counters,
}

/// What a processor counts of itself, in words that only it writes. Programs read them where they are (SSS-76): `abi::info::layout::Counts`,
/// word by word.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Counters {
    pub entries: AtomicU64,
    /// Bound calls and returns that the kernel made on its short way; each was an entry.
    pub crossings: AtomicU64,
    /// Switches between threads that it made there.
    pub passes: AtomicU64,
    /// Light calls, and calls with messages that it made there and whose thread went on.
    pub stays: AtomicU64,
    /// Page-table roots loaded.
    pub views: AtomicU64,
    /// Key registers written by the kernel.
    pub keys: AtomicU64,
    pub switches: AtomicU64,
    pub faults: AtomicU64,
    pub interrupts: AtomicU64,
    pub shootdowns: AtomicU64,
    pub idle_ns: AtomicU64,
    pub epc: AtomicU64,
    pub tlb_flushes: AtomicU64,
    pub copied_bytes: AtomicU64,
    pub copies: AtomicU64,
    pub events: AtomicU64,
    pub left_flags: AtomicU64,
    pub barriers: AtomicU64,
    pub stops: [AtomicU64; STOPS],
    pub idle: AtomicU64,
    pub apic: AtomicU64,
    pub online: AtomicU64,
    pub heap_used: AtomicU64,
    pub messages: AtomicU64,
    pub operations: AtomicU64,
}

/// Adds to a counter that only this processor writes.
#[inline(always)]
pub fn add(counter: &AtomicU64, n: u64) {
    if TOLD {
        counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }
}

/// Counts a message. In one instruction: it is done on the shortest ways there are.
#[inline(always)]
pub fn count_message() {
    const OFFSET: usize = offset_of!(Block, counters) + offset_of!(Counters, messages);
    if TOLD {
        // SAFETY: in the kernel GS leads to this processor's block, and nobody else writes its counters.
        unsafe { asm!("inc qword ptr gs:[{}]", const OFFSET, options(nostack)) }
    }
}

impl Counters {
    #[expect(clippy::declare_interior_mutable_const, reason = "what a new one is copied from")]
    const NEW: Counters = {
        const ZERO: AtomicU64 = AtomicU64::new(0);
        Counters {
            entries: ZERO,
            crossings: ZERO,
            passes: ZERO,
            stays: ZERO,
            views: ZERO,
            keys: ZERO,
            switches: ZERO,
            faults: ZERO,
            interrupts: ZERO,
            shootdowns: ZERO,
            idle_ns: ZERO,
            epc: ZERO,
            tlb_flushes: ZERO,
            copied_bytes: ZERO,
            copies: ZERO,
            events: ZERO,
            left_flags: ZERO,
            barriers: ZERO,
            stops: [ZERO; STOPS],
            idle: ZERO,
            apic: ZERO,
            online: ZERO,
            heap_used: ZERO,
            messages: ZERO,
            operations: ZERO,
        }
    };

    /// A thread was stopped at this byte of the gate's code.
    pub fn stopped(&self, at: u64) {
        if !TOLD {
            return;
        }
        if let Some(word) = self.stops.get(at as usize / 64) {
            word.fetch_or(1 << (at % 64), Ordering::Relaxed);
        }
    }

    /// The page that it is.
    pub fn page(&'static self) -> Frame {
        Frame::of_image(core::ptr::from_ref(self) as u64)
    }
}

/// What `entry.S` calls its words, and where programs look for the last one.
const _: () = {
    let page = offset_of!(Block, counters);
    assert!(offset_of!(Block, lapped) == 176);
    assert!(page == 4096 && size_of::<Block>() == 8192);
    assert!(page + offset_of!(Counters, crossings) == 4104 && page + offset_of!(Counters, passes) == 4112);
    assert!(
        page + offset_of!(Counters, stays) == 4120
            && page + offset_of!(Counters, views) == 4128
            && page + offset_of!(Counters, keys) == 4136
    );
    assert!(
        offset_of!(Counters, stops) == offset_of!(Counts, stops)
            && offset_of!(Counters, online) == offset_of!(Counts, online)
            && offset_of!(Counters, heap_used) == offset_of!(Counts, heap_used)
            && offset_of!(Counters, operations) == offset_of!(Counts, operations)
    );
};

/// Offsets of [`Block::shelf`] and [`Counters::heap_used`].
pub(crate) const SHELF: usize = offset_of!(Block, shelf);
pub(crate) const HEAP_USED: usize = offset_of!(Block, counters) + offset_of!(Counters, heap_used);

/// Bits of [`Block::attention`].
pub(crate) const LOOK_AROUND: u64 = 1;
const TRACED: u64 = 2;

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
            attention: AtomicU64::new(LOOK_AROUND),
            flags: AtomicU64::new(0),
            saved: [const { AtomicU64::new(0) }; 3],
            bearer: AtomicU64::new(0),
            lap: AtomicU64::new(crate::pass::END),
            scheduler: AtomicU64::new(0),
            cards: AtomicU64::new(0),
            entry_stack: AtomicU64::new(0),
            since: AtomicU64::new(0),
            running: AtomicU64::new(0),
            own: AtomicU64::new(0),
            shelf: AtomicU64::new(0),
            kernels: AtomicU64::new(0),
            lapped: AtomicU64::new(0),
            counters: Counters::NEW,
        }
    }
}

static BLOCKS: [Block; PROCESSORS_MAX] = [const { Block::new() }; PROCESSORS_MAX];

/// Where the short way notes who runs, until somebody wants to know.
static NOWHERE: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

const GS_BASE: u32 = 0xc000_0101;
const TSC_AUX: u32 = 0xc000_0103;

/// Of processors that have had their block.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// How many processors there are so far: those with the first numbers.
#[inline]
pub(crate) fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// Makes `index`'s block this processor's own.
pub(crate) fn set_up(index: usize, stack_top: u64) {
    let block = &BLOCKS[index];
    COUNT.fetch_max(index + 1, Ordering::Relaxed);
    block.index.store(index as u64, Ordering::Relaxed);
    block.own.store(block as *const Block as u64, Ordering::Relaxed);
    block.shelf.store(crate::heap::shelf_of(index), Ordering::Relaxed);
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
    // SAFETY: `set_up` has put the address of a static there before GS pointed to it.
    unsafe { &*(word::<{ offset_of!(Block, own) }>() as *const Block) }
}

#[inline]
pub(crate) fn block_of(index: usize) -> &'static Block {
    &BLOCKS[index]
}

/// What the kernel proper has of each processor.
///
/// # Safety
/// One type of the image is this: [`crate::kernel`] names it.
pub unsafe trait Own: Sync + 'static {}

/// Puts down what the kernel proper has of processor `index`.
pub fn set_own<T: Own>(index: usize, own: &'static T) {
    BLOCKS[index].kernels.store(core::ptr::from_ref(own) as u64, Ordering::Release);
}

/// What the kernel proper has of this processor.
///
/// # Panics
/// It was not put down yet.
#[inline(always)]
pub fn own<T: Own>() -> &'static T {
    let own = word::<{ offset_of!(Block, kernels) }>() as *const T;
    assert!(!own.is_null(), "the machine is made before anything runs");
    // SAFETY: `set_own` has put down a reference that never ends, to a value of the one type that there is.
    unsafe { &*own }
}

/// What processor `index` has counted.
#[inline]
pub fn counters(index: usize) -> &'static Counters {
    &BLOCKS[index].counters
}

/// The root that processor `index` has loaded, or is about to.
#[inline]
pub fn root_of(index: usize) -> u64 {
    BLOCKS[index].root.load(Ordering::SeqCst)
}

/// Whether any processor has this root loaded, as a view in either mode.
pub fn is_loaded(root: u64) -> bool {
    BLOCKS.iter().any(|block| (block.root.load(Ordering::SeqCst) ^ root) >> 12 == 0)
}

/// Before processor `index` returns to user code, it looks around.
#[inline]
pub fn attend(index: usize) {
    BLOCKS[index].attention.fetch_or(LOOK_AROUND, Ordering::SeqCst);
}

/// Whether processor `index` must look around.
#[inline]
pub fn must_attend(index: usize) -> bool {
    BLOCKS[index].attention.load(Ordering::SeqCst) != 0
}

/// Whether this one must.
#[inline]
pub fn must_attend_here() -> bool {
    block().attention.load(Ordering::SeqCst) != 0
}

/// Processor `index` is about to look around.
#[inline]
pub fn attending(index: usize) {
    BLOCKS[index].attention.fetch_and(!LOOK_AROUND, Ordering::SeqCst);
}

/// From now on, or no longer, what processor `index` does is recorded. It looks around on each way out meanwhile, and no short way is
/// taken there: these ask for the whole word.
pub fn set_traced(index: usize, on: bool) {
    let attention = &BLOCKS[index].attention;
    if on {
        attention.fetch_or(TRACED, Ordering::SeqCst)
    } else {
        attention.fetch_and(!TRACED, Ordering::SeqCst)
    };
}

/// Whether what processor `index` does is recorded.
pub fn is_traced_at(index: usize) -> bool {
    BLOCKS[index].attention.load(Ordering::SeqCst) & TRACED != 0
}

/// Whether what this processor does is recorded: two instructions.
#[inline(always)]
pub fn is_traced() -> bool {
    // SAFETY: GS points to this processor's block whenever Rust code of the kernel runs.
    unsafe {
        asm!(
            "test byte ptr gs:[{}], {}",
            "jnz {}",
            const offset_of!(Block, attention),
            const TRACED,
            label { return true },
            options(nostack, readonly)
        );
    }
    false
}

/// The vectors noted while this processor idled: what [`take_pending`] would take.
pub fn pending() -> u64 {
    block().pending.load(Ordering::Relaxed)
}

/// Takes the vectors noted while this processor idled, as bits from [`crate::apic::FIRST_VECTOR`] on.
pub fn take_pending() -> u64 {
    block().pending.swap(0, Ordering::Relaxed)
}
