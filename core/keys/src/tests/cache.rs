//! Who gets a key, who keeps it, and what that costs.

use super::*;
use crate::misses::REMEMBERED;
use std::cell::Cell;
use std::collections::BTreeSet;

/// A program and the servers that it calls, each with a class of its own. Calls that find a key do not enter the kernel.
pub(super) struct Program {
    pub keys: Keys,
    servers: Vec<Class>,
    uses: [u64; 16],
    calls: u64,
    hits: u64,
    /// Most questions that one call made the cache ask back.
    asked: u64,
}

impl Program {
    pub fn bound_to(servers: u64) -> Program {
        let servers = (1..=servers).map(private).collect();
        Program { keys: Keys::new(), servers, uses: [0; 16], calls: 0, hits: 0, asked: 0 }
    }

    /// Calls a server. Whether it has a key already.
    pub fn call(&mut self, server: usize) -> bool {
        let asked = Cell::new(0);
        let count = |answer| {
            asked.set(asked.get() + 1);
            answer
        };
        let class = &self.servers[server];
        let due = self.keys.is_due(class);
        let before = self.keys.stats();
        let want = self.keys.earn(class, |_| count(false), due.then_some(&self.uses));
        self.asked = self.asked.max(asked.get());
        assert!(due || before.looks == self.keys.stats().looks);
        self.calls += 1;
        match want {
            Want::Has(key) => {
                self.uses[usize::from(key.number())] += 1;
                self.hits += 1;
                true
            }
            Want::Take { evicted, .. } => {
                let left = evicted.map(|leaving| self.keys.settle(leaving).cloned());
                assert!(left.is_none_or(|holder| holder.as_ref() == Some(class)));
                false
            }
            Want::None => false,
        }
    }

    pub fn has_key(&self, server: usize) -> bool {
        self.keys.classes().any(|(_, class)| *class == self.servers[server])
    }

    /// Hits among the calls since the counts were last taken.
    fn rate(&mut self) -> f64 {
        let rate = self.hits as f64 / self.calls as f64;
        (self.hits, self.calls) = (0, 0);
        rate
    }
}

/// The same numbers on every run.
struct Dice(u64);

impl Dice {
    /// A number below `below`.
    fn throw(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }
}

/// Everything that holds after any step.
fn holds(keys: &Keys) {
    let stats = keys.stats();
    assert!(stats.evicted * u64::from(IDLE) <= stats.misses, "{stats:?}");
    assert!(stats.looks * 8 <= 3 * stats.misses, "{stats:?}");
    assert!(stats.evicted <= stats.looks && stats.evicted <= stats.given, "{stats:?}");
    let owners: Vec<(Key, &Class)> = keys.classes().collect();
    assert!(owners.len() <= CLASS_KEYS);
    for (at, (key, class)) in owners.iter().enumerate() {
        assert!(*key > Key::GATE && key.number() < 16);
        assert!(owners[..at].iter().all(|(other, with)| other != key && with != class));
    }
    let counts = keys.misses.counts();
    assert!(counts.len() <= REMEMBERED && counts.iter().all(|&misses| (1..EARN).contains(&misses)), "{counts:?}");
    assert!(counts.iter().map(|&misses| u64::from(misses)).sum::<u64>() <= stats.misses);
}

