//! The word of a post: who may use it, whether anything is queued, and the lock of its queues, together in one, so that the usual
//! case is one exchange. That is: nobody has changed the list, nothing is queued, and one thread waits or none.

use crate::receiver::{RECEIVERS_MAX, SEVERAL_MAX};
use crate::shown::{self, Shown};
use crate::sync::owned;
use crate::sync::{AtomicU64, Ordering, Turn, Turns};
use core::cell::Cell;

/// In the lowest bits: the one who waits here, and at which of its places, if nothing is in the queues.
const ONLY: u64 = (RECEIVERS_MAX * SEVERAL_MAX as u32) as u64 - 1;
/// Receivers are in their queue. (There are none where there are messages.)
const QUEUED: u64 = ONLY + 1;
/// Messages are in theirs.
const MESSAGES: u64 = QUEUED << 1;
const LOCKED: u64 = MESSAGES << 1;
/// The epoch is the rest, and this its lowest bit: somebody has the post. It goes up whenever a permit is no longer good.
pub(crate) const OPEN: u64 = LOCKED << 1;
const EPOCH: u64 = !(OPEN - 1);

/// Places are numbered by place and receiver: so the first one's number is the receiver's.
#[inline(always)]
pub(crate) const fn id(receiver: u32, place: usize) -> u32 {
    receiver | (place as u32 * RECEIVERS_MAX)
}

/// Whose place that is.
#[inline(always)]
pub(crate) const fn receiver_of(id: u32) -> u32 {
    id % RECEIVERS_MAX
}

/// Which of its places.
#[inline(always)]
pub(crate) const fn place_of(id: u32) -> usize {
    (id / RECEIVERS_MAX) as usize % SEVERAL_MAX
}

/// Taken by [`Lock::take_only`], [`Lock::take_queued`], [`Lock::take_beside`] and [`Lock::lock_after`] alone; `bench` counts what they do, by these names (`host/measure/src/locks.rs`).
#[derive(Debug)]
pub(crate) struct Lock {
    word: AtomicU64,
    queues: Queues,
    turns: Turns,
}

/// First and last of each chain; 0: empty.
#[derive(Debug)]
pub(crate) struct Queues {
    pub first: owned::AtomicU32,
    pub last: owned::AtomicU32,
    pub messages: owned::AtomicU32,
    pub head: owned::AtomicU32,
    pub tail: owned::AtomicU32,
    /// Not 0: being given back. Nobody can get it before that is done.
    pub shutting: owned::AtomicU32,
    /// Not 0: who asks, and is not received at once, hears `Dead` ([`crate::Pool::refuse_questions`]).
    pub refuses: owned::AtomicU32,
    /// For whom it was had ([`crate::Whose`]).
    pub user: owned::AtomicU32,
    /// The epoch in which it was got: what is bound to it is bound to that.
    pub born: owned::AtomicU64,
    /// What programs read of them.
    pub shown: &'static Shown,
}

#[inline(always)]
pub(crate) fn get(word: &owned::AtomicU32) -> u32 {
    word.load(Ordering::Relaxed)
}

#[inline(always)]
pub(crate) fn set(word: &owned::AtomicU32, value: u32) {
    word.store(value, Ordering::Relaxed);
}

impl Lock {
    /// Of a post of which this is shown.
    pub fn showing(shown: &'static Shown) -> Lock {
        let zero = owned::AtomicU32::default;
        let [first, last, messages, head] = [zero(), zero(), zero(), zero()];
        let [tail, shutting, refuses, user] = [zero(), zero(), zero(), zero()];
        let born = owned::AtomicU64::default();
        let queues = Queues { first, last, messages, head, tail, shutting, refuses, user, born, shown };
        Lock { word: AtomicU64::default(), queues, turns: Turns::default() }
    }

    #[inline(always)]
    pub fn epoch(&self) -> u64 {
        self.word.load(Ordering::SeqCst) & EPOCH
    }

    /// Takes the lock if nobody has it, it is this epoch, nothing is queued, and one thread waits: its place. That one is not in the
    /// queue any more, and to be claimed before the lock is given back ([`Lock::open`]): who has ended its wait takes it out of here
    /// before it may go on, so it is in no other wait until then.
    ///
    /// # Errors
    /// The word as it was seen.
    #[inline(always)]
    pub fn take_only(&self, epoch: u64) -> Result<(u32, Turn<'_>), Seen> {
        let word = self.word.load(Ordering::Relaxed);
        let only = word ^ epoch;
        if only.wrapping_sub(1) >= ONLY {
            return Err(Seen(word));
        }
        let turn = self.turns.take();
        self.exchange(word, epoch | LOCKED)?;
        Ok((only as u32, turn))
    }

    /// Takes the lock if nobody has it, it is this epoch, and receivers are in their queue.
    ///
    /// # Errors
    /// The word as it was seen.
    #[inline(always)]
    pub fn take_queued(&self, epoch: u64, Seen(word): Seen) -> Result<(&Queues, Turn<'_>), Seen> {
        if word != epoch | QUEUED {
            return Err(Seen(word));
        }
        let turn = self.turns.take();
        self.exchange(word, epoch | LOCKED)?;
        Ok((&self.queues, turn))
    }

