//! Pages in a row: those of a chunk, or of many, whose memory is in a row, so that larger pages can be mapped there. They go on being pages, each by itself;
//! what is said here is only that nothing has come in between.

use crate::chunk::{CHUNK, Chunk};
use crate::{Page, PageMap, parts};
use alloc::sync::Arc;

/// How pages in a row may be mapped as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// Nobody else has any of them.
    Alone,
    /// Clones have all of them: to be read.
    Shared,
}

impl<P: Page> PageMap<P> {
    /// Looks for rows in the chunks that lie in a range wholly. `place` says where the memory of a page is, counted in pages.
    pub fn join(&mut self, first: u64, count: u64, place: impl Fn(&P) -> u64) {
        for (chunk, ..) in parts(first, count).filter(|(_, _, some)| *some as u64 == CHUNK) {
            if let Some(chunk) = self.chunks.get_mut(chunk).and_then(Arc::get_mut) {
                chunk.join(&place);
            }
        }
    }

    /// Whether the chunk of a page is in a row, and how it may be mapped. `None`: not as one. (With a store to it it is no row any more if it is shared.)
    #[inline]
    pub fn row(&mut self, page: u64) -> Option<Row> {
        let chunk = self.chunks.get_mut((page / CHUNK) as usize)?;
        if chunk.is_row() { row(chunk) } else { None }
    }

    /// The same of `count` chunks from the one at `page` on, if they are in a row with each other, too. (Of those that may have been shared, not every page is looked at.)
    pub fn rows(&self, page: u64, count: u64, place: impl Fn(&P) -> u64) -> Option<Row> {
        let first = (page / CHUNK) as usize;
        let all = first..first.checked_add(count as usize)?;
        let one = |chunk: usize| {
            let chunk = self.chunks.get(chunk).filter(|chunk| chunk.is_row())?;
            let row = match chunk.is_exclusive() {
                false => Row::Shared,
                true if chunk.is_alone() => Row::Alone,
                true => return None,
            };
            Some((place(chunk.get(0)?), row))
        };
        let (at, row) = one(first)?;
        let mut places = (at..).step_by(CHUNK as usize).zip(all);
        places.all(|(at, chunk)| one(chunk) == Some((at, row))).then_some(row)
    }
}

#[cold]
fn row<P: Page>(chunk: &mut Arc<Chunk<P>>) -> Option<Row> {
    match Arc::get_mut(chunk) {
        None => Some(Row::Shared),
        Some(chunk) => (chunk.is_alone() || chunk.find_alone()).then_some(Row::Alone),
    }
}
