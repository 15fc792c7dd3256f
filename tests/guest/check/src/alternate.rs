//! Two threads that give way to each other by sleeping for no time.

use crate::report::{Outcome, doing};
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use musubi::rt::{Mutex, task, thread, time};

/// Rounds of two threads that give way to each other, and how often that is tried: a tick in between shifts their turns.
const ROUNDS: usize = 100;
const TRIES: usize = 20;

/// SSS-36: `sleep` with 0 lets the next thread run, and comes back at once if there is none. On one processor two threads that do so have
/// their turns strictly one after the other.
pub fn alternate() -> Outcome {
    (0..ROUNDS).for_each(|_| time::sleep_ns(0));
    if task::processors().count() > 1 {
        // Each may have one for itself.
        return Ok(());
    }
    for sleeps in [true, false] {
        let mut strict = 0;
        for _ in 0..TRIES {
            let log: &'static Mutex<Vec<u8>> = Box::leak(Box::new(Mutex::new(Vec::with_capacity(2 * ROUNDS))));
            let begin: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
            let body = move |who| {
                begin.fetch_add(1, Ordering::SeqCst);
                while begin.load(Ordering::SeqCst) < 2 {
                    time::sleep_ns(0);
                }
                for _ in 0..ROUNDS {
                    log.lock().push(who);
                    if sleeps {
                        time::sleep_ns(0);
                    }
                }
            };
            let both = [0, 1].map(|who| thread::spawn(move || body(who), 0));
            for one in both {
                one.and_then(thread::Thread::join).map_err(doing("a thread"))?;
            }
            let log = log.lock();
            same!(log.len(), 2 * ROUNDS, "turns");
            strict += usize::from(log.windows(2).all(|two| two[0] != two[1]));
        }
        // Who does not give way has all its turns at once.
        holds!(
            if sleeps { strict > 0 } else { strict == 0 },
            "{strict} of {TRIES} tries alternate, giving way: {sleeps}"
        );
    }
    Ok(())
}
