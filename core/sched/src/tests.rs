//! Queues and timers against plain lists.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Turn {
    Ready(usize),
    Called(usize),
    Run(usize),
    Steal(usize, usize),
    Kill(u32),
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        3 => (0..4usize).prop_map(Turn::Ready),
        2 => (0..4usize).prop_map(Turn::Called),
        4 => (0..4usize).prop_map(Turn::Run),
        2 => (0..4usize, 0..4usize).prop_map(|(thief, from)| Turn::Steal(thief, from)),
        1 => (0..60u32).prop_map(Turn::Kill),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// Four processors run, steal and kill threads, some of which interrupts call: each thread is in exactly one place, and turns come in
    /// order.
    #[test]
    fn no_thread_is_lost_or_twice(turns in prop::collection::vec(turn(), 0..200)) {
        let mut rings: Vec<Ring<u32>> = (0..4).map(|_| Ring::new()).collect();
        let mut lists: Vec<List> = vec![List::default(); 4];
        let mut born = 0;
        for turn in turns {
            match turn {
                Turn::Ready(at) => {
                    rings[at].push_back(born);
                    lists[at].others.push(born);
                    born += 1;
                }
                Turn::Called(at) => {
                    rings[at].push_called(born);
                    lists[at].called.push(born);
                    born += 1;
                }
                Turn::Run(at) => {
                    // Its quantum ends, and it queues again.
                    let expected = lists[at].next();
                    let thread = rings[at].pop_front();
                    prop_assert_eq!(thread, expected);
                    if let Some(thread) = thread {
                        rings[at].push_back(thread);
                        lists[at].others.push(thread);
                    }
                }
                Turn::Steal(thief, from) => {
                    let thread = rings[from].steal();
                    let list = &mut lists[from];
                    prop_assert_eq!(thread, list.others.pop().or_else(|| list.called.pop()));
                    if let Some(thread) = thread {
                        rings[thief].push_back(thread);
                        lists[thief].others.push(thread);
                    }
                }
                Turn::Kill(thread) => {
                    let found: Vec<u32> = rings.iter_mut().filter_map(|ring| ring.remove(|t| *t == thread)).collect();
                    let there = lists.iter().flat_map(List::all).filter(|t| **t == thread).count();
                    prop_assert_eq!(found.len(), there);
                    for list in &mut lists {
                        list.called.retain(|t| *t != thread);
                        list.others.retain(|t| *t != thread);
                    }
                }
            }
            for (ring, list) in rings.iter().zip(&lists) {
                let len = list.all().count();
                prop_assert_eq!((ring.len(), ring.is_empty()), (len, len == 0));
            }
        }
        for (mut ring, mut list) in rings.into_iter().zip(lists) {
            let left: Vec<u32> = std::iter::from_fn(|| list.next()).collect();
            prop_assert_eq!(std::iter::from_fn(|| ring.pop_front()).collect::<Vec<_>>(), left);
        }
    }

    /// Whatever comes: before one who is called at most those who were called before him have their turns, and of the others one for each
    /// [`IN_A_ROW`] of these; and of the others one has his turn at the latest after so many who were called.
    #[test]
    fn who_is_called_waits_for_few_and_keeps_nobody_waiting(comes in prop::collection::vec((0..8u32, 0..3u32), 1..200)) {
        let mut ring = Ring::new();
        // (Called, those before him, turns since.)
        let mut waiting: Vec<(bool, u32, u32)> = Vec::new();
        let mut in_a_row = 0;
        let mut take = |ring: &mut Ring<usize>, waiting: &mut Vec<(bool, u32, u32)>| {
            let others = waiting.iter().any(|one| !one.0 && one.2 != u32::MAX);
            let Some(one) = ring.pop_front() else { return Ok(()) };
            let (called, before, since) = core::mem::replace(&mut waiting[one], (false, 0, u32::MAX));
            in_a_row = if called && others { in_a_row + 1 } else { 0 };
            prop_assert!(in_a_row <= IN_A_ROW, "{in_a_row} who were called in a row");
            let most = before + before / IN_A_ROW + 1;
            prop_assert!(!called || since <= most, "{since} turns, {before} called before");
            waiting.iter_mut().filter(|one| one.2 != u32::MAX).for_each(|one| one.2 += 1);
            Ok(())
        };
        for (called, others) in comes {
            for called in (0..called).map(|_| true).chain((0..others).map(|_| false)) {
                let before = waiting.iter().filter(|one| one.0 && one.2 != u32::MAX).count() as u32;
                if called { ring.push_called(waiting.len()) } else { ring.push_back(waiting.len()) }
                waiting.push((called, before, 0));
            }
            (0..3).try_for_each(|_| take(&mut ring, &mut waiting))?;
        }
        while !ring.is_empty() {
            take(&mut ring, &mut waiting)?;
        }
        prop_assert!(waiting.iter().all(|one| one.2 == u32::MAX));
    }
}

