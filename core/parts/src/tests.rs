//! Promises against plain sums, and users that come and go at the same time.

use super::*;
use proptest::prelude::*;
use shuttle::sync::Arc;
use shuttle::thread;
use std::collections::BTreeMap;

/// Users at a time.
const USERS: u32 = 4;
/// A kind of which nobody has more than he was promised, and one of which anybody may have what is owed to nobody.
const KINDS: usize = 2;
const STRICT: usize = 0;
const OPEN: usize = 1;
const CUT: Cut<KINDS> = Cut { part: 2, least: [1, 1] };

fn alone(body: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(body, 1);
}

/// Users that come one after the other, each while all before him are still there.
#[test]
fn as_many_as_there_may_be_get_something() {
    // As the pool has it in the kernel, where there are 1536.
    let mut left = 1536;
    let mut parts = Vec::new();
    for _ in 0..16 {
        parts.push(part_of(left, 4, 8));
        left -= parts.last().unwrap();
    }
    assert_eq!((parts[0], parts[9]), (384, 29));
    assert!(parts.iter().all(|one| *one >= 8), "{parts:?}");
    assert_eq!([0, 1, 2, 9].map(|left| part_of(left, 2, 1)), [0, 1, 1, 4], "a half, and one");
}

#[test]
fn what_a_user_was_promised_is_told_of_him_alone() {
    alone(|| {
        let users = Users::new(USERS, [16, 16], [16, 16], CUT);
        assert_eq!(users.of(7), [(0, 0); KINDS], "nobody has come");
        let number = users.open(7).unwrap();
        assert!(users.take(number, STRICT));
        assert_eq!(users.of(7), [(8, 1), (8, 0)]);
        assert_eq!([users.of(8), users.of(USER_SYSTEM)], [[(0, 0); KINDS]; 2], "who has no place");
        users.counts(number, STRICT, -1);
        users.close(number);
        assert_eq!(users.of(7), [(0, 0); KINDS], "he has gone");
    });
}

/// Who looks while a user goes, and another one has the place and more in it, is told of neither more than that one was promised.
#[test]
fn what_is_told_of_a_user_is_no_others() {
    let body = || {
        let users = Arc::new(Users::new(USERS, [8; KINDS], [8; KINDS], CUT));
        assert!(users.promise(STRICT, 7));
        let first = users.open(7).unwrap();
        assert!(users.take(first, STRICT));
        let others = {
            let users = users.clone();
            thread::spawn(move || {
                users.counts(first, STRICT, -1);
                users.close(first);
                users.take_back(STRICT, 7);
                let next = users.open(8).unwrap();
                assert_eq!((next, users.most(next, STRICT)), (first, 4));
                assert!((0..4).all(|_| users.take(next, STRICT)));
            })
        };
        let told = users.of(7);
        assert!(told.iter().all(|(most, had)| had <= most), "{told:?}");
        others.join().unwrap();
        assert_eq!((users.of(7)[STRICT], users.of(8)[STRICT]), ((0, 0), (4, 4)));
    };
    shuttle::check_random(body, 3000);
    shuttle::check_pct(body, 3000, 3);
}

#[derive(Clone, Debug)]
enum Step {
    Come(u64),
    Go(u64),
    Take(u64, u32),
    TakeOne(u64),
    Give(u64, u32),
    Systems(u32),
    SystemGives,
}

fn step() -> impl Strategy<Value = Step> {
    let (user, amount) = (1..8u64, 1..12u32);
    prop_oneof![
        2 => user.clone().prop_map(Step::Come),
        1 => user.clone().prop_map(Step::Go),
        6 => (user.clone(), amount.clone()).prop_map(|(user, amount)| Step::Take(user, amount)),
        2 => user.clone().prop_map(Step::TakeOne),
        3 => (user, amount.clone()).prop_map(|(user, amount)| Step::Give(user, amount)),
        1 => amount.prop_map(Step::Systems),
        1 => Just(Step::SystemGives),
    ]
}

