//! Physical memory in 4 KiB frames: who owns one, and the allocator. Each processor keeps a small cache, so that the
//! common path takes no lock that another processor holds.

mod run;

pub use run::{Run, Why};

use crate::cpu::PROCESSORS_MAX;
use crate::image::direct;
use crate::percpu;
use crate::shown::{self, MACHINE};
use ::frames::Pool;
use core::arch::asm;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use spin::Mutex;

const PAGE: u64 = 4096;
const CACHE: usize = 64;
const RANGES: usize = 64;

/// A range of physical addresses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Range {
    pub base: u64,
    pub end: u64,
}

/// Memory before the kernel has a heap: ranges in ascending order.
struct Early {
    ranges: [Range; RANGES],
    count: usize,
}

static EARLY: Mutex<Early> = Mutex::new(Early { ranges: [Range { base: 0, end: 0 }; RANGES], count: 0 });

static POOL: Mutex<Pool> = Mutex::new(Pool::new());

/// From now on so many frames are only for what is needed, which whoever takes one sees to.
pub fn keep(reserve: u64) {
    MACHINE.reserve.store(reserve, Ordering::Relaxed);
}

/// By number.
struct Cache {
    frames: [u64; CACHE],
    count: usize,
}
static CACHES: [Mutex<Cache>; PROCESSORS_MAX] =
    [const { Mutex::new(Cache { frames: [0; CACHE], count: 0 }) }; PROCESSORS_MAX];

/// Gives a range of usable memory to the allocator. Boot only. Ranges are added in ascending order.
pub(crate) fn add(range: Range) {
    let base = range.base.next_multiple_of(PAGE);
    let end = range.end / PAGE * PAGE;
    let mut early = EARLY.lock();
    if base >= end || early.count == RANGES {
        return;
    }
    let at = early.count;
    early.ranges[at] = Range { base, end };
    early.count += 1;
    MACHINE.free.fetch_add((end - base) / PAGE, Ordering::Relaxed);
    MACHINE.total.fetch_add((end - base) / PAGE, Ordering::Relaxed);
}

/// A contiguous run of memory below 4 GiB for the kernel's heap, the first that is taken. Boot only.
pub(crate) fn take_run(len: u64) -> Option<u64> {
    let mut early = EARLY.lock();
    for i in 0..early.count {
        let range = early.ranges[i];
        if range.end - range.base >= len && range.base + len <= 4 << 30 {
            early.ranges[i].base += len;
            MACHINE.free.fetch_sub(len / PAGE, Ordering::Relaxed);
            return Some(range.base);
        }
    }
    None
}

/// From now on frames can be had. Boot only, when there is a heap.
pub(crate) fn set_up() {
    let early = EARLY.lock();
    let ranges = || early.ranges[..early.count].iter().filter(|range| range.base < range.end);
    let mut pool = Pool::below(ranges().map(|range| range.end / PAGE).max().unwrap_or(0));
    // The lowest are taken first.
    ranges().rev().for_each(|range| pool.add(range.base / PAGE, (range.end - range.base) / PAGE));
    *POOL.lock() = pool;
}

/// Takes one frame, contents unknown.
fn take() -> Option<u64> {
    let mut cache = CACHES[percpu::index()].lock();
    if cache.count == 0 {
        cache.count = POOL.lock().take(&mut cache.frames[..CACHE / 2]);
    }
    if cache.count == 0 {
        drop(cache);
        return steal();
    }
    cache.count -= 1;
    MACHINE.free.fetch_sub(1, Ordering::Relaxed);
    Some(cache.frames[cache.count] * PAGE)
}

/// The pool is empty: what other processors keep in their caches is still memory.
fn steal() -> Option<u64> {
    for cache in &CACHES {
        let mut cache = cache.lock();
        if cache.count > 0 {
            cache.count -= 1;
            MACHINE.free.fetch_sub(1, Ordering::Relaxed);
            return Some(cache.frames[cache.count] * PAGE);
        }
    }
    None
}

/// Takes one zeroed frame.
pub(crate) fn take_zeroed() -> Option<u64> {
    let frame = take()?;
    wipe(direct(frame));
    Some(frame)
}

