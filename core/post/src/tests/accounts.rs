//! Who pays, and that slots are never lost.

use super::*;
use crate::account::Accounts;
use crate::free::Chain;
use crate::message::{Envelope, Own};
use crate::slots::{BATCH, KEPT_MAX, Slots};
use crate::sync::{AtomicU32, Ordering};
use proptest::prelude::*;
use shuttle::sync::Arc;
use shuttle::thread;
use std::collections::BTreeSet;

#[test]
fn shares_are_promised_within_what_there_is() {
    alone(|| {
        let accounts = Accounts::new((5, 0), (10, 4));
        let first = accounts.open(Share::User, 4).unwrap();
        assert_eq!(accounts.open(Share::User, 3), Err(Error::MessageQuota), "of the users' six");
        let system = accounts.open(Share::System, 6).unwrap();
        assert_eq!(accounts.open(Share::System, 1), Err(Error::MessageQuota), "of ten");
        accounts.close(first);
        assert_eq!(accounts.open(Share::User, 5), Err(Error::MessageQuota), "only four are back");
        let user = accounts.open(Share::User, 4).unwrap();
        assert!(accounts.open(Share::Of(user), 100).is_ok(), "it comes out of its payer's");
        accounts.close(system);
    });
}

#[test]
fn something_of_everything_is_the_systems() {
    alone(|| {
        let reserve = Reserve { posts: 2, messages: 2, receivers: 3, accounts: 1 };
        let pool = Pool::new(Config { reserve, ..CONFIG });
        // A person's programs take all that they can have, of one thing after the other; then the system still has the rest.
        let take = |whose| {
            let posts: Vec<_> = core::iter::from_fn(|| pool.get_any(whose).ok()).collect();
            let records: Vec<_> = core::iter::from_fn(|| pool.open_receiver(7, 0, whose).ok()).collect();
            (posts, records)
        };
        for _ in 0..2 {
            assert_eq!(pool.get(1, SYSTEM), Ok(1));
            assert_eq!(pool.get(2, Whose::Person), Ok(2));
            let (posts, records) = take(Whose::Person);
            assert_eq!((posts.len(), records.len()), (3, 5), "of six and eight, one of them taken by number");
            assert_eq!(pool.get_any(Whose::Person), Err(Error::NoMemory));
            assert_eq!(pool.get(posts[0], Whose::Person), Err(Error::NoMemory));
            assert_eq!(pool.open_receiver(8, 0, Whose::Person), Err(Error::NoMemory));
            let (systems_posts, systems_records) = take(SYSTEM);
            assert_eq!((systems_posts.len(), systems_records.len()), (1, 3));
            // What the system gives back is the system's.
            pool.free(systems_posts[0], true, 0, |_| {}).unwrap();
            pool.close_receiver(systems_records[0], |_| {});
            assert_eq!(take(Whose::Person), (vec![], vec![]));
            // What a person gives back may be had by another one.
            pool.free(posts[0], true, 0, |_| {}).unwrap();
            pool.close_receiver(records[0], |_| {});
            let (again, record) = take(Whose::Person);
            assert_eq!((again.len(), record.len()), (1, 1));
            posts[1..].iter().chain(&again).chain(&[1, 2]).for_each(|post| pool.free(*post, true, 0, |_| {}).unwrap());
            let all = records[1..].iter().chain(&record).chain(&systems_records[1..]);
            all.for_each(|record| pool.close_receiver(*record, |_| {}));
        }
        let accounts: Vec<_> = core::iter::from_fn(|| pool.open_account(Share::User, 1).ok()).collect();
        assert_eq!(accounts.len(), 3, "of four");
        assert_eq!(pool.open_account(Share::Of(accounts[0]), 1), Err(Error::NoMemory), "nor a part of one's own");
        assert!(pool.open_account(Share::System, 1).is_ok());
        pool.close_account(accounts[0]);
        assert!(pool.open_account(Share::User, 1).is_ok());
    });
}

