//! Rounds, from what passes by in the order in which it is executed.

use crate::instruction::Mark;
use crate::record::{Case, Counts, KERNEL, REGION_BITS, Round, STEPS_MAX, WAYS};

/// What is under way. All numbers it is given are sums since the machine was started.
#[derive(Debug, Default)]
pub struct Recorder {
    case: Option<Case>,
    round: Option<Open>,
}

/// A round that has begun.
#[derive(Debug)]
struct Open {
    instructions: u64,
    counts: Counts,
    steps: Vec<(u64, u64)>,
    /// Where control is, and since when.
    region: u64,
    since: u64,
}

impl Open {
    fn step(&mut self, now: u64) {
        let n = now - self.since;
        let room = self.steps.len() <= STEPS_MAX;
        match self.steps.last_mut() {
            Some((region, sum)) if *region == self.region => *sum += n,
            _ if n > 0 && room => self.steps.push((self.region, n)),
            _ => {}
        }
        self.since = now;
    }
}

impl Recorder {
    /// Where an address lies: in the kernel's half, or in some granule of the programs'.
    pub fn region(address: u64) -> u64 {
        if address >> 63 == 1 { KERNEL } else { address >> REGION_BITS }
    }

    /// Whether that is how control comes to the kernel from a program.
    pub fn enters(from: u64, to: u64) -> bool {
        let is_kernels = |region| [KERNEL, WAYS].contains(&region);
        is_kernels(to) && !is_kernels(from)
    }

    /// Control has come to another region, after `now` instructions.
    pub fn crossed(&mut self, region: u64, now: u64) {
        if let Some(round) = &mut self.round {
            round.step(now);
            round.region = region;
        }
    }

    /// A mark is executed in `region`. Value: the case that has ended.
    pub fn mark(&mut self, mark: Mark, region: u64, now: u64, counts: Counts) -> Option<Case> {
        match mark {
            Mark::CaseBegins => (self.case, self.round) = (Some(Case::default()), None),
            Mark::RoundBegins => {
                self.round = Some(Open { instructions: now, counts, steps: Vec::new(), region, since: now });
            }
            Mark::RoundEnds => {
                if let (Some(case), Some(mut round)) = (&mut self.case, self.round.take()) {
                    round.step(now);
                    let counts = std::array::from_fn(|at| counts[at] - round.counts[at]);
                    let steps = (round.steps.len() <= STEPS_MAX).then_some(round.steps);
                    case.add(Round { instructions: now - round.instructions, counts, steps });
                }
            }
            Mark::CaseEnds => return self.case.take(),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruction::Costly;

    #[test]
    fn a_round_is_what_lies_between_its_marks() {
        let mut recorder = Recorder::default();
        let counts = |n| [n; Costly::ALL.len()];
        assert_eq!(recorder.mark(Mark::CaseBegins, 5, 100, counts(0)), None);
        // Between rounds nothing counts.
        recorder.crossed(KERNEL, 150);
        recorder.mark(Mark::RoundBegins, 5, 1000, counts(10));
        for (region, now) in [(KERNEL, 1007), (6, 1307), (KERNEL, 1307), (5, 1600)] {
            recorder.crossed(region, now);
        }
        recorder.mark(Mark::RoundEnds, 5, 1610, counts(13));
        recorder.crossed(KERNEL, 1700);
        let case = recorder.mark(Mark::CaseEnds, 5, 1800, counts(20)).unwrap();
        // Region 6 was come to and left without an instruction in between: that is no step.
        let steps = vec![(5, 7), (KERNEL, 593), (5, 10)];
        assert_eq!(case.rounds, [(1, Round { instructions: 610, counts: counts(3), steps: Some(steps) })]);
    }

    #[test]
    fn a_round_of_many_steps_is_told_as_a_whole() {
        let mut recorder = Recorder::default();
        recorder.mark(Mark::CaseBegins, 1, 0, Counts::default());
        recorder.mark(Mark::RoundBegins, 1, 0, Counts::default());
        (0..100).for_each(|n| recorder.crossed(n % 2, n * 10));
        recorder.mark(Mark::RoundEnds, 1, 1000, [4; Costly::ALL.len()]);
        let case = recorder.mark(Mark::CaseEnds, 1, 1001, [4; Costly::ALL.len()]).unwrap();
        assert_eq!(case.rounds, [(1, Round { instructions: 1000, counts: [4; Costly::ALL.len()], steps: None })]);
    }

    #[test]
    fn marks_out_of_order_make_no_rounds() {
        let mut recorder = Recorder::default();
        assert_eq!(recorder.mark(Mark::RoundEnds, 1, 5, Counts::default()), None);
        assert_eq!(recorder.mark(Mark::CaseEnds, 1, 6, Counts::default()), None);
        recorder.mark(Mark::CaseBegins, 1, 7, Counts::default());
        recorder.mark(Mark::RoundEnds, 1, 8, Counts::default());
        assert_eq!(recorder.mark(Mark::CaseEnds, 1, 9, Counts::default()), Some(Case::default()));
    }

    #[test]
    fn the_kernel_is_entered_from_programs() {
        let all = [5, WAYS, KERNEL, WAYS, 5, 6, KERNEL, KERNEL, 5];
        let entries = all.windows(2).filter(|two| Recorder::enters(two[0], two[1])).count();
        assert_eq!(entries, 2);
    }

    #[test]
    fn the_upper_half_is_the_kernel() {
        assert_eq!(Recorder::region(0xffff_8000_0000_1000), KERNEL);
        assert_ne!(Recorder::region(0x4200_0020_0000), Recorder::region(0x4200_0040_0000));
        assert_eq!(Recorder::region(0x4200_0020_0000), Recorder::region(0x4200_003f_ffff));
    }
}
