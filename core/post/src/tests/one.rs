//! What each call does, one by one, and what it refuses.

use super::*;
use crate::message::Own;
use crate::receive::{Called, Step};
use crate::sync::locked;
use crate::{Back, KNOWN_MAX, Question, SEVERAL_MAX};

const NAME: u64 = 0x4000_0020_0000;

pub(super) fn world() -> (Pool, Who, Who) {
    let pool = Pool::new(CONFIG);
    let (first, second) = (account(&pool, 3), account(&pool, 3));
    let (a, b) = (Who::new(&pool, 100, first), Who::new(&pool, 200, second));
    (pool, a, b)
}

#[test]
fn posts_are_had_by_number_or_any() {
    alone(|| {
        let pool = Pool::new(CONFIG);
        let get = |number| pool.get(number, SYSTEM);
        assert_eq!((get(1), get(1), get(4)), (Ok(1), Err(Error::Exists), Ok(4)));
        assert_eq!((get(0), get(7), get(u32::MAX)), (NOT_FOUND, NOT_FOUND, NOT_FOUND));
        let mut any: Vec<u32> = std::iter::from_fn(|| pool.get_any(SYSTEM).ok()).collect();
        any.sort_unstable();
        assert_eq!(any, [3, 5, 6], "known numbers are not any");
        assert_eq!(pool.get_any(SYSTEM), Err(Error::NoMemory));
        pool.free(3, false, 0, |_| {}).unwrap();
        pool.free(5, false, 0, |_| {}).unwrap();
        pool.free(6, false, 0, |_| {}).unwrap();
        assert_eq!(pool.free(6, false, 0, |_| {}), Err(Error::NotFound));
        // A number is not given again as long as there are others that have been free for longer.
        let first = pool.get_any(SYSTEM).unwrap();
        pool.free(first, false, 0, |_| {}).unwrap();
        assert_ne!(pool.get_any(SYSTEM), Ok(first));
        assert_eq!((pool.posts_used(), KNOWN_MAX), (3, 2));
    });
}

#[test]
fn a_post_in_use_is_given_back_only_by_force() {
    alone(|| {
        let (pool, a, b) = world();
        for (has_message, has_receiver) in [(false, false), (true, false), (false, true)] {
            for force in [false, true] {
                let post = allow(&pool, pool.get(1, SYSTEM).unwrap());
                if has_message {
                    assert_eq!(pool.send(&post, &a.by(), &body(5), 0), Ok(None));
                }
                if has_receiver {
                    assert!(matches!(pool.receive(&[post], &b.by(), true), Ok(Received::Waits(_))));
                }
                let mut woken = Vec::new();
                let freed = pool.free(1, force, 0, |one| woken.push(one.thread));
                let used = has_message || has_receiver;
                assert_eq!(freed, if used && !force { Err(Error::Busy) } else { Ok(()) });
                assert_eq!(woken, if has_receiver && force { vec![200] } else { vec![] });
                if freed.is_err() {
                    pool.free(1, true, 0, |one| woken.push(one.thread)).unwrap();
                }
                if has_receiver {
                    assert_eq!(pool.collect(b.receiver), Some(Received::Ended(Error::NotFound)));
                }
                assert_eq!(pool.charged(a.account), 0);
                // Had again, it is empty.
                let again = allow(&pool, pool.get(1, SYSTEM).unwrap());
                assert_eq!(pool.receive(&[again], &b.by(), false), Err(Error::TimedOut));
                assert_eq!(
                    pool.send(&post, &a.by(), &body(1), 0),
                    Err(Error::Changed),
                    "the permit was for the one before"
                );
                pool.free(1, false, 0, |_| {}).unwrap();
                assert_eq!(pool.send(&again, &a.by(), &body(1), 0), NOT_FOUND.map(|_| None));
            }
        }
    });
}

