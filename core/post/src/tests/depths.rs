//! How many messages wait, as everybody reads it.

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
