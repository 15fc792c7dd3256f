//! What two processors do beside one, by the clock of a host that has two: the issue asks for it, so this is the one test that says how fast
//! something is. What else the host does must not decide it. So the guest measures one thread and two in turn, many times, and
//! pauses between them, in which the host measures itself: two loops on two threads beside one loop. A pair counts if the
//! host gave two processors before it and after it.

use crate::lab::{Failure, Lab};
use anyhow::{Context, Result, ensure};
use machine::{Exec, Load, Options, Sink, Wish};
use measure::{Figure, count};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

const PROCESSORS: u32 = 2;
/// What the host gives, in thousandths of one loop, for a pair to count.
const GIVES: u64 = 1950;
/// So many pairs that count are a result.
const ENOUGH: usize = 3;
/// What two threads do, in thousandths of one: a service that computes, and what is done with files of their own.
const LEAST: [(&str, u64); 5] =
    [("service", 1800), ("make-and-remove", 1600), ("open-and-close", 1600), ("write", 1600), ("read", 1600)];
const LOOK: Duration = Duration::from_millis(60);

/// As many turns of a loop as go into a while.
fn turns() -> u64 {
    let (began, mut turns, mut x) = (Instant::now(), 0, 1u64);
    while began.elapsed() < LOOK {
        (0..2_000).for_each(|_| x = black_box(x.wrapping_mul(5).wrapping_add(1)));
        turns += 1;
    }
    turns
}

/// What two threads do beside one, just now, in thousandths.
fn host_gives() -> u64 {
    let alone = turns();
    let both = thread::scope(|scope| {
        let other = scope.spawn(turns);
        turns() + other.join().expect("it counts")
    });
    // The faster one: a single loop that was disturbed would make two look like more.
    1000 * both / alone.max(turns()).max(1)
}

/// Of each case the pairs that count; and the most that the host gave before and after one.
#[derive(Default)]
struct Pairs {
    before: u64,
    best: u64,
    good: BTreeMap<String, Vec<u64>>,
    all: BTreeMap<String, Vec<u64>>,
}

impl Pairs {
    /// A pair has been measured, and the host gives `after` now.
    fn add(&mut self, case: &str, gained: u64, after: u64) {
        let gave = self.before.min(after);
        self.before = after;
        if gained == 0 {
            return;
        }
        self.best = self.best.max(gave);
        self.all.entry(case.into()).or_default().push(gained);
        if gave >= GIVES {
            self.good.entry(case.into()).or_default().push(gained);
        }
    }

    /// Whether all cases keep their bars; a sentence if some have no result.
    fn judge(mut self) -> Result<Option<String>> {
        let mut missing = Vec::new();
        for (case, least) in LEAST {
            let tried = self.all.get(case).with_context(|| format!("{case} was not measured"))?.len();
            let good = self.good.entry(case.into()).or_default();
            if good.len() < ENOUGH {
                missing.push(format!("{case}: {} of {tried} pairs", good.len()));
                continue;
            }
            good.sort_unstable();
            let middle = good[good.len() / 2];
            ensure!(middle >= least, "{case}: {middle} thousandths of one by {PROCESSORS} processors, of {good:?}");
        }
        let gives = format!("the host gives {} thousandths of one processor by two", self.best);
        Ok((!missing.is_empty()).then(|| format!("{gives}: {} count", missing.join(", "))))
    }
}

/// K1-14, and what issue 4 asks of files: what two processors do.
pub fn two_processors(lab: &Lab, options: &Options) -> Result<(), Failure> {
    let host = thread::available_parallelism().map_or(1, |count| count.get() as u32);
    if host < PROCESSORS {
        return Err(Failure::Skipped("the host has one processor".into()));
    }
    let options = Options { cpus: Some(PROCESSORS), icount: false, wish: Wish::Tcg, ..options.clone() };
    let words = ["bench", "side-by-side"].map(|word| word.as_bytes().to_vec());
    let exec = Exec {
        emulator: machine::Emulator::default(),
        options: &options,
        load: Load { parts: lab.parts(), puts: &[], words: Some(&words), sched: None },
        timeout: Duration::from_secs(300),
        sink: Sink::Keep,
    };
    let (mut pairs, mut strange) = (Pairs::default(), Vec::new());
    let mut told = |line: &str| match Figure::read(line).as_deref() {
        Ok([figure]) if figure.unit == count::PERMILLE => pairs.add(&figure.case, figure.value, host_gives()),
        _ => strange.push(line.to_string()),
    };
    let finished = exec.finish_telling(Some(&mut told))?;
    if finished.outcome != machine::Outcome::Exited(0) || !strange.is_empty() {
        return Err(Failure::Failed(format!("{:?}: {strange:?}\n{}", finished.outcome, finished.tail(20))));
    }
    match pairs.judge()? {
        None => Ok(()),
        Some(why) => Err(Failure::Skipped(why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of each case these, with what the host gave after each (and before the first).
    fn judged(pairs: &[(u64, u64)], before: u64) -> Result<Option<String>> {
        let mut all = Pairs::default();
        for (case, _) in LEAST {
            all.add("begin", 0, before);
            pairs.iter().for_each(|(gained, gives)| all.add(case, *gained, *gives));
        }
        all.judge()
    }

    #[test]
    fn a_pair_counts_between_two_good_moments() {
        let good = (1900, 1990);
        assert_eq!(judged(&[good; 3], 1960).unwrap(), None);
        assert!(judged(&[(1400, 1990); 3], 1960).is_err(), "too slow on a good host");
        assert_eq!(judged(&[good, (1000, 1200), (1000, 1990), good, good], 1960).unwrap(), None);
        assert!(judged(&[(1000, 1990); 2], 1960).unwrap().is_some_and(|why| why.contains("2 of 2")));
        assert!(judged(&[(1000, 1900); 9], 1960).unwrap().is_some_and(|why| why.contains("gives 1900")));
    }
}
