//! The heap: one section that grows. Its ACL names this text for any principal, since threads of every client come
//! here through gates and use the same heap.

use abi::calls::stub;
use abi::layout::{PAGE, pages_up};
use abi::section::{flag, kind};
use core::alloc::Layout;
use core::ptr::NonNull;
use talc::TalcLock;
use talc::base::Talc;
use talc::base::binning::Binning;
use talc::source::Source;

use crate::Trap;
use crate::sync::RawLock;

/// Address space set aside for the first section of a heap. Each further one is twice as long: a machine has room for thousands
/// of programs, and a program for a large heap without many sections.
const RESERVE: u64 = 64 << 20;
const RESERVE_MOST: u64 = 16 << 30;
/// The heap grows by at least this much; pages get memory only when they are touched.
const STEP: u64 = 1 << 20;

#[global_allocator]
static HEAP: TalcLock<RawLock, Sections> = TalcLock::new(Sections { base: 0, len: 0, reserve: 0, end: None });

/// The section that the heap grows in.
#[derive(Debug)]
struct Sections {
    base: u64,
    len: u64,
    reserve: u64,
    end: Option<NonNull<u8>>,
}

// SAFETY: the pointer is an address that every thread in this text may use; the lock around the heap orders its uses.
unsafe impl Send for Sections {}

// SAFETY: only kernel calls here, nothing that allocates.
unsafe impl Source for Sections {
    fn acquire<B: Binning>(talc: &mut Talc<Self, B>, layout: Layout) -> Result<(), ()> {
        // Room for the object, its alignment and the allocator's own records.
        let need = (layout.size() as u64).checked_add(layout.align() as u64 + PAGE).ok_or(())?;
        let step = pages_up(need).ok_or(())?.max(STEP);
        let new_len = talc.source.len + step;
        if let Some(end) = talc.source.end.filter(|_| new_len <= talc.source.reserve) {
            stub::section_resize(&Trap, talc.source.base, new_len).map_err(drop)?;
            let new_end = (talc.source.base + new_len) as *mut u8;
            talc.source.len = new_len;
            // SAFETY: `end` is the end of the heap that lies in this section, and the section now goes on to `new_end`.
            talc.source.end = Some(unsafe { talc.extend(end, new_end) });
            return Ok(());
        }
        let reserve = (2 * talc.source.reserve).clamp(RESERVE, RESERVE_MOST).max(step);
        let base = stub::section_create(&Trap, step, reserve, kind::DATA, flag::ANY_PRINCIPAL, 0, 0).map_err(drop)?;
        let _ = stub::section_name(&Trap, base, b"heap".as_ptr() as u64, 4);
        // SAFETY: the section is new and nobody else knows its address.
        let end = unsafe { talc.claim(base as *mut u8, step as usize) }.ok_or(())?;
        talc.source.base = base;
        talc.source.len = step;
        talc.source.reserve = reserve;
        talc.source.end = Some(end);
        Ok(())
    }
}
