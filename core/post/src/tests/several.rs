//! Who waits at several posts, which are entered and left without their locks where nobody else is, under all interleavings that threads can tell apart.

use super::all::{all_told_apart, collected, pool, two, waits};
use super::*;
use shuttle::sync::Arc;
use shuttle::thread;

/// Two posts, and two who may do everything there.
fn two_posts() -> (Arc<Pool>, [Who; 2], [Permit; 2]) {
    let pool = pool();
    pool.get(2, SYSTEM).unwrap();
    let (both, posts) = (two(&pool), [allow(&pool, 1), allow(&pool, 2)]);
    (pool, both, posts)
}

/// Messages and receivers that are queued there.
fn depths(pool: &Pool) -> [(u32, u32); 2] {
    [1, 2].map(|post| pool.depth(post))
}

/// One enters two posts, of which nobody has the lock, while a message is sent to one of them: it is there when he looks, or finds him waiting.
fn one_enters_two_posts(which: usize) {
    all_told_apart(move || {
        let (pool, [me, other], posts) = two_posts();
        let sends = thread::spawn({
            let pool = pool.clone();
            move || pool.send(&posts[which], &other.by(), &body(7), 0).unwrap()
        });
        let received = pool.receive(&posts, &me.by(), true).unwrap();
        match (received, sends.join().unwrap()) {
            (Received::Message(post, message), None) => assert_eq!((post, message.body.op), (which as u32 + 1, 7)),
            (Received::Waits(_), Some(woken)) => {
                assert_eq!(woken.receiver, me.receiver);
                assert_eq!(collected(&pool, &me), (which as u32 + 1, 7));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!((depths(&pool), pool.charged(me.account)), ([(0, 0); 2], 0));
    });
}

#[test]
fn one_enters_two_posts_and_a_message_comes_to_the_first() {
    one_enters_two_posts(0);
}

#[test]
fn one_enters_two_posts_and_a_message_comes_to_the_second() {
    one_enters_two_posts(1);
}

/// One waits at two posts, and his time is up while a message comes to the second one: he has it, or it stays there, and he is at neither.
#[test]
fn two_posts_are_left_by_a_message_and_a_time_out() {
    all_told_apart(|| {
        let (pool, [me, other], posts) = two_posts();
        let Ok(Received::Waits(ticket)) = pool.receive(&posts, &me.by(), true) else { panic!() };
        let ends = thread::spawn({
            let pool = pool.clone();
            move || pool.interrupt(me.receiver, ticket, Error::TimedOut).is_some()
        });
        let woken = pool.send(&posts[1], &other.by(), &body(7), 0).unwrap();
        assert_ne!(ends.join().unwrap(), woken.is_some(), "by one of them");
        match woken {
            Some(_) => assert_eq!(collected(&pool, &me), (2, 7)),
            None => {
                assert_eq!(pool.collect(me.receiver), Some(Received::Ended(Error::TimedOut)));
                assert_eq!(op(pool.receive(&posts, &me.by(), false).unwrap()), (2, 7), "it is still there");
            }
        }
        assert_eq!((depths(&pool), pool.charged(me.account)), ([(0, 0); 2], 0));
    });
}

/// One waits at two posts, and a second one enters beside him at one of them while a message comes to the other: that one has the next one there.
#[test]
fn one_enters_beside_another_who_waits_at_two_posts() {
    all_told_apart(|| {
        let (pool, [me, other], posts) = two_posts();
        assert!(matches!(pool.receive(&posts, &me.by(), true), Ok(Received::Waits(_))));
        let enters = thread::spawn({
            let pool = pool.clone();
            move || _ = waits(&pool, &other, posts[1])
        });
        let woken = pool.send(&posts[0], &other.by(), &body(7), 0).unwrap();
        assert_eq!(woken.map(|woken| woken.receiver), Some(me.receiver));
        enters.join().unwrap();
        assert_eq!(collected(&pool, &me), (1, 7));
        assert_eq!(depths(&pool), [(0, 0), (0, 1)]);
        let woken = pool.send(&posts[1], &me.by(), &body(8), 0).unwrap();
        assert_eq!(woken.map(|woken| woken.receiver), Some(other.receiver));
        assert_eq!(collected(&pool, &other), (2, 8));
    });
}
