//! Receiving, and sending and receiving in one step.

use crate::lock::{Held, Queues, Seen, id};
use crate::message::{Body, Envelope, Hands, Letter, Lies, Own, Question, Sent, is_well_formed};
use crate::notice::Popped;
use crate::pool::{By, Caller, Permit, Pool, Received, Woken};
use crate::post::{Post, Taken};
use crate::receiver::{Holder, Receiver, SEVERAL_MAX};
use abi::{Error, Rights};

/// What became of sending and receiving in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Called {
    /// Who has got the message. If the caller waits, that one runs on its turn from here on; else it is made ready.
    pub woken: Option<Woken>,
    pub received: Received,
}

/// What became of a call whose hands have the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The caller waits; the wait's ticket.
    Waits(u32),
    /// A message was there ([`Hands::show`]).
    Came,
    /// It does not wait, and this is why.
    Ended(Error),
    /// Nothing was done.
    Refused(Error),
}

/// Sending and receiving in one step, when the wait has begun: together, so that nothing of it is written down where it is not needed.
struct Both<'a, B> {
    me: &'a Receiver,
    by: B,
    to: Permit,
    at: Permit,
    there: &'a Post,
    ticket: u32,
}

/// How a wait stands after one more post.
pub(crate) enum Registered {
    /// There is nothing here yet.
    Waits,
    /// There was a message; the wait is over.
    Came(Popped),
    /// Somebody has ended the wait and will wake the thread.
    Taken,
    /// It could not be entered. The wait is over.
    Refused(Error),
}

impl Registered {
    #[cold]
    #[inline(never)]
    fn refused(me: &Receiver, ticket: u32, error: Error) -> Registered {
        if me.claim(ticket) { Registered::Refused(error) } else { Registered::Taken }
    }

    #[inline(always)]
    pub fn is_wait(&self) -> bool {
        matches!(self, Registered::Waits | Registered::Taken)
    }
}

impl Pool {
    /// Receives from the first of these posts that has a message. With none the thread waits for whatever comes first, if
    /// `waits` says so.
    ///
    /// # Errors
    /// `BadArgument`: no post, or one twice; `TooBig`: more than [`SEVERAL_MAX`]; `NotFound`: one of them is no more; `Changed`:
    /// ask for the permits again; `TimedOut`: nothing is there, and it was not to wait.
    pub fn receive(&self, at: &[Permit], by: &Caller, waits: bool) -> Result<Received, Error> {
        let body = Body::default();
        let mut own = Own::new(&body);
        match self.receive_with(at, by, waits, &mut own) {
            Step::Ended(error) => Err(error),
            step => own.called(step).map(|called| called.received),
        }
    }

    /// The same into these hands.
    pub fn receive_with(&self, at: &[Permit], by: impl By, waits: bool, hands: &mut impl Hands) -> Step {
        if at.len() > SEVERAL_MAX {
            return Step::Refused(Error::TooBig);
        }
        let twice = |i: usize| at[..i].iter().any(|other| other.post() == at[i].post());
        if at.is_empty() || (0..at.len()).any(twice) {
            return Step::Refused(Error::BadArgument);
        }
        if !waits {
            return self.poll(at, by, hands).unwrap_or_else(Step::Refused);
        }
        if at.iter().any(|permit| self.is_stale(permit)) {
            return Step::Refused(Error::Changed);
        }
        let me = self.receiver(by.receiver());
        let ticket = me.begin(by.domain());
        for (place, permit) in at.iter().enumerate() {
            match self.register(me, by, ticket, place, (*permit, self.post(permit.post())), hands) {
                Registered::Waits => {}
                Registered::Taken => break,
                over => {
                    // It is in the queues of those before this one.
                    (0..place).for_each(|place| self.leave(by.receiver(), place));
                    return self.over(me, over, by, ticket, hands);
                }
            }
        }
        Step::Waits(ticket)
    }

    pub(crate) fn poll(&self, at: &[Permit], by: impl By, hands: &mut impl Hands) -> Result<Step, Error> {
        for permit in at {
            let post = self.post(permit.post())?;
            let popped = {
                let queues = post.queues();
                permit.check(queues.epoch(), Rights::READ)?;
                self.pop(&queues, by.receiver())
            };
            if let Some(popped) = popped {
                return Ok(self.take(popped, by, hands));
            }
        }
        Ok(Step::Ended(Error::TimedOut))
    }

    /// Whether the permit must be asked for again, before anything is done. (What is wrong with the post otherwise comes out later.)
    #[inline(always)]
    pub(crate) fn is_stale(&self, permit: &Permit) -> bool {
        self.post(permit.post()).and_then(|post| post.check(*permit, Rights::READ)) == Err(Error::Changed)
    }

