//! Pages that their owner has made invalid: an access to one is a fault, whatever the access list says and whether it is resident or not
//! (SSS-41).

use crate::chunk::CHUNK;
use crate::list::List;
use alloc::boxed::Box;

const WORD: u64 = u64::BITS as u64;
const WORDS: usize = (CHUNK / WORD) as usize;

/// A set of pages of one section. It takes memory for each 512 pages in a row of which one was ever in it, but not for the first 64 of the
/// section: small sections are the many, and what one page costs is felt there.
#[derive(Debug, Default)]
pub struct Marks {
    /// Pages 0 to 63.
    low: u64,
    /// The others.
    chunks: List<Box<[u64; WORDS]>>,
    made: u64,
    marked: u64,
}

impl Marks {
    /// Without any page.
    #[must_use]
    pub const fn new() -> Marks {
        Marks { low: 0, chunks: List::new(), made: 0, marked: 0 }
    }

    /// Whether the page is in the set.
    #[must_use]
    #[inline(always)]
    pub fn has(&self, page: u64) -> bool {
        if page < WORD { self.low >> page & 1 != 0 } else { self.has_far(page) }
    }

    #[inline(never)]
    fn has_far(&self, page: u64) -> bool {
        let word = |chunk: &[u64; WORDS]| chunk[(page % CHUNK / WORD) as usize] >> (page % WORD) & 1 != 0;
        self.marked > 0 && self.chunk(page / CHUNK).is_some_and(word)
    }

    /// Whether any of these pages is in the set: at least one is asked for.
    #[must_use]
    pub fn has_any(&self, first: u64, count: u64) -> bool {
        let (low, first, count) = if first + count <= WORD { (bits(first, count), 0, 0) } else { split(first, count) };
        let is_marked = |chunk: u64| {
            self.chunk(chunk)
                .is_some_and(|words| masks(chunk, first, count).any(|(word, mask)| words[word] & mask != 0))
        };
        self.low & low != 0 || self.marked > 0 && count > 0 && chunks(first, count).any(is_marked)
    }

    /// How many pages are in the set.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.marked + u64::from(self.low.count_ones())
    }

    /// How many pieces of memory it has: what somebody has to pay for.
    #[must_use]
    pub fn pieces(&self) -> u64 {
        self.made
    }

    /// How many more it will have when these pages are put into it.
    #[must_use]
    #[inline]
    pub fn pieces_for(&self, first: u64, count: u64) -> u64 {
        if first + count <= WORD { 0 } else { self.pieces_for_high(first, count) }
    }

    fn pieces_for_high(&self, first: u64, count: u64) -> u64 {
        let (_, first, count) = split(first, count);
        chunks(first, count).filter(|chunk| self.chunk(*chunk).is_none()).count() as u64
    }

    /// Puts pages into the set: at least one.
    #[inline]
    pub fn put(&mut self, first: u64, count: u64) {
        if first + count <= WORD {
            self.low |= some_bits(first, count);
        } else {
            self.put_high(first, count);
        }
    }

    fn put_high(&mut self, first: u64, count: u64) {
        let (low, first, count) = split(first, count);
        self.low |= low;
        for chunk in chunks(first, count) {
            let made = &mut self.made;
            let words = self.chunks.get_or_insert_with(chunk as usize, || {
                *made += 1;
                Box::new([0; WORDS])
            });
            for (word, mask) in masks(chunk, first, count) {
                self.marked += u64::from((mask & !words[word]).count_ones());
                words[word] |= mask;
            }
        }
    }

    /// Takes pages out of the set: at least one. Its memory it keeps.
    #[inline]
    pub fn take(&mut self, first: u64, count: u64) {
        if first + count <= WORD {
            self.low &= !some_bits(first, count);
        } else {
            self.take_high(first, count);
        }
    }

    fn take_high(&mut self, first: u64, count: u64) {
        let (low, first, count) = split(first, count);
        self.low &= !low;
        if self.marked == 0 {
            return;
        }
        for chunk in chunks(first, count) {
            let Some(words) = self.chunks.get_mut(chunk as usize) else { continue };
            for (word, mask) in masks(chunk, first, count) {
                self.marked -= u64::from((mask & words[word]).count_ones());
                words[word] &= !mask;
            }
        }
    }

    /// From `pages` on nothing is in the set any more. Returns how many pieces of memory it has less.
    pub fn cut(&mut self, pages: u64) -> u64 {
        let before = self.made;
        let end = self.chunks.end() as u64 * CHUNK;
        self.low &= if pages < WORD { bits(0, pages) } else { u64::MAX };
        if pages < end {
            self.take(pages, end - pages);
            let gone = self.chunks.split_off(pages.div_ceil(CHUNK) as usize).count();
            self.made -= gone as u64;
        }
        before - self.made
    }

    /// No page from this one on is in the set, and it has no memory for any.
    #[must_use]
    pub fn end(&self) -> u64 {
        WORD.max(self.chunks.end() as u64 * CHUNK)
    }

    fn chunk(&self, chunk: u64) -> Option<&[u64; WORDS]> {
        self.chunks.get(chunk as usize).map(|words| &**words)
    }
}

