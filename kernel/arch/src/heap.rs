//! The kernel's heap: one run of memory, claimed at boot. What lives in it is charged to quotas before it is made. Small objects are had from
//! and go back to the shelf of the processor, so that nothing on a hot path takes the lock of the whole (invariant 33).

use crate::cpu::PROCESSORS_MAX;
use crate::frames;
use crate::image::direct;
use crate::percpu;
use crate::shown::MACHINE;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::sync::atomic::Ordering;
use shelf::{STEP, Shelf, Size};
use talc::TalcLock;
use talc::source::Manual;

struct Heap(TalcLock<spin::Mutex<()>, Manual>);

#[global_allocator]
static HEAP: Heap = Heap(TalcLock::new(Manual));

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

impl Heap {
    /// The shelf has none of this size: so many at once come from the shared heap.
    #[cold]
    fn fetch(&self, size: Size) -> *mut u8 {
        let mut shared = self.0.lock();
        // SAFETY: no other reference lives, and nothing here allocates by the shelf.
        let shelf = unsafe { shelf() };
        for _ in 0..size.batch() {
            // SAFETY: its size is not zero.
            let Some(object) = (unsafe { shared.allocate(rounded(size)) }) else { break };
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
            unsafe { shared.deallocate(kept as *mut u8, rounded(size)) };
        }
        shelf.put(size, object as usize);
    }
}

// SAFETY: an object is the shared heap's or, of the sizes of shelves, from there by a shelf: with the same layout on its way out and back.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as u64);
        let Some(size) = Size::of(layout.size(), layout.align()) else {
            // SAFETY: the caller's promise.
            return unsafe { self.0.alloc(layout) };
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
            // SAFETY: the caller's promise.
            return unsafe { self.0.dealloc(ptr, layout) };
        };
        // SAFETY: the reference ends here.
        if !unsafe { shelf() }.put(size, ptr as usize) {
            // SAFETY: no reference lives; the object is nobody's any more.
            unsafe { self.bring(size, ptr) };
        }
    }
}

/// Claims an eighth of memory, between 8 MiB and 1 GiB.
pub(crate) fn set_up() {
    let (free, _) = frames::count();
    let mut len = (free * 4096 / 8).clamp(8 << 20, 1 << 30) / (2 << 20) * (2 << 20);
    let base = loop {
        match frames::take_run(len) {
            Some(base) => break base,
            None => len /= 2,
        }
        assert!(len >= 1 << 20, "the machine has too little memory for the kernel");
    };
    MACHINE.heap.store(len, Ordering::Relaxed);
    // SAFETY: the run is ours alone.
    unsafe { HEAP.0.lock().claim(direct(base), len as usize) };
}

/// Size and use of the kernel's heap, bytes. (What lies on shelves is not in use.)
pub fn usage() -> (u64, u64) {
    let used = (0..percpu::count()).map(|index| percpu::block_of(index).counters.heap_used.load(Ordering::Relaxed));
    (MACHINE.heap.load(Ordering::Relaxed), used.fold(0, u64::wrapping_add))
}