/// Writes zeroes over a frame that is the caller's, 32 bytes at a step where the processor has such registers.
#[inline(always)]
fn wipe(frame: *mut u8) {
    if percpu::block().flags.load(Ordering::Relaxed) & percpu::FLAG_AVX == 0 {
        // SAFETY: a whole frame of the caller's.
        return unsafe { frame.write_bytes(0, PAGE as usize) };
    }
    let mut kept = core::mem::MaybeUninit::<[u64; 4]>::uninit();
    // SAFETY: as above, and frames are aligned. The flag says that AVX is switched on here. What a program has in the one vector register
    // that is used is put back; nothing comes in between, since interrupts are off.
    unsafe {
        asm!(
            "vmovdqu [{kept}], ymm0",
            "vpxor xmm0, xmm0, xmm0",
            ".irp at, 0, 512, 1024, 1536, 2048, 2560, 3072, 3584",
            ".irp off, 0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448, 480",
            "vmovdqa [{frame} + \\at + \\off], ymm0",
            ".endr",
            ".endr",
            "vmovdqu ymm0, [{kept}]",
            kept = in(reg) kept.as_mut_ptr(),
            frame = in(reg) frame,
            options(nostack),
        );
    }
}

/// Returns a frame.
pub(crate) fn give(frame: u64) {
    MACHINE.free.fetch_add(1, Ordering::Relaxed);
    let mut cache = CACHES[percpu::index()].lock();
    if cache.count == CACHE {
        give_up(&mut cache, CACHE / 2);
    }
    let at = cache.count;
    cache.frames[at] = frame / PAGE;
    cache.count += 1;
}

/// Gives the pool all of a cache's but so many.
fn give_up(cache: &mut Cache, keep: usize) {
    let mut pool = POOL.lock();
    cache.frames[keep..cache.count].iter().for_each(|frame| pool.give_one(*frame));
    cache.count = keep;
}

/// Free frames.
#[inline(always)]
pub fn free() -> u64 {
    MACHINE.free.load(Ordering::Relaxed)
}

/// Those that are only for what is needed.
#[inline]
pub fn reserve() -> u64 {
    MACHINE.reserve.load(Ordering::Relaxed)
}

/// Frames that are free beside these.
#[inline]
pub fn to_spare() -> u64 {
    free().saturating_sub(reserve())
}

/// Free and all frames.
pub fn count() -> (u64, u64) {
    (MACHINE.free.load(Ordering::Relaxed), MACHINE.total.load(Ordering::Relaxed))
}

/// One frame of memory, owned. Its contents are reached by copying: user code may write them at any time.
#[derive(Debug)]
pub struct Frame {
    /// Physical address; bit 0: not the allocator's (a device's, or the boot pack's).
    tagged: u64,
}

impl Frame {
    /// A frame of zeroes; `None` when memory is used up.
    pub fn zeroed() -> Option<Frame> {
        take_zeroed().map(|tagged| Frame { tagged })
    }

    /// A copy of another frame.
    pub fn copy_of(other: &Frame) -> Option<Frame> {
        let frame = take()?;
        // SAFETY: two different frames, the new one ours.
        unsafe { direct(frame).copy_from_nonoverlapping(direct(other.address()), PAGE as usize) };
        Some(Frame { tagged: frame })
    }

    /// Memory that is not the allocator's: a device's, or the boot pack's. Never freed.
    ///
    /// # Panics
    /// If `address` is not the start of a page, or lies in memory that the allocator hands out.
    pub fn foreign(address: u64) -> Frame {
        assert!(address.is_multiple_of(PAGE) && address < 1 << 52 && !is_ours(address));
        Frame { tagged: address | 1 }
    }

    /// A frame of zeroes that is never given back, however many may refer to it.
    pub fn lasting() -> Option<Frame> {
        take_zeroed().map(|tagged| Frame { tagged: tagged | 1 })
    }

    /// The page of the image, or of the direct map, at this address of the kernel's: for what is never given back.
    pub(crate) fn of_image(address: u64) -> Frame {
        assert!(address.is_multiple_of(PAGE));
        Frame { tagged: shown::physical(address) | 1 }
    }

    /// The same one again, if it is never given back.
    pub fn again(&self) -> Option<Frame> {
        (!self.is_memory()).then_some(Frame { tagged: self.tagged })
    }

    /// Whether the allocator hands this frame out.
    pub fn is_memory(&self) -> bool {
        self.tagged & 1 == 0
    }

    /// Physical address.
    #[inline]
    pub fn address(&self) -> u64 {
        self.tagged & !1
    }