#[test]
fn a_child_takes_from_its_payer_and_may_outlive_it() {
    alone(|| {
        let accounts = Accounts::new((3, 0), (10, 0));
        let top = accounts.open(Share::User, 3).unwrap();
        let child = accounts.open(Share::Of(top), 2).unwrap();
        accounts.charge(child).unwrap();
        accounts.charge(child).unwrap();
        assert_eq!(accounts.charge(child), Err(Error::MessageQuota), "its own limit");
        accounts.charge(top).unwrap();
        assert_eq!(accounts.charge(top), Err(Error::MessageQuota), "its payer's");
        assert_eq!((accounts.used(top), accounts.used(child)), (3, 2));
        accounts.release(child);
        let other = accounts.open(Share::Of(top), 2).unwrap();
        accounts.charge(other).unwrap();
        assert_eq!(accounts.charge(other), Err(Error::MessageQuota), "the payer's");
        assert_eq!((accounts.used(top), accounts.used(other)), (3, 1), "what was refused was not charged");
        accounts.close(top);
        accounts.close(other);
        accounts.close(child);
        assert_eq!(accounts.open(Share::System, 10), Err(Error::MessageQuota), "messages are still there");
        accounts.release(top);
        accounts.release(other);
        accounts.release(child);
        // All three are free, and all that was promised.
        accounts.open(Share::System, 10).unwrap();
        accounts.open(Share::System, 0).unwrap();
        accounts.open(Share::System, 0).unwrap();
        assert_eq!(accounts.open(Share::System, 0), Err(Error::NoMemory));
    });
}

/// A server that has ended, and that its callers still know: the next one has its share.
#[test]
fn who_has_ended_keeps_no_more_than_its_messages() {
    alone(|| {
        let accounts = Accounts::new((3, 0), (10, 0));
        let gone = accounts.open(Share::System, 6).unwrap();
        (0..2).for_each(|_| accounts.charge(gone).unwrap());
        assert_eq!(accounts.open(Share::System, 5), Err(Error::MessageQuota));
        accounts.retire(gone);
        accounts.retire(gone);
        assert_eq!(accounts.charge(gone), Err(Error::MessageQuota), "it sends no more");
        assert_eq!(accounts.used(gone), 2);
        assert_eq!(accounts.open(Share::System, 9), Err(Error::MessageQuota), "two of its messages wait");
        let next = accounts.open(Share::System, 8).unwrap();
        accounts.release(gone);
        accounts.open(Share::System, 1).unwrap();
        accounts.close(gone);
        assert_eq!(accounts.open(Share::System, 1), Err(Error::MessageQuota), "one is left");
        accounts.release(gone);
        accounts.close(next);
        // The same number again, with all that it may.
        let again = accounts.open(Share::User, 9).unwrap();
        (0..9).for_each(|_| accounts.charge(again).unwrap());
        assert_eq!(accounts.open(Share::User, 1), Err(Error::MessageQuota), "of ten, another one has one");
    });
}

#[test]
fn a_share_comes_back_once_however_its_task_ends() {
    let body = || {
        let accounts = Arc::new(Accounts::new((2, 0), (3, 0)));
        let gone = accounts.open(Share::User, 3).unwrap();
        accounts.charge(gone).unwrap();
        let sends = thread::spawn({
            let accounts = accounts.clone();
            move || (0..2).filter(|_| accounts.charge(gone).is_ok()).for_each(|_| accounts.release(gone))
        });
        let receives = thread::spawn({
            let accounts = accounts.clone();
            move || accounts.release(gone)
        });
        accounts.retire(gone);
        assert_eq!(accounts.charge(gone), Err(Error::MessageQuota));
        sends.join().unwrap();
        accounts.close(gone);
        receives.join().unwrap();
        // All of it, once.
        let next = accounts.open(Share::User, 3).unwrap();
        assert_eq!(accounts.open(Share::User, 1), Err(Error::MessageQuota));
        (0..3).for_each(|_| accounts.charge(next).unwrap());
        accounts.open(Share::User, 0).unwrap();
        assert_eq!(accounts.open(Share::User, 0), Err(Error::NoMemory), "both are in use");
    };
    shuttle::check_random(body, 3000);
    shuttle::check_pct(body, 3000, 3);
}

proptest! {
    /// Slots taken on one processor and given back on another, as far as the share goes: each is had by one only.
    #[test]
    fn no_slot_is_had_twice(steps in prop::collection::vec((0..3usize, any::<bool>(), any::<prop::sample::Index>()), 0..300)) {
        alone(move || {
            const COUNT: usize = 5;
            let slots = Slots::new(COUNT as u32, 3);
            let mut had = Vec::new();
            for (processor, take, which) in &steps {
                if *take && had.len() < COUNT {
                    let slot = slots.take(*processor);
                    assert!(slot != 0 && !had.contains(&slot), "{slot} twice");
                    had.push(slot);
                } else if !*take && !had.is_empty() {
                    slots.give(*processor, had.swap_remove(which.index(had.len())));
                }
            }
        });
    }
}