/// What is known of a user who is there.
#[derive(Debug, Default)]
struct Known {
    number: u32,
    tasks: u32,
    most: [u32; KINDS],
    had: [u32; KINDS],
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    /// Users that come, take, give back and go, in any order, of an amount of which a part is for promises: who was promised something has it whenever he asks, however much
    /// others have taken before; who asks for more has it as long as nobody was promised that, and one alone all but what is kept for who comes.
    #[test]
    fn others_find_what_they_were_promised(kept in 0..40u32, more in 0..60u32, steps in prop::collection::vec(step(), 0..200)) {
        alone(move || {
            let all = kept + more;
            let users = Users::new(USERS, [kept; KINDS], [kept, kept + 10], CUT);
            let mut known: BTreeMap<u64, Known> = BTreeMap::new();
            let (mut free, mut systems) = (all, Vec::new());
            for step in &steps {
                let promised = |known: &BTreeMap<u64, Known>, kind: usize| known.values().map(|one| one.most[kind]).sum::<u32>();
                match *step {
                    Step::Come(user) => if let Some(one) = known.get_mut(&user) {
                        assert_eq!(users.open(user), Ok(one.number), "the same one");
                        one.tasks += 1;
                    } else if known.len() == USERS as usize {
                        assert_eq!(users.open(user), Err(Error::NoMemory));
                    } else {
                        let number = users.open(user).unwrap();
                        let most = [STRICT, OPEN].map(|kind| users.most(number, kind));
                        let part = part_of(kept - promised(&known, OPEN), 2, 1);
                        assert_eq!(most[OPEN], part.min(kept + 10 - promised(&known, OPEN) - systems.iter().sum::<u32>()), "whatever others have taken");
                        assert!(known.values().all(|one| one.number != number));
                        known.insert(user, Known { number, tasks: 1, most, had: [0; KINDS] });
                    },
                    Step::Go(user) => if let Some(one) = known.get_mut(&user) {
                        one.tasks -= 1;
                        if one.tasks == 0 {
                            free += one.had[OPEN];
                            users.counts(one.number, OPEN, -(one.had[OPEN] as i32));
                            (0..one.had[STRICT]).for_each(|_| users.counts(one.number, STRICT, -1));
                        }
                        users.close(one.number);
                        if one.tasks == 0 {
                            known.remove(&user);
                        }
                    },
                    Step::Take(user, amount) => if let Some(one) = known.get_mut(&user) {
                        // The rule: what is his, or what is owed to nobody.
                        let is_his = users.is_promised(one.number, OPEN, one.had[OPEN] + amount);
                        let owed = users.owed(OPEN, |number| users.had(number, OPEN));
                        if is_his || free >= owed + amount {
                            assert!(free >= amount, "{one:?} was promised what is not there");
                            users.counts(one.number, OPEN, amount as i32);
                            one.had[OPEN] += amount;
                            free -= amount;
                        } else {
                            assert!(one.had[OPEN] + amount > one.most[OPEN], "{one:?} has less than he was promised");
                        }
                        assert_eq!(users.had(one.number, OPEN), one.had[OPEN]);
                    },
                    Step::TakeOne(user) => if let Some(one) = known.get_mut(&user) {
                        let taken = users.take(one.number, STRICT);
                        assert_eq!(taken, one.had[STRICT] < one.most[STRICT]);
                        one.had[STRICT] += u32::from(taken);
                    },
                    Step::Give(user, amount) => if let Some(one) = known.get_mut(&user) {
                        let amount = amount.min(one.had[OPEN]);
                        users.counts(one.number, OPEN, -(amount as i32));
                        one.had[OPEN] -= amount;
                        free += amount;
                    },
                    Step::Systems(amount) => {
                        let left = kept + 10 - promised(&known, OPEN) - systems.iter().sum::<u32>();
                        assert_eq!(users.promise(OPEN, amount), amount <= left);
                        if amount <= left {
                            systems.push(amount);
                        }
                    }
                    Step::SystemGives => if let Some(amount) = systems.pop() {
                        users.take_back(OPEN, amount);
                    },
                }
                // Whoever is owed something finds it, all at the same time.
                let owed = known.values().map(|one| one.most[OPEN].saturating_sub(one.had[OPEN])).sum::<u32>() + kept - promised(&known, OPEN);
                assert_eq!(users.owed(OPEN, |number| users.had(number, OPEN)), owed);
                assert!(free >= owed, "{free} of {owed}");
            }
        });
    }
}

