//! Rounds: the same thing again and again, with the processor's ticks and the counters read around each.

use crate::samples::Samples;
use core::array::from_fn;
use musubi::rt::{Copied, mark, task, time};

/// Rounds before it is measured: bindings made, pages there, views filled, keys earned.
const WARM: usize = 64;

/// Calls after which a server has a key, where there are keys.
pub const EARNED: usize = 600;

/// What is counted: by the kernel, over all processors; the last two also by the programs that copy.
pub const COUNTED: [&str; 6] =
    ["kernel-entries", "view-switches", "tlb-flushes", "sched-events", "copies", "copied-bytes"];
/// All of these, and interrupts.
type Counts = [u64; COUNTED.len() + 1];
const INTERRUPTS: usize = COUNTED.len();

/// Most steps that a round tells of itself.
pub const STEPS: usize = 3;

/// What rounds came to.
pub struct Rounds {
    pub ticks: Samples,
    /// In the order of [`COUNTED`], and interrupts.
    pub counts: [Samples; COUNTED.len() + 1],
    pub steps: [Samples; STEPS],
}

impl Rounds {
    /// The only round of a case, which others have made between these two moments.
    pub fn once([before, after]: [Moment; 2]) -> Rounds {
        let one = |number| {
            let mut samples = Samples::new(1);
            samples.add(number);
            samples
        };
        let counts = from_fn(|at| one(after.counts[at] - before.counts[at]));
        Rounds { ticks: one(after.ticks - before.ticks), counts, steps: from_fn(|_| Samples::default()) }
    }

    /// Entries into the kernel of all rounds together.
    pub fn entries(&self) -> u64 {
        self.counts[0].sum()
    }

    /// How long those were that entered the kernel and were interrupted no more often than most, and the others. (One that is interrupted may leave a call
    /// to the round before: there are as many entries, then.)
    pub fn by_entries(&self) -> [Samples; 2] {
        let more = [0, INTERRUPTS].map(|at| self.counts[at].less(self.counts[at].summary().median));
        self.ticks.parted(&more[0].and(&more[1]))
    }
}

/// What is counted, at one moment.
#[derive(Clone, Copy)]
pub struct Moment {
    ticks: u64,
    counts: Counts,
}

impl Moment {
    /// A case begins, and its only round.
    pub fn begins() -> Moment {
        mark::case_begins();
        let counts = counts(Copied::default());
        let ticks = time::ticks();
        mark::round_begins();
        Moment { ticks, counts }
    }

    /// They are over.
    pub fn ends() -> Moment {
        mark::round_ends();
        let ticks = time::ticks();
        let counts = counts(Copied::default());
        mark::case_ends();
        Moment { ticks, counts }
    }
}

/// By all processors, and this elsewhere.
fn counts(elsewhere: Copied) -> Counts {
    let mut counts = task::processors().fold(Counts::default(), |sum, p| {
        let here = [p.entries, p.view_switches, p.tlb_flushes, p.events, p.copies, p.copied_bytes, p.interrupts];
        from_fn(|at| sum[at] + here[at])
    });
    counts[4] += elsewhere.times;
    counts[5] += elsewhere.bytes;
    counts
}

/// How rounds are measured.
pub struct Plan<'a> {
    rounds: usize,
    warm: usize,
    copied: &'a dyn Fn() -> Copied,
    first: &'a dyn Fn(),
}

impl<'a> Plan<'a> {
    /// Nobody but the kernel copies.
    pub const fn new(rounds: usize) -> Plan<'static> {
        Plan { rounds, warm: WARM, copied: &Copied::default, first: &|| () }
    }

    /// `copied` says what was copied outside of the kernel so far.
    pub fn copying(rounds: usize, copied: &'a dyn Fn() -> Copied) -> Plan<'a> {
        Plan { rounds, warm: WARM, copied, first: &|| () }
    }

    /// `first` is done before each round and does not count: reading the counters is a kernel call, after which what has short
    /// ways begins with a long one.
    pub fn first(self, first: &'a dyn Fn()) -> Plan<'a> {
        Plan { first, ..self }
    }

    /// So many rounds to warm up, of what takes long.
    pub const fn warm(self, warm: usize) -> Plan<'a> {
        Plan { warm, ..self }
    }

    /// Measures `what`, less what measuring takes by itself.
    pub fn measure(&self, mut what: impl FnMut()) -> Rounds {
        self.measure_steps(|| {
            what();
            [0; STEPS]
        })
    }

    /// The same for what says how long its steps took.
    pub fn measure_steps(&self, what: impl FnMut() -> [u64; STEPS]) -> Rounds {
        // Who is called beside what is measured earns a key before, not between that and what is taken from it.
        for _ in 0..EARNED {
            (self.copied)();
            (self.first)();
        }
        let alone = self.run(false, || [0; STEPS]);
        let ticks = alone.ticks.summary().median;
        let counts = alone.counts.map(|samples| samples.summary().median);
        let all = self.run(true, what);
        Rounds { ticks: all.ticks.less(ticks), counts: from_fn(|at| all.counts[at].less(counts[at])), steps: all.steps }
    }

    /// What `what` takes, of which there is no case: the median, in ticks.
    pub fn ticks(&self, mut what: impl FnMut()) -> u64 {
        let median = |rounds: Rounds| rounds.ticks.summary().median;
        let alone = median(self.run(false, || [0; STEPS]));
        let all = self.run(false, || {
            what();
            [0; STEPS]
        });
        median(all).saturating_sub(alone)
    }

    /// Runs the rounds, with a case's marks around those that count if they are `marked`.
    fn run(&self, marked: bool, mut what: impl FnMut() -> [u64; STEPS]) -> Rounds {
        let samples = || Samples::new(self.rounds);
        let mut out = Rounds { ticks: samples(), counts: from_fn(|_| samples()), steps: from_fn(|_| samples()) };
        for round in 0..self.warm + self.rounds {
            if marked && round == self.warm {
                mark::case_begins();
            }
            let before = self.counts();
            (self.first)();
            let began = time::ticks();
            mark::round_begins();
            let steps = what();
            mark::round_ends();
            let ticks = time::ticks() - began;
            let after = self.counts();
            if round >= self.warm {
                out.ticks.add(ticks);
                (0..out.counts.len()).for_each(|at| out.counts[at].add(after[at] - before[at]));
                (0..STEPS).for_each(|at| out.steps[at].add(steps[at]));
            }
        }
        if marked {
            mark::case_ends();
        }
        out
    }

    fn counts(&self) -> Counts {
        counts((self.copied)())
    }
}