#[derive(Clone, Debug)]
enum Step {
    /// Some calls of one class, while some are pinned; how much each key was used before.
    Call {
        class: u64,
        times: u32,
        pinned: u64,
        uses: [u64; CLASS_KEYS],
    },
    Settle {
        nth: usize,
    },
    GiveUp {
        class: u64,
    },
    Forget {
        text: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let uses = prop::array::uniform14(prop_oneof![3 => Just(0u64), 1 => 0..100u64, 1 => Just(u64::MAX)]);
    prop_oneof![
        20 => (1..80u64, 1..80u32, 0..8u64, uses)
            .prop_map(|(class, times, pinned, uses)| Step::Call { class, times, pinned, uses }),
        8 => (0..4usize).prop_map(|nth| Step::Settle { nth }),
        1 => (1..80u64).prop_map(|class| Step::GiveUp { class }),
        1 => (1..80u64).prop_map(|text| Step::Forget { text }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever is asked in whatever order: a plain account of which key is where comes to the same.
    #[test]
    fn keys_are_where_they_should_be(steps in prop::collection::vec(step(), 0..120)) {
        let mut keys = Keys::new();
        let mut leaving: Vec<Leaving> = Vec::new();
        let mut uses = [0u64; 16];
        let mut held: BTreeSet<(u8, u64)> = BTreeSet::new();
        // Keys between two classes, with the next one.
        let mut next: Vec<(u8, Option<u64>)> = Vec::new();
        let classes: Vec<Class> = (0..80).map(private).collect();
        let number = |class: &Class| classes.iter().position(|known| known == class).unwrap() as u64;
        for step in steps {
            let before = keys.stats();
            match step {
                Step::Call { class, times, pinned, uses: more } => {
                    for (sum, more) in uses[2..].iter_mut().zip(more) {
                        *sum = sum.saturating_add(more);
                    }
                    let is_pinned = |class: &Class| pinned > 1 && number(class).is_multiple_of(pinned);
                    let wanted = &classes[class as usize];
                    for _ in 0..times {
                        let known = held.iter().find(|(_, holder)| *holder == class);
                        let awaited = next.iter().any(|(_, holder)| *holder == Some(class));
                        let free = held.len() + next.len() < CLASS_KEYS;
                        let misses = keys.stats().misses;
                        match keys.earn(wanted, is_pinned, Some(&uses)) {
                            Want::Has(key) => prop_assert_eq!(known, Some(&(key.number(), class))),
                            Want::Take { key, evicted: None } => {
                                prop_assert!(known.is_none() && !awaited && free);
                                prop_assert!(held.iter().all(|(taken, _)| *taken != key.number()));
                                prop_assert!(next.iter().all(|(taken, _)| *taken != key.number()));
                                held.insert((key.number(), class));
                            }
                            Want::Take { key, evicted: Some(evicted) } => {
                                prop_assert!(known.is_none() && !awaited && !free);
                                prop_assert!(!is_pinned(evicted.class()));
                                prop_assert_eq!(key, evicted.key());
                                prop_assert!(held.remove(&(key.number(), number(evicted.class()))));
                                next.push((key.number(), Some(class)));
                                leaving.push(evicted);
                            }
                            Want::None => {
                                prop_assert!(known.is_none() && (awaited || !free));
                                prop_assert_eq!(keys.stats().misses, misses + 1);
                            }
                        }
                    }
                }
                Step::Settle { nth } if !leaving.is_empty() => {
                    let leaving = leaving.remove(nth % leaving.len());
                    let at = next.iter().position(|(key, _)| *key == leaving.key().number()).unwrap();
                    let (key, holder) = next.remove(at);
                    let class = holder.map(private);
 prop_assert_eq!(keys.settle(leaving), class.as_ref());
                    held.extend(holder.map(|holder| (key, holder)));
                }
                Step::Settle { .. } => {}
                Step::GiveUp { class: gone } | Step::Forget { text: gone } => {
                    let left = match step {
                        Step::GiveUp { class } => Vec::from_iter(keys.give_up(&private(class))),
                        _ => keys.forget(gone),
                    };
                    let had: Vec<(u8, u64)> = held.extract_if(.., |(_, class)| *class == gone).collect();
                    let told: Vec<(u8, u64)> =
                        left.iter().map(|left| (left.key().number(), number(left.class()))).collect();
                    prop_assert_eq!(&told, &had);
                    for (_, holder) in &mut next {
                        *holder = holder.filter(|holder| *holder != gone);
                    }
                    next.extend(had.into_iter().map(|(key, _)| (key, None)));
                    leaving.extend(left);
                }
            }
            holds(&keys);
            let now: BTreeSet<(u8, u64)> = keys.classes().map(|(key, class)| (key.number(), number(class))).collect();
            prop_assert_eq!(&now, &held);
            prop_assert!(keys.stats().given >= before.given);
        }
    }
}

/// As many servers as there are keys, and fewer: no call misses but the first of each.
#[test]
fn enough_keys() {
    for servers in [1, 8, 14] {
        let mut program = Program::bound_to(servers);
        for round in 0..100 {
            for server in 0..servers as usize {
                assert_eq!(program.call(server), round > 0);
            }
        }
        assert_eq!(program.keys.stats(), Stats { misses: 0, given: servers, evicted: 0, looks: 0 });
    }
}

/// One more than there are keys, 40 and 1000 servers, called in turn: the worst case for any cache. The keys are not
/// handed round: as many calls hit as there are keys, and the work of a call does not depend on the number of servers.
#[test]
fn more_servers_than_keys_in_turn() {
    for servers in [15, 40, 1000] {
        let mut program = Program::bound_to(servers);
        for _ in 0..200 {
            for server in 0..servers as usize {
                program.call(server);
            }
            holds(&program.keys);
        }
        let (rate, best) = (program.rate(), CLASS_KEYS as f64 / servers as f64);
        println!(
            "{servers} servers in turn: {:.2} % hits, at best {:.2} %, {:?}",
            100.0 * rate,
            100.0 * best,
            program.keys.stats()
        );
        assert!(rate > 0.75 * best, "{servers} servers: {rate} of {best}");
        assert!(program.asked <= 2 * CLASS_KEYS as u64 + 1, "{}", program.asked);
    }
}

/// Some servers are called much more than others, and which ones changes. Whoever is called most has the keys, after
/// a while.
#[test]
fn the_keys_follow_the_calls() {
    for servers in [15, 40, 1000] {
        let mut dice = Dice(0x1234_5678_9abc_def1);
        // Server n of this row is called every 1/(n+1)th time.
        let up_to = |sum: &mut u64, n| {
            *sum += 1_000_000 / n;
            Some(*sum)
        };
        let up_to: Vec<u64> = (1..=servers).scan(0, up_to).collect();
        let total = up_to[up_to.len() - 1];
        let best = up_to[CLASS_KEYS - 1] as f64 / total as f64;
        let mut program = Program::bound_to(servers);
        for phase in 0..4 {
            for part in 0..2 {
                for _ in 0..20_000 {
                    let at = dice.throw(total);
                    let nth = up_to.partition_point(|&sum| sum <= at);
                    let server = (nth + phase * servers as usize / 4) % servers as usize;
                    program.call(server);
                }
                holds(&program.keys);
                let rate = program.rate();
                println!(
                    "{servers} servers, phase {phase}.{part}: {:.2} % hits, at best {:.2} %, {:?}",
                    100.0 * rate,
                    100.0 * best,
                    program.keys.stats()
                );
                assert!(part == 0 || rate > 0.9 * best, "{servers} servers, phase {phase}: {rate} of {best}");
            }
        }
    }
}

/// Thirteen classes in steady use keep their keys, whoever else comes by.
#[test]
fn a_working_set_stays() {
    let mut program = Program::bound_to(1013);
    let mut dice = Dice(99);
    for _ in 0..13 {
        // Strangers had the keys before.
        program.call(13 + dice.throw(1000) as usize);
    }
    for round in 0..4000 {
        for server in 0..13 {
            assert!(program.call(server) || round < 3 * EARN, "round {round}: {server} has no key");
        }
        program.call(13 + dice.throw(1000) as usize);
    }
    holds(&program.keys);
}

/// Thirteen in steady use; two others call in turn. One of the two keeps the last key: they do not throw each other out.
#[test]
fn two_rivals_do_not_take_turns() {
    let mut program = Program::bound_to(15);
    for _ in 0..2000 {
        for server in 0..13 {
            program.call(server);
        }
        program.call(13);
        program.call(14);
    }
    assert!((0..13).all(|server| program.has_key(server)));
    let stats = program.keys.stats();
    assert!(stats.evicted <= 1, "{stats:?}");
}

/// However hot a class was: when it is idle, another one earns its key in a bounded number of calls.
#[test]
fn idle_classes_yield() {
    let mut program = Program::bound_to(28);
    for server in 0..14 {
        for _ in 0..10_000 {
            program.call(server);
        }
    }
    for server in 14..28 {
        let calls = (1..=4 * EARN).find(|_| program.call(server) || program.has_key(server));
        assert!(calls.is_some(), "{server} has no key after {} calls", 4 * EARN);
    }
    assert!((14..28).all(|server| program.has_key(server)));
    holds(&program.keys);
}

/// So many others call that none is remembered from one call to the next; the keys of idle classes go to some of them.
#[test]
fn idle_classes_yield_to_a_crowd() {
    let mut program = Program::bound_to(1014);
    for server in 0..14 {
        program.call(server);
    }
    for call in 0..8 * REMEMBERED * EARN as usize {
        program.call(14 + call % 1000);
    }
    assert!((0..14).all(|server| !program.has_key(server)));
    holds(&program.keys);
}

/// The class that was used least goes, and of several the one that has its key longest, wherever that key is.
#[test]
fn the_coldest_goes() {
    let uses_of_key = |key: usize| (key as u64 * 5 + 3) % 14 + 1;
    for (more, expected) in [(&uses_of_key as &dyn Fn(usize) -> u64, 4), (&|_| 2, 2)] {
        let mut keys = Keys::new();
        for text in 1..=14 {
            let _ = keys.find(&private(text));
        }
        // The first one gets its key anew, and is the youngest now.
        let leaving = keys.give_up(&private(1)).unwrap();
        assert_eq!(keys.settle(leaving), None);
        assert!(matches!(keys.find(&private(1)), Want::Take { evicted: None, .. }));
        let mut uses = [0; KEYS];
        let evicted = (0..100 * EARN).find_map(|miss| {
            // In each stretch all are used, and none is idle.
            if miss % IDLE == IDLE / 2 {
                uses.iter_mut().enumerate().for_each(|(key, uses)| *uses += more(key));
            }
            match keys.earn(&private(15), |_| false, Some(&uses)) {
                Want::Take { evicted, .. } => evicted,
                _ => None,
            }
        });
        let evicted = evicted.unwrap();
        assert_eq!(evicted.class(), &private(expected), "{:?}", evicted.key());
    }
}

/// A class that nobody has used during a stretch of another's misses gives its key up, and the one that is idle longest goes; one that was
/// used, however little, stays until it is colder than who has earned a key.
#[test]
fn idle_keys_go_soon() {
    let mut keys = Keys::new();
    for text in 1..=14 {
        let _ = keys.find(&private(text));
    }
    let mut uses = [0; KEYS];
    let mut miss = |keys: &mut Keys, text, used: &[usize]| {
        used.iter().for_each(|key| uses[*key] += 1);
        match keys.earn(&private(text), |_| false, Some(&uses)) {
            Want::Take { key, evicted: Some(leaving) } => {
                assert_eq!(keys.settle(leaving), Some(&private(text)));
                Some(key.number())
            }
            want => (want == Want::None).then_some(0),
        }
    };
    let all: Vec<usize> = (2..16).collect();
    let busy: Vec<usize> = (2..16).filter(|key| *key != 7 && *key != 9).collect();
    // Both are used for the last time before the second miss of the stretch.
    assert_eq!(miss(&mut keys, 20, &all), Some(0));
    for _ in 2..IDLE {
        assert_eq!(miss(&mut keys, 20, &busy), Some(0));
    }
    assert_eq!(miss(&mut keys, 20, &busy), Some(7), "the first of the two that are idle");
    for _ in 1..IDLE {
        assert_eq!(miss(&mut keys, 21, &busy), Some(0));
    }
    assert_eq!(miss(&mut keys, 21, &[]), Some(9), "the other one, and not those that were used before");
    for _ in 0..2 * IDLE {
        assert_eq!(miss(&mut keys, 22, &all), Some(0), "nobody is idle, and 22 is no hotter than others");
    }
}

/// What a called text may use counts in calls of that one; what is used without calls counts a little all the time.
#[test]
fn uses_are_calls() {
    let mut keys = Keys::new();
    let both = class(&[entry(principal::ANY, 0, 1, Rights::READ), entry(principal::ANY, 0, 2, Rights::READ)]);
    let all = class(&[entry(principal::ANY, 0, ANY_TEXT, Rights::READ | Rights::WRITE)]);
    let classes = [private(1), private(2), both, private(3), all, private(20)];
    let given = classes.each_ref().map(|class| match keys.find(class) {
        Want::Take { key, .. } => usize::from(key.number()),
        other => panic!("{other:?}"),
    });
    let called = |text| match text {
        1 => Called::Starts,
        2 => Called::Times(5),
        3 => Called::Times(7),
        _ => Called::Never,
    };
    let uses = |keys: &Keys| keys.uses(2, called);
    assert_eq!(given.map(|key| uses(&keys)[key]), [0, 5, 5, 7, 0, 0]);
    (4..12).for_each(|text| assert_ne!(keys.find(&private(text)), Want::None));
    assert_eq!(keys.earn(&private(13), |_| false, None), Want::None);
    assert_eq!(given.map(|key| uses(&keys)[key]), [1, 5, 5, 7, 1, 0]);
}

/// What is pinned stays, however idle, and the first that is not goes.
#[test]
fn what_is_pinned_stays() {
    let mut keys = Keys::new();
    for text in 1..=14 {
        assert!(matches!(keys.find(&private(text)), Want::Take { evicted: None, .. }));
    }
    let none = [0; KEYS];
    for _ in 0..1000 {
        assert_eq!(keys.earn(&private(15), |_| true, Some(&none)), Want::None);
    }
    let evicted = (0..EARN).find_map(|_| match keys.earn(&private(15), |class| *class != private(9), Some(&none)) {
        Want::Take { evicted, .. } => evicted,
        _ => None,
    });
    assert_eq!(evicted.map(|leaving| leaving.class().clone()), Some(private(9)));
}

/// What all may read has its own key at once, and none of the others.
#[test]
fn public_pages_need_no_class_key() {
    let mut keys = Keys::new();
    let public = class(&[entry(principal::ANY, 0, ANY_TEXT, Rights::READ | Rights::EXECUTE)]);
    assert_eq!(keys.find(&public), Want::Has(Key::PUBLIC));
    assert_eq!((keys.classes().count(), keys.stats()), (0, Stats::default()));
    assert!(says(keys.register(&domain(1, 1, 1)), 0).0);
}

/// A text that ends takes the misses of its classes with it: the next one at its address starts anew.
#[test]
fn misses_of_an_ended_text_are_forgotten() {
    let mut keys = Keys::new();
    let want = |keys: &mut Keys, text| keys.earn(&private(text), |_| false, None);
    for text in 1..=14 {
        let _ = want(&mut keys, text);
    }
    for text in [20, 21, 21] {
        assert_eq!(want(&mut keys, text), Want::None);
    }
    assert_eq!(keys.misses.counts(), [1, 2]);
    assert_eq!(keys.forget(20), []);
    assert_eq!(keys.misses.counts(), [2]);
    assert_eq!(want(&mut keys, 20), Want::None);
    assert_eq!(keys.misses.counts(), [2, 1]);
    assert_eq!(keys.give_up(&private(21)), None);
    assert_eq!(keys.misses.counts(), [1]);
}
