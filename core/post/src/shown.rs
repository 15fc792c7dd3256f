//! What programs read of each post (SSS-1): how many messages wait there, and how many have come. It is written by who holds the post's lock, so by
//! one at a time; where a message is handed over by the short way that is one addition.

use crate::lock::Queues;
use crate::pool::{Permit, Pool};
use crate::receive::Step;
use crate::sync::{Ordering, owned::AtomicU64};
use abi::info::layout::PostCounts;
use abi::{Error, Rights};
use core::mem::offset_of;

/// Whether anything of it is written.
const TOLD: bool = !cfg!(feature = "untold");

/// Words of a post's record ([`PostCounts`]).
pub const SHOWN: usize = size_of::<PostCounts>() / 8;

/// The record.
pub type Shown = [AtomicU64; SHOWN];

const WAITING: usize = offset_of!(PostCounts, waiting) / 8;
const MOST: usize = offset_of!(PostCounts, most) / 8;
const HANDED: usize = offset_of!(PostCounts, handed) / 8;
const QUEUED: usize = offset_of!(PostCounts, queued) / 8;
const REFUSED: usize = offset_of!(PostCounts, refused) / 8;

#[inline(always)]
fn count(shown: &Shown, word: usize) {
    if TOLD {
        let word = &shown[word];
        word.store(word.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }
}

/// A message has gone to who waited for it.
#[inline(always)]
pub(crate) fn handed(shown: &Shown) {
    count(shown, HANDED);
}

impl Queues {
    /// A message was left there. So many wait now.
    #[inline(always)]
    pub fn shows_one_more(&self, waiting: u32) {
        count(self.shown, QUEUED);
        self.shows(waiting);
        let most = &self.shown[MOST];
        if TOLD && u64::from(waiting) > most.load(Ordering::Relaxed) {
            most.store(waiting.into(), Ordering::Relaxed);
        }
    }

    /// So many wait now.
    #[inline(always)]
    pub fn shows(&self, waiting: u32) {
        if TOLD {
            self.shown[WAITING].store(waiting.into(), Ordering::Relaxed);
        }
    }

    /// Who gets the number next begins anew.
    pub fn shows_nothing(&self) {
        self.shown.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

impl Pool {
    /// What is sent with this permit is refused for good, as an error says: for want of room that is counted. (What the short way refuses is tried
    /// once more, and counted then.)
    #[cold]
    #[inline(never)]
    pub(crate) fn refused(&self, to: &Permit, error: Error) {
        if error != Error::MessageQuota {
            return;
        }
        let Ok(post) = self.post(to.post()) else { return };
        let queues = post.queues();
        if to.check(queues.epoch(), Rights::CALL).is_ok() {
            count(queues.shown, REFUSED);
        }
    }

    /// The same of what a step has come to.
    #[inline(always)]
    pub(crate) fn unless_refused(&self, to: &Permit, step: Step) -> Step {
        if let Step::Refused(error) = step {
            self.refused(to, error);
        }
        step
    }
}

#[cfg(test)]
pub(crate) static NOBODYS: Shown = [const { AtomicU64::new(0) }; SHOWN];
