//! The kernel's heap: one run of memory, claimed at boot. What lives in it is charged to quotas before it is made. Small objects are had from
//! and go back to the shelf of the processor, so that nothing on a hot path takes the lock of the whole (invariant 33).
//!
//! How much is in use says little of a heap in pieces: what is free may lie in holes, none of which has room for what is wanted, and programs choose
//! the sizes. So some of it is put by in blocks. When nothing else has room they are opened, one after the other, and when many of them are who can be refused
//! is refused, until most are there again: first new objects, then what comes to those that there are ([`Heap`]). What has no room even then, or is longer than a
//! block, lies in frames in a row, of those that are kept for what is needed. One great piece is put by for when there is no such row; while it is open those are
//! refused, too.

use crate::cpu::PROCESSORS_MAX;
use crate::frames::{self, Run};
use crate::image::{direct, physical_of};
use crate::percpu;
use crate::shown::MACHINE;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use shelf::{STEP, Shelf, Size};
use talc::TalcLock;
use talc::base::Talc;
use talc::base::binning::DefaultBinning;
use talc::source::Manual;

struct All(TalcLock<spin::Mutex<()>, Manual>);

type Shared = Talc<Manual, DefaultBinning>;

#[global_allocator]
static HEAP: All = All(TalcLock::new(Manual));

/// What is put by, in parts of the heap: opened in this order.
const PARTS: [u64; 3] = [16, 32, 32];
/// In blocks of so many bytes, each of which holds nearly whatever the kernel has in one piece. The first word of each is the next one's address.
const BLOCK: usize = 64 << 10;
/// And no more than so many, which is much for what cannot be refused, and soon put by again.
const BLOCKS_MAX: usize = 128;

/// And one great piece, for the few lists that are longer: most bytes, and which part of the heap.
const GREAT_MAX: usize = 512 << 10;
const GREAT_PART: usize = 16;

/// Its bytes, and where it is; 0: it is open. Changed with the lock of the heap.
static GREAT: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

fn great() -> Layout {
    // SAFETY: a power of two, and a size far from the greatest.
    unsafe { Layout::from_size_align_unchecked(GREAT[0].load(Ordering::Relaxed), STEP) }
}

fn is_great_there() -> bool {
    GREAT[1].load(Ordering::Relaxed) != 0
}

/// Puts the great piece by. Whether it is.
fn close_great(shared: &mut Shared) -> bool {
    if !is_great_there() {
        // SAFETY: its size is not zero.
        let piece = unsafe { shared.allocate(great()) };
        GREAT[1].store(piece.map_or(0, |piece| piece.as_ptr() as usize), Ordering::Relaxed);
        PUT_BY.iter().enumerate().for_each(|(at, one)| one.set_limits(at));
    }
    is_great_there()
}

/// Lets it be used. Whether it was there.
fn open_great(shared: &mut Shared) -> bool {
    let piece = GREAT[1].swap(0, Ordering::Relaxed);
    if piece != 0 {
        // SAFETY: it was put by, with this layout.
        unsafe { shared.deallocate(piece as *mut u8, great()) };
        PUT_BY.iter().enumerate().for_each(|(at, one)| one.set_limits(at));
    }
    piece != 0
}

/// Changed with the lock of the heap.
struct PutBy {
    first: AtomicUsize,
    held: AtomicUsize,
    wanted: AtomicUsize,
}

static PUT_BY: [PutBy; PARTS.len()] =
    [const { PutBy { first: AtomicUsize::new(0), held: AtomicUsize::new(0), wanted: AtomicUsize::new(0) } };
        PARTS.len()];

/// For whom something of the heap is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heap {
    /// Anybody: nobody has to look what others were promised.
    Anybody,
    /// An object of a person's; a page of one. Beside what others were promised.
    Object,
    Page,
    /// What its person was promised.
    Promised,
    /// An object, and a page, of the system's own.
    SystemsObject,
    SystemsPage,
    /// What comes to an object that somebody has, and of which he has to be told in the middle of something: a place where it is mapped, a question to its
    /// pager. A person's, and the system's: refused last, however much is in use.
    Needed,
    SystemsNeeded,
}

const WHOSE: usize = 8;
/// Whatever is in use.
const ANY: u64 = u64::MAX;
/// So many of 32 parts may be in use. (Whoever is refused one more object finds the lists of pages for those that he has.)
const MAY_BE_USED: [u64; WHOSE] = [20, 25, 28, 28, 30, 31, ANY, ANY];
/// And so many of them are there for promises, whatever is in use by anybody.
const PROMISED: u64 = 7;
const _: () = assert!(MAY_BE_USED[Heap::Anybody as usize] + PROMISED <= MAY_BE_USED[Heap::Promised as usize]);
/// `needed=20` on the command line: so many parts, too, for what a person needs. So tests see how that is refused, to whom has used up no more than persons may.
static NEEDED: AtomicU64 = AtomicU64::new(ANY);