    /// Copies bytes out.
    ///
    /// # Panics
    /// Beyond the frame's end.
    pub fn read(&self, offset: usize, to: &mut [u8]) {
        assert!(offset <= 4096 && to.len() <= 4096 - offset);
        // SAFETY: within a frame that cannot be freed while `self` lives.
        unsafe { direct(self.address()).add(offset).copy_to_nonoverlapping(to.as_mut_ptr(), to.len()) };
    }

    /// Copies bytes in.
    ///
    /// # Panics
    /// Beyond the frame's end.
    pub fn write(&self, offset: usize, from: &[u8]) {
        assert!(offset <= 4096 && from.len() <= 4096 - offset);
        // SAFETY: as above.
        unsafe { direct(self.address()).add(offset).copy_from_nonoverlapping(from.as_ptr(), from.len()) };
    }

    /// Writes an aligned 32-bit word at once, after all earlier writes.
    pub fn store(&self, offset: usize, value: u32) {
        assert!(offset <= 4092 && offset.is_multiple_of(4));
        // SAFETY: aligned and within the frame.
        unsafe { &*(direct(self.address()).add(offset) as *const AtomicU32) }.store(value, Ordering::SeqCst);
    }

    /// Writes an aligned 64-bit word at once.
    pub fn store_long(&self, offset: usize, value: u64) {
        assert!(offset <= 4088 && offset.is_multiple_of(8));
        // SAFETY: aligned and within the frame.
        unsafe { &*(direct(self.address()).add(offset) as *const AtomicU64) }.store(value, Ordering::Release);
    }

    /// Reads an aligned word at once, after all earlier writes of other processors.
    pub fn load_long(&self, offset: usize) -> u64 {
        assert!(offset <= 4088 && offset.is_multiple_of(8));
        // SAFETY: aligned and within the frame.
        unsafe { &*(direct(self.address()).add(offset) as *const AtomicU64) }.load(Ordering::Acquire)
    }

    /// Copies bytes in from a frame, which may be this one: then as if from a copy.
    ///
    /// # Panics
    /// Beyond the end of either.
    pub fn copy_in(&self, offset: usize, from: &Frame, from_offset: usize, len: usize) {
        assert!(offset <= 4096 && len <= 4096 - offset && from_offset <= 4096 && len <= 4096 - from_offset);
        // SAFETY: within two frames that cannot be freed meanwhile; `copy_to` allows that they are one.
        unsafe { direct(from.address()).add(from_offset).copy_to(direct(self.address()).add(offset), len) };
    }

    /// An aligned 64-bit word, for what changes one undivided.
    pub fn long(&self, offset: usize) -> &AtomicU64 {
        assert!(offset <= 4088 && offset.is_multiple_of(8));
        // SAFETY: aligned and within a frame that cannot be freed while `self` lives; user code's accesses are those of atomic words.
        unsafe { &*(direct(self.address()).add(offset) as *const AtomicU64) }
    }

    /// Reads an aligned 32-bit word at once, after all earlier writes of other processors.
    pub fn load(&self, offset: usize) -> u32 {
        assert!(offset <= 4092 && offset.is_multiple_of(4));
        // SAFETY: aligned and within the frame.
        unsafe { &*(direct(self.address()).add(offset) as *const AtomicU32) }.load(Ordering::SeqCst)
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        if self.is_memory() {
            give(self.tagged);
        }
    }
}

static OURS: Mutex<([Range; RANGES], usize)> = Mutex::new(([Range { base: 0, end: 0 }; RANGES], 0));

/// Remembers what the allocator was given, before anything is taken. Boot only.
pub(crate) fn seal_ranges() {
    let early = EARLY.lock();
    *OURS.lock() = (early.ranges, early.count);
}

fn is_ours(address: u64) -> bool {
    let ours = OURS.lock();
    ours.0[..ours.1].iter().any(|r| (r.base..r.end).contains(&address))
}

/// Reads the boot pack or a firmware table through the direct map.
///
/// # Panics
/// If any of it lies in memory that the allocator hands out.
pub fn foreign_bytes(base: u64, len: u64) -> &'static [u8] {
    assert!(!is_ours(base) && !is_ours(base + len.max(1) - 1));
    // SAFETY: reserved memory that nobody writes while the kernel boots; the direct map covers it.
    unsafe { core::slice::from_raw_parts(direct(base), len as usize) }
}
