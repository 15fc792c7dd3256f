//! The heap: one section that grows. Its ACL names this text for any principal, since threads of every client come
//! here through gates and use the same heap.
//!
//! A server's ([`keep`]) consists of pages that are there: a store to one finds no memory too late, in the middle of something. And it holds some
//! blocks back, for what has begun when there is no more (`rt::spare`).

use abi::Error;
use abi::calls::stub;
use abi::layout::{PAGE, pages_up};
use abi::section::{flag, kind};
use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use talc::TalcLock;
use talc::base::Talc;
use talc::base::binning::Binning;
use talc::source::Source;

use crate::spare::SHORT;
use crate::sync::RawLock;
use crate::{Trap, section};

/// Address space set aside for the first section of a heap. Each further one is twice as long: a machine has room for thousands
/// of programs, and a program for a large heap without many sections.
const RESERVE: u64 = 64 << 20;
const RESERVE_MOST: u64 = 16 << 30;
/// The heap grows by at least this much; pages get memory only when they are touched.
const STEP: u64 = 1 << 20;
/// The same where they have it at once.
const STEP_KEPT: u64 = 64 << 10;

/// What is held back: so many blocks, each whole, so that as much can be had again from any pieces of this size.
const BLOCKS: usize = 8;
const BLOCK: Layout = match Layout::from_size_align(16 << 10, 16) {
    Ok(layout) => layout,
    Err(_) => unreachable!(),
};

#[global_allocator]
static HEAP: TalcLock<RawLock, Sections> =
    TalcLock::new(Sections { base: 0, len: 0, reserve: 0, end: None, kept: None, filling: false });

/// The section that the heap grows in.
#[derive(Debug)]
struct Sections {
    base: u64,
    len: u64,
    reserve: u64,
    end: Option<NonNull<u8>>,
    /// A server's: what of its blocks it has.
    kept: Option<[Option<NonNull<u8>>; BLOCKS]>,
    /// They are being allocated: none is given up for that.
    filling: bool,
}

// SAFETY: the pointers are addresses that every thread in this text may use; the lock around the heap orders their uses.
unsafe impl Send for Sections {}

impl Sections {
    fn held(&self) -> usize {
        self.kept.iter().flatten().flatten().count()
    }

    /// Whether these new pages, which nobody uses yet, may become a part of the heap.
    fn are_there(&self, at: u64, len: u64) -> bool {
        self.kept.is_none() || section::alloc(at, len).is_ok()
    }
}

// SAFETY: only kernel calls here, and blocks that are freed; nothing that allocates.
unsafe impl Source for Sections {
    fn acquire<B: Binning>(talc: &mut Talc<Self, B>, layout: Layout) -> Result<(), ()> {
        grow(talc, layout).or_else(|()| give_up(talc, layout))
    }
}

fn grow<B: Binning>(talc: &mut Talc<Sections, B>, layout: Layout) -> Result<(), ()> {
    // Room for the object, its alignment and the allocator's own records.
    let need = (layout.size() as u64).checked_add(layout.align() as u64 + PAGE).ok_or(())?;
    let step = pages_up(need).ok_or(())?.max(if talc.source.kept.is_some() { STEP_KEPT } else { STEP });
    let (base, len) = (talc.source.base, talc.source.len);
    let new_len = len + step;
    if let Some(end) = talc.source.end.filter(|_| new_len <= talc.source.reserve) {
        stub::section_resize(&Trap, base, new_len).map_err(drop)?;
        if !talc.source.are_there(base + len, step) {
            let _ = stub::section_resize(&Trap, base, len);
            return Err(());
        }
        let new_end = (base + new_len) as *mut u8;
        talc.source.len = new_len;
        // SAFETY: `end` is the end of the heap that lies in this section, and the section now goes on to `new_end`.
        talc.source.end = Some(unsafe { talc.extend(end, new_end) });
        return Ok(());
    }
    let reserve = (2 * talc.source.reserve).clamp(RESERVE, RESERVE_MOST).max(step);
    let base = stub::section_create(&Trap, step, reserve, kind::DATA, flag::ANY_PRINCIPAL, 0, 0).map_err(drop)?;
    let _ = stub::section_name(&Trap, base, b"heap".as_ptr() as u64, 4);
    if !talc.source.are_there(base, step) {
        let _ = stub::section_delete(&Trap, base);
        return Err(());
    }
    // SAFETY: the section is new and nobody else knows its address.
    let end = unsafe { talc.claim(base as *mut u8, step as usize) }.ok_or(())?;
    talc.source.base = base;
    talc.source.len = step;
    talc.source.reserve = reserve;
    talc.source.end = Some(end);
    Ok(())
}

/// There is no more: a block that is held back is freed for this, if it may become enough.
#[cold]
fn give_up<B: Binning>(talc: &mut Talc<Sections, B>, layout: Layout) -> Result<(), ()> {
    if talc.source.filling || layout.size() > talc.source.held() * BLOCK.size() {
        return Err(());
    }
    let block = talc.source.kept.iter_mut().flatten().find_map(Option::take).ok_or(())?;
    SHORT.store(true, Ordering::Relaxed);
    // SAFETY: `fill` has allocated it with this layout, and nobody uses it.
    unsafe { talc.deallocate(block.as_ptr(), BLOCK) };
    Ok(())
}

/// Holds back what is missing, as far as it is to be had.
///
/// # Errors
/// `NoMemory`: that was not all.
fn fill<B: Binning>(talc: &mut Talc<Sections, B>) -> Result<(), Error> {
    talc.source.filling = true;
    while talc.source.held() < BLOCKS {
        // SAFETY: blocks are not empty.
        let Some(block) = (unsafe { talc.allocate(BLOCK) }) else { break };
        let place = talc.source.kept.iter_mut().flatten().find(|place| place.is_none());
        *place.expect("one is missing") = Some(block);
    }
    talc.source.filling = false;
    let is_short = talc.source.held() < BLOCKS;
    SHORT.store(is_short, Ordering::Relaxed);
    if is_short { Err(Error::NoMemory) } else { Ok(()) }
}

/// From now on this is a server's heap.
///
/// # Errors
/// `NoMemory`: there is not even what it holds back.
pub fn keep() -> Result<(), Error> {
    let mut guard = HEAP.lock();
    let talc = &mut *guard;
    if talc.source.kept.is_none() {
        talc.source.kept = Some([None; BLOCKS]);
        // What was never used is given back first.
        if let Some(end) = talc.source.end {
            let (base, least) = (talc.source.base, (talc.source.base + PAGE) as *mut u8);
            // SAFETY: the end of the heap in this section, as it was told last.
            let end = unsafe { talc.truncate(end, least) }.ok_or(Error::NoMemory)?;
            let len = pages_up(end.as_ptr() as u64 - base).ok_or(Error::NoMemory)?;
            // SAFETY: the same; and the section goes on to there, as before.
            talc.source.end = Some(unsafe { talc.extend(end, (base + len) as *mut u8) });
            talc.source.len = len;
            stub::section_resize(&Trap, base, len)?;
            section::alloc(base, len)?;
        }
    }
    fill(talc)
}

/// [`crate::spare::ready`], where some of it was used.
#[cold]
#[inline(never)]
pub fn refill() -> Result<(), Error> {
    fill(&mut HEAP.lock())
}
