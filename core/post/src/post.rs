//! One post: who comes in, and its two queues, chains of slots and of places.

use crate::lock::{Held, Lock, OPEN, Queues, Seen, get, id, place_of, receiver_of, set};
use crate::message::{Envelope, Hands, Letter, Question, Sent};
use crate::notice::Popped;
use crate::part::Whose;
use crate::pool::{By, Permit, Pool, Woken};
use crate::receiver::{Holder, Place, Receiver};
use crate::shown;
use crate::sync::Ordering;
use abi::{Error, Rights};

#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Post {
    pub lock: Lock,
}

/// A receiver whose wait is claimed.
#[derive(Clone, Copy)]
pub(crate) struct Taken<'a> {
    pub number: u32,
    pub receiver: &'a Receiver,
}

/// What is left in a post that is given back.
pub(crate) enum Left {
    Message(u32),
    Receiver(u32),
    /// A notice, or a receiver that somebody else has woken.
    Nobody,
}

impl Post {
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.lock.epoch()
    }

    pub fn is_used(&self) -> bool {
        self.epoch() & OPEN != 0
    }

    /// Whether the permit is good for this, now.
    #[inline(always)]
    pub fn check(&self, permit: Permit, needed: Rights) -> Result<(), Error> {
        permit.check(self.epoch(), needed)
    }

    #[inline(always)]
    pub fn allows(&self, permit: Permit, needed: Rights) -> bool {
        permit.allows(needed) && self.lock.is_in(permit.epoch)
    }

    /// Takes the lock of the queues.
    #[inline]
    pub fn queues(&self) -> Held<'_> {
        self.lock.lock()
    }

    /// Somebody gets it. Whether nobody had it.
    pub fn open(&self, whose: Whose) -> bool {
        let queues = self.queues();
        let is_free = queues.epoch() & OPEN == 0 && get(&queues.shutting) == 0;
        if is_free {
            set(&queues.user, whose.word());
            set(&queues.refuses, 0);
            let epoch = queues.epoch() + OPEN;
            queues.set_epoch(epoch);
            queues.born.store(epoch, Ordering::Relaxed);
        }
        is_free
    }

    /// No permit is good any more. Whether anybody is in the queue of receivers; who comes later has no old permit.
    pub fn renew(&self) -> bool {
        let queues = self.queues();
        queues.set_epoch(queues.epoch() + 2 * OPEN);
        get(&queues.head) != 0
    }

    /// All that was there is taken out. Who had it.
    pub fn end(&self) -> Whose {
        let queues = self.queues();
        set(&queues.shutting, 0);
        queues.shows_nothing();
        Whose::of(get(&queues.user))
    }
}

impl Queues {
    #[inline]
    pub fn has_message(&self) -> bool {
        get(&self.first) != 0
    }

    /// Whether this permit to read was given since somebody has got the post: its list may have changed since then.
    pub fn has_known(&self, permit: Permit) -> bool {
        permit.epoch >= self.born.load(Ordering::Relaxed) && permit.allows(Rights::READ)
    }
}

impl Pool {
    #[inline(always)]
    fn place(&self, id: u32) -> &Place {
        &self.receiver(receiver_of(id)).places[place_of(id)]
    }

    /// A slot goes to the end of the queue of messages.
    pub(crate) fn push(&self, queues: &Queues, slot: u32) {
        set(&self.slots.at(slot).next, 0);
        match get(&queues.last) {
            0 => set(&queues.first, slot),
            last => set(&self.slots.at(last).next, slot),
        }
        set(&queues.last, slot);
        let waiting = get(&queues.messages) + 1;
        set(&queues.messages, waiting);
        queues.shows_one_more(waiting);
    }

    /// The first slot. (Not for others than [`Pool::pop`].)
    pub(crate) fn pop_slot(&self, queues: &Queues) -> Option<u32> {
        let slot = get(&queues.first);
        if slot == 0 {
            return None;
        }
        let next = get(&self.slots.at(slot).next);
        set(&queues.first, next);
        if next == 0 {
            set(&queues.last, 0);
        }
        let waiting = get(&queues.messages) - 1;
        set(&queues.messages, waiting);
        queues.shows(waiting);
        Some(slot)
    }

    /// A receiver goes to the end of the queue of receivers, at one of its places.
    pub(crate) fn link(&self, queues: &Queues, number: u32, receiver: &Receiver, place: usize) {
        let (id, tail) = (id(number, place), get(&queues.tail));
        match tail {
            0 => set(&queues.head, id),
            last => {
                set(&receiver.places[place].before, last);
                set(&self.place(last).after, id);
            }
        }
        set(&queues.tail, id);
    }

    /// Takes out the first one. Nobody is after one who is in no queue.
    #[inline(always)]
    fn unlink_first(&self, queues: &Queues, this: &Place) -> u32 {
        let after = get(&this.after);
        set(&queues.head, after);
        set(&this.after, 0);
        if after == 0 {
            set(&queues.tail, 0);
        }
        after
    }

