//! What each user may have of everything: what he was promised, whatever others do.

use super::*;
use crate::part::{KINDS, Kind, USERS_MAX, Users};
use ::parts::part_of;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[test]
fn something_of_everything_is_the_systems() {
    alone(|| {
        let reserve = Reserve { posts: 2, messages: 2, receivers: 3, accounts: 1 };
        let pool = Pool::new(Config { reserve, ..CONFIG });
        // As many users as there may be take all that they can, of one thing after the other; then the system still has the rest.
        let take = |whose| {
            let posts: Vec<_> = core::iter::from_fn(|| pool.get_any(whose).ok()).collect();
            let records: Vec<_> = core::iter::from_fn(|| pool.open_receiver(7, 0, whose).ok()).collect();
            (posts, records)
        };
        for _ in 0..2 {
            let users: Vec<_> = (0..USERS_MAX).map(|n| pool.open_user(u64::from(n) + 1).unwrap()).collect();
            assert_eq!(pool.open_user(99), Err(Error::NoMemory), "there is no room for him");
            let (mut posts, mut records) = (Vec::new(), Vec::new());
            assert_eq!(pool.get(1, SYSTEM), Ok(1));
            for user in &users {
                let (more, others) = take(Whose::User(*user));
                posts.extend(more);
                records.extend(others);
                assert!(pool.get_any(Whose::User(*user)).is_err());
                assert_eq!(pool.get(2, Whose::User(*user)), Err(Error::PostQuota));
                assert_eq!(pool.open_receiver(8, 0, Whose::User(*user)), Err(Error::NoMemory));
            }
            assert_eq!((posts.len(), records.len()), (4, 5), "of six and eight");
            // (Number 1 is the system's, and number 2 one that nobody has asked for by its number.)
            let (systems_posts, systems_records) = take(SYSTEM);
            assert_eq!((systems_posts.len(), systems_records.len()), (0, 3));
            assert_eq!(pool.get(2, SYSTEM), Ok(2));
            // What the system gives back is the system's.
            pool.close_receiver(systems_records[0], |_| {});
            assert_eq!(users.iter().map(|user| take(Whose::User(*user)).1.len()).sum::<usize>(), 0);
            // What a user gives back he may have again.
            pool.free(posts[0], true, 0, |_| {}).unwrap();
            pool.close_receiver(records[0], |_| {});
            let (again, record) = take(Whose::User(users[0]));
            assert_eq!((again.len(), record.len()), (1, 1));
            posts[1..].iter().chain(&again).chain(&[1, 2]).for_each(|post| pool.free(*post, true, 0, |_| {}).unwrap());
            let all = records[1..].iter().chain(&record).chain(&systems_records[1..]);
            all.for_each(|record| pool.close_receiver(*record, |_| {}));
            users.iter().for_each(|user| pool.close_user(*user));
        }
        let user = pool.open_user(5).unwrap();
        let first = pool.open_account(Share::User(user)).unwrap();
        assert_eq!(pool.open_account(Share::User(user)), Err(Error::NoMemory), "of three, one");
        assert_eq!(pool.open_account(Share::Of(first)), Err(Error::NoMemory), "nor a part of one's own");
        assert!(pool.open_account(Share::System(1)).is_ok());
        pool.close_account(first);
        assert!(pool.open_account(Share::User(user)).is_ok());
    });
}

/// One takes all posts, records, accounts and room for messages that he can, and others come only then.
#[test]
fn what_one_takes_is_nobody_elses() {
    alone(|| {
        let pool = Pool::new(Config { posts: 22, messages: 22, receivers: 20, accounts: 20, ..CONFIG });
        let mut had = Vec::new();
        for user in 1..=4 {
            let of = Whose::User(pool.open_user(user).unwrap());
            let Whose::User(number) = of else { panic!() };
            let posts = core::iter::from_fn(|| pool.get_any(of).ok()).count();
            let records = core::iter::from_fn(|| pool.open_receiver(user, 0, of).ok()).count();
            let first = pool.open_account(Share::User(number)).unwrap();
            let children = core::iter::from_fn(|| pool.open_account(Share::Of(first)).ok()).collect::<Vec<_>>();
            let accounts = [first].into_iter().chain(children.iter().copied());
            let messages = accounts.map(|one| core::iter::from_fn(|| pool.accounts.charge(one).ok()).count()).sum();
            had.push([posts, records, 1 + children.len(), messages]);
        }
        assert_eq!(had, [[11, 10, 10, 10], [5, 5, 5, 5], [3, 2, 2, 2], [1, 1, 1, 1]]);
    });
}

