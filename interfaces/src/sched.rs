//! Which scheduler the processors have.

use derive::interface;
use rt::{Caller, Error};

#[interface]
pub trait Sched {
    /// Another scheduler from now on: the program `bin/sched-NAME` for the high level (and `bin/fast-NAME` for the fast one,
    /// if there is one), or none (the kernel's round robin). Further words are its arguments. Comes back when it sits everywhere.
    ///
    /// # Errors
    /// `NotFound`: there is none of that name; `Changed`: somebody has chosen another one meanwhile; `TimedOut`: it does not sit
    /// everywhere after 10 s. It is started again whenever it ends, until another one is chosen.
    #[repeat]
    fn choose(&self, caller: &Caller, name: &str) -> Result<(), Error>;
    /// Line `index` of what there is to say (`log` 0: of the state; 1: of what has happened; 2: of the latest
    /// steps between the levels of the initial version; 3: of the latest calls of the high level). Value: its length.
    #[repeat]
    fn line(&self, log: u64, index: u64, line: &mut [u8]) -> Result<u64, Error>;
    /// Proposes that a thread of the caller's user has so many parts of a processor. `NotSupported`: the policy knows no shares.
    #[repeat]
    fn share(&self, caller: &Caller, thread: u64, weight: u64) -> Result<(), Error>;
    /// Proposes that a thread gets `budget` in each `period`, by `deadline` after the period's beginning; all in ns.
    /// `BadArgument`: there is no such thing, or the deadline is more than a quarter of a second.
    /// `Busy`: not all deadlines could be met.
    #[repeat]
    fn periodic(&self, caller: &Caller, thread: u64, period: u64, deadline: u64, budget: u64) -> Result<(), Error>;
    /// Proposes that a thread belongs to a parallel job, which has processors of its own. The jobs of a user have numbers.
    #[repeat]
    fn join(&self, caller: &Caller, thread: u64, job: u64) -> Result<(), Error>;
    /// How many processors a job has now.
    #[repeat]
    fn processors(&self, caller: &Caller, job: u64) -> Result<u64, Error>;
    /// For the levels themselves: the section that they share.
    #[repeat]
    fn board(&self, caller: &Caller) -> Result<u64, Error>;
    /// For a high level that keeps what it knows of threads to itself (CUBIX-50): a board that the fast level has no right to. It outlives
    /// the level, so that its queues can be shown.
    #[repeat]
    fn private(&self, caller: &Caller) -> Result<u64, Error>;
}