    /// Enters a wait that has begun at one more post, with a permit that was not stale when the call began.
    #[inline(always)]
    pub(crate) fn register(
        &self,
        me: &Receiver,
        by: impl By,
        ticket: u32,
        place: usize,
        (permit, post): (Permit, Result<&Post, Error>),
        hands: &impl Hands,
    ) -> Registered {
        let Ok(post) = post else { return Registered::refused(me, ticket, Error::NotFound) };
        match self.register_quickly(me, by, ticket, place, (permit, post)) {
            Ok(()) => Registered::Waits,
            Err(seen) => self.register_slowly(me, by, ticket, place, (permit, post, seen), hands),
        }
    }

    /// The same at the first post. Otherwise it goes on with [`Pool::register_slowly`].
    ///
    /// # Errors
    /// As [`Pool::register_quickly`].
    #[inline(always)]
    pub(crate) fn register_first(
        &self,
        me: &Receiver,
        by: impl By,
        ticket: u32,
        permit: Permit,
        post: &Post,
    ) -> Result<(), Option<Seen>> {
        self.register_quickly(me, by, ticket, 0, (permit, post))
    }

    /// The same where no message is and nothing has changed.
    ///
    /// # Errors
    /// The word of the post as it was seen; `None`: it was entered all the same, and somebody has ended the wait.
    #[inline(always)]
    fn register_quickly(
        &self,
        me: &Receiver,
        by: impl By,
        ticket: u32,
        place: usize,
        (permit, post): (Permit, &Post),
    ) -> Result<(), Option<Seen>> {
        me.uses(place, permit.post());
        if !permit.allows(Rights::READ) {
            return Err(Some(Seen::NOTHING));
        }
        let id = id(by.receiver(), place);
        if let Err(seen) = post.lock.enter_only(permit.epoch, id) {
            self.link_beside(post, (permit.epoch, seen), id, &me.places[place]).map_err(Some)?;
        }
        if me.is_in(ticket) { Ok(()) } else { Err(None) }
    }

    /// The same where something else has come of it.
    #[cold]
    #[inline(never)]
    pub(crate) fn register_slowly(
        &self,
        me: &Receiver,
        by: impl By,
        ticket: u32,
        place: usize,
        (permit, post, seen): (Permit, &Post, Option<Seen>),
        hands: &impl Hands,
    ) -> Registered {
        match seen {
            Some(seen) => self.register_among(me, by, ticket, place, (permit, post.lock.lock_after(seen)), hands),
            None => {
                self.leave(by.receiver(), place);
                Registered::Taken
            }
        }
    }

    /// The same where something is queued, or the list has changed.
    #[inline(never)]
    fn register_among(
        &self,
        me: &Receiver,
        by: impl By,
        ticket: u32,
        place: usize,
        (permit, queues): (Permit, Held),
        hands: &impl Hands,
    ) -> Registered {
        if permit.check(queues.epoch(), Rights::READ).is_ok() {
            return self.enter(me, by, ticket, place, &queues);
        }
        drop(queues);
        self.register_anew(me, by, ticket, place, (permit.post(), permit.epoch), hands)
    }

    /// The same where the list has changed in the middle of the call. Who waits already is looked at by whoever changes the list
    /// ([`Pool::changed`]); who comes after that asks, and gets in while what it was told is good.
    #[cold]
    #[inline(never)]
    fn register_anew(
        &self,
        me: &Receiver,
        by: impl By,
        ticket: u32,
        place: usize,
        (at, mut epoch): (u32, u64),
        hands: &impl Hands,
    ) -> Registered {
        let entered = self.post(at).and_then(|post| {
            loop {
                let queues = post.queues();
                let permit = Permit::new(at, epoch, Rights::READ);
                match permit.check(queues.epoch(), Rights::READ) {
                    Ok(()) => return Ok(self.enter(me, by, ticket, place, &queues)),
                    Err(Error::Changed) if queues.has_known(permit) => epoch = queues.epoch(),
                    Err(_) => return Err(Error::NotFound),
                }
                drop(queues);
                hands.may_receive(at, by)?;
            }
        });
        entered.unwrap_or_else(|error| Registered::refused(me, ticket, error))
    }

    /// The wait goes into the queue of a post, or there is a message.
    fn enter(&self, me: &Receiver, by: impl By, ticket: u32, place: usize, queues: &Queues) -> Registered {
        if !me.is_in(ticket) {
            return Registered::Taken;
        }
        if !queues.has_message() {
            self.link(queues, by.receiver(), me, place);
            return Registered::Waits;
        }
        if !me.claim(ticket) {
            return Registered::Taken;
        }
        self.pop(queues, by.receiver()).map_or(Registered::Taken, Registered::Came)
    }