    fn unlink(&self, queues: &Queues, id: u32, this: &Place) {
        if get(&queues.head) == id {
            self.unlink_first(queues, this);
            return;
        }
        let (before, after) = (get(&this.before), get(&this.after));
        set(&self.place(before).after, after);
        match after {
            0 => set(&queues.tail, before),
            _ => set(&self.place(after).before, before),
        }
        set(&this.after, 0);
    }

    /// Enters a receiver, at one of its places, beside others that wait there. Whoever ends its wait from then on looks there, as with
    /// [`Lock::enter_only`].
    ///
    /// # Errors
    /// Nobody does, or somebody else is there in this moment: the word as it was seen.
    #[inline(always)]
    pub(crate) fn link_beside(
        &self,
        post: &Post,
        (epoch, seen): (u64, Seen),
        id: u32,
        this: &Place,
    ) -> Result<(), Seen> {
        let (queues, turn) = post.lock.take_beside(epoch, seen)?;
        let last = get(&queues.tail);
        set(&this.before, last);
        set(&self.place(last).after, id);
        set(&queues.tail, id);
        post.lock.open_queues(epoch, true, turn);
        Ok(())
    }

    /// A receiver whose wait is over leaves one of its places, if it is still there.
    pub(crate) fn leave(&self, receiver: u32, place: usize) {
        let id = id(receiver, place);
        let this = self.place(id);
        // Its post is written before the place is used at all (receive.rs).
        let Ok(post) = self.post(this.post.load(Ordering::SeqCst)) else { return };
        let queues = match post.lock.leave_only(id) {
            Ok(()) => return,
            Err(seen) => post.lock.lock_after(seen),
        };
        if get(&this.after) != 0 || get(&queues.tail) == id {
            self.unlink(&queues, id, this);
        }
    }

