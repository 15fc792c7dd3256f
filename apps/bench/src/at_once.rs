//! Threads that begin at the same moment.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use musubi::Error;
use musubi::rt::{sync, thread, time};

struct Run {
    ready: AtomicU32,
    go: AtomicU32,
    failed: AtomicU64,
}

/// So many threads, each of which does `first`, waits for the others, and does `work`, with its number. What `read` says before they begin, and when the
/// last one has ended.
pub fn at_once<T>(
    threads: usize,
    first: impl Fn(usize) -> Result<(), Error> + Copy + Send + 'static,
    work: impl Fn(usize) -> Result<(), Error> + Copy + Send + 'static,
    read: impl Fn() -> T,
) -> Result<[T; 2], Error> {
    let run: &'static Run =
        Box::leak(Box::new(Run { ready: AtomicU32::new(0), go: AtomicU32::new(0), failed: AtomicU64::new(0) }));
    let one = move |number: usize| {
        let mut outcome = first(number);
        run.ready.fetch_add(1, Ordering::SeqCst);
        while run.go.load(Ordering::SeqCst) == 0 {
            let _ = sync::wait(&run.go, 0, u64::MAX);
        }
        outcome = outcome.and_then(|()| work(number));
        if let Err(error) = outcome {
            run.failed.store(error.word(), Ordering::SeqCst);
        }
    };
    let threads: Result<Vec<_>, Error> = (0..threads).map(|number| thread::spawn(move || one(number), 0)).collect();
    let threads = threads?;
    while run.ready.load(Ordering::SeqCst) < threads.len() as u32 {
        time::sleep_ns(1_000_000);
    }
    let before = read();
    run.go.store(1, Ordering::SeqCst);
    sync::wake(&run.go, u64::MAX);
    threads.into_iter().try_for_each(|one| one.join().map(drop))?;
    let after = read();
    match run.failed.load(Ordering::SeqCst) {
        0 => Ok([before, after]),
        word => Err(Error::from_word(word).unwrap_or(Error::Faulted)),
    }
}
