//! Who may be made to wait.

use crate::thread::Thread;
use alloc::sync::Arc;
use core::ops::Deref;

/// A thread whose registers are all saved: it may be made to wait, and another one may run in its place. What can wait asks for this
/// instead of a thread. Light calls have none to give, so one that could wait does not compile (SSS-39).
#[derive(Clone, Copy)]
pub struct Saved<'a>(&'a Arc<Thread>);

impl<'a> Saved<'a> {
    /// The thread has come by the full entry.
    pub fn by_full_entry(thread: &'a Arc<Thread>) -> Saved<'a> {
        Saved(thread)
    }

    /// The thread needs a page that its pager is being asked for: it has had a fault, or has come by the full entry.
    pub fn by_fault(thread: &'a Arc<Thread>) -> Saved<'a> {
        Saved(thread)
    }

    /// The thread is on its way out of the kernel, by which everybody goes who has come by the full entry.
    pub fn on_its_way_out(thread: &'a Arc<Thread>) -> Saved<'a> {
        Saved(thread)
    }

    /// The thread rests in a post: its card has all that there is of its registers.
    pub fn at_rest(thread: &'a Arc<Thread>) -> Saved<'a> {
        Saved(thread)
    }
}

impl Deref for Saved<'_> {
    type Target = Arc<Thread>;

    fn deref(&self) -> &Arc<Thread> {
        self.0
    }
}
