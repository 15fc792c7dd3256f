//! Pages that the kernel writes and every program may read (SSS-76), while they are also where it keeps these words itself.

use crate::frames::Frame;
use crate::image::{DIRECT, IMAGE, direct};
use abi::info::layout::Machine as Shown;
use core::mem::offset_of;
use core::sync::atomic::AtomicU64;

/// Whether what only programs read is written at all. (Who runs where and how many short calls there were is read by the kernel, too.)
pub const TOLD: bool = !cfg!(feature = "untold");

/// A page of words. Static, or of a frame that is never given back.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Page(pub [AtomicU64; 512]);

impl Page {
    /// One of zeroes.
    #[expect(clippy::new_without_default, reason = "a constant")]
    pub const fn new() -> Page {
        Page([const { AtomicU64::new(0) }; 512])
    }

    /// A new one; `None` when memory is used up.
    pub fn lasting() -> Option<&'static Page> {
        let frame = Frame::lasting()?;
        // SAFETY: a whole page that is never given back, of words that are only used at once.
        Some(unsafe { &*(direct(frame.address()) as *const Page) })
    }

    /// The frame that it is.
    pub fn frame(&'static self) -> Frame {
        Frame::of_image(core::ptr::from_ref(self) as u64)
    }
}

/// What the machine has: `abi::info::layout::Machine`, word by word.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Machine {
    /// Frames.
    pub(crate) total: AtomicU64,
    pub(crate) free: AtomicU64,
    /// The last frames, which are not for everybody.
    pub(crate) reserve: AtomicU64,
    /// Bytes of the heap.
    pub(crate) heap: AtomicU64,
    /// Page tables of views, in frames.
    pub views: AtomicU64,
    pub sections: AtomicU64,
    pub tasks: AtomicU64,
    pub threads: AtomicU64,
    /// Base of the trace's section, and of the one that is the right to place texts.
    pub trace: AtomicU64,
    pub placing: AtomicU64,
    /// Frames that users may still come for, and bytes of the heap.
    pub owed: AtomicU64,
    pub owed_heap: AtomicU64,
    /// Frames of the info sections' tables.
    pub records: AtomicU64,
}

const _: () = assert!(offset_of!(Machine, records) == offset_of!(Shown, records));

pub static MACHINE: Machine = Machine {
    total: AtomicU64::new(0),
    free: AtomicU64::new(0),
    reserve: AtomicU64::new(0),
    heap: AtomicU64::new(0),
    views: AtomicU64::new(0),
    sections: AtomicU64::new(0),
    tasks: AtomicU64::new(0),
    threads: AtomicU64::new(0),
    trace: AtomicU64::new(0),
    placing: AtomicU64::new(0),
    owed: AtomicU64::new(0),
    owed_heap: AtomicU64::new(0),
    records: AtomicU64::new(0),
};

impl Machine {
    /// The page that it is.
    pub fn page(&'static self) -> Frame {
        Frame::of_image(core::ptr::from_ref(self) as u64)
    }
}

/// The physical address of something in the image or in the direct map.
pub(crate) fn physical(address: u64) -> u64 {
    if address >= IMAGE { address - IMAGE } else { address - DIRECT }
}