    /// Reads a message, and gives its slot back if it is not to stay there.
    pub(crate) fn take(&self, popped: Popped, by: impl By, hands: &mut impl Hands) -> Step {
        match popped {
            Popped::Slot(slot) => {
                let lies = Lies::Slot(slot);
                let letter = self.letter(lies);
                let stays = hands.show(lies, letter);
                self.note_holder(letter, Holder { receiver: by.receiver(), domain: by.domain() });
                if !stays {
                    self.done_with(slot, by.processor());
                }
            }
            Popped::Record(receiver) => {
                let lies = Lies::Record(receiver);
                _ = hands.show(lies, self.letter(lies));
            }
        }
        Step::Came
    }

    /// A message that was received ([`Hands::show`]). It lies there until the next one is written down there: into a slot that was given back ([`Pool::done_with`]) by the
    /// processor that has done so, which keeps that for itself ([`crate::slots::Slots::give`]), or into the record of the same thread.
    #[inline]
    pub fn letter(&self, lies: Lies) -> &Letter {
        match lies {
            Lies::Slot(slot) => &self.slots.at(slot).letter,
            Lies::Record(receiver) => &self.receiver(receiver).letter,
        }
    }

    /// Sends a message and receives the next one at a post, in one step (K1-28). A receiver that has waited there is not woken
    /// before the caller waits, so it can answer at once. If whoever has got the message ends before anything came, the wait ends
    /// with `Dead`.
    ///
    /// # Errors
    /// As [`Pool::send`] and [`Pool::receive`]; nothing was sent then. What is wrong with the second post after the message was
    /// sent is [`Received::Ended`].
    pub fn send_and_receive(&self, to: &Permit, at: &Permit, by: &Caller, body: &Body) -> Result<Called, Error> {
        let mut own = Own::new(body);
        let step = self.send_and_receive_with(to, at, by, &mut own);
        own.called(step)
    }

    /// The same with what is in these hands.
    #[inline]
    pub fn send_and_receive_with(&self, to: &Permit, at: &Permit, by: &Caller, hands: &mut impl Hands) -> Step {
        self.unless_refused(to, self.step(self.receiver(by.receiver), *to, *at, *by, hands))
    }

    #[inline(always)]
    pub(crate) fn step(&self, me: &Receiver, to: Permit, at: Permit, by: impl By, hands: &mut impl Hands) -> Step {
        // Looked at once more under its lock; if it goes only then, that is as if it went during the wait.
        let Some(there) = self.post(at.post()).ok().filter(|post| post.allows(at, Rights::READ)) else {
            return self.refuses(at);
        };
        let ticket = me.begin(by.domain());
        if hands.lend() != 0 {
            return self.step_slowly(&Both { me, by, to, at, there, ticket }, Seen::NOTHING, hands);
        }
        let taken = match self.take_waiting(to, Some((me, ticket))) {
            Ok(taken) => taken,
            Err(seen) => return self.step_slowly(&Both { me, by, to, at, there, ticket }, seen, hands),
        };
        if let Err(seen) = self.register_first(me, by, ticket, at, there) {
            return self.step_on(&Both { me, by, to, at, there, ticket }, Some(taken), seen, hands);
        }
        self.give(taken, (Sent::Calls, to.post(), at.post()), by, ticket, hands);
        Step::Waits(ticket)
    }

    /// The same where nobody waits for it, or something is lent.
    #[cold]
    #[inline(never)]
    fn step_slowly(&self, both: &Both<impl By>, seen: Seen, hands: &mut impl Hands) -> Step {
        let Both { me, by, to, at, there, ticket } = *both;
        let sent = if hands.lend() != 0 {
            let lent = Pool::lends_with(me, by, at.post(), ticket, hands);
            lent.and_then(|()| self.put(to, by, at.post(), Some((me, ticket)), hands))
        } else {
            self.put_in((to, seen), by, at.post(), Some((me, ticket)), hands)
        };
        let sent = match sent {
            Ok(sent) => sent,
            Err(error) => return Pool::unsent(me, ticket, error),
        };
        if let Err(seen) = self.register_first(me, by, ticket, at, there) {
            return self.step_on(both, sent, seen, hands);
        }
        if let Some(taken) = sent {
            self.give(taken, (Sent::Calls, to.post(), at.post()), by, ticket, hands);
        }
        Step::Waits(ticket)
    }