/// A ready queue as two plain lists, and who of them was called how often in a row.
#[derive(Clone, Debug, Default)]
struct List {
    called: Vec<u32>,
    others: Vec<u32>,
    in_a_row: u32,
}

impl List {
    fn next(&mut self) -> Option<u32> {
        let from = match (self.called.len(), self.others.len()) {
            (0, 0) => {
                self.in_a_row = 0;
                return None;
            }
            (1.., 0) => &mut self.called,
            (1.., _) if self.in_a_row < IN_A_ROW => &mut self.called,
            _ => {
                self.in_a_row = 0;
                return Some(self.others.remove(0));
            }
        };
        self.in_a_row += 1;
        Some(from.remove(0))
    }

    fn all(&self) -> impl Iterator<Item = &u32> {
        self.called.iter().chain(&self.others)
    }
}

#[derive(Clone, Debug)]
enum Tick {
    Add(u64),
    Cancel(prop::sample::Index),
    Pass(u64),
}

/// Deadlines that collide, and the one that never comes.
fn tick() -> impl Strategy<Value = Tick> {
    prop_oneof![
        4 => prop_oneof![9 => 0..60u64, 1 => Just(u64::MAX)].prop_map(Tick::Add),
        2 => any::<prop::sample::Index>().prop_map(Tick::Cancel),
        2 => (0..8u64).prop_map(Tick::Pass),
    ]
}