#[derive(Clone, Debug)]
enum Step {
    Open(u64),
    Close(u64),
    Take(u64, usize),
    Give(u64, usize),
    Promise(u32),
    TakeBack,
}

fn step() -> impl Strategy<Value = Step> {
    let (user, kind) = (1..8u64, 0..KINDS.len());
    prop_oneof![
        2 => user.clone().prop_map(Step::Open),
        1 => user.clone().prop_map(Step::Close),
        6 => (user.clone(), kind.clone()).prop_map(|(user, kind)| Step::Take(user, kind)),
        3 => (user, kind).prop_map(|(user, kind)| Step::Give(user, kind)),
        1 => (0..6u32).prop_map(Step::Promise),
        1 => Just(Step::TakeBack),
    ]
}

/// What is known of a user who has something.
#[derive(Debug, Default)]
struct Known {
    number: u32,
    tasks: u32,
    most: [u32; KINDS.len()],
    had: [u32; KINDS.len()],
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    /// Users that come, take, give back and go, in any order, beside the system's promises: each may have what he was promised until he has gone with all of it,
    /// nobody may have more, and no more is promised than there is.
    #[test]
    fn promises_are_kept(all in prop::array::uniform4(0..40u32), kept in 0..10u32, steps in prop::collection::vec(step(), 0..200)) {
        alone(move || {
            let messages = all[Kind::Messages as usize] + kept;
            let users = Users::new(all, messages);
            let mut known: BTreeMap<u64, Known> = BTreeMap::new();
            let mut system = Vec::new();
            for step in &steps {
                let promised = |known: &BTreeMap<u64, Known>, kind: usize| known.values().map(|one| one.most[kind]).sum::<u32>();
                match *step {
                    Step::Open(user) => if let Some(one) = known.get_mut(&user) {
                        assert_eq!(users.open(user), Ok(one.number), "the same one");
                        one.tasks += 1;
                    } else if known.len() == USERS_MAX as usize {
                        assert_eq!(users.open(user), Err(Error::NoMemory));
                    } else {
                        let number = users.open(user).unwrap();
                        let most = KINDS.map(|kind| users.most(number, kind));
                        for kind in KINDS {
                            let left = all[kind as usize] - promised(&known, kind as usize);
                            let free = messages - promised(&known, Kind::Messages as usize) - system.iter().sum::<u32>();
                            let part = part_of(left, 2, 1);
                            let part = if kind == Kind::Messages { part.min(free) } else { part };
                            assert_eq!(most[kind as usize], part, "{kind:?}");
                        }
                        assert!(known.values().all(|one| one.number != number));
                        known.insert(user, Known { number, tasks: 1, most, had: [0; KINDS.len()] });
                    },
                    Step::Close(user) => if let Some(one) = known.get_mut(&user).filter(|one| one.tasks > 0) {
                        // Its messages are paid for by accounts, which are there as long.
                        let has = one.had.iter().sum::<u32>() - one.had[Kind::Messages as usize];
                        if one.tasks == 1 && has == 0 && one.had[Kind::Messages as usize] > 0 {
                            continue;
                        }
                        one.tasks -= 1;
                        users.close(one.number);
                        if one.tasks == 0 && has == 0 {
                            known.remove(&user);
                        }
                    },
                    Step::Take(user, kind) => if let Some(one) = known.get_mut(&user) {
                        let taken = users.take(Whose::User(one.number), KINDS[kind]);
                        assert_eq!(taken.is_ok(), one.had[kind] < one.most[kind], "{:?} of {one:?}", KINDS[kind]);
                        one.had[kind] += u32::from(taken.is_ok());
                    },
                    Step::Give(user, kind) => if let Some(one) = known.get_mut(&user).filter(|one| one.had[kind] > 0) {
                        let others = one.had.iter().sum::<u32>() - one.had[Kind::Messages as usize];
                        let is_last = KINDS[kind] != Kind::Messages && one.tasks == 0 && others == 1;
                        if is_last && one.had[Kind::Messages as usize] > 0 {
                            continue;
                        }
                        one.had[kind] -= 1;
                        users.give(Whose::User(one.number), KINDS[kind]);
                        if is_last {
                            known.remove(&user);
                        }
                    },
                    Step::Promise(amount) => {
                        let left = messages - promised(&known, Kind::Messages as usize) - system.iter().sum::<u32>();
                        assert_eq!(users.promise(amount).is_ok(), amount <= left);
                        if amount <= left {
                            system.push(amount);
                        }
                    }
                    Step::TakeBack => if let Some(amount) = system.pop() {
                        users.take_back(amount);
                    },
                }
            }
        });
    }
}
