//! Sending.

use crate::message::{Back, Body, Message, Question};
use crate::notice::PLAIN;
use crate::pool::{Caller, Permit, Pool, Woken};
use crate::sync::Ordering;
use abi::{Error, Rights};

impl Pool {
    /// Sends one message; answers are expected at the post `back`, if it is not 0. The receiver that has got it is to be
    /// woken; with `None` the message waits in the post.
    ///
    /// # Errors
    /// `BadArgument`: memory is lent, which only a question can. `NotFound`: the post is no more. `Changed`: ask for the
    /// permit again. `Quota`: the sender has as many messages waiting as it may have. Nothing was sent then.
    pub fn send(&self, to: &Permit, by: &Caller, body: &Body, back: u32) -> Result<Option<Woken>, Error> {
        if body.lend != 0 {
            return Err(Error::BadArgument);
        }
        let back = if back == 0 { Back::Nowhere } else { Back::Post(back) };
        self.put(to, by, &Message { body: *body, from: *by.subject, back, question: None })
    }

    /// Sends `count` messages one after the other (K1-24): `body` says which. How many were sent.
    ///
    /// # Errors
    /// As [`Pool::send`], if it was none.
    pub fn send_many(
        &self,
        to: &Permit,
        by: &Caller,
        count: u32,
        mut body: impl FnMut(u32) -> Body,
        mut wake: impl FnMut(Woken),
    ) -> Result<u32, Error> {
        for number in 0..count {
            match self.send(to, by, &body(number), 0) {
                Ok(woken) => drop(woken.map(&mut wake)),
                Err(error) if number == 0 => return Err(error),
                Err(_) => return Ok(number),
            }
        }
        Ok(count)
    }

    /// The message to send with the question of a wait that has begun.
    pub(crate) fn asking(&self, by: &Caller, ticket: u32, body: &Body, at: Option<&Permit>) -> Message {
        let question = Question { asker: by.receiver, ticket };
        let back = at.map_or(Back::Question(question), |at| Back::Post(at.post));
        let message = Message { body: *body, from: *by.subject, back, question: Some(question) };
        if body.lend != 0 {
            self.receiver(by.receiver).lend(&message);
        }
        message
    }

    pub(crate) fn put(&self, to: &Permit, by: &Caller, message: &Message) -> Result<Option<Woken>, Error> {
        let post = self.post(to.post)?;
        let handed = {
            let mut queues = post.queues.lock();
            post.check(to, Rights::CALL)?;
            let handed = self.hand(&mut queues, to.post, message);
            if handed.is_none() {
                self.accounts.charge(by.account)?;
                let slot = self.slots.take(by.processor);
                let this = self.slots.at(slot);
                this.letter.write(message);
                this.account.store(by.account, Ordering::Relaxed);
                this.notice.store(PLAIN, Ordering::Relaxed);
                self.push(&mut queues, slot);
            }
            handed
        };
        Ok(handed.map(|receiver| self.handed(receiver)))
    }

    /// A message has been read: its slot is free, and nobody pays for it any more.
    pub(crate) fn done_with(&self, slot: u32, processor: usize) {
        let account = self.slots.at(slot).account.load(Ordering::Relaxed);
        self.slots.give(processor, slot);
        self.accounts.release(account);
    }
}
