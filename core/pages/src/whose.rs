//! Who has made pages invalid: kept for tasks that want to hear of their own first, those that have a pager (SSS-58).

use crate::list::List;
use alloc::boxed::Box;

/// Pages of a piece.
const PIECE: u64 = 64;
/// It has pieces.
const SEVERAL: u64 = u64::MAX;
/// So many are freed at once, when they say nothing any more.
const FEW: u64 = 8;

/// Of each page that is invalid, which task has made it so; 0: one that does not want to know. Of other pages it says nothing, so nothing is done here
/// when a page becomes valid. As long as one and the same has made all of them invalid it takes no memory; otherwise some for each 64 pages in a row
/// of which another one has made one invalid.
#[derive(Debug)]
pub struct Whose {
    /// Of all pages, if it has no pieces.
    all: u64,
    several: Option<Box<Several>>,
}

#[derive(Debug)]
struct Several {
    /// Of those that are in no piece.
    rest: u64,
    pieces: List<Box<[u64; PIECE as usize]>>,
    made: u64,
}

impl Default for Whose {
    fn default() -> Whose {
        Whose::new()
    }
}

impl Whose {
    /// Nobody wants to know.
    #[must_use]
    pub const fn new() -> Whose {
        Whose { all: 0, several: None }
    }

    /// Whether it is somebody who wants to know, of any page.
    #[must_use]
    #[inline(always)]
    pub fn is_any(&self) -> bool {
        self.all != 0
    }

    /// Whether this one has made the page invalid, which it is.
    #[must_use]
    #[inline(always)]
    pub fn is(&self, who: u64, page: u64) -> bool {
        self.all == who || self.all == SEVERAL && self.of_several(page) == who
    }

    /// Who has made all pages invalid; where several have, a number that nobody has.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.all
    }

    #[cold]
    #[inline(never)]
    fn of_several(&self, page: u64) -> u64 {
        self.several.as_ref().map_or(0, |several| several.of(page))
    }

    /// No page is invalid, and this one is about to make some so: what was kept says nothing any more. Returns how many pieces of memory it has less. Where
    /// there are many they stay.
    pub fn begin(&mut self, who: u64) -> u64 {
        let made = self.pieces();
        if made > FEW {
            return 0;
        }
        *self = Whose { all: who, several: None };
        made
    }

    /// How many pieces of memory it has: what somebody has to pay for.
    #[must_use]
    pub fn pieces(&self) -> u64 {
        self.several.as_ref().map_or(0, |several| several.made)
    }

    /// How many more it will have when this one has made these pages invalid: at least one.
    #[must_use]
    pub fn pieces_for(&self, who: u64, first: u64, count: u64) -> u64 {
        if self.all == who {
            return 0;
        }
        let is_new = |piece: &u64| match &self.several {
            None => true,
            Some(several) => who != several.rest && several.pieces.get(*piece as usize).is_none(),
        };
        pieces(first, count).filter(is_new).count() as u64
    }

    /// It has made these pages invalid: at least one.
    pub fn put(&mut self, who: u64, first: u64, count: u64) {
        if self.all == who {
            return;
        }
        let rest = self.all;
        let several = self.several.get_or_insert_with(|| Box::new(Several { rest, pieces: List::new(), made: 0 }));
        several.put(who, first, count);
        self.all = SEVERAL;
    }

    /// From `pages` on nothing is invalid any more. Returns how many pieces of memory it has less.
    pub fn cut(&mut self, pages: u64) -> u64 {
        let Some(several) = &mut self.several else { return 0 };
        let gone = several.pieces.split_off(pages.div_ceil(PIECE) as usize).count() as u64;
        several.made -= gone;
        if several.made == 0 {
            *self = Whose { all: several.rest, several: None };
        }
        gone
    }
}

impl Several {
    fn of(&self, page: u64) -> u64 {
        self.pieces.get((page / PIECE) as usize).map_or(self.rest, |piece| piece[(page % PIECE) as usize])
    }

    fn put(&mut self, who: u64, first: u64, count: u64) {
        for at in pieces(first, count) {
            let (rest, made) = (self.rest, &mut self.made);
            let piece = if who == rest {
                self.pieces.get_mut(at as usize)
            } else {
                Some(self.pieces.get_or_insert_with(at as usize, || {
                    *made += 1;
                    Box::new([rest; PIECE as usize])
                }))
            };
            let base = at * PIECE;
            let (from, to) = (first.max(base) - base, (first + count).min(base + PIECE) - base);
            piece.into_iter().for_each(|piece| piece[from as usize..to as usize].fill(who));
        }
    }
}

/// The pieces that pages lie in.
fn pieces(first: u64, count: u64) -> impl Iterator<Item = u64> {
    first / PIECE..(first + count).div_ceil(PIECE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Invalid(u64, u64, u64),
        Valid(u64, u64),
        Cut(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let range = || prop_oneof![(0..1000u64, 1..600u64), (0..70u64, 1..70u64)];
        prop_oneof![
            (0..3u64, range()).prop_map(|(who, (first, count))| Step::Invalid(who, first, count)),
            range().prop_map(|(first, count)| Step::Valid(first, count)),
            Just(Step::Valid(0, 2000)),
            prop_oneof![0..1600u64, 0..70u64].prop_map(Step::Cut),
        ]
    }

    proptest! {
        #[test]
        fn who_has_made_a_page_invalid_is_the_last_one(steps in vec(step(), 1..40)) {
            let (mut whose, mut plain) = (Whose::new(), BTreeMap::new());
            for step in steps {
                let before = whose.pieces();
                match step {
                    Step::Invalid(who, first, count) => {
                        let less = if plain.is_empty() { whose.begin(who) } else { 0 };
                        let more = whose.pieces_for(who, first, count);
                        whose.put(who, first, count);
                        prop_assert_eq!(whose.pieces(), before - less + more);
                        plain.extend((first..first + count).map(|page| (page, who)));
                    }
                    // (Nobody tells it.)
                    Step::Valid(first, count) => plain.retain(|page, _| !(first..first + count).contains(page)),
                    Step::Cut(pages) => {
                        let less = whose.cut(pages);
                        prop_assert_eq!(whose.pieces(), before - less);
                        plain.retain(|page, _| *page < pages);
                    }
                }
                for (page, made) in &plain {
                    for who in 0..3 {
                        prop_assert_eq!(whose.is(who, *page), who == *made, "{} made page {} invalid, not {}", made, page, who);
                    }
                }
                prop_assert!(whose.is_any() || plain.values().all(|who| *who == 0));
                for who in (0..3).filter(|who| whose.all() == *who) {
                    prop_assert!(whose.pieces() == 0 && plain.values().all(|one| *one == who));
                }
            }
            whose.cut(0);
            prop_assert_eq!(whose.pieces(), 0);
        }
    }

    /// What one task alone does takes no memory.
    #[test]
    fn one_alone_takes_no_memory() {
        let mut whose = Whose::new();
        for round in 0..3 {
            assert_eq!(whose.begin(7), 0);
            assert_eq!(whose.pieces_for(7, 0, 10_000), 0, "round {round}");
            whose.put(7, 0, 10_000);
        }
        whose.put(8, 100, 2);
        assert_eq!(whose.pieces(), 1);
        assert_eq!([99, 100, 101, 102].map(|page| whose.is(8, page)), [false, true, true, false]);
        assert_eq!(whose.begin(8), 1);
        assert_eq!(whose.all(), 8);
    }
}
