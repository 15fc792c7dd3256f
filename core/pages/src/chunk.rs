//! 512 pages in a row: what clones share as a whole.

use crate::Page;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Pages in a chunk: as many as one page table maps.
pub(crate) const CHUNK: u64 = 512;

#[derive(Clone, Debug)]
pub(crate) struct Chunk<P> {
    /// Only as long as the last page that was needed, because most sections are small.
    pages: Vec<Option<P>>,
    resident: u64,
}

impl<P: Page> Chunk<P> {
    pub(crate) fn new() -> Chunk<P> {
        Chunk { pages: Vec::new(), resident: 0 }
    }

    pub(crate) fn get(&self, at: usize) -> Option<&P> {
        self.pages.get(at)?.as_ref()
    }

    pub(crate) fn put(&mut self, at: usize, page: P) -> Option<P> {
        if at >= self.pages.len() {
            self.pages.resize_with(at + 1, || None);
        }
        let old = self.pages[at].replace(page);
        self.resident += u64::from(old.is_none());
        old
    }

    /// Moves the pages from `at` on to `cut`.
    pub(crate) fn cut(&mut self, at: usize, cut: &mut Vec<P>) {
        let before = cut.len();
        cut.extend(self.pages.drain(at.min(self.pages.len())..).flatten());
        self.resident -= (cut.len() - before) as u64;
    }

    pub(crate) fn resident(&self) -> u64 {
        self.resident
    }

    pub(crate) fn pages(&self) -> impl Iterator<Item = &P> {
        self.pages.iter().flatten()
    }

    /// Gives up this reference to a chunk, and hands out a reference to each of its pages: the chunk's other owner may
    /// let go of it at any time, and then these are the last.
    pub(crate) fn take(chunk: Arc<Chunk<P>>, out: &mut Vec<P>) {
        match Arc::try_unwrap(chunk) {
            Ok(own) => out.extend(own.pages.into_iter().flatten()),
            Err(shared) => out.extend(shared.pages().cloned()),
        }
    }
}
