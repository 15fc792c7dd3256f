//! Who pays, and that slots are never lost.

use super::*;
use crate::account::Accounts;
use crate::free::Chain;
use crate::message::{Envelope, Own};
use crate::part::Users;
use crate::slots::{BATCH, KEPT_MAX, Slots};
use crate::sync::{AtomicU32, Ordering};
use proptest::prelude::*;
use shuttle::sync::Arc;
use shuttle::thread;
use std::collections::BTreeSet;

/// So many accounts, of which a user may have all; of the messages half of what is not kept.
fn accounts(count: u32, (messages, kept): (u32, u32)) -> Accounts {
    Accounts::new(count, Users::new([count, messages - kept, count, 2 * count], messages))
}

#[test]
fn shares_are_promised_within_what_there_is() {
    alone(|| {
        let accounts = accounts(5, (10, 4));
        // The user's is three of six, and the system's what is left.
        let user = accounts.users.open(7).unwrap();
        assert_eq!(accounts.open(Share::System(8)), Err(Error::MessageQuota), "of ten");
        let system = accounts.open(Share::System(7)).unwrap();
        assert_eq!(accounts.open(Share::System(1)), Err(Error::MessageQuota), "of ten");
        let first = accounts.open(Share::User(user)).unwrap();
        assert!(accounts.open(Share::Of(first)).is_ok(), "it comes out of its payer's");
        accounts.close(system);
        assert!(accounts.open(Share::System(7)).is_ok());
    });
}

#[test]
fn a_child_takes_from_its_payer_and_may_outlive_it() {
    alone(|| {
        let accounts = accounts(4, (16, 0));
        let user = accounts.users.open(7).unwrap();
        let top = accounts.open(Share::User(user)).unwrap();
        let child = accounts.open(Share::Of(top)).unwrap();
        // Eight are the user's: six a child's with its own, three of these it may send itself.
        let fill = |of| core::iter::from_fn(|| accounts.charge(of).ok()).count();
        assert_eq!((fill(child), fill(top)), (3, 4), "its own, and its payer's own");
        assert_eq!((accounts.used(top), accounts.used(child)), (7, 3));
        accounts.release(child);
        let other = accounts.open(Share::Of(top)).unwrap();
        let below = accounts.open(Share::Of(other)).unwrap();
        assert_eq!((fill(below), fill(other), fill(child)), (2, 0, 0), "the last is the payer's");
        assert_eq!((accounts.used(top), accounts.used(other)), (8, 2), "what was refused was not charged");
        accounts.users.close(user);
        [top, other, child, below].into_iter().for_each(|one| accounts.close(one));
        assert_eq!(accounts.open(Share::System(9)), Err(Error::MessageQuota), "messages are still there");
        (0..4).for_each(|_| accounts.release(top));
        accounts.release(below);
        (0..2).for_each(|_| accounts.release(child));
        assert_eq!(accounts.open(Share::System(9)), Err(Error::MessageQuota), "one is");
        accounts.release(below);
        // All four are free, and all that was promised.
        accounts.open(Share::System(16)).unwrap();
        assert!((0..3).all(|_| accounts.open(Share::System(0)).is_ok()));
        assert_eq!(accounts.open(Share::System(0)), Err(Error::NoMemory));
    });
}

/// Whatever a program sends, its user's others can send, too: the one that has started it, and those that this one has started besides.
#[test]
fn no_program_leaves_nothing_to_its_users_others() {
    alone(|| {
        let accounts = accounts(6, (32, 0));
        let user = accounts.users.open(7).unwrap();
        let top = accounts.open(Share::User(user)).unwrap();
        let [one, other] = [(); 2].map(|()| accounts.open(Share::Of(top)).unwrap());
        let below = accounts.open(Share::Of(one)).unwrap();
        let all = [top, one, other, below];
        let fill = |of| core::iter::from_fn(|| accounts.charge(of).ok()).count();
        for greedy in all {
            let had = fill(greedy);
            for next in all.into_iter().filter(|next| *next != greedy) {
                accounts.charge(next).unwrap();
                accounts.release(next);
            }
            (0..had).for_each(|_| accounts.release(greedy));
        }
        // Nor does one with all that it has started.
        let had = (fill(below), fill(one));
        assert_eq!(had, (4, 6));
        [top, other].into_iter().for_each(|next| accounts.charge(next).unwrap());
    });
}