fn may_be_used(whose: usize) -> u64 {
    if whose == Heap::Needed as usize { NEEDED.load(Ordering::Relaxed) } else { MAY_BE_USED[whose] }
}

/// As long as this part is put by,
const UNTIL: [usize; WHOSE] = [0, 0, 0, 1, 2, 2, 2, 2];
/// or one block of so many: what is left of the last one then is for what nobody can be refused, which is little for each thread and each processor.
const ONE_OF: [usize; WHOSE] = [2, 2, 2, 2, 2, 2, 2, 4];
/// The same in bytes; 0: not now.
static LIMITS: [AtomicU64; WHOSE] = [const { AtomicU64::new(0) }; WHOSE];

/// What can be promised: anybody may have what there is beside.
pub fn for_promises() -> u64 {
    size() / 32 * PROMISED
}

impl PutBy {
    fn layout() -> Layout {
        // SAFETY: a power of two, and a size far from the greatest.
        unsafe { Layout::from_size_align_unchecked(BLOCK, STEP) }
    }

    /// Whether at least one block of so many is there.
    fn is_enough(&self, one_of: usize) -> bool {
        one_of * self.held.load(Ordering::Relaxed) >= self.wanted.load(Ordering::Relaxed)
    }

    /// Puts by what is missing, as far as there is such a piece.
    fn close(&self, at: usize, shared: &mut Shared) {
        for n in self.held.load(Ordering::Relaxed)..self.wanted.load(Ordering::Relaxed) {
            // SAFETY: its size is not zero.
            let Some(block) = (unsafe { shared.allocate(PutBy::layout()) }) else { break };
            // SAFETY: it has room for a word, and is nobody else's.
            unsafe { block.cast::<usize>().write(self.first.load(Ordering::Relaxed)) };
            self.first.store(block.as_ptr() as usize, Ordering::Relaxed);
            self.held.store(n + 1, Ordering::Relaxed);
        }
        self.set_limits(at);
    }

    /// Lets one of its blocks be used. Whether there was one.
    fn open(&self, at: usize, shared: &mut Shared) -> bool {
        let block = self.first.load(Ordering::Relaxed);
        if block == 0 {
            return false;
        }
        // SAFETY: it was put by, with this layout; its first word is the next one's address.
        unsafe {
            self.first.store((block as *const usize).read(), Ordering::Relaxed);
            shared.deallocate(block as *mut u8, PutBy::layout());
        }
        self.held.fetch_sub(1, Ordering::Relaxed);
        self.set_limits(at);
        true
    }

    /// Who may use something as long as this is there may, or not.
    fn set_limits(&self, at: usize) {
        let is_great_there = at == PARTS.len() - 1 || is_great_there();
        for whose in (0..WHOSE).filter(|whose| UNTIL[*whose] == at) {
            let limit = match may_be_used(whose) {
                _ if !is_great_there || !self.is_enough(ONE_OF[whose]) => 0,
                ANY => ANY,
                parts => size() / 32 * parts,
            };
            LIMITS[whose].store(limit, Ordering::Relaxed);
        }
    }
}

/// Bytes that were taken out of the shared heap and not brought back, those on shelves included. Changed with the lock.
static TAKEN: AtomicU64 = AtomicU64::new(0);

fn take(bytes: usize) {
    TAKEN.store(TAKEN.load(Ordering::Relaxed).wrapping_add(bytes as u64), Ordering::Relaxed);
}

fn bring_back(bytes: usize) {
    TAKEN.store(TAKEN.load(Ordering::Relaxed).wrapping_sub(bytes as u64), Ordering::Relaxed);
}

/// Whether anybody may have something, whatever was promised.
#[inline(always)]
pub fn is_plenty() -> bool {
    // Less is in use than was taken: mostly that says enough.
    TAKEN.load(Ordering::Relaxed) < LIMITS[Heap::Anybody as usize].load(Ordering::Relaxed)
}

/// Whether there is something left for these beside so many bytes, and the heap is not in pieces: looks how much is in use; and whether there are as
/// many great pieces as there should be, if there were not.
#[cold]
pub fn has_room(whose: Heap, beside: u64) -> bool {
    let limit = &LIMITS[whose as usize];
    if limit.load(Ordering::Relaxed) == 0 && !close(whose) {
        return false;
    }
    let is_less = |bytes: u64| bytes.saturating_add(beside) < limit.load(Ordering::Relaxed);
    is_less(TAKEN.load(Ordering::Relaxed)) || is_less(used())
}

