//! Memory that runs short (docs/decisions/0020): pagers that can give some back say so to the memory server, and it asks them.

use derive::interface;
use rt::{Caller, Error};

/// So long a pager may take to give something back, in ns; then the next one is asked.
pub const TIME_NS: u64 = 500_000_000;
/// Pages that a pager is asked for at a time, at most.
pub const PART: u64 = 128;

/// The memory server.
#[interface]
pub trait Memory {
    /// From now on the caller's program is asked at this post (interface [`GiveBack`]) when memory is short, until it ends; one post for each program. `Busy`: there is no
    /// room for another one; `Denied`: the post is not the caller's. A server that is restarted knows who was registered with the one before.
    #[repeat]
    fn register(&self, caller: &Caller, post: u64) -> Result<(), Error>;
    /// Waits until so many pages are free beside what is kept, or nobody gives any back. Value: how many pages are, at most as many as are
    /// wanted. They are nobody's: who takes them first has them.
    #[repeat]
    #[when_short]
    fn want(&self, caller: &Caller, pages: u64) -> Result<u64, Error>;
    /// Bytes that are kept free if possible, and pages that were given back so far.
    #[repeat]
    fn state(&self) -> (u64, u64);
    /// Task of the pager with this number, and pages that it has given back; 0 at the end.
    #[repeat]
    fn pager(&self, index: u64) -> (u64, u64);
}

/// A pager that can give memory back.
#[interface]
pub trait GiveBack {
    /// Gives up to so many pages back, within [`TIME_NS`]. Value: how many it has given.
    #[when_short]
    fn give_back(&self, pages: u64) -> Result<u64, Error>;
}
