//! What was cut off a map.

use crate::Page;
use crate::chunk::Chunk;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Pages that were cut off. They are there for as long as it is: what a clone goes on using is let go of 512 pages at a time, whoever is the last one.
#[derive(Debug)]
pub struct Cut<P> {
    pub(crate) pages: Vec<P>,
    pub(crate) chunks: Vec<Arc<Chunk<P>>>,
}

impl<P> Default for Cut<P> {
    fn default() -> Cut<P> {
        Cut { pages: Vec::new(), chunks: Vec::new() }
    }
}

impl<P: Page> Cut<P> {
    /// How many pages these are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.pages.len() as u64 + self.chunks.iter().map(|chunk| chunk.resident()).sum::<u64>()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pages.
    pub fn pages(&self) -> impl Iterator<Item = &P> {
        self.pages.iter().chain(self.chunks.iter().flat_map(|chunk| chunk.pages()))
    }
}