#[test]
fn a_message_comes_with_who_sent_it() {
    alone(|| {
        let (pool, a, b) = world();
        let post = allow(&pool, pool.get(2, SYSTEM).unwrap());
        let sent = Body { op: 9, words: [1, 2, 3, 4, 5, u64::MAX], lend: 0 };
        pool.send(&post, &a.by(), &sent, 6).unwrap();
        let queued = pool.receive(&[post], &b.by(), true).unwrap();
        let Received::Waits(_) = pool.receive(&[post], &b.by(), true).unwrap() else { panic!() };
        assert_eq!(pool.send(&post, &a.by(), &sent, 6).unwrap().map(|woken| woken.thread), Some(200));
        let handed = pool.collect(b.receiver).unwrap();
        assert_eq!(pool.collect(b.receiver), None, "only once");
        for received in [queued, handed] {
            let Received::Message(2, message) = received else { panic!("{received:?}") };
            assert_eq!((message.body, message.from, message.back), (sent, a.sender, Back::Post(6)));
        }
    });
}

#[test]
fn receivers_are_served_in_the_order_in_which_they_came() {
    alone(|| {
        let pool = Pool::new(CONFIG);
        let paid = account(&pool, 3);
        let all: Vec<Who> = (1..=4).map(|thread| Who::new(&pool, thread, paid)).collect();
        let post = allow(&pool, pool.get(1, SYSTEM).unwrap());
        for one in &all[1..] {
            pool.receive(&[post], &one.by(), true).unwrap();
        }
        let mut woken = Vec::new();
        let sent = pool.send_many(&post, &all[0].by(), 3, |_| body(7), |one| woken.push(one.thread));
        assert_eq!((sent, woken), (Ok(3), vec![2, 3, 4]));
        for one in &all[1..] {
            assert_eq!(op(pool.collect(one.receiver).unwrap()), (1, 7));
        }
    });
}

#[test]
fn a_share_is_a_limit_and_the_rest_may_be_tried_again() {
    alone(|| {
        let (pool, a, b) = world();
        let post = allow(&pool, pool.get(1, SYSTEM).unwrap());
        assert_eq!(pool.send_many(&post, &a.by(), 5, |n| body(n.into()), |_| {}), Ok(3), "as many as it may");
        assert_eq!(pool.send_many(&post, &a.by(), 5, |n| body(n.into()), |_| {}), Err(Error::MessageQuota));
        assert_eq!(pool.send(&post, &b.by(), &body(8), 0), Ok(None), "that is nobody else's affair");
        assert_eq!(op(pool.receive(&[post], &b.by(), true).unwrap()), (1, 0));
        assert_eq!(pool.send(&post, &a.by(), &body(9), 0), Ok(None));
        let ops: Vec<u64> = (0..4).map(|_| op(pool.receive(&[post], &b.by(), false).unwrap()).1).collect();
        assert_eq!(ops, [1, 2, 8, 9]);
        assert_eq!((pool.charged(a.account), pool.charged(b.account)), (0, 0));
        assert_eq!(
            pool.send(&post, &Who { account: 0, ..a }.by(), &body(1), 0),
            Err(Error::MessageQuota),
            "nobody pays"
        );
        // Who waits gets a message although nothing may be queued.
        let none = Who::new(&pool, 300, account(&pool, 0));
        assert_eq!(pool.send(&post, &none.by(), &body(1), 0), Err(Error::MessageQuota));
        pool.receive(&[post], &b.by(), true).unwrap();
        assert!(pool.send(&post, &none.by(), &body(1), 0).unwrap().is_some());
    });
}

