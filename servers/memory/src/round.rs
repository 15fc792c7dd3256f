//! Who is asked for how much: all in turn, each for a part, until it is enough or it brings nothing more. What a pager says to have given is
//! believed by nobody: that a round goes on is decided by how much is wanting.

use alloc::vec::Vec;

/// What one who was asked has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    Gave(u64),
    /// It has not answered in time: it is not asked again before it has.
    Nothing,
    /// It was not asked, which is no fault of its own.
    Unasked,
}

/// Turns in a row that may bring nothing: what is given back may at first be needed to keep it compressed.
const VAIN: u32 = 2;
/// What is given back may be kept in less memory, but not in none: so it takes more turns than what is wanting says, by this factor and so many.
const OVER: u64 = 2;
const MORE: u64 = 8;

/// A round over pagers 0 to `count - 1`.
#[derive(Debug)]
pub struct Round {
    /// Those that are still asked.
    left: Vec<usize>,
    next: usize,
    part: u64,
    /// A turn over all begins with the next one.
    begins: bool,
    /// Turns that there may be at most; `None`: it has not begun.
    turns: Option<u64>,
    /// How much was wanting when the turn began, and how many turns before it have brought nothing.
    wanted: u64,
    vain: u32,
}

impl Round {
    /// `from`: who is asked first, so that it is not always the same.
    pub fn new(count: usize, from: usize, part: u64) -> Round {
        let left = (0..count).map(|n| (n + from) % count.max(1)).collect();
        Round { left, next: 0, part, begins: true, turns: None, wanted: u64::MAX, vain: 0 }
    }

    /// Who is to be asked for how many of so many pages that are wanted. `None`: it is over.
    pub fn ask(&mut self, wanted: u64) -> Option<(usize, u64)> {
        if core::mem::take(&mut self.begins) && !self.has_turn(wanted) {
            self.left.clear();
        }
        let who = *self.left.get(self.next)?;
        (wanted > 0).then(|| (who, wanted.min(self.part)))
    }

    /// Whether there is one more turn. What others have given back meanwhile is something, too.
    fn has_turn(&mut self, wanted: u64) -> bool {
        self.vain = if wanted < self.wanted { 0 } else { self.vain + 1 };
        self.wanted = wanted;
        let turns = self.turns.unwrap_or_else(|| wanted.div_ceil(self.part).saturating_mul(OVER).saturating_add(MORE));
        self.turns = Some(turns.saturating_sub(1));
        turns > 0 && self.vain < VAIN
    }

    /// What the one that was asked has said.
    pub fn said(&mut self, what: Said) {
        if matches!(what, Said::Gave(0) | Said::Nothing | Said::Unasked) {
            self.left.remove(self.next);
        } else {
            self.next += 1;
        }
        if self.next >= self.left.len() {
            (self.next, self.begins) = (0, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Pagers with so many pages each; one of them does not answer.
    fn run(mut has: [u64; 4], mut wanted: u64, dead: usize) -> (u64, [u64; 4], usize) {
        let (mut round, mut asked) = (Round::new(4, 2, 10), 0);
        while let Some((who, pages)) = round.ask(wanted) {
            asked += 1;
            assert!(pages <= 10 && pages <= wanted);
            let given = if who == dead { 0 } else { has[who].min(pages) };
            has[who] -= given;
            wanted -= given;
            round.said(if who == dead { Said::Nothing } else { Said::Gave(given) });
        }
        (wanted, has, asked)
    }

    #[test]
    fn all_give_in_turn() {
        assert_eq!(run([100; 4], 40, 9), (0, [90; 4], 4));
        assert_eq!(run([100; 4], 15, 9), (0, [100, 100, 90, 95], 2));
        assert_eq!(run([5, 100, 0, 100], 60, 9), (0, [0, 75, 0, 70], 9));
    }

    #[test]
    fn who_does_not_answer_is_asked_once() {
        let (wanted, has, asked) = run([100; 4], 1000, 1);
        assert_eq!((wanted, has), (700, [0, 100, 0, 0]));
        assert_eq!(asked, 1 + 3 * 11);
    }

    /// A round in which what is wanted is, when it is asked, what `wanted` says; who is no honest pager has given one page each time. How
    /// often each was asked.
    fn asked(count: usize, part: u64, mut wanted: impl FnMut(u64) -> u64) -> Vec<u64> {
        let (mut round, mut asked, mut all) = (Round::new(count, 0, part), std::vec![0; count], 0);
        while let Some((who, pages)) = round.ask(wanted(all)) {
            assert!(pages > 0);
            (asked[who], all) = (asked[who] + 1, all + 1);
            assert!(all < 1_000_000, "it does not end");
            round.said(Said::Gave(1));
        }
        asked
    }

    #[test]
    fn who_says_so_and_gives_nothing_ends_the_round() {
        assert_eq!(asked(1, 128, |_| 1 << 40), [u64::from(VAIN)]);
        assert_eq!(asked(3, 128, |_| 5), [u64::from(VAIN); 3]);
        // Something that comes at times, by whomever.
        assert_eq!(asked(1, 128, |n| 100 - n / 2), [2 + MORE]);
    }

    #[test]
    fn nobody_is_asked_more_often_than_it_takes() {
        // One page each time, of very many that are wanted.
        assert_eq!(asked(1, 128, |n| 128_000 - n), [1000 * OVER + MORE]);
        // It goes up and down.
        assert_eq!(asked(2, 10, |n| 100 - n / 2 % 2), [10 * OVER + MORE; 2]);
    }

    #[test]
    fn who_gives_is_asked_beside_who_only_says_so() {
        let (mut round, mut wanted, mut lies) = (Round::new(2, 0, 10), 100, 0);
        while let Some((who, pages)) = round.ask(wanted) {
            if who == 0 {
                lies += 1;
                round.said(Said::Gave(1));
            } else {
                wanted -= pages;
                round.said(Said::Gave(pages));
            }
        }
        assert_eq!((wanted, lies), (0, 10));
    }

    #[test]
    fn what_is_kept_in_half_the_memory_is_enough_all_the_same() {
        // The first page of each time may be needed at once.
        for wanted in 1..2000u64 {
            let (mut round, mut left, mut kept) = (Round::new(1, 0, 128), wanted, 0u64);
            while let Some((_, pages)) = round.ask(left) {
                let before = kept.div_ceil(2);
                kept += pages;
                left -= pages - (kept.div_ceil(2) - before);
                round.said(Said::Gave(pages));
            }
            assert_eq!(left, 0, "of {wanted}");
        }
    }

    proptest! {
        /// Whatever they say, and whatever becomes of memory meanwhile, nobody is asked more often than that.
        #[test]
        fn every_round_ends(
            count in 1usize..6, part in 1u64..20, first in 0u64..500,
            steps in proptest::collection::vec((0u64..500, 0u8..5), 1..50)
        ) {
            let (mut round, mut asked) = (Round::new(count, 1, part), std::vec![0; count]);
            let mut wanted = first;
            for (next, says) in steps.iter().cycle() {
                let Some((who, pages)) = round.ask(wanted) else { break };
                prop_assert!(pages > 0 && pages <= part.min(wanted));
                asked[who] += 1;
                prop_assert!(asked[who] <= first.div_ceil(part) * OVER + MORE);
                let said = match says { 0 => Said::Nothing, 1 => Said::Gave(0), 2 => Said::Unasked, n => Said::Gave((*n).into()) };
                round.said(said);
                wanted = *next;
            }
        }
    }

    #[test]
    fn nobody_is_there() {
        assert_eq!(Round::new(0, 0, 10).ask(5), None);
    }
}
