//! 512 pages in a row: what clones share as a whole.

use crate::Page;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Pages in a chunk: as many as one page table maps, or an entry of the next level.
pub const CHUNK: u64 = 512;

/// Bytes of a chunk without its pages, and of its place in a list.
const ITSELF: u64 = 160;

#[derive(Clone, Debug)]
pub(crate) struct Chunk<P> {
    /// Not much longer than for the last page that was needed, because most sections are small.
    pages: Vec<Option<P>>,
    resident: u64,
    /// The pages are in a row: all are there, and the memory of each follows that of the one before.
    row: bool,
    /// They are in a row, and nobody has had another reference to one of them, or to the chunk, since that was made sure of.
    alone: bool,
}

impl<P: Page> Chunk<P> {
    pub(crate) fn new() -> Chunk<P> {
        Chunk { pages: Vec::new(), resident: 0, row: false, alone: false }
    }

    pub(crate) fn get(&self, at: usize) -> Option<&P> {
        self.pages.get(at)?.as_ref()
    }

    /// Looks whether the pages are in a row.
    pub(crate) fn join(&mut self, place: impl Fn(&P) -> u64) {
        let first = self.get(0).map_or(0, &place);
        let mut places = (first..).zip(&self.pages);
        self.row =
            self.resident == CHUNK && places.all(|(at, page)| page.as_ref().is_some_and(|page| place(page) == at));
        self.find_alone();
    }

    pub(crate) fn is_row(&self) -> bool {
        self.row
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.alone
    }

    /// Looks whether each of the pages, which are in a row, is nobody else's.
    pub(crate) fn find_alone(&mut self) -> bool {
        self.alone = self.row && self.pages().all(P::is_exclusive);
        self.alone
    }

    /// Somebody is about to have another reference to it, or to one of its pages.
    pub(crate) fn is_shared_now(&mut self) {
        self.alone = false;
    }

    fn broken(&mut self) {
        (self.row, self.alone) = (false, false);
    }

    /// How many of its pages it has room for.
    #[inline(always)]
    pub(crate) fn room(&self) -> usize {
        self.pages.len()
    }

    /// Makes room for so many, and for some more, as a vector would: seldom. How much more memory it takes then.
    #[cold]
    #[inline(never)]
    pub(crate) fn grow(&mut self, room: usize) -> u64 {
        let before = self.bytes();
        self.pages.resize_with(room.next_power_of_two().max(4), || None);
        self.bytes() - before
    }

    /// What it takes in memory, and its place in a list, at the most.
    pub(crate) fn bytes(&self) -> u64 {
        if self.pages.is_empty() { 0 } else { ITSELF + (self.pages.len() * size_of::<Option<P>>()) as u64 }
    }

    /// Puts a page where there is room.
    pub(crate) fn put(&mut self, at: usize, page: P) -> Option<P> {
        self.broken();
        let old = self.pages[at].replace(page);
        self.resident += u64::from(old.is_none());
        old
    }

    pub(crate) fn remove(&mut self, at: usize) -> Option<P> {
        self.broken();
        let old = self.pages.get_mut(at)?.take();
        self.resident -= u64::from(old.is_some());
        old
    }

    /// Moves the pages from `at` on to `cut`. The room stays.
    pub(crate) fn cut(&mut self, at: usize, cut: &mut Vec<P>) {
        self.broken();
        let before = cut.len();
        let beyond = at.min(self.pages.len());
        cut.extend(self.pages[beyond..].iter_mut().filter_map(Option::take));
        self.resident -= (cut.len() - before) as u64;
    }

    /// Moves the pages of `[at, at + count)` out. How many these were.
    pub(crate) fn take_out(&mut self, at: usize, count: usize, out: &mut impl FnMut(P)) -> u64 {
        self.broken();
        let before = self.resident;
        let end = (at + count).min(self.pages.len());
        for place in self.pages.get_mut(at..end).into_iter().flatten() {
            if let Some(page) = place.take() {
                self.resident -= 1;
                out(page);
            }
        }
        before - self.resident
    }

    /// How many of these are there.
    #[inline]
    pub(crate) fn resident_in(&self, at: usize, count: usize) -> u64 {
        let end = (at + count).min(self.pages.len());
        if self.resident == 0 || (at, end) == (0, self.pages.len()) {
            // Where there are many chunks nobody looks at every page.
            return self.resident;
        }
        self.pages.get(at..end).map_or(0, |pages| pages.iter().filter(|page| page.is_some()).count() as u64)
    }

    /// Puts pages where there are none, but room. How many, and whether there was one for each.
    #[inline]
    pub(crate) fn fill(&mut self, at: usize, count: usize, make: &mut impl FnMut() -> Option<P>) -> (u64, bool) {
        let mut made = 0;
        let places = &mut self.pages[at..at + count];
        let all = places.iter_mut().filter(|place| place.is_none()).all(|place| {
            *place = make();
            made += u64::from(place.is_some());
            place.is_some()
        });
        self.resident += made;
        (made, all)
    }

    /// Whether any page of `[at, at + count)` is there.
    pub(crate) fn has_any(&self, at: usize, count: usize) -> bool {
        let end = (at + count).min(self.pages.len());
        self.pages.get(at..end).is_some_and(|pages| pages.iter().any(Option::is_some))
    }

    pub(crate) fn resident(&self) -> u64 {
        self.resident
    }

    /// Of each page from `at` on, as far as there is room, whether it is there.
    pub(crate) fn places(&self, at: usize) -> impl Iterator<Item = Option<&P>> {
        self.pages.iter().skip(at).map(Option::as_ref)
    }

    pub(crate) fn pages(&self) -> impl Iterator<Item = &P> {
        self.pages.iter().flatten()
    }

    /// Gives up this reference to a chunk, and hands out a reference to each of its pages: the chunk's other owner may
    /// let go of it at any time, and then these are the last.
    pub(crate) fn take(chunk: Arc<Chunk<P>>, out: &mut impl FnMut(P)) {
        match Arc::try_unwrap(chunk) {
            Ok(own) => own.pages.into_iter().flatten().for_each(out),
            Err(shared) => shared.pages().cloned().for_each(out),
        }
    }
}