/// Of the first 64 pages, `count` from `first` on. (With `count` 0: none.)
#[inline]
fn bits(first: u64, count: u64) -> u64 {
    if count == 0 { 0 } else { some_bits(first, count) }
}

/// The same of at least one.
#[inline]
fn some_bits(first: u64, count: u64) -> u64 {
    (u64::MAX >> ((WORD - count) % WORD)) << (first % WORD)
}

/// Those of a range that are among the first 64 pages, and the others: first and count, which is not 0.
fn split(first: u64, count: u64) -> (u64, u64, u64) {
    if first >= WORD { (0, first, count) } else { (bits(first, WORD - first), WORD, first + count - WORD) }
}

/// The chunks that pages lie in.
fn chunks(first: u64, count: u64) -> impl Iterator<Item = u64> {
    first / CHUNK..(first + count).div_ceil(CHUNK)
}

/// The words of a chunk that pages lie in, and which bits of each they are. There is at least one such page.
fn masks(chunk: u64, first: u64, count: u64) -> impl Iterator<Item = (usize, u64)> {
    let base = chunk * CHUNK;
    let (from, to) = (first.max(base) - base, (first + count).min(base + CHUNK) - base);
    (from / WORD..to.div_ceil(WORD)).map(move |word| {
        let low = from.saturating_sub(word * WORD);
        let bits = (to - word * WORD).min(WORD) - low;
        (word as usize, (u64::MAX >> (WORD - bits)) << low)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Put(u64, u64),
        Take(u64, u64),
        Cut(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let range = || prop_oneof![(0..2000u64, 1..600u64), (0..70u64, 1..70u64)];
        prop_oneof![
            range().prop_map(|(first, count)| Step::Put(first, count)),
            range().prop_map(|(first, count)| Step::Take(first, count)),
            prop_oneof![0..2600u64, 0..70u64].prop_map(Step::Cut),
        ]
    }

    proptest! {
        #[test]
        fn it_is_a_set(steps in vec(step(), 1..40)) {
            let (mut marks, mut set) = (Marks::new(), BTreeSet::new());
            for step in steps {
                let before = marks.pieces();
                match step {
                    Step::Put(first, count) => {
                        let more = marks.pieces_for(first, count);
                        marks.put(first, count);
                        prop_assert_eq!(marks.pieces(), before + more);
                        set.extend(first..first + count);
                    }
                    Step::Take(first, count) => {
                        marks.take(first, count);
                        prop_assert_eq!(marks.pieces(), before);
                        set.retain(|page| !(first..first + count).contains(page));
                    }
                    Step::Cut(pages) => {
                        let less = marks.cut(pages);
                        prop_assert_eq!(marks.pieces(), before - less);
                        set.retain(|page| *page < pages);
                    }
                }
                prop_assert_eq!(marks.count(), set.len() as u64);
                for (first, count) in [(0, 1), (0, 63), (3, 61), (60, 8), (64, 64), (512, 512), (0, 2700), (1000, 600)] {
                    let any = set.range(first..first + count).next().is_some();
                    prop_assert_eq!(marks.has_any(first, count), any, "{} from {}", count, first);
                }
            }
            for page in 0..2700 {
                prop_assert_eq!(marks.has(page), set.contains(&page), "page {}", page);
            }
            let needed: BTreeSet<u64> = set.iter().filter(|page| **page >= WORD).map(|page| page / CHUNK).collect();
            prop_assert!(marks.pieces() >= needed.len() as u64);
            marks.cut(0);
            prop_assert_eq!((marks.pieces(), marks.count()), (0, 0));
        }
    }
}
