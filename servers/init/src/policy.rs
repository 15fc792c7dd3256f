//! When a server that has ended is started again, and when no more.

/// Who has been there for so long was well: what came before does not count any more.
pub const STEADY_NS: u64 = 10_000_000_000;
/// A server that ends so often in a row, each time before it was there for that long, is given up, if the machine is of use without it.
pub const SHORT_LIVES: u32 = 8;
/// Pause before the second start in such a row, in ns; it doubles each time. The first comes at once.
const PAUSE_NS: u64 = 10_000_000;
const PAUSE_MAX_NS: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is started again after so many ns.
    After(u64),
    GiveUp,
}

/// What is remembered of one server.
#[derive(Debug, Default)]
pub struct Policy {
    /// Ends in a row, each after a short life.
    short_lives: u32,
}

impl Policy {
    /// It has ended by itself, and was there for so long.
    pub fn died(&mut self, needed: bool, lived_ns: u64) -> Verdict {
        self.short_lives = if lived_ns >= STEADY_NS { 1 } else { self.short_lives.saturating_add(1) };
        if self.short_lives >= SHORT_LIVES && !needed {
            return Verdict::GiveUp;
        }
        let doublings = self.short_lives.checked_sub(2);
        Verdict::After(doublings.map_or(0, |n| (PAUSE_NS << n.min(20)).min(PAUSE_MAX_NS)))
    }

    /// Somebody had it ended, or wants it started whatever was.
    pub fn forgive(&mut self) {
        self.short_lives = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_start_comes_at_once_and_each_further_one_later() {
        let mut policy = Policy::default();
        let pauses: std::vec::Vec<_> = (0..7).map(|_| policy.died(false, 0)).collect();
        let wanted = [0, 10, 20, 40, 80, 160, 320].map(|ms| Verdict::After(ms * 1_000_000));
        assert_eq!(pauses, wanted);
        assert_eq!(policy.died(false, STEADY_NS - 1), Verdict::GiveUp);
    }

    #[test]
    fn who_was_well_for_a_while_begins_anew() {
        let mut policy = Policy::default();
        for _ in 0..100 {
            assert_eq!(policy.died(false, STEADY_NS), Verdict::After(0));
        }
        (0..6).for_each(|_| assert!(policy.died(false, 0) != Verdict::GiveUp));
        assert_eq!(policy.died(false, STEADY_NS), Verdict::After(0));
        policy.forgive();
        assert_eq!(policy.died(false, 0), Verdict::After(0));
    }

    #[test]
    fn what_is_needed_is_never_given_up() {
        let mut policy = Policy::default();
        let last = (0..1000).map(|_| policy.died(true, 0)).last();
        assert_eq!(last, Some(Verdict::After(PAUSE_MAX_NS)));
        policy.short_lives = u32::MAX;
        assert_eq!(policy.died(true, 0), Verdict::After(PAUSE_MAX_NS));
    }
}