/// Puts by what these need there. Whether it is.
fn close(whose: Heap) -> bool {
    let shared = &mut HEAP.0.lock();
    // What is opened last is put by first.
    if UNTIL[whose as usize] < PARTS.len() - 1 && !close_great(shared) {
        return false;
    }
    for (at, one) in PUT_BY.iter().enumerate().skip(UNTIL[whose as usize]).rev() {
        one.close(at, shared);
        if !one.is_enough(if at == UNTIL[whose as usize] { ONE_OF[whose as usize] } else { 2 }) {
            return false;
        }
    }
    true
}

/// What each processor keeps for itself.
#[repr(align(64))]
struct Own(UnsafeCell<Shelf>);

// SAFETY: each processor uses its own one only.
unsafe impl Sync for Own {}

static SHELVES: [Own; PROCESSORS_MAX] = [const { Own(UnsafeCell::new(Shelf::new())) }; PROCESSORS_MAX];

/// Where processor `index` finds its shelf.
pub(crate) fn shelf_of(index: usize) -> u64 {
    SHELVES[index].0.get() as u64
}

/// This processor's shelf.
///
/// # Safety
/// The caller keeps no two references to it, nor one across anything that allocates.
#[inline(always)]
unsafe fn shelf() -> &'static mut Shelf {
    // SAFETY: `percpu::set_up` has put its address there before anything is allocated. Only this processor uses this one; the kernel runs with
    // interrupts off, and what interrupts it all the same (NMI, machine check) allocates nothing. The caller's promise is that there is no other
    // reference here.
    unsafe { &mut *(percpu::word::<{ percpu::SHELF }>() as *mut Shelf) }
}

/// Counts bytes that are had here, or less. Nobody else writes the counter, so that this takes no locked instruction.
#[inline(always)]
fn count(bytes: u64) {
    percpu::set_word::<{ percpu::HEAP_USED }>(percpu::word::<{ percpu::HEAP_USED }>().wrapping_add(bytes));
}

/// What the shared heap is asked for in place of an object of this size.
fn rounded(size: Size) -> Layout {
    // SAFETY: a power of two, and a size far from the greatest.
    unsafe { Layout::from_size_align_unchecked(size.bytes(), STEP) }
}

/// Takes an object from the shared heap, and opens what is put by if there is no other.
///
/// # Safety
/// Its size is not zero.
unsafe fn allocate(shared: &mut Shared, layout: Layout) -> Option<NonNull<u8>> {
    // What is longer than a block has no room in one.
    let has_room = layout.size() <= BLOCK - PAGE;
    loop {
        // SAFETY: the caller's promise.
        let object = unsafe { shared.allocate(layout) };
        if object.is_some() {
            return object;
        }
        if has_room && PUT_BY.iter().enumerate().any(|(at, one)| one.open(at, shared)) {
            continue;
        }
        let object = in_a_row(layout);
        if object.is_some() || !open_great(shared) {
            return object;
        }
    }
}

/// Frames in a row with room for an object that the heap has none for.
#[cold]
fn in_a_row(layout: Layout) -> Option<NonNull<u8>> {
    if layout.align() > PAGE {
        return None;
    }
    let run = Run::take(layout.size().div_ceil(PAGE) as u64, 1, 0).ok()?;
    NonNull::new(direct(run.into_address()))
}

/// Gives an object back to where it is from.
///
/// # Safety
/// It is from [`allocate`], with this layout, and nobody's any more.
unsafe fn deallocate(shared: &mut Shared, ptr: *mut u8, layout: Layout) {
    let [begin, end] = [0, 1].map(|at| WHERE[at].load(Ordering::Relaxed));
    if (begin..end).contains(&(ptr as usize)) {
        // SAFETY: the caller's promise.
        unsafe { shared.deallocate(ptr, layout) };
    } else {
        drop(Run::of_address(physical_of(ptr), layout.size().div_ceil(PAGE) as u64));
    }
}

/// Where the heap begins and ends.
static WHERE: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

const PAGE: usize = 4096;

impl All {
    /// The shelf has none of this size: so many at once come from the shared heap.
    #[cold]
    fn fetch(&self, size: Size) -> *mut u8 {
        let mut shared = self.0.lock();
        // SAFETY: no other reference lives, and nothing here allocates by the shelf.
        let shelf = unsafe { shelf() };
        for n in 0..size.batch() {
            // Nothing is opened for more than the one that is asked for.
            // SAFETY: its size is not zero.
            let object =
                unsafe { if n == 0 { allocate(&mut shared, rounded(size)) } else { shared.allocate(rounded(size)) } };
            let Some(object) = object else { break };
            take(size.bytes());
            shelf.put(size, object.as_ptr() as usize);
        }
        shelf.take(size).map_or(core::ptr::null_mut(), |object| object as *mut u8)
    }

