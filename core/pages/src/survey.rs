//! What the pages of a map are, counted part by part: a map may be long, and whoever holds it does so for a moment only.

use crate::chunk::{CHUNK, Chunk};
use crate::{Page, PageMap, split};
use alloc::sync::Arc;

/// What was counted of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    pub resident: u64,
    /// Of these somebody else holds, too.
    pub shared: u64,
    /// Of these lie in chunks that are in a row.
    pub in_rows: u64,
    /// How many pieces of memory begin there.
    pub pieces: u64,
}

impl<P: Page> PageMap<P> {
    /// Counts the pages from `from` on, in at most `most` chunks of 512 in which there are any. `place` says where the memory of a page is, counted in
    /// pages. Value: what was counted, and where that goes on; `None`: that was all. Nothing else is to be kept in between: whether a part begins in the
    /// middle of a piece is seen from the page before it.
    pub fn survey(&self, from: u64, most: usize, place: impl Fn(&P) -> u64) -> (Survey, Option<u64>) {
        let mut survey = Survey::default();
        let mut see = |next: &mut Option<u64>, at: Option<u64>, count: u64| {
            survey.pieces += u64::from(at.is_some() && at != *next);
            *next = at.map(|at| at + count);
        };
        // Where memory that goes on with that of the last page would be, and the chunk after it.
        let mut next = from.checked_sub(1).and_then(|before| self.get(before)).map(|before| place(before) + 1);
        let (mut behind, mut skip) = split(from);
        let mut chunks = self.chunks.from(behind);
        for (at, chunk) in chunks.by_ref().take(most) {
            if at > behind {
                // Nothing is there in between.
                (next, skip) = (None, 0);
            }
            let rest = CHUNK as usize - skip;
            let resident = chunk.resident_in(skip, rest);
            survey.resident += resident;
            survey.shared += shared(chunk, skip, resident);
            if chunk.is_row() {
                survey.in_rows += resident;
                see(&mut next, chunk.get(skip).map(&place), resident);
            } else {
                chunk.places(skip).for_each(|page| see(&mut next, page.map(&place), 1));
            }
            if chunk.room() < CHUNK as usize {
                next = None;
            }
            (behind, skip) = (at + 1, 0);
        }
        (survey, chunks.next().map(|(at, _)| at as u64 * CHUNK))
    }
}

/// How many of the pages from `at` on, of which so many are there, somebody else holds, too.
fn shared<P: Page>(chunk: &Arc<Chunk<P>>, at: usize, resident: u64) -> u64 {
    match chunk.is_exclusive() {
        true if chunk.is_alone() => 0,
        true => chunk.places(at).flatten().filter(|page| !page.is_exclusive()).count() as u64,
        false => resident,
    }
}
