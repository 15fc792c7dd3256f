//! Loops whose rounds do not depend on each other, done by many threads (K1-2): each has a part of the loop, and who is done with his takes
//! half of what another one has left.

mod part;

use alloc::vec::Vec;
use core::ops::Range;
use part::Part;
use rt::{Error, thread};

/// Most rounds of a loop.
pub const ROUNDS_MAX: usize = u32::MAX as usize;

/// Does rounds `0..rounds` of a loop, each once, on `threads` threads, the calling one among them. `body` is given up to `grain` rounds
/// at a time. What it uses and leaves behind lies in statics or on the heap: nobody sees another thread's stack.
///
/// # Errors
/// `BadArgument`: more than [`ROUNDS_MAX`] rounds, no thread or no grain; what the kernel answers where the threads could not be
/// started (nothing is done then); `Killed`: one was ended in the middle.
pub fn each(
    rounds: usize,
    threads: usize,
    grain: usize,
    body: impl Fn(Range<usize>) + Send + Sync + 'static,
) -> Result<(), Error> {
    if rounds > ROUNDS_MAX || threads == 0 || grain == 0 {
        return Err(Error::BadArgument);
    }
    let bound = |n: usize| (rounds as u64 * n as u64 / threads as u64) as u32;
    let parts: Vec<Part> = (0..threads).map(|n| Part::new(bound(n)..bound(n + 1))).collect();
    thread::together(threads, move |me| {
        let own = &parts[me];
        loop {
            while let Some(some) = own.take(grain.min(ROUNDS_MAX) as u32) {
                body(some.start as usize..some.end as usize);
            }
            // The next one first, so that not all ask the same one.
            let others = (1..threads).map(|step| &parts[(me + step) % threads]);
            let Some(stolen) = others.filter_map(Part::steal).next() else { break };
            own.refill(stolen);
        }
    })
}
