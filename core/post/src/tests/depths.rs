//! What has come to each post, and who waits for messages, as programs read it.

use super::machine::{Machine, random};
use super::*;
use crate::shown::{SHOWN, Shown};
use crate::sync::{Ordering, owned::AtomicU64};
use abi::info::layout::PostCounts;

fn records() -> &'static [Shown; 7] {
    Box::leak(Box::new([const { [const { AtomicU64::new(0) }; SHOWN] }; 7]))
}

/// As [`PostCounts`]: waiting, most, handed, queued, refused.
fn seen(record: &Shown) -> [u64; 5] {
    core::array::from_fn(|word| record[word].load(Ordering::Relaxed))
}

#[test]
fn what_comes_is_counted() {
    alone(|| {
        let shown = records();
        let pool = Pool::showing(CONFIG, |number| &shown[number as usize]);
        let account = account(&pool, 3);
        let (a, b) = (Who::new(&pool, 100, account), Who::new(&pool, 200, account));
        let is = |wanted: [u64; 5], what: &str| {
            assert_eq!(seen(&shown[2]), wanted, "{what}");
            let others = shown.iter().enumerate().filter(|(number, _)| *number != 2);
            others.for_each(|(number, record)| assert_eq!(seen(record), [0; 5], "post {number}: {what}"));
        };
        let post = allow(&pool, pool.get(2, SYSTEM).unwrap());
        for op in 1..=3 {
            assert_eq!(pool.send(&post, &a.by(), &body(op), 0), Ok(None));
            is([op, op, 0, op, 0], "left there");
        }
        assert_eq!(pool.send(&post, &a.by(), &body(4), 0), Err(Error::MessageQuota));
        assert_eq!(pool.ask(&post, &a.by(), &body(4)), Err(Error::MessageQuota));
        assert_eq!(pool.send_many(&post, &a.by(), 2, body_of, |_| {}), Err(Error::MessageQuota));
        is([3, 3, 0, 3, 3], "no room");
        assert!(pool.receive(&[post], &b.by(), false).is_ok());
        is([2, 3, 0, 3, 3], "received");
        assert_eq!(pool.send_many(&post, &a.by(), 2, body_of, |_| {}), Ok(1));
        is([3, 3, 0, 4, 4], "room for one of two");
        (0..3).for_each(|_| assert!(pool.receive(&[post], &b.by(), false).is_ok()));

        // By the short way of one who waits alone, and by the queue of several.
        assert!(matches!(pool.receive(&[post], &b.by(), true), Ok(Received::Waits(_))));
        assert!(pool.send(&post, &a.by(), &body(5), 0).unwrap().is_some());
        is([0, 3, 1, 4, 4], "handed to the only one");
        assert!(pool.collect(b.receiver).is_some());
        let c = Who::new(&pool, 300, account);
        for who in [&b, &c] {
            assert!(matches!(pool.receive(&[post], &who.by(), true), Ok(Received::Waits(_))));
        }
        assert!(pool.send(&post, &a.by(), &body(6), 0).unwrap().is_some());
        is([0, 3, 2, 4, 4], "handed to the first one");
        pool.free(2, true, 0, |_| {}).unwrap();
        is([0; 5], "given back");
        let words = PostCounts { waiting: 1, handed: 5, queued: 3, ..PostCounts::default() };
        assert_eq!((words.sent(), words.received()), (8, 7));
    });
}

fn body_of(n: u32) -> Body {
    body(n.into())
}

#[test]
fn each_message_is_counted_once() {
    random(|| {
        let shown = records();
        let machine = Machine::around(Pool::showing(CONFIG, |number| &shown[number as usize]));
        let (post, paid) = (machine.post(1), account(&machine.pool, 4));
        let all: Vec<_> = [1u64, 2]
            .map(|thread| {
                let who = Who::new(&machine.pool, thread, paid);
                machine.run(move |machine| (0..2).for_each(|n| machine.send(&who, &post, n).unwrap()))
            })
            .into();
        let me = Who::new(&machine.pool, 3, paid);
        (0..4).for_each(|_| assert!(matches!(machine.receive(&me, &[post]), Ok(Received::Message(1, _)))));
        all.into_iter().for_each(|one| one.join().unwrap());
        let [waiting, most, handed, queued, refused] = seen(&shown[1]);
        assert_eq!((waiting, handed + queued, refused), (0, 4, 0));
        assert!(most <= queued && (queued == 0) == (most == 0), "{most} of {queued}");
    });
}

#[test]
fn where_a_thread_waits_is_told() {
    alone(|| {
        let pool = Pool::new(CONFIG);
        let account = account(&pool, 3);
        let (a, b) = (Who::new(&pool, 100, account), Who::new(&pool, 200, account));
        let posts: Vec<Permit> = [1, 2]
            .into_iter()
            .map(|number| pool.get(number, SYSTEM))
            .chain((0..4).map(|_| pool.get_any(SYSTEM)))
            .map(|number| allow(&pool, number.unwrap()))
            .collect();
        let word = |posts: &[Permit]| posts.iter().rev().fold(0, |word, post| word << 16 | u64::from(post.post()));
        assert_eq!(pool.places(b.receiver), [0; 2], "who has never waited");
        for count in [1, 4, 6] {
            let waited = pool.receive(&posts[..count], &b.by(), true);
            assert!(matches!(waited, Ok(Received::Waits(_))));
            let (first, more) = posts[..count].split_at(count.min(4));
            assert_eq!(pool.places(b.receiver), [word(first), word(more)]);
            let _ = pool.send(&posts[0], &a.by(), &body(1), 0).unwrap();
            assert!(pool.collect(b.receiver).is_some());
        }
        assert!(matches!(pool.ask(&posts[0], &b.by(), &body(2)), Ok(_)));
        assert_eq!(pool.places(b.receiver), [0; 2], "who waits for an answer alone");
    });
}