#[test]
fn what_is_free_is_taken_by_one() {
    let body = || {
        let next: Arc<Vec<AtomicU32>> = Arc::new((0..4).map(|_| AtomicU32::new(0)).collect());
        let (chain, taken) = (Arc::new(Chain::default()), Arc::new(AtomicU32::new(0)));
        (1..4).for_each(|number| chain.put(number, &next[number as usize]));
        let all: Vec<_> = (0..2)
            .map(|_| {
                let (next, chain, taken) = (next.clone(), chain.clone(), taken.clone());
                thread::spawn(move || {
                    for _ in 0..2 {
                        let had: Vec<u32> =
                            (0..2).filter_map(|_| chain.take(|number| &next[number as usize])).collect();
                        for number in &had {
                            assert_eq!(
                                taken.fetch_or(1 << number, Ordering::SeqCst) >> number & 1,
                                0,
                                "{number} twice"
                            );
                        }
                        // The first one first, so that it comes to lie elsewhere.
                        for number in had {
                            taken.fetch_and(!(1 << number), Ordering::SeqCst);
                            chain.put(number, &next[number as usize]);
                        }
                    }
                })
            })
            .collect();
        all.into_iter().for_each(|one| one.join().unwrap());
        let left = std::iter::from_fn(|| chain.take(|number| &next[number as usize])).count();
        assert_eq!(left, 3, "nothing is lost");
    };
    shuttle::check_random(body, 3000);
    shuttle::check_pct(body, 3000, 3);
}

#[test]
fn whoever_may_have_a_slot_finds_one() {
    // As many threads as processors, and as many slots as they use together: all others are kept by somebody.
    let case = || {
        const EACH: u32 = 2;
        let slots = Arc::new(Slots::new(3 * EACH, 3));
        let all: Vec<_> = (0..3usize)
            .map(|processor| {
                let slots = slots.clone();
                thread::spawn(move || {
                    for round in 0..3 {
                        let had: BTreeSet<u32> = (0..EACH).map(|_| slots.take(processor)).collect();
                        assert_eq!(had.len(), EACH as usize);
                        for slot in &had {
                            // Nobody else has it: a mark stays.
                            slots.at(*slot).letter.write(0, &NOBODY, &Own::new(&body(processor as u64 * 10 + round)));
                        }
                        thread::yield_now();
                        for slot in had {
                            assert_eq!(slots.at(slot).letter.body(), body(processor as u64 * 10 + round));
                            slots.give(processor, slot);
                            // Who has received the message goes on with it from there, until this processor takes a slot.
                            thread::yield_now();
                            assert_eq!(slots.at(slot).letter.body(), body(processor as u64 * 10 + round));
                        }
                    }
                })
            })
            .collect();
        all.into_iter().for_each(|one| one.join().unwrap());
    };
    shuttle::check_random(case, 2000);
    shuttle::check_pct(case, 1000, 3);
    assert!(KEPT_MAX >= 2 * BATCH);
}

const NOBODY: Envelope = Envelope { from: Sender { thread: 0, task: 0, user: 0, place: 0 }, back: 0, question: None };

#[test]
fn accounts_are_exact_on_several_processors() {
    let body = || {
        let accounts = Arc::new(Accounts::new((4, 0), (4, 0)));
        let top = accounts.open(Share::User, 2).unwrap();
        let all: Vec<_> = (0..3)
            .map(|_| {
                let accounts = accounts.clone();
                let child = accounts.open(Share::Of(top), 2).unwrap();
                thread::spawn(move || {
                    let charged = (0..2).filter(|_| accounts.charge(child).is_ok()).count();
                    assert!(accounts.used(top) <= 2);
                    (0..charged).for_each(|_| accounts.release(child));
                    accounts.close(child);
                })
            })
            .collect();
        accounts.close(top);
        all.into_iter().for_each(|one| one.join().unwrap());
        // Whatever came in between: all four are free again, and all that was promised.
        accounts.open(Share::User, 4).unwrap();
        assert!((0..3).all(|_| accounts.open(Share::User, 0).is_ok()));
    };
    shuttle::check_random(body, 2000);
}

/// Who still knows an account charges it in the moment in which its task is over: it is freed once, whichever comes first.
#[test]
fn a_closed_account_pays_for_nothing() {
    let body = || {
        let accounts = Arc::new(Accounts::new((2, 0), (4, 0)));
        let one = accounts.open(Share::User, 2).unwrap();
        let sender = {
            let accounts = accounts.clone();
            thread::spawn(move || {
                let charged = accounts.charge(one).is_ok();
                thread::yield_now();
                if charged {
                    accounts.release(one);
                }
            })
        };
        accounts.close(one);
        sender.join().unwrap();
        assert_eq!(accounts.charge(one), Err(Error::MessageQuota), "nobody has it");
        let both: BTreeSet<u32> = (0..2).map(|_| accounts.open(Share::User, 2).unwrap()).collect();
        assert_eq!(both.len(), 2, "none is had twice");
        assert_eq!(accounts.open(Share::User, 0), Err(Error::NoMemory));
    };
    shuttle::check_random(body, 2000);
}