#[test]
fn what_was_received_makes_room() {
    alone(|| {
        let (pool, a, b) = world();
        let post = allow(&pool, pool.get(1, SYSTEM).unwrap());
        // Many times as many as there is room for, on two processors.
        for round in 0..100 {
            assert_eq!(pool.send_many(&post, &a.by(), 3, |n| body(round * 3 + u64::from(n)), |_| {}), Ok(3));
            for n in 0..3 {
                assert_eq!(op(pool.receive(&[post], &b.by(), false).unwrap()), (1, round * 3 + n));
            }
        }
    });
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    alone(|| {
        let (pool, a, _) = world();
        let post = allow(&pool, pool.get(1, SYSTEM).unwrap());
        let other = allow(&pool, pool.get(2, SYSTEM).unwrap());
        let many = vec![post; SEVERAL_MAX + 1];
        assert_eq!(pool.receive(&[], &a.by(), true), Err(Error::BadArgument));
        assert_eq!(pool.receive(&[post, other, post], &a.by(), true), Err(Error::BadArgument));
        assert_eq!(pool.receive(&many, &a.by(), true), Err(Error::TooBig));
        assert_eq!(pool.receive(&[post, other], &a.by(), false), Err(Error::TimedOut));
        let lends = Body { lend: 1, ..body(1) };
        assert_eq!(pool.send(&post, &a.by(), &lends, 0), Err(Error::BadArgument));
        for lend in [0b11, 0b101_0000_0000_0000 | 1 << 7, 1 << 5, 1 << 13, 0b1_0000_0010] {
            assert_eq!(pool.ask(&post, &a.by(), &Body { lend, ..body(1) }), Err(Error::BadArgument), "{lend:#b}");
        }
        let read = pool.permit(1, Rights::READ, || Ok(())).unwrap();
        assert_eq!(pool.send(&read, &a.by(), &body(1), 0), Err(Error::Changed), "a permit to receive");
        let call = pool.permit(1, Rights::CALL, || Ok(())).unwrap();
        assert_eq!(pool.receive(&[call], &a.by(), true), Err(Error::Changed), "a permit to send");
        assert_eq!(
            pool.send_and_receive(&call, &call, &a.by(), &body(1)),
            Err(Error::Changed),
            "looked at before it is sent"
        );
        assert_eq!(pool.permit(3, BOTH, || panic!("there is nothing to ask")), Err(Error::NotFound));
        assert_eq!(pool.waits(a.receiver), None);
        assert_eq!(pool.receive(&[post], &a.by(), false), Err(Error::TimedOut));
        assert_eq!(pool.free(1, false, 0, |_| {}), Ok(()), "nobody waits there");
        // Words that programs write as questions.
        for word in [0, 1 << 63, u64::MAX, 1 << 63 | 1 << 32 | 1] {
            if let Some(question) = Question::from_word(word) {
                assert_eq!(pool.answer(question, &a.by(), &body(1)), Err(Error::NotFound));
                assert_eq!(question.word(), word);
            }
        }
    });
}

#[test]
fn the_first_of_several_posts_that_has_something() {
    alone(|| {
        let (pool, a, b) = world();
        let posts = [1, 2, 4].map(|number| allow(&pool, pool.get(number, SYSTEM).unwrap()));
        pool.send(&posts[2], &a.by(), &body(1), 0).unwrap();
        assert_eq!(op(pool.receive(&posts, &b.by(), true).unwrap()), (4, 1));
        // It was queued at the first two meanwhile, and is no more.
        assert_eq!(pool.send(&posts[0], &a.by(), &body(2), 0), Ok(None));
        assert_eq!(op(pool.receive(&posts, &b.by(), true).unwrap()), (1, 2));
        pool.receive(&posts, &b.by(), true).unwrap();
        assert!(pool.send(&posts[1], &a.by(), &body(3), 0).unwrap().is_some());
        assert_eq!(pool.send(&posts[0], &a.by(), &body(4), 0), Ok(None), "it has a message already");
        assert_eq!(op(pool.collect(b.receiver).unwrap()), (2, 3));
        // One of them goes: it hears so, although the others are there.
        let waits = pool.receive(&posts[1..], &b.by(), true);
        pool.free(4, true, 0, |_| {}).unwrap();
        assert!(matches!(waits, Ok(Received::Waits(_))));
        assert_eq!(pool.collect(b.receiver), Some(Received::Ended(Error::NotFound)));
        assert_eq!(pool.free(2, false, 0, |_| {}), Ok(()), "and waits nowhere");
    });
}

