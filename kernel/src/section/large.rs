//! Real pages with attributes (SSS-38): of 2 MiB and 1 GiB, and with memory in a row. In a section they are as many pages of 4 KiB, which are mapped as one as long
//! as all of them are the same to whoever sees them (core/pages).

use super::real::{open, show_all};
use super::{Section, State};
use crate::claim;
use crate::domain::Domain;
use crate::promise;
use abi::info::feature;
use abi::layout::{PAGE, pages_up};
use abi::section::{kind, real};
use abi::Error;
use alloc::boxed::Box;
use alloc::sync::Arc;
use arch::cpu::has;
use arch::frames::{Frame, Run, Why};
use core::ops::Range;
use pages::{CHUNK, Row};
use quota::Resource;

/// Sizes of large pages, in pages.
const MIB2: u64 = CHUNK;
const GIB: u64 = CHUNK * CHUNK;

/// A page of a section as it may be mapped.
#[derive(Clone, Copy)]
pub struct Large {
    pub first: u64,
    /// Bytes.
    pub size: u64,
    /// Nobody else has any of it.
    pub writable: bool,
}

impl Large {
    pub fn pages(&self) -> Range<u64> {
        self.first..self.first + self.size / PAGE
    }
}

/// What is had by several calls, between two of them.
pub struct Making {
    /// The page where it goes on.
    next: u64,
    run: Run,
}

/// Where the memory of a page is.
pub fn place(frame: &Arc<Frame>) -> u64 {
    frame.address() / PAGE
}

impl State {
    /// The largest page that a page is part of and that may be mapped as one. (Not if it is not plain for any of its parts what an access means.)
    #[inline]
    pub fn large(&mut self, section: &Section, page: u64) -> Option<Large> {
        let row = self.pages.row(page)?;
        self.large_in(section, page, row)
    }

    #[cold]
    fn large_in(&self, section: &Section, page: u64, row: Row) -> Option<Large> {
        if section.kind() != kind::DATA {
            return None;
        }
        let is_plain = |first, count| !self.invalid.has_any(first, count) && !self.paged.clean.has_any(first, count);
        let large = |first, count, row| {
            let writable = row == Row::Alone && !self.cloning;
            is_plain(first, count).then_some(Large { first, size: count * PAGE, writable })
        };
        let huge = self.begin(section, page, GIB).and_then(|first| self.pages.rows(first, GIB / CHUNK, place).and_then(|row| large(first, GIB, row)));
        huge.or_else(|| self.begin(section, page, MIB2).and_then(|first| large(first, MIB2, row)))
    }

    /// Whether a page that is there may be stored to without that anybody is told: it is shared with no clone, nor as its pager has it.
    #[inline]
    pub fn writable(&self, page: u64) -> bool {
        self.pages.writable(page) && !self.paged.clean.has(page)
    }

    /// Where a page of `size` would begin that this one is part of, if the processor can have one there.
    fn begin(&self, section: &Section, page: u64, size: u64) -> Option<u64> {
        let first = (section.base / PAGE + page) / size * size;
        let first = first.checked_sub(section.base / PAGE)?;
        let is_there = self.pages.get(first).is_some_and(|frame| place(frame).is_multiple_of(size));
        (is_there && (size < GIB || has(feature::PAGES_1G))).then_some(first)
    }

    /// Whether there is a page of this size already.
    fn has_large(&mut self, section: &Section, first: u64, size: u64) -> bool {
        let is_row = match size {
            MIB2 => self.pages.row(first).is_some(),
            GIB => self.pages.rows(first, GIB / CHUNK, place).is_some(),
            _ => false,
        };
        is_row && self.begin(section, first, size) == Some(first)
    }

    /// What is left of memory that was to come into the section goes back.
    #[inline(always)]
    pub fn give_up_making(&mut self) {
        if self.making.is_some() {
            self.give_up();
        }
    }

    #[cold]
    #[inline(never)]
    fn give_up(&mut self) {
        if let Some(making) = self.making.take() {
            let paid = making.run.left().min(self.charged);
            self.charged -= paid;
            self.owner.release(Resource::Frames, paid);
            self.show_charged();
        }
    }

    /// Begins to have `count` pages in a row from `first` on.
    fn begin_making(&mut self, first: u64, count: u64, align: u64) -> Result<(), Error> {
        // First paid: what is looked through is not longer than somebody has memory for.
        self.owner.charge(Resource::Frames, count)?;
        if self.pages.absent(first, count) < count {
            self.owner.release(Resource::Frames, count);
            return Err(Error::Exists);
        }
        let run = promise::take_run(&self.owner, count, align).map_err(|why| {
            self.owner.release(Resource::Frames, count);
            match why {
                Why::TooFew => Error::NoMemory,
                Why::Scattered => Error::Scattered,
            }
        })?;
        self.charged += count;
        self.making = Some(Box::new(Making { next: first, run }));
        Ok(())
    }

    /// Goes on having it: so much as one call does. How many pages, and whether these are the last.
    fn go_on_making(&mut self) -> Result<(u64, bool), Error> {
        claim::spare_heap_for_page(self)?;
        let Some(making) = &mut self.making else { return Ok((0, true)) };
        let (first, run) = (making.next, &mut making.run);
        let count = run.left().min(CHUNK - first % CHUNK);
        if self.pages.absent(first, count) < count {
            // Somebody has used them before they were made.
            return Err(Error::Exists);
        }
        self.pages.fill(first, count, || run.next_zeroed().map(Arc::new));
        making.next += count;
        let is_last = run.left() == 0;
        self.pages.join(first, count, place);
        if is_last {
            self.making = None;
        }
        self.show_charged();
        Ok((count, is_last))
    }
}

/// `page_alloc` with attributes.
///
/// # Errors
/// `BadArgument`: there are no such ones; `NotSupported`: the processor has no such pages; `BadAddress`: not whole pages of this size; as for
/// [`open`]; `Exists`: pages are there already; `MemoryQuota`, `NoMemory`, `Scattered`. What was had before in the same range stays.
#[inline(never)]
pub fn alloc(by: &Domain, address: u64, len: u64, attributes: u64) -> Result<u64, Error> {
    let size = real::size(attributes).ok_or(Error::BadArgument)? / PAGE;
    if size == GIB && !has(feature::PAGES_1G) {
        return Err(Error::NotSupported);
    }
    let section = Section::find(address).ok_or(Error::NotFound)?;
    let (mut guard, Range { start: first, .. }) = open(&section, by, address, len)?;
    let state = &mut *guard;
    let count = pages_up(len).ok_or(Error::BadAddress)? / PAGE;
    let goes_on = state.making.as_ref().is_some_and(|making| making.next == first && making.run.left() <= count);
    if !goes_on {
        state.give_up_making();
        if !(address / PAGE | count).is_multiple_of(size) {
            return Err(Error::BadAddress);
        }
        let in_a_row = attributes & real::CONTIGUOUS != 0;
        if !in_a_row && state.has_large(&section, first, size) {
            // (All of it is shown with any of its pages.)
            show_all(&section, guard, by, first..first + 1);
            return Ok(size * PAGE);
        }
        state.begin_making(first, if in_a_row { count } else { size }, size)?;
    }
    let (made, is_last) = state.go_on_making().inspect_err(|_| state.give_up_making())?;
    // One of 1 GiB is shown when all of it is there.
    if size < GIB || is_last {
        show_all(&section, guard, by, first..first + made);
    }
    Ok(made * PAGE)
}
