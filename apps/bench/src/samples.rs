//! Numbers measured again and again.

use alloc::vec::Vec;

#[derive(Debug, Default)]
pub struct Samples(Vec<u64>);

impl Samples {
    pub fn new(rounds: usize) -> Samples {
        Samples(Vec::with_capacity(rounds))
    }

    pub fn add(&mut self, ticks: u64) {
        self.0.push(ticks);
    }

    /// (median, least, greatest).
    pub fn summary(&mut self) -> (u64, u64, u64) {
        self.0.sort_unstable();
        match self.0.as_slice() {
            [] => (0, 0, 0),
            all => (all[all.len() / 2], all[0], all[all.len() - 1]),
        }
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_median_is_in_the_middle() {
        let mut samples = super::Samples::new(3);
        assert_eq!(samples.summary(), (0, 0, 0));
        [9, 1, 5].into_iter().for_each(|n| samples.add(n));
        assert_eq!((samples.summary(), samples.len()), ((5, 1, 9), 3));
    }
}
