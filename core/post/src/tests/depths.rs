//! How many messages wait, and who waits for some, as programs read it.

use super::*;
use crate::sync::{Ordering, owned};

#[test]
fn depths_are_shown() {
    alone(|| {
        let depths: &'static [_] = Box::leak((0..7).map(|_| owned::AtomicU64::new(0)).collect::<Box<_>>());
        let pool = Pool::showing(CONFIG, depths);
        let account = account(&pool, 3);
        let (a, b) = (Who::new(&pool, 100, account), Who::new(&pool, 200, account));
        let seen = || depths.iter().map(|word| word.load(Ordering::Relaxed)).collect::<Vec<_>>();
        let post = allow(&pool, pool.get(2, SYSTEM).unwrap());
        for op in 1..=3 {
            assert_eq!(pool.send(&post, &a.by(), &body(op), 0), Ok(None));
            assert_eq!(seen(), [0, 0, op, 0, 0, 0, 0]);
        }
        assert!(pool.receive(&[post], &b.by(), false).is_ok());
        assert_eq!(seen(), [0, 0, 2, 0, 0, 0, 0]);
        pool.free(2, true, 0, |_| {}).unwrap();
        assert_eq!(seen(), [0; 7], "of a post that was given back");
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
