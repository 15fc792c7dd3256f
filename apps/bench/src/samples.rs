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
    /// What 99 of a hundred do not exceed.
    pub late: u64,
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

    /// Each and what was measured beside it.
    pub fn and(&self, other: &Samples) -> Samples {
        Samples(self.0.iter().zip(&other.0).map(|(one, other)| one + other).collect())
    }

    /// Each less what measuring takes by itself.
    pub fn less(&self, alone: u64) -> Samples {
        Samples(self.0.iter().map(|number| number.saturating_sub(alone)).collect())
    }

    /// Those whose numbers in `by` are not greater than mostly, and the others.
    pub fn parted(&self, by: &Samples) -> [Samples; 2] {
        let most = by.summary().median;
        let of =
            |is_more: bool| self.0.iter().zip(&by.0).filter(move |(_, by)| (**by > most) == is_more).map(|all| *all.0);
        [false, true].map(|is_more| Samples(of(is_more).collect()))
    }

    pub fn summary(&self) -> Summary {
        let mut all = self.0.clone();
        all.sort_unstable();
        match all.as_slice() {
            [] => Summary::default(),
            all => Summary {
                median: all[all.len() / 2],
                least: all[0],
                greatest: all[all.len() - 1],
                late: all[(all.len() * 99).div_ceil(100) - 1],
                n: all.len(),
            },
        }
    }
}

impl Summary {
    /// Of one number that says something about `n` of them.
    pub const fn of(value: u64, n: usize) -> Summary {
        Summary { median: value, least: value, greatest: value, late: value, n }
    }

    /// What one of `n` equal parts comes to.
    pub fn part(self, n: u64) -> Summary {
        self.map(|sum| (sum + n / 2) / n)
    }

    /// The same in another unit.
    pub fn map(self, to: impl Fn(u64) -> u64) -> Summary {
        let Summary { median, least, greatest, late, n } = self;
        Summary { median: to(median), least: to(least), greatest: to(greatest), late: to(late), n }
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
        assert_eq!(samples.summary(), Summary { median: 5, least: 1, greatest: 9, late: 9, n: 3 });
        assert_eq!(samples.summary().part(2), Summary { median: 3, least: 1, greatest: 5, late: 5, n: 3 });
        assert_eq!(samples.sum(), 15);
        assert_eq!(samples.less(4).summary(), Summary { median: 1, least: 0, greatest: 5, late: 5, n: 3 });
    }

    #[test]
    fn some_were_disturbed() {
        let all = |numbers: &[u64]| Samples(numbers.to_vec());
        let [quiet, others] = all(&[7, 90, 6, 8]).parted(&all(&[1, 2, 0, 1]));
        assert_eq!((quiet.0, others.0), (Vec::from([7, 6, 8]), Vec::from([90])));
        let [quiet, others] = all(&[7, 8]).parted(&all(&[3, 3]));
        assert_eq!((quiet.0.len(), others.summary().n), (2, 0));
    }

    #[test]
    fn one_of_a_hundred_is_later() {
        let late = |count: u64| {
            let mut samples = Samples::new(0);
            (1..=count).rev().for_each(|n| samples.add(n));
            samples.summary().late
        };
        assert_eq!([1, 2, 99, 100, 101, 200].map(late), [1, 2, 99, 99, 100, 198]);
    }
}