    /// The same where one waits alone, too, who is in the queue then.
    ///
    /// # Errors
    /// The word as it was seen.
    #[inline(always)]
    pub fn take_beside(&self, epoch: u64, Seen(word): Seen) -> Result<(&Queues, Turn<'_>), Seen> {
        let others = word ^ epoch;
        if others.wrapping_sub(1) >= QUEUED {
            return Err(Seen(word));
        }
        let turn = self.turns.take();
        self.exchange(word, epoch | LOCKED)?;
        if others != QUEUED {
            set(&self.queues.head, others as u32);
            set(&self.queues.tail, others as u32);
        }
        Ok((&self.queues, turn))
    }

    /// While it is held so: that one has got a message.
    #[inline(always)]
    pub fn handed(&self, _: &Turn) {
        shown::handed(self.queues.shown);
    }

    /// Gives it back after that, with nobody there.
    #[inline(always)]
    pub fn open(&self, epoch: u64, _turn: Turn) -> Seen {
        self.word.store(epoch, Ordering::Release);
        Seen(epoch)
    }

    /// The same; whether receivers are in their queue.
    #[inline(always)]
    pub fn open_queues(&self, epoch: u64, is_queued: bool, _turn: Turn) -> Seen {
        let word = if is_queued { epoch | QUEUED } else { epoch };
        self.word.store(word, Ordering::Release);
        Seen(word)
    }

    /// Whether it is this epoch.
    #[inline(always)]
    pub fn is_in(&self, epoch: u64) -> bool {
        (self.word.load(Ordering::SeqCst) ^ epoch) & EPOCH == 0
    }

    /// Enters a thread at this place of its if it is this epoch, and nobody waits and nothing is queued. Whoever ends its wait from now on looks here; who has
    /// before does not, so it has to look itself.
    ///
    /// # Errors
    /// The word as it was seen.
    #[inline(always)]
    pub fn enter_only(&self, epoch: u64, id: u32) -> Result<(), Seen> {
        self.exchange(epoch, epoch | u64::from(id))
    }

    /// Takes a thread out that waits alone, at this place.
    ///
    /// # Errors
    /// The word as it was seen: there may be others, or messages.
    pub fn leave_only(&self, id: u32) -> Result<(), Seen> {
        let word = self.word.load(Ordering::SeqCst);
        match word & (LOCKED | QUEUED | ONLY) {
            only if only == u64::from(id) => self.exchange(word, word & EPOCH),
            only if only & (LOCKED | QUEUED) != 0 => Err(Seen(word)),
            _ => Ok(()),
        }
    }

    #[inline(always)]
    fn exchange(&self, from: u64, to: u64) -> Result<(), Seen> {
        self.word.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).map(drop).map_err(Seen)
    }

    /// Waits until nobody has it, and takes it. Who waits alone is in the queue as long as it is held.
    #[inline]
    pub fn lock(&self) -> Held<'_> {
        self.lock_after(Seen(self.word.load(Ordering::Relaxed)))
    }

    /// The same by who has seen the word.
    pub fn lock_after(&self, Seen(mut word): Seen) -> Held<'_> {
        let turn = self.turns.take();
        loop {
            if word & LOCKED != 0 {
                self.turns.wait();
                word = self.word.load(Ordering::Relaxed);
                continue;
            }
            match self.exchange(word, word & EPOCH | LOCKED) {
                Ok(()) => break,
                Err(Seen(now)) => word = now,
            }
        }
        let only = (word & ONLY) as u32;
        if only != 0 {
            let Queues { head, tail, .. } = &self.queues;
            set(head, only);
            set(tail, only);
        }
        Held { lock: self, epoch: Cell::new(word & EPOCH), _turn: turn }
    }

    fn unlock(&self, epoch: u64) {
        let Queues { first, head, tail, .. } = &self.queues;
        let one = get(head);
        let queued = if get(first) != 0 {
            MESSAGES
        } else if one == get(tail) {
            set(head, 0);
            set(tail, 0);
            u64::from(one)
        } else {
            QUEUED
        };
        self.word.store(epoch | queued, Ordering::Release);
    }
}

/// The word of a lock, as somebody has seen it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen(u64);

impl Seen {
    /// As nobody has seen it: it is to be looked at.
    pub const NOTHING: Seen = Seen(LOCKED);
}

/// The lock of a post is held.
pub(crate) struct Held<'a> {
    lock: &'a Lock,
    epoch: Cell<u64>,
    _turn: Turn<'a>,
}

impl Held<'_> {
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// From now on it is this epoch.
    pub fn set_epoch(&self, epoch: u64) {
        self.epoch.set(epoch);
        self.lock.word.store(epoch | LOCKED, Ordering::SeqCst);
    }
}

impl core::ops::Deref for Held<'_> {
    type Target = Queues;

    #[inline(always)]
    fn deref(&self) -> &Queues {
        &self.lock.queues
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.lock.unlock(self.epoch());
    }
}
