//! Who waits for the processor is let in while many are dealt with.

use super::*;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// SSS-24: however many messages, waiting threads and records there are. Here after every two.
#[test]
fn others_are_let_in_between() {
    static RESTS: AtomicU32 = AtomicU32::new(0);
    fn rest() {
        RESTS.fetch_add(1, Relaxed);
    }
    let rests = |does: &dyn Fn()| {
        let before = RESTS.load(Relaxed);
        does();
        RESTS.load(Relaxed) - before
    };
    alone(move || {
        let pool = Pool::new(Config { rest, ..CONFIG });
        let paid = account(&pool, 6);
        let all: Vec<Who> = (1..=6).map(|n| Who::new(&pool, n, paid)).collect();
        for post in [1, 2] {
            pool.get(post, SYSTEM).unwrap();
        }
        let [messages, waits] = [1, 2].map(|post| allow(&pool, post));
        all.iter().for_each(|who| assert_eq!(pool.send(&messages, &who.by(), &body(1), 0), Ok(None)));
        all.iter().for_each(|who| assert!(pool.receive(&[waits], &who.by(), true).is_ok()));
        assert_eq!(rests(&|| pool.changed(2, |_| Ok(()), |_| {})), 3, "of six records");
        assert_eq!(rests(&|| pool.holders_gone(|_| true, |_| {})), 3);
        for post in [1, 2] {
            assert_eq!(rests(&|| pool.free(post, true, 0, |_| {}).unwrap()), 3, "of six at post {post}");
        }
        assert_eq!(rests(&|| assert_eq!(pool.get_any(SYSTEM), Ok(3))), 0);
    });
}

/// Whoever gives a post back in two steps has its number until the second one.
#[test]
fn a_number_is_had_again_only_after_the_second_step() {
    alone(|| {
        let pool = Pool::new(CONFIG);
        let who = Who::new(&pool, 1, account(&pool, 3));
        let post = allow(&pool, pool.get(1, SYSTEM).unwrap());
        assert_eq!(pool.send(&post, &who.by(), &body(1), 0), Ok(None));
        assert_eq!(pool.shut(1, false), Err(Error::Busy));
        assert!(pool.receive(&[post], &who.by(), false).is_ok());
        assert_eq!(pool.shut(1, false), Ok(()));
        assert_eq!(pool.send(&post, &who.by(), &body(2), 0), Err(Error::NotFound));
        assert_eq!((pool.get(1, SYSTEM), pool.shut(1, true)), (Err(Error::Exists), NOT_FOUND.map(drop)));
        pool.empty(1, 0, |_| ());
        assert_eq!((pool.posts_used(), pool.get(1, SYSTEM)), (0, Ok(1)));
    });
}
