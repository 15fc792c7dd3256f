//! What the pages of a map are, counted piece by piece: a map may be long, and whoever holds it does so for a moment only.

use crate::chunk::{CHUNK, Chunk};
use crate::{Page, PageMap};
use alloc::sync::Arc;

/// What was counted so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    pub resident: u64,
    /// Of these somebody else holds, too.
    pub shared: u64,
    /// Of these lie in chunks that are in a row.
    pub in_rows: u64,
    /// In how many pieces of memory they lie.
    pub pieces: u64,
    /// The first chunk that was not looked at, and where the memory behind the last page lies.
    chunk: usize,
    next: Option<u64>,
}

impl Survey {
    fn see(&mut self, at: Option<u64>, count: u64) {
        self.pieces += u64::from(at.is_some() && at != self.next);
        self.next = at.map(|at| at + count);
    }
}

impl<P: Page> PageMap<P> {
    /// Goes on with `survey`, for `most` chunks of 512 pages. `place` says where the memory of a page is, counted in pages. Whether that was the
    /// last: what changes in between is counted as it was or as it is.
    pub fn survey(&self, survey: &mut Survey, most: usize, place: impl Fn(&P) -> u64) -> bool {
        let mut seen = 0;
        for (at, chunk) in self.chunks.from(survey.chunk).take(most) {
            seen += 1;
            if at > survey.chunk {
                // Nothing was before it.
                survey.next = None;
            }
            survey.chunk = at + 1;
            survey.resident += chunk.resident();
            survey.shared += shared(chunk);
            if chunk.is_row() {
                survey.in_rows += CHUNK;
                survey.see(chunk.get(0).map(&place), CHUNK);
            } else {
                chunk.places().for_each(|page| survey.see(page.map(&place), 1));
            }
        }
        seen < most || survey.chunk >= self.chunks.end()
    }
}

fn shared<P: Page>(chunk: &Arc<Chunk<P>>) -> u64 {
    match chunk.is_exclusive() {
        true if chunk.is_alone() => 0,
        true => chunk.pages().filter(|page| !page.is_exclusive()).count() as u64,
        false => chunk.resident(),
    }
}
