//! The two ways in which threads pass the processor to each other, for programs that compare them: by a call of the kernel, which asks
//! the scheduler, and by a call of the scheduler itself. (What the SDK waits by chooses between them; see `passing`.)

use interfaces::passing::PassingClient;
use rt::{Error, sched};

/// How threads pass the processor on.
pub trait Pass: Copy + Send + 'static {
    /// Sleeps until somebody wakes this thread.
    ///
    /// # Errors
    /// Those of [`sched::sleep`].
    fn sleep(self) -> Result<(), Error>;

    /// Wakes a thread.
    ///
    /// # Errors
    /// Those of [`sched::wake_up`].
    fn wake_up(self, thread: u64) -> Result<(), Error>;

    /// Wakes a thread and sleeps until somebody wakes this one.
    ///
    /// # Errors
    /// Those of [`sched::pass`].
    fn pass(self, thread: u64) -> Result<(), Error>;

    /// Changes into the scheduler that were no switches between threads, so far on this processor, which the kernel does not count.
    fn entered(self, _processor: u64) -> u64 {
        0
    }
}

/// By calls of the kernel.
#[derive(Clone, Copy, Debug)]
pub struct ByKernel;

impl Pass for ByKernel {
    #[inline]
    fn sleep(self) -> Result<(), Error> {
        sched::sleep(u64::MAX)
    }

    #[inline]
    fn wake_up(self, thread: u64) -> Result<(), Error> {
        sched::wake_up(thread)
    }

    #[inline]
    fn pass(self, thread: u64) -> Result<(), Error> {
        sched::pass(thread, u64::MAX)
    }
}

/// By calls of the scheduler.
impl Pass for &'static PassingClient {
    #[inline]
    fn sleep(self) -> Result<(), Error> {
        PassingClient::sleep(self)
    }

    #[inline]
    fn wake_up(self, thread: u64) -> Result<(), Error> {
        PassingClient::wake_up(self, thread)
    }

    #[inline]
    fn pass(self, thread: u64) -> Result<(), Error> {
        PassingClient::pass(self, thread)
    }

    #[inline]
    fn entered(self, processor: u64) -> u64 {
        PassingClient::entered(self, processor).unwrap_or(0)
    }
}
