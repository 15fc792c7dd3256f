//! The smallest cases under each and every interleaving (as `shuttle` knows them: of whole memory accesses, in one order for all), depth first; those that are
//! longer under all that threads can tell apart (`each`). What `race` has at random is larger.

use super::each::{self, MOST, under};
use super::*;
use crate::{Back, Woken};
use shuttle::scheduler::DfsScheduler;
use shuttle::sync::{Arc, Mutex};
use shuttle::{Config as How, Runner, thread};

/// Runs a case in all ways, of which there is at least one more than if its threads ran one after the other.
fn all(test: impl Fn() + Send + Sync + 'static) {
    let ways = Runner::new(DfsScheduler::new(Some(MOST), false), How::new()).run(test);
    assert!((3..MOST).contains(&ways), "{ways} interleavings");
}

/// Of a case that has millions of ways: one of all in which each thread sees the same.
pub(super) fn all_told_apart(test: impl Fn() + Send + Sync + 'static) {
    let ways = each::run(test);
    assert!(ways.whole >= 3 && ways.all() < MOST, "{ways:?}");
}

/// As little as is needed: what is made takes steps, too.
pub(super) const SMALL: Config = Config {
    posts: 2,
    messages: 2,
    receivers: 2,
    accounts: 1,
    reserve: Reserve { posts: 0, messages: 0, receivers: 0, accounts: 0 },
    processors: 3,
    rest: || (),
    waits: |_, _| (),
};

pub(super) fn pool() -> Arc<Pool> {
    let pool = Pool::new(SMALL);
    pool.get(1, SYSTEM).unwrap();
    Arc::new(pool)
}

pub(super) fn two(pool: &Pool) -> [Who; 2] {
    let paid = account(pool, 2);
    [Who::new(pool, 1, paid), Who::new(pool, 2, paid)]
}

pub(super) fn collected(pool: &Pool, who: &Who) -> (u32, u64) {
    op(pool.collect(who.receiver).expect("its wait is over"))
}

