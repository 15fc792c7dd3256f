//! Numbers measured again and again.

use alloc::vec::Vec;

#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<u64>);

/// What is told of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub median: u64,
    pub least: u64,
    pub greatest: u64,
    pub n: usize,
}

impl Samples {
    pub fn new(rounds: usize) -> Samples {
        Samples(Vec::with_capacity(rounds))
    }

    pub fn add(&mut self, number: u64) {
        self.0.push(number);
    }

    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Each less what measuring takes by itself.
    pub fn less(&self, alone: u64) -> Samples {
        Samples(self.0.iter().map(|number| number.saturating_sub(alone)).collect())
    }

    pub fn summary(&self) -> Summary {
        let mut all = self.0.clone();
        all.sort_unstable();
        match all.as_slice() {
            [] => Summary::default(),
            all => Summary { median: all[all.len() / 2], least: all[0], greatest: all[all.len() - 1], n: all.len() },
        }
    }
}

impl Summary {
    /// What one of `n` equal parts comes to.
    pub fn part(self, n: u64) -> Summary {
        self.map(|sum| (sum + n / 2) / n)
    }

    /// The same in another unit.
    pub fn map(self, to: impl Fn(u64) -> u64) -> Summary {
        Summary { median: to(self.median), least: to(self.least), greatest: to(self.greatest), n: self.n }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let mut samples = Samples::new(3);
        assert_eq!(samples.summary(), Summary::default());
        [9, 1, 5].into_iter().for_each(|n| samples.add(n));
        assert_eq!(samples.summary(), Summary { median: 5, least: 1, greatest: 9, n: 3 });
        assert_eq!(samples.summary().part(2), Summary { median: 3, least: 1, greatest: 5, n: 3 });
        assert_eq!(samples.sum(), 15);
        assert_eq!(samples.less(4).summary(), Summary { median: 1, least: 0, greatest: 5, n: 3 });
    }
}
