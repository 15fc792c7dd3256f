//! The kernel's heap: one run of memory, claimed at boot. What lives in it is charged to quotas before it is made.

use crate::frames;
use crate::image::direct;
use core::sync::atomic::{AtomicU64, Ordering};
use talc::TalcLock;
use talc::source::Manual;

struct Counting(TalcLock<spin::Mutex<()>, Manual>);

#[global_allocator]
static HEAP: Counting = Counting(TalcLock::new(Manual));

static SIZE: AtomicU64 = AtomicU64::new(0);
static USED: AtomicU64 = AtomicU64::new(0);

// SAFETY: passes everything to talc; the counter has no influence.
unsafe impl core::alloc::GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: core::alloc::Layout) -> *mut u8 {
        USED.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { self.0.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: core::alloc::Layout) {
        USED.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { self.0.dealloc(ptr, layout) }
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
    SIZE.store(len, Ordering::Relaxed);
    // SAFETY: the run is ours alone.
    unsafe { HEAP.0.lock().claim(direct(base), len as usize) };
}

/// Size and use of the kernel's heap, bytes.
pub fn usage() -> (u64, u64) {
    (SIZE.load(Ordering::Relaxed), USED.load(Ordering::Relaxed))
}