/// No wake-up is lost: either the message is there when the receiver looks, or whoever sends it finds it waiting.
#[test]
fn one_sends_and_one_receives() {
    all(|| {
        let pool = pool();
        let ([me, other], post) = (two(&pool), allow(&pool, 1));
        let sends = thread::spawn({
            let pool = pool.clone();
            move || pool.send(&post, &other.by(), &body(7), 0).unwrap()
        });
        let received = pool.receive(&[post], &me.by(), true).unwrap();
        let woken: Option<Woken> = sends.join().unwrap();
        match (received, woken) {
            (Received::Message(1, message), None) => assert_eq!(message.body.op, 7),
            (Received::Waits(_), Some(woken)) => {
                assert_eq!(woken.receiver, me.receiver);
                assert_eq!(collected(&pool, &me), (1, 7));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(pool.charged(me.account), 0);
        assert_eq!(pool.receive(&[post], &me.by(), false), Err(Error::TimedOut), "it came once");
    });
}

/// Two messages of one sender come in their order, however the receiver looks in between.
#[test]
fn two_messages_keep_their_order() {
    all(|| {
        let pool = pool();
        let ([me, other], post) = (two(&pool), allow(&pool, 1));
        let sends = thread::spawn({
            let pool = pool.clone();
            move || [7, 8].map(|op| assert!(pool.send(&post, &other.by(), &body(op), 0).unwrap().is_none()))
        });
        let look = || pool.receive(&[post], &me.by(), false);
        let first = look();
        sends.join().unwrap();
        let came: Vec<u64> = [first, look(), look()].into_iter().filter_map(|one| Some(op(one.ok()?).1)).collect();
        assert_eq!(came, [7, 8]);
        assert_eq!(look(), Err(Error::TimedOut), "each came once");
    });
}

/// One message is queued and two look for it at once: one has it.
#[test]
fn one_message_for_two_who_look() {
    all(|| {
        let pool = pool();
        let ([me, other], post) = (two(&pool), allow(&pool, 1));
        assert!(pool.send(&post, &other.by(), &body(7), 0).unwrap().is_none());
        let looks = thread::spawn({
            let pool = pool.clone();
            move || pool.receive(&[post], &other.by(), false)
        });
        let mut both = [pool.receive(&[post], &me.by(), false), looks.join().unwrap()];
        both.sort_by_key(Result::is_err);
        let [one, none] = both;
        assert_eq!((op(one.unwrap()), none), ((1, 7), Err(Error::TimedOut)));
        assert_eq!(pool.charged(me.account), 0);
    });
}

/// A wait is ended by one of the two, and what has not ended it is as if it had come later.
#[test]
fn a_message_and_a_time_out() {
    all(|| {
        let pool = pool();
        let ([me, other], post) = (two(&pool), allow(&pool, 1));
        let Received::Waits(ticket) = pool.receive(&[post], &me.by(), true).unwrap() else { panic!() };
        let sends = thread::spawn({
            let pool = pool.clone();
            move || pool.send(&post, &other.by(), &body(7), 0).unwrap().is_some()
        });
        let ended = pool.interrupt(me.receiver, ticket, Error::TimedOut).is_some();
        assert!(sends.join().unwrap() != ended, "by one of them");
        match pool.collect(me.receiver).unwrap() {
            Received::Message(1, message) => assert_eq!((message.body.op, ended), (7, false)),
            Received::Ended(Error::TimedOut) => {
                assert!(ended);
                assert_eq!(op(pool.receive(&[post], &me.by(), false).unwrap()), (1, 7), "it is still there");
            }
            other => panic!("{other:?}"),
        }
    });
}

/// One message, two who wait: one has it, and the other waits on.
#[test]
fn two_messages_for_two_who_wait() {
    all(|| {
        let pool = pool();
        let (all, post) = (two(&pool), allow(&pool, 1));
        for one in &all {
            assert!(matches!(pool.receive(&[post], &one.by(), true), Ok(Received::Waits(_))));
        }
        let sends =
            move |pool: &Pool, op| pool.send(&post, &all[0].by(), &body(op), 0).unwrap().expect("they wait").receiver;
        let other = thread::spawn({
            let pool = pool.clone();
            move || sends(&pool, 8)
        });
        let mine = pool.send(&post, &all[1].by(), &body(7), 0).unwrap().expect("they wait").receiver;
        assert_ne!(mine, other.join().unwrap(), "one had both");
        let mut came = all.map(|one| collected(&pool, &one).1);
        came.sort_unstable();
        assert_eq!(came, [7, 8]);
    });
}

pub(super) fn waits(pool: &Pool, who: &Who, post: Permit) -> u32 {
    match pool.receive(&[post], &who.by(), true).unwrap() {
        Received::Waits(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

/// The message that is sent next is this one's, who waits on, and nobody else's.
fn is_next(pool: &Pool, who: &Who, post: Permit) {
    assert_eq!(pool.depth(1), (0, 1));
    let woken = pool.send(&post, &who.by(), &body(8), 0).unwrap();
    assert_eq!(woken.map(|woken| woken.receiver), Some(who.receiver));
    assert_eq!(collected(pool, who), (1, 8));
    assert_eq!((pool.depth(1), pool.charged(who.account)), ((0, 0), 0));
}

/// One waits, and a second one enters beside him while a message is sent: the first one has it, and the second one is found by the next message.
#[test]
fn one_enters_beside_another_and_a_message() {
    all_told_apart(|| {
        let pool = pool();
        let ([me, other], post) = (two(&pool), allow(&pool, 1));
        waits(&pool, &me, post);
        let enters = thread::spawn({
            let pool = pool.clone();
            move || _ = waits(&pool, &other, post)
        });
        let woken = pool.send(&post, &me.by(), &body(7), 0).unwrap();
        assert_eq!(woken.map(|woken| woken.receiver), Some(me.receiver));
        enters.join().unwrap();
        assert_eq!(collected(&pool, &me), (1, 7));
        is_next(&pool, &other, post);
    });
}

/// One waits, and his time is up while a second one enters beside him: that one is found by the next message.
#[test]
fn one_enters_beside_another_and_a_time_out() {
    all_told_apart(|| {
        let pool = pool();
        let ([me, other], post) = (two(&pool), allow(&pool, 1));
        let ticket = waits(&pool, &me, post);
        let enters = thread::spawn({
            let pool = pool.clone();
            move || _ = waits(&pool, &other, post)
        });
        assert!(pool.interrupt(me.receiver, ticket, Error::TimedOut).is_some(), "nothing else ends it");
        enters.join().unwrap();
        assert_eq!(pool.collect(me.receiver), Some(Received::Ended(Error::TimedOut)));
        is_next(&pool, &other, post);
    });
}

/// Two wait, and the time of one is up while a message is sent: one of the two has it, the first one if he still waits, and nobody waits for nothing.
fn two_wait_and_a_time_out(which: usize) {
    all_told_apart(move || {
        let pool = pool();
        let (both, post) = (two(&pool), allow(&pool, 1));
        let tickets = [0, 1].map(|n| waits(&pool, &both[n], post));
        let ends = thread::spawn({
            let pool = pool.clone();
            move || pool.interrupt(both[which].receiver, tickets[which], Error::TimedOut).is_some()
        });
        let woken = pool.send(&post, &both[1 - which].by(), &body(7), 0).unwrap().expect("somebody waits");
        let ended = ends.join().unwrap();
        let has = if ended { 1 - which } else { 0 };
        assert_eq!((woken.receiver, collected(&pool, &both[has])), (both[has].receiver, (1, 7)));
        if ended {
            assert_eq!(pool.collect(both[which].receiver), Some(Received::Ended(Error::TimedOut)));
            assert_eq!((pool.depth(1), pool.charged(both[0].account)), ((0, 0), 0));
        } else {
            is_next(&pool, &both[1], post);
        }
    });
}

#[test]
fn two_wait_and_the_first_ones_time_is_up() {
    two_wait_and_a_time_out(0);
}

#[test]
fn two_wait_and_the_second_ones_time_is_up() {
    two_wait_and_a_time_out(1);
}

/// Whoever asks hears the answer or that its time is up, and whoever answers hears which.
#[test]
fn an_answer_and_a_time_out() {
    all(|| {
        let pool = pool();
        let ([me, server], post) = (two(&pool), allow(&pool, 1));
        let called = pool.ask(&post, &me.by(), &body(1)).unwrap();
        let Received::Waits(ticket) = called.received else { panic!() };
        let Ok(Received::Message(1, message)) = pool.receive(&[post], &server.by(), false) else { panic!() };
        let Back::Question(question) = message.back else { panic!() };
        let answers = thread::spawn({
            let pool = pool.clone();
            move || pool.answer(question, &server.by(), &body(7)).map(drop)
        });
        let ended = pool.interrupt(me.receiver, ticket, Error::TimedOut).is_some();
        match (answers.join().unwrap(), ended) {
            (Ok(()), false) => assert_eq!(collected(&pool, &me), (0, 7)),
            (Err(Error::NotFound), true) => {
                assert_eq!(pool.collect(me.receiver), Some(Received::Ended(Error::TimedOut)));
            }
            other => panic!("{other:?}"),
        }
    });
}

/// A post that goes while somebody sends there: the message was there and went with it, or came too late. Nothing stays charged.
#[test]
fn a_post_goes_while_somebody_sends() {
    all(|| {
        let pool = pool();
        let ([_, other], post) = (two(&pool), allow(&pool, 1));
        let sends = thread::spawn({
            let pool = pool.clone();
            move || pool.send(&post, &other.by(), &body(7), 0).map(|woken| woken.is_none())
        });
        pool.free(1, true, 0, |_| panic!("nobody waits")).unwrap();
        let sent = sends.join().unwrap();
        assert!(matches!(sent, Ok(true) | Err(Error::NotFound)), "{sent:?}");
        assert_eq!(pool.charged(other.account), 0);
        assert_eq!(pool.get(1, SYSTEM), Ok(1));
        assert_eq!(
            pool.receive(&[allow(&pool, 1)], &other.by(), false),
            Err(Error::TimedOut),
            "the next one's is empty"
        );
    });
}

/// A hand-over in one step with the sender's own wait, to one whose time is up in that moment: it has the message, or it is queued.
/// Whoever has sent waits at the other post all the same.
#[test]
fn a_hand_over_in_one_step_and_a_time_out() {
    all_told_apart(|| {
        let pool = pool();
        pool.get(2, SYSTEM).unwrap();
        let ([me, server], there, back) = (two(&pool), allow(&pool, 1), allow(&pool, 2));
        let Received::Waits(ticket) = pool.receive(&[there], &server.by(), true).unwrap() else { panic!() };
        let ends = thread::spawn({
            let pool = pool.clone();
            move || pool.interrupt(server.receiver, ticket, Error::TimedOut).is_some()
        });
        let called = pool.send_and_receive(&there, &back, &me.by(), &body(1)).unwrap();
        assert!(matches!(called.received, Received::Waits(_)), "nothing has come");
        match (ends.join().unwrap(), called.woken) {
            (false, Some(woken)) => {
                assert_eq!(woken.receiver, server.receiver);
                assert_eq!(collected(&pool, &server), (1, 1));
            }
            (true, None) => {
                assert_eq!(pool.collect(server.receiver), Some(Received::Ended(Error::TimedOut)));
                assert_eq!(op(pool.receive(&[there], &server.by(), false).unwrap()), (1, 1), "it is still there");
            }
            other => panic!("{other:?}"),
        }
        let woken = pool.send(&back, &server.by(), &body(7), 0).unwrap();
        assert_eq!(woken.map(|woken| woken.receiver), Some(me.receiver));
        assert_eq!(collected(&pool, &me), (2, 7));
        assert_eq!(pool.charged(me.account), 0);
    });
}

/// Two send at the same time to one who waits at two posts: one of them wakes him, and the other message stays.
#[test]
fn a_message_at_each_of_two_posts() {
    all_told_apart(|| {
        let pool = pool();
        pool.get(2, SYSTEM).unwrap();
        let ([me, other], posts) = (two(&pool), [allow(&pool, 1), allow(&pool, 2)]);
        assert!(matches!(pool.receive(&posts, &me.by(), true), Ok(Received::Waits(_))));
        let sends = move |pool: &Pool, by: &Who, n: usize| {
            pool.send(&posts[n], &by.by(), &body(n as u64 + 1), 0).unwrap().is_some()
        };
        let second = thread::spawn({
            let pool = pool.clone();
            move || sends(&pool, &other, 1)
        });
        let first = sends(&pool, &me, 0);
        assert!(first != second.join().unwrap(), "one of them wakes him");
        let (came, left) = if first { ((1, 1), (2, 2)) } else { ((2, 2), (1, 1)) };
        assert_eq!(collected(&pool, &me), came);
        assert_eq!(op(pool.receive(&posts, &me.by(), false).unwrap()), left);
        assert_eq!(pool.receive(&posts, &me.by(), false), Err(Error::TimedOut), "each came once");
        assert_eq!(pool.charged(me.account), 0);
    });
}

/// Whoever asked hears the answer or of its holder's end, and never both.
#[test]
fn an_answer_and_the_end_of_its_holder() {
    all(|| {
        let pool = pool();
        let ([me, server], post) = (two(&pool), allow(&pool, 1));
        pool.ask(&post, &me.by(), &body(1)).unwrap();
        let Ok(Received::Message(1, message)) = pool.receive(&[post], &server.by(), false) else { panic!() };
        let Back::Question(question) = message.back else { panic!() };
        let answers = thread::spawn({
            let pool = pool.clone();
            move || pool.answer(question, &server.by(), &body(7)).map(drop)
        });
        let mut told = 0;
        pool.holders_gone(|holder| holder == Holder { receiver: server.receiver, domain: 1 }, |_| told += 1);
        match answers.join().unwrap() {
            Ok(()) => assert_eq!((told, collected(&pool, &me)), (0, (0, 7))),
            Err(Error::NotFound) => {
                assert_eq!((told, pool.collect(me.receiver)), (1, Some(Received::Ended(Error::Dead))));
            }
            other => panic!("{other:?}"),
        }
    });
}

/// A post goes while the time of who waits there is up: he hears of one of the two.
#[test]
fn a_post_goes_and_a_time_out() {
    all_told_apart(|| {
        let pool = pool();
        let ([me, _], post) = (two(&pool), allow(&pool, 1));
        let Received::Waits(ticket) = pool.receive(&[post], &me.by(), true).unwrap() else { panic!() };
        let ends = thread::spawn({
            let pool = pool.clone();
            move || pool.interrupt(me.receiver, ticket, Error::TimedOut).is_some()
        });
        let mut woken = 0;
        pool.free(1, true, 0, |one| woken += u32::from(one.receiver == me.receiver)).unwrap();
        let (ended, why) = (ends.join().unwrap(), pool.collect(me.receiver));
        let told = if ended { (0, Error::TimedOut) } else { (1, Error::NotFound) };
        assert_eq!((woken, why), (told.0, Some(Received::Ended(told.1))));
        assert_eq!((pool.waits(me.receiver), pool.get(1, SYSTEM)), (None, Ok(1)));
    });
}

/// Whoever lends something with a message finds the answer there before its wait has begun in earnest, or is woken by it: what the holder has
/// touched is forgotten by who ends the wait, and that may be the asker.
#[test]
fn a_loan_and_an_answer_that_is_there_already() {
    const AT: u64 = 0x7000;
    all_told_apart(|| {
        let pool = pool();
        pool.get(2, SYSTEM).unwrap();
        let ([me, server], to, back) = (two(&pool), allow(&pool, 1), allow(&pool, 2));
        let lends = Body { op: 1, words: [AT, 8, 0, 0, 0, 0], lend: 1 };
        let mapped = Arc::new(Mutex::new(false));
        let end = |woken: Woken, mapped: &Mutex<bool>| {
            if woken.touched {
                under(mapped, |mapped| *mapped = false);
            }
        };
        let serves = thread::spawn({
            let (pool, mapped) = (pool.clone(), mapped.clone());
            move || {
                let Ok(Received::Message(..)) = pool.receive(&[to], &server.by(), false) else { return };
                let holder = Holder { receiver: server.receiver, domain: 1 };
                under(&mapped, |mapped| *mapped = touched(&pool, holder, AT).is_some());
                let woken = pool.send(&back, &server.by(), &body(7), 0).unwrap();
                woken.into_iter().for_each(|woken| end(woken, &mapped));
            }
        });
        match pool.send_and_receive(&to, &back, &me.by(), &lends).unwrap().received {
            Received::Waits(ticket) => {
                let woken = pool.interrupt(me.receiver, ticket, Error::TimedOut);
                woken.into_iter().for_each(|woken| end(woken, &mapped));
            }
            _ => end(pool.woken(me.receiver), &mapped),
        }
        serves.join().unwrap();
        assert!(!*mapped.lock().unwrap(), "it is mapped when the wait is over");
    });
}

/// A holder touches what is lent in the moment in which the wait ends, as the kernel does it: under the section's lock it is asked
/// whether it is lent, and there it is forgotten if it was touched. Nothing stays mapped.
#[test]
fn a_loan_and_the_end_of_the_wait() {
    const AT: u64 = 0x7000;
    all(|| {
        let pool = pool();
        let ([me, server], post) = (two(&pool), allow(&pool, 1));
        let lends = Body { op: 1, words: [AT, 8, 0, 0, 0, 0], lend: 1 };
        let Received::Waits(ticket) = pool.ask(&post, &me.by(), &lends).unwrap().received else { panic!() };
        let Ok(Received::Message(..)) = pool.receive(&[post], &server.by(), false) else { panic!() };
        let mapped = Arc::new(Mutex::new(false));
        let touches = thread::spawn({
            let (pool, mapped) = (pool.clone(), mapped.clone());
            move || {
                let mut mapped = mapped.lock().unwrap();
                *mapped = touched(&pool, Holder { receiver: server.receiver, domain: 1 }, AT).is_some();
                *mapped
            }
        });
        let woken = pool.interrupt(me.receiver, ticket, Error::TimedOut).expect("nobody else ends it");
        if woken.touched {
            assert_eq!(pool.lent(me.receiver).0.lent().map(|range| range.address).collect::<Vec<_>>(), [AT]);
            *mapped.lock().unwrap() = false;
        }
        let had = touches.join().unwrap();
        assert!(!*mapped.lock().unwrap(), "it is mapped when the wait is over (had: {had})");
        assert_eq!(touched(&pool, Holder { receiver: server.receiver, domain: 1 }, AT), None);
    });
}
