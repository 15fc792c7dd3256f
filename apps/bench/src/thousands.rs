//! A program with as many threads as it may have, up to a thousand and a half, each of which has been in another program too: whoever comes into
//! the view that they share is not to fetch what one of them may not, and may be in what all of them are in (SSS-24).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use musubi::interfaces::clock::ClockClient;
use musubi::rt::{sync, thread, time};
use musubi::{Error, names};

const MOST: usize = 1500;
/// With fewer it says nothing.
const LEAST: usize = 500;
/// So long others may take.
const PATIENCE_NS: u64 = 600_000_000_000;

static OVER: AtomicU32 = AtomicU32::new(0);

pub fn calls() -> Result<(), Error> {
    OVER.store(0, Ordering::SeqCst);
    let clock = Arc::new(names::lookup("clock").and_then(ClockClient::bind)?);
    let called = Arc::new(AtomicU64::new(0));
    let mut crowd = Vec::new();
    let made = loop {
        if crowd.len() == MOST {
            break Ok(());
        }
        let (clock, called) = (clock.clone(), called.clone());
        let one = move || {
            called.fetch_add(u64::from(clock.now().is_ok()), Ordering::SeqCst);
            let _ = sync::wait(&OVER, 0, PATIENCE_NS);
        };
        match thread::spawn(one, 0) {
            Ok(one) => crowd.push(one),
            Err(_) if crowd.len() >= LEAST => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    let began = time::now_ns();
    let all = crowd.len() as u64;
    while made.is_ok() && called.load(Ordering::SeqCst) < all && time::now_ns() - began < PATIENCE_NS {
        time::sleep_ns(1_000_000);
    }
    OVER.store(1, Ordering::SeqCst);
    sync::wake(&OVER, u64::MAX);
    crowd.into_iter().for_each(|one| _ = one.join());
    made?;
    if called.load(Ordering::SeqCst) < all { Err(Error::TimedOut) } else { Ok(()) }
}