    /// The same where a message is at the second post, or the wait is over.
    #[cold]
    #[inline(never)]
    fn step_on(&self, both: &Both<impl By>, sent: Option<Taken>, seen: Option<Seen>, hands: &mut impl Hands) -> Step {
        let Both { me, by, to, at, there, ticket } = *both;
        let arrived = self.register_slowly(me, by, ticket, 0, (at, there, seen), hands);
        if !arrived.is_wait() {
            return self.give_and_take(sent, to.post(), (by, at.post(), true), (me, arrived, ticket), hands);
        }
        if let Some(taken) = sent {
            self.give(taken, (Sent::Calls, to.post(), at.post()), by, ticket, hands);
        }
        Step::Waits(ticket)
    }

    /// Why the permit is not good for receiving.
    #[cold]
    #[inline(never)]
    fn refuses(&self, at: Permit) -> Step {
        let why = self.post(at.post()).and_then(|post| post.check(at, Rights::READ));
        Step::Refused(why.err().unwrap_or(Error::Changed))
    }

    /// What was sent goes to its receiver, and the caller's own wait is over. `asks`: what was sent is its question.
    #[cold]
    #[inline(never)]
    pub(crate) fn give_and_take(
        &self,
        sent: Option<Taken>,
        to: u32,
        (by, back, asks): (impl By, u32, bool),
        (me, arrived, ticket): (&Receiver, Registered, u32),
        hands: &mut impl Hands,
    ) -> Step {
        let question = asks.then_some(Question { asker: by.receiver(), ticket });
        if let Some(taken) = sent {
            self.keep(taken, to, (by, back, question), hands);
        }
        self.over(me, arrived, by, ticket, hands)
    }

    /// Asks: sends a question, and waits for nothing but its answer ([`Pool::answer`]).
    ///
    /// # Errors
    /// As [`Pool::send`].
    pub fn ask(&self, to: &Permit, by: &Caller, body: &Body) -> Result<Called, Error> {
        let mut own = Own::new(body);
        let step = self.ask_with(to, by, &mut own);
        own.called(step)
    }

    /// The same with what is in these hands.
    #[inline]
    pub fn ask_with(&self, to: &Permit, by: &Caller, hands: &mut impl Hands) -> Step {
        self.unless_refused(to, self.ask_as(self.receiver(by.receiver), *to, *by, hands))
    }

    #[inline(always)]
    pub(crate) fn ask_as(&self, me: &Receiver, to: Permit, by: impl By, hands: &mut impl Hands) -> Step {
        let ticket = me.begin_as(by.domain(), true);
        if hands.lend() != 0 {
            return self.ask_slowly(me, (&to, Seen::NOTHING), &by, ticket, hands);
        }
        let taken = match self.take_waiting(to, Some((me, ticket))) {
            Ok(taken) => taken,
            Err(seen) => return self.ask_slowly(me, (&to, seen), &by, ticket, hands),
        };
        self.give(taken, (Sent::Asks, to.post(), 0), by, ticket, hands);
        Step::Waits(ticket)
    }

    /// The same where nobody waits for it, or something is lent. The wait has begun.
    #[cold]
    #[inline(never)]
    fn ask_slowly(
        &self,
        me: &Receiver,
        (to, seen): (&Permit, Seen),
        by: impl By,
        ticket: u32,
        hands: &mut impl Hands,
    ) -> Step {
        let sent = if hands.lend() != 0 {
            let lent = Pool::lends_with(me, by, 0, ticket, hands);
            lent.and_then(|()| self.put(*to, by, 0, Some((me, ticket)), hands))
        } else {
            self.put_in((*to, seen), by, 0, Some((me, ticket)), hands)
        };
        match sent {
            Ok(Some(taken)) => self.give(taken, (Sent::Asks, to.post(), 0), by, ticket, hands),
            Ok(None) => {}
            Err(error) => return Pool::unsent(me, ticket, error),
        }
        Step::Waits(ticket)
    }

    /// What is lent with a question, or with a message whose answer is expected at the post `back`, in the wait that has begun.
    #[cold]
    #[inline(never)]
    fn lends_with(me: &Receiver, by: impl By, back: u32, ticket: u32, hands: &impl Hands) -> Result<(), Error> {
        if !is_well_formed(hands.lend()) {
            return Err(Error::BadArgument);
        }
        let question = Some(Question { asker: by.receiver(), ticket });
        me.lend(&Envelope { from: by.sender(), back, question }, by.original(), hands);
        Ok(())
    }

    /// A message could not be sent. Nobody has heard of it; only something else may have ended the wait.
    #[cold]
    #[inline(never)]
    fn unsent(me: &Receiver, ticket: u32, error: Error) -> Step {
        if me.claim(ticket) {
            me.rest(ticket);
            return Step::Refused(error);
        }
        Step::Waits(ticket)
    }
}