/// What somebody has is known roughly: each thing takes between so much and so much, and some grow. Who does not exceed at the most what he was promised has
/// it, however much others had before that is not known at all.
fn roughly(kept: u32, more: u32, steps: Vec<(u32, u32, u32, u8)>) {
    const LEAST: u32 = 2;
    const MOST: u32 = 5;
    let users = Users::new(USERS, [kept; KINDS], [kept; KINDS], CUT);
    let numbers = [1, 2, 3].map(|who| users.open(who).unwrap());
    // Of each user his things, what each takes; and what is not known.
    let (mut things, mut unknown) = ([const { Vec::<u32>::new() }; 3], 0);
    let all = kept + more;
    for (who, takes, grows, what) in steps {
        let who = who as usize % 3;
        let used = things.iter().flatten().sum::<u32>() + unknown;
        let free = all - used;
        let owed = users.owed(OPEN, |number| match numbers.iter().position(|one| *one == number) {
            Some(at) => LEAST * things[at].len() as u32,
            None => 0,
        });
        // (It is less than what is said to be owed: what they have taken more than at the least is there.)
        let wanting = |at: usize| users.most(numbers[at], OPEN).saturating_sub(things[at].iter().sum());
        let wanting = users.owed(OPEN, |_| u32::MAX) + (0..3).map(wanting).sum::<u32>();
        assert!(free >= wanting, "{free} of {wanting}");
        match what {
            0 => _ = things[who].pop(),
            // It grows within what it may be, which was counted: it is not asked for.
            1 => {
                let Some(one) = things[who].iter_mut().find(|one| **one < MOST) else { continue };
                let more = grows.min(MOST - *one);
                let had = MOST * things[who].len() as u32;
                if users.is_promised(numbers[who], OPEN, had) || free >= owed + more {
                    assert!(free >= more, "what was promised grows");
                    *things[who].iter_mut().find(|one| **one < MOST).unwrap() += more;
                }
            }
            // Of what nobody counts there is only what is owed to nobody.
            2 => unknown += if free >= owed + grows { grows } else { 0 },
            3 => unknown -= grows.min(unknown),
            _ => {
                let takes = LEAST + takes % (MOST - LEAST + 1);
                let had = MOST * (things[who].len() as u32 + 1);
                let is_his = users.is_promised(numbers[who], OPEN, had);
                if is_his || free >= owed + takes {
                    assert!(free >= takes, "{who} was promised what is not there");
                    things[who].push(takes);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn what_is_known_roughly_is_promised_all_the_same(
        kept in 0..60u32,
        more in 0..60u32,
        steps in prop::collection::vec((0..3u32, 0..8u32, 0..8u32, 0..9u8), 0..200),
    ) {
        alone(move || roughly(kept, more, steps.clone()));
    }
}

/// Tasks of users that begin and end at the same time: each user is promised one part, and it comes back once.
#[test]
fn a_user_is_there_once() {
    let body = || {
        let users = Arc::new(Users::new(USERS, [4; KINDS], [6; KINDS], CUT));
        let all: Vec<_> = (0..3)
            .map(|n| {
                let users = users.clone();
                thread::spawn(move || {
                    let number = users.open(7 + n / 2).unwrap();
                    // Two are the first user's, and one is the second one's: more where the first has gone.
                    let most = users.most(number, STRICT);
                    assert!((1..=2).contains(&most), "{most} of them");
                    let taken = users.take(number, STRICT);
                    assert!(taken || n < 2, "the promise of a user that nobody shares");
                    if taken {
                        users.hold(number);
                    }
                    users.close(number);
                    if taken {
                        users.counts(number, STRICT, -1);
                        users.close(number);
                    }
                })
            })
            .collect();
        all.into_iter().for_each(|one| one.join().unwrap());
        let number = users.open(9).unwrap();
        assert_eq!([STRICT, OPEN].map(|kind| users.most(number, kind)), [2; KINDS], "all is back");
        assert!(!users.promise(STRICT, 5), "of six he has two");
        assert!(users.promise(STRICT, 4));
    };
    shuttle::check_random(body, 3000);
    shuttle::check_pct(body, 3000, 3);
}

/// Somebody adds up what is owed while another user comes or goes: what was kept for that one is never found to be nobody's.
#[test]
fn what_is_owed_is_found_meanwhile() {
    for comes in [true, false] {
        let body = move || {
            let users = Arc::new(Users::new(USERS, [8; KINDS], [8; KINDS], CUT));
            let first = if comes { 0 } else { users.open(3).unwrap() };
            let other = {
                let users = users.clone();
                thread::spawn(move || if comes { assert!(users.open(3).is_ok()) } else { users.close(first) })
            };
            let owed = users.owed(OPEN, |_| 0);
            assert!((8..=12).contains(&owed), "{owed} of eight");
            other.join().unwrap();
            assert_eq!(users.owed(OPEN, |_| 0), 8);
        };
        shuttle::check_random(body, 2000);
        shuttle::check_pct(body, 2000, 3);
    }
}

/// Two processors take at once, each by what it has looked up before: what exceeds is what one processor takes between its look and its taking.
#[test]
fn who_takes_at_once_exceeds_by_what_others_were_about_to() {
    let body = || {
        let users = Arc::new(Users::new(USERS, [8; KINDS], [8; KINDS], CUT));
        let free = Arc::new(AtomicU32::new(8 + 3));
        let numbers = [1, 2].map(|who| users.open(who).unwrap());
        let promised = numbers.map(|number| users.most(number, OPEN));
        assert_eq!(promised, [4, 2]);
        let all = numbers.map(|number| {
            let (users, free) = (users.clone(), free.clone());
            thread::spawn(move || {
                let mut had = 0;
                loop {
                    let is_his = users.is_promised(number, OPEN, had + 1);
                    let owed = users.owed(OPEN, |number| users.had(number, OPEN));
                    // (Processors keep one each in hand beside.)
                    if !is_his && free.load(Ordering::SeqCst) < owed + 1 + 1 {
                        return had;
                    }
                    users.counts(number, OPEN, 1);
                    free.fetch_sub(1, Ordering::SeqCst);
                    had += 1;
                }
            })
        });
        let had = all.map(|one| one.join().unwrap());
        assert!(had[0] >= promised[0] && had[1] >= promised[1], "{had:?}");
        assert!(had[0] + had[1] <= 4 + 2 + 3, "{had:?}: two are for who comes");
    };
    shuttle::check_random(body, 3000);
    shuttle::check_pct(body, 3000, 3);
}