proptest! {
    /// Of a crowd in which some leave, those who stay are all found, each once, however it is gone through; and it stays short.
    #[test]
    fn a_crowd_forgets_only_who_has_left(stays in prop::collection::vec(any::<bool>(), 0..300), most in 1..20usize) {
        let mut crowd = Crowd::new();
        for (n, stays) in stays.iter().enumerate() {
            crowd.join((n, *stays), |other| !other.1);
        }
        let wanted: Vec<usize> = (0..stays.len()).filter(|n| stays[*n]).collect();
        prop_assert!(crowd.len() <= 2 * wanted.len() + 2 * Crowd::<()>::LOOKS);
        // First only looked at; then by one who forgets, a few each time, who has left. Others come meanwhile.
        for round in 0..=most + 1 {
            let (mut found, mut end) = (Vec::new(), usize::MAX);
            while end != 0 {
                let (part, begin) = match round {
                    0 => crowd.before(end, most),
                    _ => crowd.sifted(end, most, |other| !other.1),
                };
                prop_assert!(part.len() <= most);
                found.extend(part.iter().filter(|one| one.1).map(|one| one.0));
                end = begin;
                crowd.join((usize::MAX, false), |other| !other.1);
            }
            found.sort_unstable();
            found.dedup();
            prop_assert_eq!(&found, &wanted);
        }
        // One has come for each part.
        prop_assert!(crowd.len() <= wanted.len() + 2 * (stays.len().div_ceil(most) + 2), "who has left is remembered");
        let mut all: Vec<usize> = crowd.disband().into_iter().filter(|one| one.1).map(|one| one.0).collect();
        all.sort_unstable();
        prop_assert_eq!(all, wanted);
        prop_assert!(crowd.is_empty());
    }

    /// A queue in pieces is a queue; and no piece is longer than a page, nor empty beside others.
    #[test]
    fn pieces_are_a_queue(steps in prop::collection::vec((0..6u8, any::<u8>()), 0..900)) {
        // Three in a piece.
        type One = [u64; 170];
        let (mut real, mut model) = (Pieces::<One>::new(), std::collections::VecDeque::new());
        for (what, n) in steps {
            let one = [u64::from(n); 170];
            let (got, wanted) = match what {
                0..3 => {
                    real.push_back(one);
                    model.push_back(one);
                    (None, None)
                }
                3 => (real.pop_front(), model.pop_front()),
                4 => (real.pop_back(), model.pop_back()),
                _ => {
                    let at = model.iter().position(|other| other[0] % 16 == one[0] % 16);
                    (real.remove(|other| other[0] % 16 == one[0] % 16), at.and_then(|at| model.remove(at)))
                }
            };
            prop_assert_eq!(got, wanted);
            prop_assert!(real.iter().eq(model.iter()));
            prop_assert_eq!((real.len(), real.is_empty()), (model.len(), model.is_empty()));
            prop_assert!(real.lengths().all(|len| (1..=3).contains(&len)) || real.lengths().eq([0]));
        }
    }

    /// However many wait, who joins looks twice.
    #[test]
    fn joining_a_crowd_looks_at_two(there in prop_oneof![0..4usize, 0..1000usize]) {
        let mut crowd = Crowd::new();
        (0..there).for_each(|n| crowd.join(n, |_| false));
        let looks = core::cell::Cell::new(0);
        crowd.join(there, |_| { looks.set(looks.get() + 1); false });
        prop_assert_eq!(looks.get(), if there == 0 { 0 } else { Crowd::<()>::LOOKS });
    }
}

/// A thread ends where it runs, or has begun to wait. Who was made ready meanwhile, and may run elsewhere by now, does not.
#[test]
fn a_thread_ends_once_and_where_it_is() {
    let mut life = Life::new();
    let turn = life.ready().unwrap();
    assert!(!life.end(0), "it is ready");
    life.claim(turn, 1).unwrap();
    assert!(!life.end(0), "it runs elsewhere");
    assert!(life.wait());
    let turn = life.ready().unwrap();
    assert!(!life.end(1), "somebody has made it ready");
    life.claim(turn, 2).unwrap();
    assert!(!life.end(1) && life.wait() && life.end(2) && !life.end(2));
    assert_eq!(life.phase(), Phase::Ended);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// Each timer either expires once, not before its time and in the order of deadlines, or was cancelled once.
    #[test]
    fn timers_agree_with_a_list(ticks in prop::collection::vec(tick(), 0..150)) {
        let mut timers = Timers::new();
        let mut keys: Vec<(Key, usize)> = Vec::new();
        // (deadline, number)
        let mut list: Vec<(u64, usize)> = Vec::new();
        let mut now = 0;
        for tick in ticks {
            match tick {
                Tick::Add(deadline) => {
                    keys.push((timers.add(deadline, keys.len()), keys.len()));
                    list.push((deadline, keys.len() - 1));
                    list.sort();
                }
                Tick::Cancel(which) if !keys.is_empty() => {
                    // Also those that have expired or were cancelled before.
                    let (key, number) = keys[which.index(keys.len())];
                    let there = list.iter().position(|(_, other)| *other == number);
                    prop_assert_eq!(timers.cancel(key), there.map(|at| list.remove(at).1));
                }
                Tick::Cancel(_) => {}
                Tick::Pass(ns) => {
                    now += ns;
                    while list.first().is_some_and(|(deadline, _)| *deadline <= now) {
                        prop_assert_eq!(timers.expired(now), Some(list.remove(0).1));
                    }
                    prop_assert_eq!(timers.expired(now), None);
                }
            }
            prop_assert_eq!(timers.next(), list.first().map(|(deadline, _)| *deadline));
        }
    }
}