    /// The shelf has no room for another one of this size: so many at once go back.
    ///
    /// # Safety
    /// The object is nobody's, and was had with this size.
    #[cold]
    unsafe fn bring(&self, size: Size, object: *mut u8) {
        let mut shared = self.0.lock();
        // SAFETY: no other reference lives, and nothing here allocates by the shelf.
        let shelf = unsafe { shelf() };
        for _ in 0..size.batch() {
            let Some(kept) = shelf.take(size) else { break };
            // SAFETY: what is on a shelf is from the shared heap, with this layout, and nobody's.
            unsafe { deallocate(&mut shared, kept as *mut u8, rounded(size)) };
            bring_back(size.bytes());
        }
        shelf.put(size, object as usize);
    }
}

// SAFETY: an object is the shared heap's or, of the sizes of shelves, from there by a shelf: with the same layout on its way out and back.
unsafe impl GlobalAlloc for All {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as u64);
        let Some(size) = Size::of(layout.size(), layout.align()) else {
            let shared = &mut self.0.lock();
            // SAFETY: the caller's promise.
            let object = unsafe { allocate(shared, layout) }.inspect(|_| take(layout.size()));
            return object.map_or(core::ptr::null_mut(), NonNull::as_ptr);
        };
        // SAFETY: the reference ends here.
        match unsafe { shelf() }.take(size) {
            Some(object) => object as *mut u8,
            None => self.fetch(size),
        }
    }

    // SAFETY: the caller's promise is that the object is from `alloc`, with this layout, and nobody's any more.
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count((layout.size() as u64).wrapping_neg());
        let Some(size) = Size::of(layout.size(), layout.align()) else {
            let shared = &mut self.0.lock();
            bring_back(layout.size());
            // SAFETY: the caller's promise.
            return unsafe { deallocate(shared, ptr, layout) };
        };
        // SAFETY: the reference ends here.
        if !unsafe { shelf() }.put(size, ptr as usize) {
            // SAFETY: no reference lives; the object is nobody's any more.
            unsafe { self.bring(size, ptr) };
        }
    }
}

/// Claims an eighth of memory, between 8 MiB and 1 GiB.
pub(crate) fn set_up(command_line: &str) {
    let needed = command_line.split(' ').find_map(|word| word.strip_prefix("needed="));
    NEEDED.store(needed.and_then(|parts| parts.parse().ok()).unwrap_or(ANY), Ordering::Relaxed);
    let (free, _) = frames::count();
    let mut len = (free * 4096 / 8).clamp(8 << 20, 1 << 30) / (2 << 20) * (2 << 20);
    let base = loop {
        match frames::take_run(len) {
            Some(base) => break base,
            None => len /= 2,
        }
        assert!(len >= 1 << 20, "the machine has too little memory for the kernel");
    };
    let shared = &mut HEAP.0.lock();
    // SAFETY: the run is ours alone.
    unsafe { shared.claim(direct(base), len as usize) };
    WHERE[0].store(direct(base) as usize, Ordering::Relaxed);
    WHERE[1].store(direct(base) as usize + len as usize, Ordering::Relaxed);
    let wanted = PARTS.map(|part| (len as usize / part as usize / BLOCK).clamp(1, BLOCKS_MAX));
    GREAT[0].store((len as usize / GREAT_PART).min(GREAT_MAX), Ordering::Relaxed);
    let put_by = wanted.iter().sum::<usize>() * BLOCK + great().size();
    MACHINE.heap.store(len - put_by as u64, Ordering::Relaxed);
    assert!(close_great(shared), "it is a part of it");
    for ((at, one), wanted) in PUT_BY.iter().enumerate().zip(wanted) {
        one.wanted.store(wanted, Ordering::Relaxed);
        one.close(at, shared);
        assert!(one.held.load(Ordering::Relaxed) == wanted, "what is put by is a part of it");
    }
}

/// Bytes of the kernel's heap that are in use. (What lies on shelves is not.)
#[inline]
pub fn used() -> u64 {
    let used = (0..percpu::count()).map(|index| percpu::block_of(index).counters.heap_used.load(Ordering::Relaxed));
    used.fold(0, u64::wrapping_add)
}

/// Size of the kernel's heap, bytes, without what is put by.
pub fn size() -> u64 {
    MACHINE.heap.load(Ordering::Relaxed)
}
