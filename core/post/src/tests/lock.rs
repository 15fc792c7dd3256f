//! The bit that is a post's lock, without the turns that the other tests take: it alone keeps threads apart.

use crate::lock::{Lock, OPEN, set};
use crate::sync::by_the_bit;
use shuttle::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const THREADS: usize = 3;
const ROUNDS: usize = 3;

/// Whoever holds it is alone, though others come in between each of his steps.
fn alone(inside: &AtomicU32) {
    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold the lock");
    thread::yield_now();
    inside.fetch_sub(1, Ordering::SeqCst);
}

fn by_all() {
    let lock = Arc::new(Lock::showing(&crate::shown::NOBODYS));
    {
        by_the_bit();
        lock.lock().set_epoch(OPEN);
    }
    let inside = Arc::new(AtomicU32::new(0));
    let one = |n: usize| {
        let (lock, inside) = (lock.clone(), inside.clone());
        thread::spawn(move || {
            by_the_bit();
            for round in 0..ROUNDS {
                // Now and then one waits there, alone or beside another, who is in the queue from then on.
                if (n + round).is_multiple_of(2)
                    && let Err(seen) = lock.enter_only(OPEN, n as u32 + 1)
                    && let Ok((_, turn)) = lock.take_beside(OPEN, seen)
                {
                    alone(&inside);
                    lock.open_queues(OPEN, true, turn);
                }
                // Whoever comes takes one who waits and the lock in one step, if he can.
                let seen = match lock.take_only(OPEN) {
                    Ok((receiver, turn)) => {
                        assert!((1..=THREADS as u32).contains(&receiver));
                        alone(&inside);
                        lock.open(OPEN, turn);
                        continue;
                    }
                    Err(seen) => seen,
                };
                match lock.take_queued(OPEN, seen) {
                    Ok((queues, turn)) => {
                        alone(&inside);
                        [&queues.head, &queues.tail].into_iter().for_each(|end| set(end, 0));
                        lock.open_queues(OPEN, false, turn);
                    }
                    Err(seen) => {
                        let held = lock.lock_after(seen);
                        alone(&inside);
                        drop(held);
                    }
                }
            }
        })
    };
    let threads: Vec<_> = (0..THREADS).map(one).collect();
    threads.into_iter().for_each(|one| one.join().unwrap());
}

#[test]
fn the_bit_keeps_threads_apart() {
    shuttle::check_random(by_all, 3000);
}