#[test]
fn a_time_out_ends_a_wait_once() {
    alone(|| {
        let (pool, a, b) = world();
        let post = allow(&pool, pool.get(1, SYSTEM).unwrap());
        let Ok(Received::Waits(ticket)) = pool.receive(&[post], &b.by(), true) else { panic!() };
        assert_eq!(pool.interrupt(b.receiver, ticket - 1, Error::TimedOut), None, "of another wait");
        assert_eq!(pool.interrupt(b.receiver, ticket, Error::TimedOut).unwrap().thread, 200);
        assert_eq!(pool.interrupt(b.receiver, ticket, Error::Killed), None);
        assert_eq!(pool.collect(b.receiver), Some(Received::Ended(Error::TimedOut)));
        assert_eq!(pool.send(&post, &a.by(), &body(1), 0), Ok(None), "nobody waits any more");
    });
}

#[test]
fn sending_and_receiving_is_a_hand_over_with_one_lock() {
    alone(|| {
        let (pool, a, b) = world();
        let [there, back] = [1, 2].map(|number| allow(&pool, pool.get(number, SYSTEM).unwrap()));
        pool.receive(&[there], &b.by(), true).unwrap();
        for round in 0..3 {
            let before = locked();
            let called = pool.send_and_receive(&there, &back, &a.by(), &body(round)).unwrap();
            assert_eq!(called.woken.map(|woken| woken.receiver), Some(b.receiver));
            assert!(matches!(called.received, Received::Waits(_)));
            assert_eq!(op(pool.collect(b.receiver).unwrap()), (1, round));
            let called = pool.send_and_receive(&back, &there, &b.by(), &body(round + 10)).unwrap();
            assert_eq!(called.woken.map(|woken| woken.receiver), Some(a.receiver));
            assert_eq!(op(pool.collect(a.receiver).unwrap()), (2, round + 10));
            assert_eq!(locked() - before, 2, "two messages");
            assert_eq!((pool.charged(a.account), pool.charged(b.account)), (0, 0), "nothing was queued");
        }
        // To oneself.
        let called = pool.send_and_receive(&back, &back, &a.by(), &body(5)).unwrap();
        assert_eq!((called.woken, op(called.received)), (None, (2, 5)));
    });
}

/// Who has got a message whose sender waits at a post answers there, and needs the right for that; not past the post, by the number of the wait.
#[test]
fn a_wait_at_a_post_is_no_question() {
    alone(|| {
        let (pool, a, b) = world();
        let [there, back] = [1, 2].map(|post| allow(&pool, pool.get(post, SYSTEM).unwrap()));
        let called = pool.send_and_receive(&there, &back, &a.by(), &body(5)).unwrap();
        let Received::Waits(ticket) = called.received else { panic!("{called:?}") };
        assert_eq!(op(pool.receive(&[there], &b.by(), false).unwrap()), (1, 5));
        let question = Question { asker: a.receiver, ticket };
        assert_eq!(pool.answer(question, &b.by(), &body(6)), Err(Error::NotFound));
        assert!(pool.send(&back, &b.by(), &body(7), 0).unwrap().is_some());
        assert_eq!(op(pool.collect(a.receiver).unwrap()), (2, 7));
    });
}

#[test]
fn a_question_is_answered_with_one_lock_for_both() {
    alone(|| {
        let (pool, a, b) = world();
        let post = allow(&pool, pool.get(1, SYSTEM).unwrap());
        pool.receive(&[post], &b.by(), true).unwrap();
        for round in 0..3 {
            let before = locked();
            assert_eq!(pool.ask(&post, &a.by(), &body(round)).unwrap().woken.map(|woken| woken.thread), Some(200));
            let Some(Received::Message(1, message)) = pool.collect(b.receiver) else { panic!() };
            let Back::Question(question) = message.back else { panic!() };
            assert_eq!(pool.answer(question, &a.by(), &body(0)), Err(Error::NotFound), "it is another's to answer");
            let called = pool.answer_and_receive(question, &post, &b.by(), &body(round + 10)).unwrap();
            assert_eq!(called.woken.map(|woken| woken.thread), Some(100));
            assert_eq!(op(pool.collect(a.receiver).unwrap()), (0, round + 10));
            assert_eq!(pool.answer(question, &b.by(), &body(1)), Err(Error::NotFound), "once");
            assert_eq!(locked() - before, 1);
        }
    });
}

