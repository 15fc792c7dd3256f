//! What is known of a round, and the text in which it gets out of QEMU.

use crate::instruction::Costly;
use anyhow::{Context, Result, ensure};
use std::fmt;

/// Addresses are told apart by this many low bits: what lies in one granule of 2 MiB is one text.
pub const REGION_BITS: u32 = 21;
/// The region that stands for the kernel.
pub const KERNEL: u64 = 0;
/// And the one of its ways in and out, where they are told apart.
pub const WAYS: u64 = 1;
/// A round that goes back and forth more often is not told step by step.
pub const STEPS_MAX: usize = 48;

/// How many there were of each of [`Costly::ALL`].
pub type Counts = [u64; Costly::ALL.len()];

/// One round, from mark to mark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    pub instructions: u64,
    pub counts: Counts,
    /// Where control was, and for how many instructions; `None` if it changed hands too often to tell.
    pub steps: Option<Vec<(u64, u64)>>,
}

impl Round {
    pub fn count(&self, what: Costly) -> u64 {
        self.counts[what as usize]
    }
}

/// The rounds of a case in their order: how many in a row were alike, and what they were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Case {
    pub rounds: Vec<(u64, Round)>,
}

impl Case {
    pub fn add(&mut self, round: Round) {
        match self.rounds.last_mut() {
            Some((times, last)) if *last == round => *times += 1,
            _ => self.rounds.push((1, round)),
        }
    }

    /// How many rounds there were.
    pub fn len(&self) -> u64 {
        self.rounds.iter().map(|(times, _)| times).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.rounds.is_empty()
    }

    /// The round that came most often; the first of several.
    pub fn usual(&self) -> Option<&Round> {
        let times = |wanted: &Round| -> u64 {
            self.rounds.iter().filter(|(_, round)| round == wanted).map(|(times, _)| times).sum()
        };
        self.rounds.iter().map(|(_, round)| round).rev().max_by_key(|round| times(round))
    }

    /// How many rounds are like that.
    pub fn rounds_with(&self, is: impl Fn(&Round) -> bool) -> u64 {
        self.rounds.iter().filter(|(_, round)| is(round)).map(|(times, _)| times).sum()
    }

    /// (median, least, greatest) of something in all rounds.
    pub fn summary(&self, what: impl Fn(&Round) -> u64) -> Option<(u64, u64, u64)> {
        let mut all: Vec<(u64, u64)> = self.rounds.iter().map(|(times, round)| (what(round), *times)).collect();
        all.sort_unstable();
        let (&(least, _), &(greatest, _)) = (all.first()?, all.last()?);
        let mut before = self.len() / 2;
        let median = all.iter().find(|(_, times)| {
            let found = before < *times;
            before = before.saturating_sub(*times);
            found
        });
        Some((median?.0, least, greatest))
    }
}

const CASE: &str = "case";
const ROUND: &str = "round";
const MANY: &str = "many";

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "{CASE}")?;
        for (times, round) in &self.rounds {
            write!(f, "{ROUND} {times} {}", round.instructions)?;
            round.counts.iter().try_for_each(|count| write!(f, " {count}"))?;
            match &round.steps {
                Some(steps) => steps.iter().try_for_each(|(region, n)| write!(f, " {region:x}:{n}"))?,
                None => write!(f, " {MANY}")?,
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Reads cases that were written one after the other.
pub fn read(text: &str) -> Result<Vec<Case>> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines() {
        if line == CASE {
            cases.push(Case::default());
            continue;
        }
        let case = cases.last_mut().context("a round before the first case")?;
        case.rounds.push(round(line).with_context(|| format!("not the record of a round: {line}"))?);
    }
    Ok(cases)
}

fn round(line: &str) -> Result<(u64, Round)> {
    let mut words = line.split(' ').peekable();
    ensure!(words.next() == Some(ROUND), "it does not begin with {ROUND}");
    let mut number = || words.next().context("it ends early")?.parse::<u64>().context("not a number");
    let (times, mut round) = (number()?, Round { instructions: number()?, ..Round::default() });
    for count in &mut round.counts {
        *count = number()?;
    }
    if words.next_if_eq(&MANY).is_none() {
        let step = |word: &str| {
            let (region, n) = word.split_once(':').context("a step without its length")?;
            Ok((u64::from_str_radix(region, 16)?, n.parse()?))
        };
        round.steps = Some(words.by_ref().map(step).collect::<Result<_>>()?);
    }
    ensure!(words.next().is_none(), "it goes on after its end");
    Ok((times, round))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(instructions: u64) -> Round {
        Round {
            instructions,
            counts: [0, 7, 2, 0, 4, 2, 1, 3, 8192, 2, 1, 40, 9, 5],
            steps: Some(vec![(0x2_0040, 12), (KERNEL, instructions - 12)]),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut case = Case::default();
        [300, 300, 310, 300].into_iter().for_each(|n| case.add(round(n)));
        case.add(Round { steps: None, ..round(5000) });
        assert_eq!(case.rounds.iter().map(|(times, _)| *times).collect::<Vec<_>>(), [2, 1, 1, 1]);
        let text = format!("{case}{}", Case::default());
        assert_eq!(read(&text).unwrap(), [case, Case::default()]);
        assert!(read("").unwrap().is_empty());
    }

    #[test]
    fn what_is_not_whole_is_refused() {
        let text = {
            let mut case = Case::default();
            case.add(round(300));
            case.to_string()
        };
        let line = text.lines().nth(1).unwrap();
        assert!(read(line).is_err(), "a round before the first case");
        for bad in [
            "round",
            "round 1 300 0 7 2 0",
            "round 1 300 0 7 2 0 x 2 1 3 0",
            "sound 1",
            &format!("{line} 7"),
            &format!("{line} many"),
        ] {
            assert!(read(&format!("case\n{bad}\n")).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_usual_round_and_the_middle_of_all() {
        let mut case = Case::default();
        [310, 300, 300, 900, 310, 310].into_iter().for_each(|n| case.add(round(n)));
        assert_eq!(case.usual(), Some(&round(310)));
        assert_eq!(case.summary(|round| round.instructions), Some((310, 300, 900)));
        assert_eq!((case.len(), Case::default().usual(), Case::default().summary(|_| 1)), (6, None, None));
    }
}
