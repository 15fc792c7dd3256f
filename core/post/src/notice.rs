//! Messages that come again and again and always have room: interrupts, ticks (K1-41, 44). Each has a slot for itself. While
//! it is in the queue it only counts how often it has come.

use crate::lock::{OPEN, Queues};
use crate::message::{Body, Envelope, Own, Sender};
use crate::pool::{Caller, Permit, Pool, Woken};
use crate::sync::Ordering;
use abi::{Error, Rights};

// What a slot is.
/// A message like any other.
pub(crate) const PLAIN: u32 = 0;
/// The slot of a notice, not in the queue; in it; in it for the last time.
const FREE: u32 = 1;
const QUEUED: u32 = 2;
const LAST: u32 = 3;

/// A message that was taken out of a queue.
pub(crate) enum Popped {
    /// It is in this slot, which is to be given back ([`Pool::done_with`]).
    Slot(u32),
    /// It was a notice's, and is in the record's letter of who takes it: this one.
    Record(u32),
}

/// A slot that is bound to a post.
#[derive(Debug)]
pub struct Notice {
    slot: u32,
    post: u32,
    /// When somebody got that post.
    born: u64,
}

impl Notice {
    pub fn post(&self) -> u32 {
        self.post
    }
}

impl Pool {
    /// Binds a message to a post; the caller pays for its slot as long as it is bound. It comes from `from`, with operation `op`,
    /// and its first word says how often.
    ///
    /// # Errors
    /// As [`Pool::send`].
    pub fn bind(&self, to: &Permit, by: &Caller, op: u64, from: Sender) -> Result<Notice, Error> {
        let post = self.post(to.post())?;
        let queues = post.queues();
        to.check(queues.epoch(), Rights::READ)?;
        self.accounts.charge(by.account)?;
        let slot = self.slots.take(by.processor);
        let this = self.slots.at(slot);
        let body = Body { op, ..Body::default() };
        this.letter.write(to.post(), &Envelope { from, back: 0, question: None }, &Own::new(&body));
        this.account.store(by.account, Ordering::Relaxed);
        this.notice.store(FREE, Ordering::Relaxed);
        Ok(Notice { slot, post: to.post(), born: queues.born.load(Ordering::Relaxed) })
    }

    /// It has come. Who is to be woken for it.
    ///
    /// # Errors
    /// `NotFound`: the post is no more.
    pub fn notify(&self, notice: &Notice) -> Result<Option<Woken>, Error> {
        let post = self.post(notice.post)?;
        let this = self.slots.at(notice.slot);
        let handed = {
            let queues = post.queues();
            if queues.epoch() & OPEN == 0 || queues.born.load(Ordering::Relaxed) != notice.born {
                return Err(Error::NotFound);
            }
            this.letter.count_up();
            if this.notice.load(Ordering::Relaxed) == QUEUED {
                return Ok(None);
            }
            let handed = self.take_receiver(&queues, None);
            match handed {
                // Nobody else counts while it is in nobody's queue.
                Some(taken) => {
                    let (from, body) = (this.letter.from(), this.letter.body());
                    let envelope = Envelope { from, back: 0, question: None };
                    taken.receiver.leave_message(notice.post, &envelope, &Own::new(&body));
                    this.letter.forget_count();
                }
                None => {
                    this.notice.store(QUEUED, Ordering::Relaxed);
                    self.push(&queues, notice.slot);
                    (self.waits)(this.letter.from().place, true);
                }
            }
            handed.map(|taken| taken.number)
        };
        Ok(handed.map(|number| {
            self.leave_places(number);
            self.woken(number)
        }))
    }

    /// It comes no more. What is in the queue is still received.
    pub fn unbind(&self, notice: Notice, processor: usize) {
        let Ok(post) = self.post(notice.post) else { return };
        let this = self.slots.at(notice.slot);
        {
            let _queues = post.queues();
            if this.notice.load(Ordering::Relaxed) == QUEUED {
                return this.notice.store(LAST, Ordering::Relaxed);
            }
        }
        self.done_with(notice.slot, processor);
    }

    /// Takes out the first message, for this record. A notice stays with its post: what it says is read now, under the lock.
    #[inline]
    pub(crate) fn pop(&self, queues: &Queues, receiver: u32) -> Option<Popped> {
        let slot = self.pop_slot(queues)?;
        let this = self.slots.at(slot);
        match this.notice.load(Ordering::Relaxed) {
            QUEUED => {
                self.receiver(receiver).letter.copy(&this.letter);
                this.letter.forget_count();
                this.notice.store(FREE, Ordering::Relaxed);
                (self.waits)(this.letter.from().place, false);
                Some(Popped::Record(receiver))
            }
            _ => Some(Popped::Slot(slot)),
        }
    }
}
