//! The lock of this server. Many Linux programs run through its text at once, on their own threads; who finds a lock
//! held gives up the processor, since its holder may wait for it.

use spin::mutex::SpinMutex;
use spin::relax::RelaxStrategy;

/// Gives up the processor while somebody else holds the lock.
#[derive(Clone, Copy, Debug)]
pub struct Yield;

impl RelaxStrategy for Yield {
    fn relax() {
        window::yield_now();
    }
}

pub type Mutex<T> = SpinMutex<T, Yield>;
