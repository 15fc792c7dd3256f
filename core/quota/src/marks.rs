//! When somebody is told that the machine's memory runs short (SSS-59): once when it has fallen below a mark, and once when it is above a
//! higher one again, so that a value that goes up and down around one of them is not news each time.

/// The two marks, in whatever free memory is counted in, and on which side it was seen last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    low: u64,
    high: u64,
    is_short: bool,
}

/// What is news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There is less than the low mark.
    Short,
    /// There is more than the high mark again.
    Enough,
}

impl Marks {
    /// `None`: the low one is above the high one.
    #[must_use]
    pub const fn new(low: u64, high: u64) -> Option<Marks> {
        if low <= high { Some(Marks { low, high, is_short: false }) } else { None }
    }

    /// So much is free now.
    pub fn look(&mut self, free: u64) -> Option<Turn> {
        match self.is_short {
            false if free < self.low => {
                self.is_short = true;
                Some(Turn::Short)
            }
            true if free > self.high => {
                self.is_short = false;
                Some(Turn::Enough)
            }
            _ => None,
        }
    }

    /// What is no news: as long as free memory is within this, [`Marks::look`] need not be asked.
    #[must_use]
    pub const fn quiet(&self) -> (u64, u64) {
        if self.is_short { (0, self.high) } else { (self.low, u64::MAX) }
    }
}

/// Whether memory is short for the one who is told of it, where it was before and so much is free by now. Who was told something since then
/// asks for memory up to the high mark even if some has come back meanwhile: nothing more is said until there is enough, however little
/// there is by then.
#[must_use]
pub const fn is_short(was: bool, told: bool, free: u64, [low, high]: [u64; 2]) -> bool {
    free <= high && (was || told || free < low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whenever the one who tells would say nothing more though there is less than the low mark, the one who hears takes it for short:
        /// whatever was free when he came to look.
        #[test]
        fn who_is_told_late_misses_nothing(
            low in 1u64..50, more in 0u64..50, seen in proptest::collection::vec((0u64..120, any::<bool>()), 0..200)
        ) {
            let high = low + more;
            let mut marks = Marks::new(low, high).unwrap();
            let (mut told, mut short) = (false, false);
            for (free, comes) in seen {
                told |= marks.look(free).is_some();
                // He looks, which he need not do at once.
                if comes {
                    short = is_short(short, told, free, [low, high]);
                    told = false;
                }
                prop_assert!(free >= low || short || told, "{} free and nobody sees to it", free);
            }
        }
    }

    #[test]
    fn marks_in_the_wrong_order_are_none() {
        assert_eq!(Marks::new(2, 1), None);
        assert!(Marks::new(1, 1).is_some());
    }

    proptest! {
        /// Against the definition: news alternate, each when it is true, and none is overlooked.
        #[test]
        fn news_alternate(low in 0u64..50, more in 0u64..50, seen in proptest::collection::vec(0u64..120, 0..200)) {
            let high = low + more;
            let mut marks = Marks::new(low, high).unwrap();
            let mut short = false;
            for free in seen {
                let (from, to) = marks.quiet();
                let news = marks.look(free);
                match news {
                    Some(Turn::Short) => {
                        prop_assert!(!short && free < low);
                        short = true;
                    }
                    Some(Turn::Enough) => {
                        prop_assert!(short && free > high);
                        short = false;
                    }
                    None => {
                        let quiet = if short { free <= high } else { free >= low };
                        prop_assert!(quiet);
                    }
                }
                prop_assert_eq!(news.is_none(), (from..=to).contains(&free));
            }
        }
    }
}