#[test]
fn an_old_question_that_is_received_late_takes_nothing_from_the_next() {
    alone(|| {
        let (pool, a, b) = world();
        let c = Who::new(&pool, 300, b.account);
        let [first, second] = [1, 2].map(|number| allow(&pool, pool.get(number, SYSTEM).unwrap()));
        pool.ask(&first, &a.by(), &body(1)).unwrap();
        let _ = pool.interrupt(a.receiver, pool.waits(a.receiver).unwrap(), Error::TimedOut).unwrap();
        pool.collect(a.receiver).unwrap();
        pool.ask(&second, &a.by(), &body(2)).unwrap();
        let Ok(Received::Message(2, message)) = pool.receive(&[second], &c.by(), true) else { panic!() };
        // Only now: the one that was given up.
        assert_eq!(op(pool.receive(&[first], &b.by(), true).unwrap()), (1, 1));
        let Back::Question(question) = message.back else { panic!() };
        assert_eq!(pool.answer(question, &b.by(), &body(3)), Err(Error::NotFound));
        assert!(pool.answer(question, &c.by(), &body(4)).is_ok());
        assert_eq!(op(pool.collect(a.receiver).unwrap()), (0, 4));
    });
}

#[test]
fn who_is_known_sends_and_receives_with_one_lock_each() {
    alone(|| {
        let (pool, a, b) = world();
        let post = allow(&pool, pool.get(1, SYSTEM).unwrap());
        [a.by(), b.by()].iter().for_each(|by| pool.introduce(by));
        let known = |who: &Who| pool.known(who.receiver, 1, who.processor).unwrap();
        let sent = body(7);
        let before = locked();
        let mut own = Own::new(&sent);
        known(&a).send(post, 0, &mut own).unwrap();
        assert_eq!((own.woken, locked() - before, pool.charged(a.account)), (None, 1, 1), "left there, and paid for");
        for waits in [false, true] {
            let before = locked();
            let mut own = Own::new(&sent);
            let step = known(&b).receive(post, waits, &mut own);
            assert_eq!((step, locked() - before), (Step::Came, 1));
            let Ok(Called { received: Received::Message(1, message), .. }) = own.called(step) else { panic!() };
            assert_eq!((message.body, message.from, message.back), (sent, a.sender, Back::Nowhere));
            assert_eq!(pool.charged(a.account), 0);
            known(&a).send(post, 0, &mut Own::new(&sent)).unwrap();
        }
        pool.receive(&[post], &b.by(), false).unwrap();
        let nothing = known(&b).receive(post, false, &mut Own::new(&sent));
        assert_eq!((nothing, pool.waits(b.receiver)), (Step::Ended(Error::TimedOut), None), "nothing is there");
        let mut own = Own::new(&sent);
        assert!(matches!(known(&b).receive(post, true, &mut own), Step::Waits(_)));
        let mut own = Own::new(&sent);
        known(&a).send(post, 0, &mut own).unwrap();
        assert_eq!(own.woken.map(|woken| woken.thread), Some(200), "who has waited is to be woken");
        assert_eq!(op(pool.collect(b.receiver).unwrap()), (1, 7));
        let lends = Body { lend: 1, ..sent };
        assert_eq!(known(&a).send(post, 0, &mut Own::new(&lends)), Err(Error::BadArgument));
        for n in 0..4 {
            let expected = if n < 3 { Ok(()) } else { Err(Error::MessageQuota) };
            assert_eq!(known(&a).send(post, 0, &mut Own::new(&sent)), expected);
        }
        // A post for the answer is one at which it may receive, as far as is known.
        let get = |rights| pool.permit_for(&b.by(), (1, NAME), rights, || Ok(())).map(drop);
        assert_eq!((get(Rights::CALL), known(&b).allowed(NAME, Rights::READ)), (Ok(()), None));
        assert_eq!((get(Rights::READ), known(&b).allowed(NAME, Rights::READ)), (Ok(()), Some(1)));
        pool.changed(1, |_| Ok(()), |woken| panic!("{woken:?}"));
        assert_eq!(known(&b).allowed(NAME, Rights::READ), None, "the list has changed");
        assert_eq!(known(&b).send(post, 0, &mut Own::new(&sent)), Err(Error::Changed));
        for waits in [false, true] {
            let step = known(&b).receive(post, waits, &mut Own::new(&sent));
            assert_eq!((step, pool.waits(b.receiver)), (Step::Refused(Error::Changed), None));
        }
    });
}

