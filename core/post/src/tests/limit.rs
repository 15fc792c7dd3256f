//! Waits with a limit of time, and their one timer.

use super::*;
use crate::limit::Rung;
use crate::sync::{AtomicU64, Ordering};
use shuttle::thread;
use std::sync::Arc;

/// Moments: the timer is set for the first one.
const SOON: u64 = 10;
const LATER: u64 = 20;

fn receive(pool: &Pool, who: &Who, post: Permit, until: Option<u64>) -> bool {
    let me = pool.receiver(who.receiver);
    let in_time = until.is_none_or(|until| me.limit(until));
    assert!(matches!(pool.receive(&[post], &who.by(), true), Ok(Received::Waits(_))));
    in_time && until.is_none_or(|until| me.has_timer(until))
}

#[test]
fn a_timer_stays_from_wait_to_wait() {
    alone(|| {
        let pool = Pool::new(CONFIG);
        let paid = account(&pool, 3);
        let (a, b) = (Who::new(&pool, 1, paid), Who::new(&pool, 2, paid));
        let post = allow(&pool, pool.get(1, SYSTEM).unwrap());
        let woken = |expected: &str| match pool.rings(b.receiver, SOON) {
            Rung::Over(woken) => assert_eq!((woken.receiver, expected), (b.receiver, "over")),
            Rung::Later(at) => assert_eq!((at, expected), (LATER, "later")),
            Rung::Nothing => assert_eq!(expected, "nothing"),
        };
        // The first wait has it set.
        assert!(!receive(&pool, &b, post, Some(SOON)));
        assert_eq!(pool.timer_wanted(b.receiver), Some(SOON));
        pool.timer_is_set(b.receiver, SOON);
        assert_eq!(pool.timer_wanted(b.receiver), None);
        assert!(pool.send(&post, &a.by(), &body(1), 0).unwrap().is_some());
        pool.collect(b.receiver).unwrap();
        // It comes before the end of a longer one, and not of a shorter one.
        assert!(receive(&pool, &b, post, Some(LATER)));
        woken("later");
        assert_eq!(pool.timer_wanted(b.receiver), Some(LATER));
        pool.timer_is_set(b.receiver, LATER);
        assert!(pool.send(&post, &a.by(), &body(2), 0).unwrap().is_some());
        pool.collect(b.receiver).unwrap();
        assert!(!receive(&pool, &b, post, Some(SOON)));
        assert_eq!(pool.timer_wanted(b.receiver), Some(SOON));
        woken("over");
        assert_eq!(pool.collect(b.receiver), Some(Received::Ended(Error::TimedOut)));
        // It is nothing to a wait for ever, and to who does not wait.
        pool.timer_is_set(b.receiver, SOON);
        woken("nothing");
        assert!(receive(&pool, &b, post, None));
        woken("nothing");
        assert_eq!(pool.timer_wanted(b.receiver), None);
    });
}

/// The timer of a wait comes while that ends and the next one begins, which has a later limit or none.
fn comes_between(next: Option<u64>) {
    let case = move || {
        let pool = Arc::new(Pool::new(CONFIG));
        let paid = account(&pool, 3);
        let (a, b) = (Who::new(&pool, 1, paid), Who::new(&pool, 2, paid));
        let post = allow(&pool, pool.get(1, SYSTEM).unwrap());
        assert!(!receive(&pool, &b, post, Some(SOON)));
        pool.timer_is_set(b.receiver, SOON);
        let set_again = Arc::new(AtomicU64::new(0));
        let timer = {
            let (pool, set_again) = (pool.clone(), set_again.clone());
            thread::spawn(move || match pool.rings(b.receiver, SOON) {
                Rung::Later(at) => {
                    set_again.store(at, Ordering::SeqCst);
                    pool.timer_is_set(b.receiver, at);
                    false
                }
                Rung::Over(_) => true,
                Rung::Nothing => false,
            })
        };
        let sent = pool.send(&post, &a.by(), &body(1), 0).unwrap();
        if sent.is_none() {
            // The timer was first; the message waits.
            assert!(timer.join().unwrap());
            assert_eq!(pool.collect(b.receiver), Some(Received::Ended(Error::TimedOut)));
            return;
        }
        pool.collect(b.receiver).unwrap();
        let noticed = !receive(&pool, &b, post, next);
        assert!(!timer.join().unwrap(), "it is not yet time");
        assert!(pool.waits(b.receiver).is_some());
        if let Some(next) = next {
            let set_again = set_again.load(Ordering::SeqCst);
            assert!(noticed || set_again == next, "one of them sees to it that it comes");
            assert_eq!(pool.timer_wanted(b.receiver), (set_again == 0).then_some(next));
        }
    };
    shuttle::check_random(case, 5000);
    shuttle::check_pct(case, 3000, 3);
}

#[test]
fn a_timer_that_comes_between_two_waits_is_set_again() {
    comes_between(Some(LATER));
}

#[test]
fn a_timer_ends_no_wait_for_ever() {
    comes_between(None);
}

/// A limit that was said for a call that is refused is none of the wait that begins next, for ever.
#[test]
fn the_limit_of_a_refused_call_is_no_later_waits() {
    alone(|| {
        let pool = Pool::new(CONFIG);
        let b = Who::new(&pool, 2, account(&pool, 3));
        let post = allow(&pool, pool.get(1, SYSTEM).unwrap());
        pool.limit(b.receiver, SOON);
        assert_eq!(pool.receive(&[post, post], &b.by(), true), Err(Error::BadArgument));
        pool.no_limit(b.receiver);
        assert!(receive(&pool, &b, post, None));
        assert_eq!((pool.timer_wanted(b.receiver), pool.rings(b.receiver, LATER)), (None, Rung::Nothing));
    });
}

/// Nor is it one of the thread's that has the record next.
#[test]
fn a_limit_is_no_other_threads() {
    alone(|| {
        let pool = Pool::new(CONFIG);
        let b = Who::new(&pool, 2, account(&pool, 3));
        let post = allow(&pool, pool.get(1, SYSTEM).unwrap());
        pool.limit(b.receiver, SOON);
        pool.close_receiver(b.receiver, |_| unreachable!("nobody has asked it"));
        let c = Who::new(&pool, 3, b.account);
        assert_eq!(c.receiver, b.receiver, "the last one given back is had first");
        assert!(receive(&pool, &c, post, None));
        assert_eq!((pool.timer_wanted(c.receiver), pool.rings(c.receiver, LATER)), (None, Rung::Nothing));
    });
}