    /// Ends the wait of a receiver that was first in a queue, if nobody else has. It answers for the question then, and is to be given
    /// the message ([`Pool::give`]) when the lock is no longer held.
    #[inline(always)]
    pub(crate) fn claimed(&self, number: u32, asker: Option<(&Receiver, u32)>) -> Option<Taken<'_>> {
        self.claimed_of(number, self.receiver(number), asker)
    }

    /// The same of this record.
    #[inline(always)]
    fn claimed_of<'a>(
        &self,
        number: u32,
        receiver: &'a Receiver,
        asker: Option<(&Receiver, u32)>,
    ) -> Option<Taken<'a>> {
        if !receiver.claim_any() {
            return None;
        }
        if let Some((asker, ticket)) = asker {
            asker.hold_first(ticket, receiver.holder(number));
        }
        Some(Taken { number, receiver })
    }

    /// How many messages and how many receivers are queued at a post.
    #[cfg(test)]
    pub fn depth(&self, post: u32) -> (u32, u32) {
        self.post(post).map_or((0, 0), |post| {
            let queues = post.queues();
            let first = Some(get(&queues.head)).filter(|id| *id != 0);
            let all = core::iter::successors(first, |id| Some(get(&self.place(*id).after)).filter(|id| *id != 0));
            (get(&queues.messages), all.count() as u32)
        })
    }

    /// The first receiver in the queue of a post, if nothing else is to be done there: its wait is claimed ([`Pool::claimed`]).
    ///
    /// # Errors
    /// There is none: the word as it was seen.
    #[inline(always)]
    pub(crate) fn take_first(
        &self,
        post: &Post,
        (epoch, seen): (u64, Seen),
        asker: Option<(&Receiver, u32)>,
    ) -> Result<Taken<'_>, Seen> {
        let (queues, turn) = post.lock.take_queued(epoch, seen)?;
        let id = get(&queues.head);
        let receiver = self.receiver(receiver_of(id));
        let after = self.unlink_first(queues, &receiver.places[place_of(id)]);
        let taken = self.claimed_of(receiver_of(id), receiver, asker);
        if taken.is_some() {
            post.lock.handed(&turn);
        }
        let seen = post.lock.open_queues(epoch, after != 0, turn);
        taken.ok_or(seen)
    }

    /// The first receiver whose wait nobody else has ended: [`Pool::claimed`]. It is given a message.
    pub(crate) fn take_receiver(&self, queues: &Queues, asker: Option<(&Receiver, u32)>) -> Option<Taken<'_>> {
        loop {
            let id = get(&queues.head);
            if id == 0 {
                return None;
            }
            self.unlink_first(queues, self.place(id));
            let taken = self.claimed(receiver_of(id), asker);
            if taken.is_some() {
                shown::handed(queues.shown);
                return taken;
            }
        }
    }

    /// Gives a message to a receiver whose wait is claimed; whoever has sent it waits, with this ticket.
    #[inline(always)]
    pub(crate) fn give(
        &self,
        to: Taken,
        (sent, post, back): (Sent, u32, u32),
        by: impl By,
        ticket: u32,
        hands: &mut impl Hands,
    ) {
        let receiver = to.receiver;
        let is_carried = !Pool::is_elsewhere(receiver, sent)
            && hands.carry(&receiver.woken(to.number), sent, post, by, (back, sent.question(by, ticket)), || {
                receiver.rest_claimed()
            });
        if !is_carried {
            self.give_slowly(to, (sent, post, back), &by, ticket, hands);
        }
    }

    /// Whether it waits at other places than the post of what was sent so. Mostly it does not.
    #[inline(always)]
    fn is_elsewhere(receiver: &Receiver, sent: Sent) -> bool {
        receiver.count.load(Ordering::SeqCst) > u32::from(sent != Sent::Answers)
    }

    /// The same where it waits elsewhere, too, or does not take the message over.
    #[cold]
    #[inline(never)]
    fn give_slowly(
        &self,
        to: Taken,
        (sent, post, back): (Sent, u32, u32),
        by: impl By,
        ticket: u32,
        hands: &mut impl Hands,
    ) {
        let Taken { number, receiver } = to;
        let question = sent.question(by, ticket);
        if Pool::is_elsewhere(receiver, sent) {
            self.leave_places(number);
            if hands.carry(&receiver.woken(number), sent, post, by, (back, question), || receiver.rest_claimed()) {
                return;
            }
        }
        self.keep_for(to, post, (by, back, question), hands);
    }

    /// Gives a message to a receiver whose wait is claimed. It is kept for it.
    #[inline(always)]
    pub(crate) fn keep(&self, to: Taken, post: u32, what: (impl By, u32, Option<Question>), hands: &mut impl Hands) {
        if to.receiver.count.load(Ordering::SeqCst) > u32::from(post != 0) {
            self.leave_places(to.number);
        }
        self.keep_for(to, post, what, hands);
    }

    #[inline(always)]
    fn keep_for(
        &self,
        Taken { number, receiver }: Taken,
        post: u32,
        (by, back, question): (impl By, u32, Option<Question>),
        hands: &mut impl Hands,
    ) {
        let woken = receiver.woken(number);
        receiver.leave_message(post, &Envelope { from: by.sender(), back, question }, hands);
        hands.wake(woken);
    }

    /// This one answers for the question in a message from now on.
    #[inline(always)]
    pub(crate) fn note_holder(&self, letter: &Letter, holder: Holder) {
        let Some(question) = letter.question() else { return };
        match self.asked_by(question, letter) {
            Some(asker) => asker.hold(question.ticket, holder),
            None => self.hold_loan(question, holder),
        }
    }

    /// Who has asked it, if that is still the same thread: a message stays when its asker has ended, and the record and, after long, the ticket are others' then.
    #[inline(always)]
    fn asked_by(&self, question: Question, letter: &Letter) -> Option<&Receiver> {
        self.asker(question).filter(|asker| asker.thread.load(Ordering::Relaxed) == letter.from().thread)
    }

    /// From now on nobody comes into the post.
    pub(crate) fn shut_post(&self, post: &Post, force: bool) -> Result<(), Error> {
        let queues = post.queues();
        if queues.epoch() & OPEN == 0 {
            return Err(Error::NotFound);
        }
        if !force && (queues.has_message() || self.has_receiver(&queues)) {
            return Err(Error::Busy);
        }
        queues.set_epoch(queues.epoch() + OPEN);
        set(&queues.shutting, 1);
        Ok(())
    }

    /// Whether anybody waits here: those whose wait was just ended leave.
    fn has_receiver(&self, queues: &Queues) -> bool {
        loop {
            match get(&queues.head) {
                0 => return false,
                id if self.receiver(receiver_of(id)).waits().is_some() => return true,
                id => _ = self.unlink_first(queues, self.place(id)),
            }
        }
    }

    /// The next message or receiver of a post that was shut.
    pub(crate) fn take_out(&self, post: &Post) -> Option<Left> {
        let queues = post.queues();
        match self.pop(&queues, 0) {
            Some(Popped::Slot(slot)) => return Some(Left::Message(slot)),
            Some(Popped::Record(_)) => return Some(Left::Nobody),
            None => {}
        }
        let id = get(&queues.head);
        if id == 0 {
            return None;
        }
        self.unlink_first(&queues, self.place(id));
        let receiver = self.receiver(receiver_of(id));
        let is_mine = receiver.waits().is_some_and(|ticket| receiver.claim(ticket));
        Some(if is_mine { Left::Receiver(receiver_of(id)) } else { Left::Nobody })
    }

    /// Tells whoever it concerns that the post is no more.
    pub(crate) fn turn_away(&self, left: Left, processor: usize) -> Option<Woken> {
        match left {
            Left::Message(slot) => {
                let letter = &self.slots.at(slot).letter;
                let is_open = |question: &Question| question.is_loan() || self.asked_by(*question, letter).is_some();
                let question = letter.question().filter(is_open);
                self.done_with(slot, processor);
                question.and_then(|question| self.end(question, Error::NotFound))
            }
            Left::Receiver(receiver) => {
                self.receiver(receiver).leave_error(Error::NotFound);
                self.leave_places(receiver);
                Some(self.woken(receiver))
            }
            Left::Nobody => None,
        }
    }
}