#[test]
fn a_notice_always_has_room_and_counts() {
    alone(|| {
        let (pool, a, b) = world();
        let post = allow(&pool, pool.get(1, SYSTEM).unwrap());
        let kernel = Sender { thread: 0, task: 0, ..a.sender };
        let notice = pool.bind(&post, &b.by(), 77, kernel).unwrap();
        assert_eq!(pool.charged(b.account), 1, "as long as it is bound");
        // A flood by everybody who may.
        assert_eq!(pool.send_many(&post, &a.by(), 9, |_| body(1), |_| {}), Ok(3));
        assert_eq!(pool.send_many(&post, &b.by(), 9, |_| body(1), |_| {}), Ok(2));
        (0..3).for_each(|_| assert_eq!(pool.notify(&notice), Ok(None)));
        let mut got = Vec::new();
        while let Ok(Received::Message(1, message)) = pool.receive(&[post], &b.by(), false) {
            got.push((message.body.op, message.body.words[0], message.from.thread));
        }
        assert_eq!((got.len(), got[5]), (6, (77, 3, 0)));
        pool.receive(&[post], &b.by(), true).unwrap();
        assert_eq!(pool.notify(&notice).unwrap().map(|woken| woken.thread), Some(200));
        let Some(Received::Message(1, message)) = pool.collect(b.receiver) else { panic!() };
        assert_eq!((message.body.op, message.body.words[0]), (77, 1), "counted anew");
        // What has come before it was unbound is still received; then its slot is free.
        pool.notify(&notice).unwrap();
        pool.unbind(notice, 0);
        assert_eq!(pool.charged(b.account), 1);
        assert_eq!(op(pool.receive(&[post], &b.by(), false).unwrap()), (1, 77));
        assert_eq!(pool.charged(b.account), 0);
        // A post that goes takes what is queued with it, not the binding; the next one's owner hears nothing.
        let notice = pool.bind(&post, &b.by(), 78, kernel).unwrap();
        pool.notify(&notice).unwrap();
        pool.free(1, true, 0, |_| {}).unwrap();
        assert_eq!(pool.notify(&notice), Err(Error::NotFound));
        pool.get(1, SYSTEM).unwrap();
        assert_eq!(pool.notify(&notice), Err(Error::NotFound));
        assert_eq!(pool.charged(b.account), 1);
        pool.unbind(notice, 0);
        assert_eq!(pool.charged(b.account), 0);
    });
}

