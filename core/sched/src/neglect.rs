//! Threads that are ready while all processors rest: whoever decides has forgotten them, or means them harm. A policy may let a thread wait as
//! long as somebody else runs; that nobody runs helps none.

/// The same thread is found so at two looks, with at least this time between them, in nanoseconds.
pub const NEGLECT_NS: u64 = 100_000_000;

/// A processor that is told to rest does so at least this long if nothing happens, in nanoseconds.
pub const REST_NS: u64 = 100_000;

/// A thread that is ready, and for which turn.
type Waiter = (u64, u64);

/// When all processors are looked at, and whom the last look has found.
#[derive(Debug, Default)]
pub struct Neglect {
    looks_at: Option<u64>,
    suspect: Option<Waiter>,
    is_looking: bool,
}

/// What the last one to rest does.
#[derive(Debug, PartialEq, Eq)]
pub enum Rest {
    /// Somebody else does it.
    Nothing,
    /// It looks at that time, if all rest then.
    Until(u64),
    /// It looks now: at each thread that is ready, by [`Look::sees`].
    Look(Look),
}

/// One look at all threads.
#[derive(Debug, PartialEq, Eq)]
pub struct Look {
    suspect: Option<Waiter>,
    is_same: bool,
    first: Option<Waiter>,
    next: Option<Waiter>,
}

/// What comes of a look.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    /// Nobody is ready, or somebody does not rest any more.
    Nothing,
    /// Somebody is: to be looked at again then.
    Again(u64),
    /// This thread has been ready for the same turn since the last look.
    Neglected(u64),
}

impl Neglect {
    /// Before the first look.
    pub const fn new() -> Neglect {
        Neglect { looks_at: None, suspect: None, is_looking: false }
    }

    /// All processors rest at time `now`.
    pub fn rests(&mut self, now: u64) -> Rest {
        if self.is_looking {
            return Rest::Nothing;
        }
        let at = *self.looks_at.get_or_insert(now + NEGLECT_NS);
        if now < at {
            return Rest::Until(at);
        }
        self.is_looking = true;
        Rest::Look(Look { suspect: self.suspect, is_same: false, first: None, next: None })
    }

    /// All threads were looked at; `all_rest` yet, at time `now`.
    pub fn looked(&mut self, look: Look, all_rest: bool, now: u64) -> Seen {
        (self.is_looking, self.looks_at) = (false, None);
        if !all_rest {
            // The suspect has been ready since then if he still is at the next look.
            return Seen::Nothing;
        }
        self.suspect = None;
        if let Some((thread, _)) = look.suspect.filter(|_| look.is_same) {
            return Seen::Neglected(thread);
        }
        let Some(found) = look.next.or(look.first) else { return Seen::Nothing };
        self.suspect = Some(found);
        Seen::Again(*self.looks_at.insert(now + NEGLECT_NS))
    }
}

impl Look {
    /// This thread is ready for this turn.
    pub fn sees(&mut self, thread: u64, turn: u64) {
        let found = (thread, turn);
        self.is_same |= self.suspect == Some(found);
        let least = |had: Option<Waiter>| Some(had.map_or(found, |had| had.min(found)));
        self.first = least(self.first);
        // The next one each time, in whatever order they are seen, so that nobody hides behind one who has a turn now and then.
        if self.suspect.is_none_or(|(before, _)| thread > before) {
            self.next = least(self.next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(neglect: &mut Neglect, now: u64, ready: &[Waiter], all_rest: bool) -> Seen {
        let Rest::Look(mut look) = neglect.rests(now) else { panic!("it does not look at {now}") };
        ready.iter().for_each(|(thread, turn)| look.sees(*thread, *turn));
        neglect.looked(look, all_rest, now)
    }

    #[test]
    fn who_is_ready_at_two_looks_is_neglected() {
        let mut neglect = Neglect::new();
        assert_eq!(neglect.rests(5), Rest::Until(5 + NEGLECT_NS));
        assert_eq!(neglect.rests(9), Rest::Until(5 + NEGLECT_NS));
        let then = 7 + NEGLECT_NS;
        assert_eq!(look(&mut neglect, then, &[(3, 8), (4, 2)], true), Seen::Again(then + NEGLECT_NS));
        assert_eq!(neglect.rests(then + 1), Rest::Until(then + NEGLECT_NS));
        assert_eq!(look(&mut neglect, then + NEGLECT_NS, &[(4, 2), (3, 8)], true), Seen::Neglected(3));
        assert_eq!(neglect.rests(2 * then), Rest::Until(2 * then + NEGLECT_NS), "it begins anew");
    }

    #[test]
    fn who_has_had_a_turn_is_not() {
        let mut neglect = Neglect::new();
        neglect.rests(0);
        assert_eq!(look(&mut neglect, NEGLECT_NS, &[(3, 8)], true), Seen::Again(2 * NEGLECT_NS));
        assert_eq!(look(&mut neglect, 2 * NEGLECT_NS, &[(3, 9)], true), Seen::Again(3 * NEGLECT_NS));
        assert_eq!(look(&mut neglect, 3 * NEGLECT_NS, &[], true), Seen::Nothing);
    }

    #[test]
    fn nobody_hides_behind_one_who_has_turns() {
        let mut neglect = Neglect::new();
        neglect.rests(0);
        for looks in 1..=3 {
            let found = look(&mut neglect, looks * NEGLECT_NS, &[(3, looks), (7, 1)], true);
            let wanted = if looks < 3 { Seen::Again((looks + 1) * NEGLECT_NS) } else { Seen::Neglected(7) };
            assert_eq!(found, wanted, "look {looks}");
        }
    }

    #[test]
    fn nobody_hides_in_any_order() {
        let mut neglect = Neglect::new();
        neglect.rests(0);
        // All but 17 have turns, and the kernel's table has them in this order.
        let mut outcomes =
            (1..=6).map(|n| look(&mut neglect, n * NEGLECT_NS, &[(16, n), (32, n), (17, 1), (33, n)], true));
        assert_eq!(outcomes.find(|seen| matches!(seen, Seen::Neglected(_))), Some(Seen::Neglected(17)));
    }

    #[test]
    fn while_somebody_works_nobody_is() {
        let mut neglect = Neglect::new();
        neglect.rests(0);
        assert_eq!(look(&mut neglect, NEGLECT_NS, &[(3, 8)], true), Seen::Again(2 * NEGLECT_NS));
        assert_eq!(look(&mut neglect, 2 * NEGLECT_NS, &[(3, 8)], false), Seen::Nothing);
        // He is remembered: he has waited since then.
        assert_eq!(neglect.rests(3 * NEGLECT_NS), Rest::Until(4 * NEGLECT_NS));
        assert_eq!(look(&mut neglect, 4 * NEGLECT_NS, &[(3, 8)], true), Seen::Neglected(3));
    }

    #[test]
    fn one_looks_at_a_time() {
        let mut neglect = Neglect::new();
        neglect.rests(0);
        let first = neglect.rests(NEGLECT_NS);
        assert!(matches!(first, Rest::Look(_)));
        assert_eq!(neglect.rests(NEGLECT_NS), Rest::Nothing);
    }
}