/// A server that has ended, and that its callers still know: the next one has its share.
#[test]
fn who_has_ended_keeps_no_more_than_its_messages() {
    alone(|| {
        let accounts = accounts(3, (10, 0));
        let gone = accounts.open(Share::System(6)).unwrap();
        (0..2).for_each(|_| accounts.charge(gone).unwrap());
        assert_eq!(accounts.open(Share::System(5)), Err(Error::MessageQuota));
        accounts.retire(gone);
        accounts.retire(gone);
        assert_eq!(accounts.charge(gone), Err(Error::MessageQuota), "it sends no more");
        assert_eq!(accounts.used(gone), 2);
        assert_eq!(accounts.open(Share::System(9)), Err(Error::MessageQuota), "two of its messages wait");
        let next = accounts.open(Share::System(8)).unwrap();
        accounts.release(gone);
        accounts.open(Share::System(1)).unwrap();
        accounts.close(gone);
        assert_eq!(accounts.open(Share::System(1)), Err(Error::MessageQuota), "one is left");
        accounts.release(gone);
        accounts.close(next);
        // The same number again, with all that it may.
        let again = accounts.open(Share::System(9)).unwrap();
        (0..9).for_each(|_| accounts.charge(again).unwrap());
        assert_eq!(accounts.open(Share::System(1)), Err(Error::MessageQuota), "of ten, another one has one");
    });
}

#[test]
fn a_share_comes_back_once_however_its_task_ends() {
    let body = || {
        let accounts = Arc::new(accounts(2, (3, 0)));
        let gone = accounts.open(Share::System(3)).unwrap();
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
        let next = accounts.open(Share::System(3)).unwrap();
        assert_eq!(accounts.open(Share::System(1)), Err(Error::MessageQuota));
        (0..3).for_each(|_| accounts.charge(next).unwrap());
        accounts.open(Share::System(0)).unwrap();
        assert_eq!(accounts.open(Share::System(0)), Err(Error::NoMemory), "both are in use");
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
        let accounts = Arc::new(accounts(4, (8, 0)));
        let user = accounts.users.open(7).unwrap();
        let top = accounts.open(Share::User(user)).unwrap();
        let all: Vec<_> = (0..3)
            .map(|_| {
                let accounts = accounts.clone();
                // Four are the user's, and two each one's.
                let child = accounts.open(Share::Of(top)).unwrap();
                thread::spawn(move || {
                    let charged = (0..2).filter(|_| accounts.charge(child).is_ok()).count();
                    assert!(accounts.used(top) <= 4 && charged <= 1);
                    (0..charged).for_each(|_| accounts.release(child));
                    accounts.close(child);
                })
            })
            .collect();
        accounts.close(top);
        accounts.users.close(user);
        all.into_iter().for_each(|one| one.join().unwrap());
        // Whatever came in between: all four are free again, and all that was promised.
        accounts.open(Share::System(8)).unwrap();
        assert!((0..3).all(|_| accounts.open(Share::System(0)).is_ok()));
    };
    shuttle::check_random(body, 2000);
}

/// Who still knows an account charges it in the moment in which its task is over: it is freed once, whichever comes first.
#[test]
fn a_closed_account_pays_for_nothing() {
    let body = || {
        let accounts = Arc::new(accounts(2, (4, 0)));
        let one = accounts.open(Share::System(2)).unwrap();
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
        let both: BTreeSet<u32> = (0..2).map(|_| accounts.open(Share::System(2)).unwrap()).collect();
        assert_eq!(both.len(), 2, "none is had twice");
        assert_eq!(accounts.open(Share::System(0)), Err(Error::NoMemory));
    };
    shuttle::check_random(body, 2000);
}