/// Anybody may say that he lends what is not his: it hides nothing from who looks for what another one has lent.
#[test]
fn what_somebody_lends_is_found_behind_what_others_say() {
    alone(|| {
        let (pool, stranger, holder) = world();
        let lender = Who::new(&pool, 300, holder.account);
        let post = allow(&pool, pool.get(1, SYSTEM).unwrap());
        let all = Body { op: 1, words: [0, u64::MAX, 0, 0, 0, 0], lend: 1 };
        let some = Body { op: 1, words: [0x1000, 0x10, 0, 0, 0, 0], lend: 1 };
        for (who, lends) in [(stranger.by(), all), (lender.by(), some)] {
            pool.ask(&post, &who, &lends).unwrap();
            assert!(matches!(pool.receive(&[post], &holder.by(), true), Ok(Received::Message(1, _))));
        }
        let me = Holder { receiver: holder.receiver, domain: 1 };
        let next = |after| pool.lends(me, 0x1000, after);
        let whose = |question| pool.loan(question, me, 0x1000, |loan| Some(loan.from.thread));
        let first = next(None).unwrap();
        let second = next(Some(first)).unwrap();
        assert_eq!((whose(first), whose(second), next(Some(second))), (Some(100), Some(300), None));
    });
}

#[test]
fn memory_is_lent_with_a_question_until_it_is_answered() {
    alone(|| {
        let (pool, a, b) = world();
        let post = allow(&pool, pool.get(1, SYSTEM).unwrap());
        // Words 0 and 1 for reading, words 3 and 4 for writing, too.
        let lends = Body { op: 1, words: [0x1000, 0x10, 7, 0x9000, 1, 0], lend: 1 | 1 << (8 + 3) };
        let holder = Holder { receiver: b.receiver, domain: 1 };
        let lent = |address| touched(&pool, holder, address).map(|loan| (loan.range.rights, loan.from.thread));
        pool.ask(&post, &a.by(), &lends).unwrap();
        assert_eq!(lent(0x1000), None, "nobody has it yet");
        let Ok(Received::Message(1, message)) = pool.receive(&[post], &b.by(), true) else { panic!() };
        let Back::Question(question) = message.back else { panic!() };
        assert_eq!((lent(0xfff), lent(0x1010), lent(0x9001), lent(7)), (None, None, None, None));
        assert_eq!(pool.interrupt(a.receiver, pool.waits(a.receiver).unwrap() + 1, Error::TimedOut), None);
        assert_eq!(lent(0x100f), Some((Rights::READ, 100)));
        assert_eq!(lent(0x9000), Some((Rights::READ | Rights::WRITE, 100)));
        let holds = |holder| touched(&pool, holder, 0x1000).is_some();
        assert!(!holds(Holder { domain: 2, ..holder }), "another text of the same thread");
        assert!(!holds(Holder { receiver: a.receiver, ..holder }), "another thread");
        let woken = pool.answer(question, &b.by(), &body(2)).unwrap();
        assert!(woken.touched, "what was cached is to be forgotten");
        assert_eq!(pool.lent(woken.receiver).0, lends, "which is this");
        assert_eq!(lent(0x1000), None);
        pool.collect(a.receiver).unwrap();
        // The next question lends nothing, the one after that is not touched.
        for (asks, touched) in [(body(3), false), (lends, false)] {
            pool.ask(&post, &a.by(), &asks).unwrap();
            let Ok(Received::Message(1, message)) = pool.receive(&[post], &b.by(), true) else { panic!() };
            assert_eq!(lent(0x1000).is_some() && touched, false);
            assert!(asks.lend != 0 || lent(0x1000).is_none());
            let Back::Question(question) = message.back else { panic!() };
            let woken = pool.answer(question, &b.by(), &body(2)).unwrap();
            assert_eq!(woken.touched, asks.lend != 0);
            pool.collect(a.receiver).unwrap();
        }
        // A wait that ends otherwise ends the loan.
        pool.ask(&post, &a.by(), &lends).unwrap();
        pool.receive(&[post], &b.by(), true).unwrap();
        assert!(lent(0x1000).is_some());
        let woken = pool.interrupt(a.receiver, pool.waits(a.receiver).unwrap(), Error::TimedOut).unwrap();
        assert!(woken.touched);
        assert_eq!(lent(0x1000), None);
    });
}
