//! Sending.

use crate::lock::{Queues, Seen, get, receiver_of};
use crate::message::{Body, Envelope, Hands, Own, Question};
use crate::notice::PLAIN;
use crate::pool::{By, Caller, Permit, Pool, Woken};
use crate::post::Taken;
use crate::receiver::Receiver;
use crate::sync::Ordering;
use abi::{Error, Rights};
use alloc::vec::Vec;

impl Pool {
    /// Sends one message; answers are expected at the post `back`, if it is not 0. The receiver that has got it is to be
    /// woken; with `None` the message waits in the post.
    ///
    /// # Errors
    /// `BadArgument`: memory is lent, for which there is [`Pool::send_lending`]. `NotFound`: the post is no more. `Changed`: ask for the
    /// permit again. `MessageQuota`: the sender has as many messages waiting as it may have. Nothing was sent then.
    pub fn send(&self, to: &Permit, by: &Caller, body: &Body, back: u32) -> Result<Option<Woken>, Error> {
        let mut own = Own::new(body);
        self.send_with(*to, *by, back, &mut own).inspect_err(|error| self.refused(to, *error))?;
        Ok(own.woken)
    }

    /// The same with what is in these hands.
    #[inline]
    pub(crate) fn send_with(&self, to: Permit, by: impl By, back: u32, hands: &mut impl Hands) -> Result<(), Error> {
        if hands.lend() != 0 {
            return Err(Error::BadArgument);
        }
        if let Some(taken) = self.put(to, by, back, None, hands)? {
            self.keep(taken, to.post(), (by, back, None), hands);
        }
        Ok(())
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

    /// Room for as many messages as the sender may leave in posts, and at most so many: he writes them there ([`Pool::write`]) before they are sent, and pays from now on.
    /// What is not sent is to be [given back](Pool::done_with).
    pub fn rooms(&self, by: &Caller, most: u32) -> Vec<u32> {
        let one = |_| self.accounts.charge(by.account).ok().map(|()| self.slots.take(by.processor));
        let rooms = (0..most).map_while(one);
        rooms.inspect(|slot| self.slots.at(*slot).account.store(by.account, Ordering::Relaxed)).collect()
    }

    /// A word of such a message: its operation, or the words of which the first one is 1.
    pub fn write(&self, room: u32, at: usize, word: u64) {
        self.slots.at(room).letter.write_word(at, word);
    }

    /// Sends what was written there, in this order. What goes to the queue stays where it lies, and all of it takes one lock; what somebody waits for is given to him. How many were sent: the others' rooms
    /// are the caller's still.
    ///
    /// # Errors
    /// As [`Pool::send`], if it was none.
    pub fn send_written(
        &self,
        to: &Permit,
        by: &Caller,
        rooms: &[u32],
        mut wake: impl FnMut(Woken),
    ) -> Result<u32, Error> {
        let envelope = Envelope { from: by.sender, back: 0, question: None };
        rooms.iter().for_each(|room| self.slots.at(*room).letter.seal(to.post(), &envelope));
        for (sent, room) in rooms.iter().enumerate() {
            let queues = match self.post(to.post()).map(|post| post.queues()) {
                Ok(queues) if to.check(queues.epoch(), Rights::CALL).is_ok() => queues,
                Ok(queues) if sent == 0 => return to.check(queues.epoch(), Rights::CALL).map(|()| 0),
                Err(error) if sent == 0 => return Err(error),
                _ => return Ok(sent as u32),
            };
            let Some(taken) = self.take_receiver(&queues, None) else {
                for room in &rooms[sent..] {
                    self.slots.at(*room).notice.store(PLAIN, Ordering::Relaxed);
                    self.push(&queues, *room);
                }
                break;
            };
            drop(queues);
            let body = self.slots.at(*room).letter.read().body;
            let mut own = Own::new(&body);
            self.keep(taken, to.post(), (*by, 0, None), &mut own);
            own.woken.into_iter().for_each(&mut wake);
            self.done_with(*room, by.processor);
        }
        Ok(rooms.len() as u32)
    }

    /// Looks for a receiver, whose wait is claimed then, or leaves the message in the post.
    #[inline(always)]
    pub(crate) fn put(
        &self,
        to: Permit,
        by: impl By,
        back: u32,
        asker: Option<(&Receiver, u32)>,
        hands: &impl Hands,
    ) -> Result<Option<Taken<'_>>, Error> {
        match self.take_waiting(to, asker) {
            Ok(taken) => Ok(Some(taken)),
            Err(seen) => self.put_in((to, seen), by, back, asker, hands),
        }
    }

    /// The receiver that waits alone, or the first of several, if nothing else is to be done there.
    ///
    /// # Errors
    /// There is none: the word of the post as it was seen.
    #[inline(always)]
    pub(crate) fn take_waiting(&self, to: Permit, asker: Option<(&Receiver, u32)>) -> Result<Taken<'_>, Seen> {
        let Some(post) = self.post(to.post()).ok().filter(|_| to.allows(Rights::CALL)) else {
            return Err(Seen::NOTHING);
        };
        match post.lock.take_only(to.epoch) {
            Ok((id, turn)) => {
                let taken = self.claimed(receiver_of(id), asker);
                if taken.is_some() {
                    post.lock.handed(&turn);
                }
                let seen = post.lock.open(to.epoch, turn);
                taken.ok_or(seen)
            }
            Err(seen) => self.take_first(post, (to.epoch, seen), asker),
        }
    }

    /// [`Pool::put`] where nobody waits, or somebody else is there in this moment.
    ///
    /// # Errors
    /// As [`Pool::send`]; `Dead`: it asks where that is refused.
    #[cold]
    #[inline(never)]
    pub(crate) fn put_in(
        &self,
        (to, seen): (Permit, Seen),
        by: impl By,
        back: u32,
        asker: Option<(&Receiver, u32)>,
        hands: &impl Hands,
    ) -> Result<Option<Taken<'_>>, Error> {
        let queues = self.post(to.post())?.lock.lock_after(seen);
        to.check(queues.epoch(), Rights::CALL)?;
        let handed = self.take_receiver(&queues, asker);
        if handed.is_none() {
            let question = asker.map(|(_, ticket)| Question { asker: by.receiver(), ticket });
            if let Some((asker, _)) = asker.filter(|(asker, _)| asker.asks()) {
                if get(&queues.refuses) != 0 {
                    return Err(Error::Dead);
                }
                asker.lies(to.post());
            }
            self.queue(&queues, (to.post(), by), &Envelope { from: by.sender(), back, question }, hands)?;
        }
        Ok(handed)
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn queue(
        &self,
        queues: &Queues,
        (to, by): (u32, impl By),
        envelope: &Envelope,
        hands: &impl Hands,
    ) -> Result<(), Error> {
        self.accounts.charge(by.account())?;
        let slot = self.slots.take(by.processor());
        let this = self.slots.at(slot);
        this.letter.write(to, envelope, hands);
        this.account.store(by.account(), Ordering::Relaxed);
        this.notice.store(PLAIN, Ordering::Relaxed);
        self.push(queues, slot);
        Ok(())
    }

    /// A message has been read: its slot is free, and nobody pays for it any more. By its processor, with interrupts off.
    pub fn done_with(&self, slot: u32, processor: usize) {
        let account = self.slots.at(slot).account.load(Ordering::Relaxed);
        self.slots.give(processor, slot);
        self.accounts.release(account);
    }
}
