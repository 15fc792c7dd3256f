//! Who is asked for how much: all in turn, each for a part, until it is enough or nobody gives anything.

use alloc::vec::Vec;

/// What one who was asked has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    Gave(u64),
    /// It has not answered in time: it is not asked again before it has.
    Nothing,
}

/// A round over pagers 0 to `count - 1`.
#[derive(Debug)]
pub struct Round {
    /// Those that are still asked.
    left: Vec<usize>,
    next: usize,
    part: u64,
}

impl Round {
    /// `from`: who is asked first, so that it is not always the same.
    pub fn new(count: usize, from: usize, part: u64) -> Round {
        Round { left: (0..count).map(|n| (n + from) % count.max(1)).collect(), next: 0, part }
    }

    /// Who is to be asked for how many of so many pages that are wanted. `None`: it is over.
    pub fn ask(&self, wanted: u64) -> Option<(usize, u64)> {
        let who = *self.left.get(self.next)?;
        (wanted > 0).then(|| (who, wanted.min(self.part)))
    }

    /// What the one that was asked has said.
    pub fn said(&mut self, what: Said) {
        if what == Said::Gave(0) || what == Said::Nothing {
            self.left.remove(self.next);
        } else {
            self.next += 1;
        }
        if self.next >= self.left.len() {
            self.next = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn nobody_is_there() {
        assert_eq!(Round::new(0, 0, 10).ask(5), None);
    }
}
