//! Receiving, and sending and receiving in one step.

use crate::message::Body;
use crate::notice::Popped;
use crate::pool::{Caller, Permit, Pool, Received, Woken};
use crate::receiver::{Holder, SEVERAL_MAX};
use crate::sync::Ordering;
use abi::{Error, Rights};

/// What became of sending and receiving in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Called {
    /// Who has got the message. If the caller waits, that one runs on its turn from here on; else it is made ready.
    pub woken: Option<Woken>,
    pub received: Received,
}

/// How a wait stands after one more post.
enum Registered {
    /// There is nothing here yet.
    Waits,
    /// There was a message; the wait is over.
    Came(Popped),
    /// Somebody has ended the wait and will wake the thread.
    Taken,
}

impl Pool {
    /// Receives from the first of these posts that has a message. With none the thread waits for whatever comes first, if
    /// `waits` says so.
    ///
    /// # Errors
    /// `BadArgument`: no post, or one twice; `TooBig`: more than [`SEVERAL_MAX`]; `NotFound`: one of them is no more; `Changed`:
    /// ask for the permits again; `TimedOut`: nothing is there, and it was not to wait.
    pub fn receive(&self, at: &[Permit], by: &Caller, waits: bool) -> Result<Received, Error> {
        if at.len() > SEVERAL_MAX {
            return Err(Error::TooBig);
        }
        let twice = |i: usize| at[..i].iter().any(|other| other.post == at[i].post);
        if at.is_empty() || (0..at.len()).any(twice) {
            return Err(Error::BadArgument);
        }
        if !waits {
            return self.poll(at, by);
        }
        let me = self.receiver(by.receiver);
        let ticket = me.begin(by.domain);
        for (place, permit) in at.iter().enumerate() {
            match self.register(by, ticket, place, permit) {
                Ok(Registered::Waits) => {}
                Ok(Registered::Taken) => break,
                Ok(Registered::Came(popped)) => {
                    // It is in the queues of those before this one.
                    (0..place).for_each(|place| self.leave(by.receiver, place));
                    me.rest(ticket);
                    return Ok(self.take(popped, permit.post, by));
                }
                Err(error) => {
                    if !me.claim(ticket) {
                        break;
                    }
                    self.leave_places(by.receiver);
                    me.rest(ticket);
                    return Err(error);
                }
            }
        }
        Ok(Received::Waits(ticket))
    }

    fn poll(&self, at: &[Permit], by: &Caller) -> Result<Received, Error> {
        for permit in at {
            let post = self.post(permit.post)?;
            let popped = {
                let mut queues = post.queues.lock();
                post.check(permit, Rights::READ)?;
                self.pop(&mut queues)
            };
            if let Some(popped) = popped {
                return Ok(self.take(popped, permit.post, by));
            }
        }
        Err(Error::TimedOut)
    }

    /// Enters a wait that has begun at one more post.
    fn register(&self, by: &Caller, ticket: u32, place: usize, permit: &Permit) -> Result<Registered, Error> {
        let me = self.receiver(by.receiver);
        let post = self.post(permit.post)?;
        // First the place is known, then it is looked whether the wait is over: whoever ends it looks in the other order, and
        // takes it out of the queue, or it does not get in.
        me.places[place].post.store(permit.post, Ordering::SeqCst);
        me.count.store(place as u32 + 1, Ordering::SeqCst);
        let mut queues = post.queues.lock();
        post.check(permit, Rights::READ)?;
        if me.waits() != Some(ticket) {
            return Ok(Registered::Taken);
        }
        if !queues.has_message() {
            self.link(&mut queues, by.receiver, place);
            return Ok(Registered::Waits);
        }
        if !me.claim(ticket) {
            return Ok(Registered::Taken);
        }
        Ok(self.pop(&mut queues).map_or(Registered::Taken, Registered::Came))
    }

    /// Reads a message and gives its slot back.
    fn take(&self, popped: Popped, post: u32, by: &Caller) -> Received {
        let slot = match popped {
            Popped::Slot(slot) => slot,
            Popped::Copy(message) => return Received::Message(post, message),
        };
        let message = self.slots.at(slot).letter.read();
        self.note_holder(&message, Holder { receiver: by.receiver, domain: by.domain });
        self.done_with(slot, by.processor);
        Received::Message(post, message)
    }

    /// Sends a message and receives the next one at a post, in one step (K1-28). A receiver that has waited there is not woken
    /// before the caller waits, so it can answer at once. If whoever has got the message ends before anything came, the wait ends
    /// with `Dead`.
    ///
    /// # Errors
    /// As [`Pool::send`] and [`Pool::receive`]; nothing was sent then. What is wrong with the second post after the message was
    /// sent is [`Received::Ended`].
    pub fn send_and_receive(&self, to: &Permit, at: &Permit, by: &Caller, body: &Body) -> Result<Called, Error> {
        self.call(to, Some(at), by, body)
    }

    /// Asks: sends a question, and waits for nothing but its answer ([`Pool::answer`]).
    ///
    /// # Errors
    /// As [`Pool::send`].
    pub fn ask(&self, to: &Permit, by: &Caller, body: &Body) -> Result<Called, Error> {
        self.call(to, None, by, body)
    }

    fn call(&self, to: &Permit, at: Option<&Permit>, by: &Caller, body: &Body) -> Result<Called, Error> {
        if !body.is_well_formed() {
            return Err(Error::BadArgument);
        }
        if let Some(at) = at {
            // Looked at once more under its lock; if it goes only then, that is as if it went during the wait.
            self.post(at.post)?.check(at, Rights::READ)?;
        }
        let me = self.receiver(by.receiver);
        let ticket = me.begin(by.domain);
        let message = self.asking(by, ticket, body, at);
        let woken = match self.put(to, by, &message) {
            Ok(woken) => woken,
            // Nobody has heard of it; only something else may have ended the wait.
            Err(error) if me.claim(ticket) => {
                me.rest(ticket);
                return Err(error);
            }
            Err(_) => return Ok(Called { woken: None, received: Received::Waits(ticket) }),
        };
        let received = match at.map(|at| (at, self.register(by, ticket, 0, at))) {
            None | Some((_, Ok(Registered::Waits | Registered::Taken))) => Received::Waits(ticket),
            Some((at, Ok(Registered::Came(popped)))) => {
                me.rest(ticket);
                self.take(popped, at.post, by)
            }
            Some((_, Err(error))) if me.claim(ticket) => {
                me.rest(ticket);
                Received::Ended(error)
            }
            Some((_, Err(_))) => Received::Waits(ticket),
        };
        Ok(Called { woken, received })
    }
}
