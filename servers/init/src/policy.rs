//! When a server that has ended is started again.

/// Who has been there for so long was well: what came before does not count any more.
pub const STEADY_NS: u64 = 10_000_000_000;
/// Pause before the second start in a row of short lives, in ns; it doubles each time. The first comes at once.
const PAUSE_NS: u64 = 10_000_000;
const PAUSE_MAX_NS: u64 = 1_000_000_000;
/// A server that was never ready so often in a row is given up, if the machine is of use without it: one that cannot be started.
pub const NEVER_READY: u32 = 8;

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
    /// Of those, the last ones that came before it was ready.
    unready: u32,
}

impl Policy {
    /// It has ended by itself, and was there for so long; `None`: it was never ready. Who was ready once has served, and is started again
    /// however often it ends.
    pub fn died(&mut self, needed: bool, lived_ns: Option<u64>) -> Verdict {
        let was_well = lived_ns.is_some_and(|ns| ns >= STEADY_NS);
        self.short_lives = if was_well { 1 } else { self.short_lives.saturating_add(1) };
        self.unready = if lived_ns.is_some() { 0 } else { self.unready.saturating_add(1) };
        if self.unready >= NEVER_READY && !needed {
            return Verdict::GiveUp;
        }
        let doublings = self.short_lives.checked_sub(2);
        Verdict::After(doublings.map_or(0, |n| (PAUSE_NS << n.min(20)).min(PAUSE_MAX_NS)))
    }

    /// Somebody had it ended, or wants it started whatever was.
    pub fn forgive(&mut self) {
        *self = Policy::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_start_comes_at_once_and_each_further_one_later() {
        let mut policy = Policy::default();
        let pauses: std::vec::Vec<_> = (0..7).map(|_| policy.died(false, Some(0))).collect();
        let wanted = [0, 10, 20, 40, 80, 160, 320].map(|ms| Verdict::After(ms * 1_000_000));
        assert_eq!(pauses, wanted);
        assert_eq!(policy.died(false, Some(STEADY_NS - 1)), Verdict::After(640_000_000));
    }

    #[test]
    fn who_was_well_for_a_while_begins_anew() {
        let mut policy = Policy::default();
        for _ in 0..100 {
            assert_eq!(policy.died(false, Some(STEADY_NS)), Verdict::After(0));
        }
        (0..6).for_each(|_| _ = policy.died(false, Some(0)));
        assert_eq!(policy.died(false, Some(STEADY_NS)), Verdict::After(0));
        policy.forgive();
        assert_eq!(policy.died(false, Some(0)), Verdict::After(0));
    }

    #[test]
    fn who_has_served_is_started_again_however_often_it_ends() {
        let mut policy = Policy::default();
        for _ in 0..1000 {
            assert!(matches!(policy.died(false, Some(0)), Verdict::After(_)));
            (1..NEVER_READY).for_each(|_| assert!(policy.died(false, None) != Verdict::GiveUp));
        }
        assert_eq!(policy.died(false, Some(0)), Verdict::After(PAUSE_MAX_NS));
    }

    #[test]
    fn who_is_never_ready_is_given_up_unless_it_is_needed() {
        let mut policy = Policy::default();
        (1..NEVER_READY).for_each(|_| assert!(policy.died(false, None) != Verdict::GiveUp));
        assert_eq!(policy.died(false, None), Verdict::GiveUp);
        let last = (0..1000).map(|_| policy.died(true, None)).last();
        assert_eq!(last, Some(Verdict::After(PAUSE_MAX_NS)));
        (policy.short_lives, policy.unready) = (u32::MAX, u32::MAX);
        assert_eq!(policy.died(true, None), Verdict::After(PAUSE_MAX_NS));
    }
}
