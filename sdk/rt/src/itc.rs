//! Threads of different programs that wait for each other, in a section that they share (SSS-2, 33, 34): `core/itc` on this
//! kernel's sleep, wake-up and watch.
//!
//! A section goes with the program that owns it: who must outlive a partner that owns what they share does its part inside
//! [`crate::guard::run`].

use abi::calls::stub;
use abi::info::{RUNNING_ENDS, RUNNING_MAX, RUNNING_STEP};
use abi::layout::PAGE;
use abi::{Error, Rights};
use core::sync::atomic::{AtomicU64, Ordering};

pub use itc::{Held, Limit, PARTNERS_MAX, Putter, Taken, Taker, Threads, Wake, lane_words};

use crate::sync::Once;
use crate::{Trap, sched, section, task, time};

/// The threads that this one deals with.
pub type Partners = itc::Partners<Here>;
/// See `core/itc`.
pub type Event<'a> = itc::Event<'a, Here>;
/// See `core/itc`.
pub type Semaphore<'a> = itc::Semaphore<'a, Here>;
/// See `core/itc`.
pub type Queue<'a, const M: usize> = itc::Queue<'a, Here, M>;

/// Watches `others` for the calling thread.
///
/// # Errors
/// As `itc::Partners::watch`.
pub fn partners(others: &[u64]) -> Result<Partners, Error> {
    Partners::watch(Here::find()?, others)
}

/// This machine, as its threads see it.
#[derive(Clone, Copy, Debug)]
pub struct Here {
    /// The kernel's page of who runs where.
    running: &'static [AtomicU64],
    processors: usize,
}

static HERE: Once<Here> = Once::new();

impl Here {
    /// # Errors
    /// What the kernel answers.
    pub fn find() -> Result<Here, Error> {
        HERE.get_or_try(|| {
            let base = stub::running(&Trap)?;
            if !section::may(base, PAGE, Rights::READ, section::Who::Own) {
                return Err(section::why_not(base, Rights::READ));
            }
            let words = (PAGE / 8) as usize;
            // SAFETY: the kernel says that this domain may read the page, which is never taken away, and whatever is there is a
            // valid word. Only loads are made of it.
            let running = unsafe { core::slice::from_raw_parts(base as *const AtomicU64, words) };
            let processors = task::processors().count().min(RUNNING_MAX as usize);
            Ok(Here { running, processors })
        })
        .copied()
    }

    /// Threads that run now, by processor; 0: none.
    pub fn running(&self) -> impl Iterator<Item = u64> {
        let step = (RUNNING_STEP / 8) as usize;
        self.running.iter().step_by(step).take(self.processors).map(|word| word.load(Ordering::Acquire))
    }
}

/// For how long, until a moment; `None`: that is over.
fn left(until: u64) -> Result<u64, Error> {
    if until == u64::MAX {
        return Ok(until);
    }
    until.checked_sub(time::now_ns()).filter(|ns| *ns > 0).ok_or(Error::TimedOut)
}

impl Threads for Here {
    fn me(&self) -> u64 {
        task::identity().thread
    }

    #[inline]
    fn is_running(&self, thread: u64) -> bool {
        const STEP: usize = (RUNNING_STEP / 8) as usize;
        (0..self.processors).any(|at| self.running[at * STEP].load(Ordering::Acquire) == thread)
    }

    #[inline]
    fn ends(&self) -> u64 {
        self.running[(RUNNING_ENDS / 8) as usize].load(Ordering::Acquire)
    }

    fn watch(&self, thread: u64) -> Result<(), Error> {
        sched::watch(thread)
    }

    fn unwatch(&self, thread: u64) {
        let _ = sched::unwatch(thread);
    }

    #[inline]
    fn sleep(&self, until: u64) -> Result<(), Error> {
        if until == u64::MAX
            && let Some(slept) = sched::direct().and_then(|direct| (direct.sleep)())
        {
            return slept;
        }
        sched::sleep(left(until)?)
    }

    #[inline]
    fn wake_up(&self, thread: u64) {
        // It may have ended: then there is nobody to be woken.
        if !sched::direct().is_some_and(|direct| (direct.wake_up)(thread)) {
            let _ = sched::wake_up(thread);
        }
    }

    #[inline]
    fn pass(&self, thread: u64, until: u64) -> Result<(), Error> {
        if until == u64::MAX
            && let Some(slept) = sched::direct().and_then(|direct| (direct.pass)(thread))
        {
            return slept;
        }
        match sched::pass(thread, left(until).inspect_err(|_| self.wake_up(thread))?) {
            // It has ended, or will not be woken by this one: whoever waits looks again.
            Err(Error::TimedOut) => Err(Error::TimedOut),
            Err(Error::Killed) => Err(Error::Killed),
            _ => Ok(()),
        }
    }

    fn now(&self) -> u64 {
        time::now_ns()
    }

    #[inline]
    fn relax(&self) {
        core::hint::spin_loop();
    }
}
