//! Queues and timers against plain lists.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Turn {
    Ready(usize),
    Run(usize),
    Steal(usize, usize),
    Kill(u32),
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        3 => (0..4usize).prop_map(Turn::Ready),
        3 => (0..4usize).prop_map(Turn::Run),
        2 => (0..4usize, 0..4usize).prop_map(|(thief, from)| Turn::Steal(thief, from)),
        1 => (0..60u32).prop_map(Turn::Kill),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// Four processors run, steal and kill threads: each thread is in exactly one place, and turns come in order.
    #[test]
    fn no_thread_is_lost_or_twice(turns in prop::collection::vec(turn(), 0..200)) {
        let mut rings: Vec<Ring<u32>> = (0..4).map(|_| Ring::new()).collect();
        let mut lists: Vec<Vec<u32>> = vec![Vec::new(); 4];
        let mut born = 0;
        for turn in turns {
            match turn {
                Turn::Ready(at) => {
                    rings[at].push_back(born);
                    lists[at].push(born);
                    born += 1;
                }
                Turn::Run(at) => {
                    // Its quantum ends, and it queues again.
                    let expected = (!lists[at].is_empty()).then(|| lists[at].remove(0));
                    let thread = rings[at].pop_front();
                    prop_assert_eq!(thread, expected);
                    if let Some(thread) = thread {
                        rings[at].push_back(thread);
                        lists[at].push(thread);
                    }
                }
                Turn::Steal(thief, from) => {
                    let thread = rings[from].steal();
                    prop_assert_eq!(thread, lists[from].pop());
                    if let Some(thread) = thread {
                        rings[thief].push_back(thread);
                        lists[thief].push(thread);
                    }
                }
                Turn::Kill(thread) => {
                    let found: Vec<u32> = rings.iter_mut().filter_map(|ring| ring.remove(|t| *t == thread)).collect();
                    let there = lists.iter().flatten().filter(|t| **t == thread).count();
                    prop_assert_eq!(found.len(), there);
                    lists.iter_mut().for_each(|list| list.retain(|t| *t != thread));
                }
            }
            for (ring, list) in rings.iter().zip(&lists) {
                prop_assert_eq!((ring.len(), ring.is_empty()), (list.len(), list.is_empty()));
            }
        }
        for (mut ring, list) in rings.into_iter().zip(lists) {
            prop_assert_eq!(std::iter::from_fn(|| ring.pop_front()).collect::<Vec<_>>(), list);
        }
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
        let (mut found, mut end) = (Vec::new(), usize::MAX);
        while end != 0 {
            let (part, begin) = crowd.before(end, most);
            prop_assert!(part.len() <= most);
            found.extend(part.iter().filter(|one| one.1).map(|one| one.0));
            end = begin;
            // Others come meanwhile, and who has left is forgotten.
            crowd.join((usize::MAX, false), |other| !other.1);
        }
        found.sort_unstable();
        found.dedup();
        prop_assert_eq!(&found, &wanted);
        let mut all: Vec<usize> = crowd.disband().into_iter().filter(|one| one.1).map(|one| one.0).collect();
        all.sort_unstable();
        prop_assert_eq!(all, wanted);
        prop_assert!(crowd.is_empty());
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
