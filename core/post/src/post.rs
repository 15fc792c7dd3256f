//! One post: who comes in, and its two queues, chains of slots and of places.

use crate::lock::{EACH, Held, Lock, OPEN, Queues, get, set};
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
        get(&queues.waiting) > 0
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
        &self.receiver(id / EACH).places[(id % EACH) as usize]
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
        let (id, tail) = (number * EACH + place as u32, get(&queues.tail));
        set(&receiver.places[place].before, tail);
        match tail {
            0 => set(&queues.head, id),
            last => set(&self.place(last).after, id),
        }
        set(&queues.tail, id);
        set(&queues.waiting, get(&queues.waiting) + 1);
    }

    /// Nothing is left in its place: whoever is in no queue has no neighbours.
    fn unlink(&self, queues: &Queues, this: &Place) {
        let (before, after) = (get(&this.before), get(&this.after));
        match before {
            0 => set(&queues.head, after),
            _ => set(&self.place(before).after, after),
        }
        match after {
            0 => set(&queues.tail, before),
            _ => set(&self.place(after).before, before),
        }
        set(&this.before, 0);
        set(&this.after, 0);
        set(&queues.waiting, get(&queues.waiting) - 1);
    }

    /// A receiver whose wait is over leaves one of its places, if it is still there.
    pub(crate) fn leave(&self, receiver: u32, place: usize) {
        let id = receiver * EACH + place as u32;
        let this = self.place(id);
        // Its post is written before the place is used at all (receive.rs).
        let Ok(post) = self.post(this.post.load(Ordering::SeqCst)) else { return };
        let queues = if place == 0 {
            match post.lock.leave_only(receiver) {
                Ok(()) => return,
                Err(seen) => post.lock.lock_after(seen),
            }
        } else {
            post.queues()
        };
        if get(&this.before) != 0 || get(&this.after) != 0 || get(&queues.head) == id {
            self.unlink(&queues, this);
        }
    }

    /// Ends the wait of a receiver that was first in a queue, if nobody else has. It answers for the question then, and is to be given
    /// the message ([`Pool::give`]) when the lock is no longer held.
    #[inline(always)]
    pub(crate) fn claimed(&self, number: u32, asker: Option<(&Receiver, u32)>) -> Option<Taken<'_>> {
        let receiver = self.receiver(number);
        if !receiver.claim_any() {
            return None;
        }
        if let Some((asker, ticket)) = asker {
            asker.hold_first(ticket, receiver.holder(number));
        }
        Some(Taken { number, receiver })
    }

    /// How many messages and how many receivers are queued at a post.
    pub fn depth(&self, post: u32) -> (u32, u32) {
        self.post(post).map_or((0, 0), |post| {
            let queues = post.queues();
            (get(&queues.messages), get(&queues.waiting))
        })
    }

    /// The first receiver whose wait nobody else has ended: [`Pool::claimed`]. It is given a message.
    pub(crate) fn take_receiver(&self, queues: &Queues, asker: Option<(&Receiver, u32)>) -> Option<Taken<'_>> {
        loop {
            let id = get(&queues.head);
            if id == 0 {
                return None;
            }
            self.unlink(queues, self.place(id));
            let taken = self.claimed(id / EACH, asker);
            if taken.is_some() {
                shown::handed(queues.shown);
                return taken;
            }
        }
    }

    /// Gives a message to a receiver whose wait is claimed.
    #[inline(always)]
    pub(crate) fn give(
        &self,
        to: Taken,
        post: u32,
        what: (impl By, u32, Option<Question>),
        sent: Sent,
        hands: &mut impl Hands,
    ) {
        let Taken { number, receiver } = to;
        // Mostly it has waited here only.
        let usual = match sent {
            Sent::Answers => 0,
            Sent::Asks | Sent::Calls => 1,
            Sent::Alone => u32::from(post != 0),
        };
        if receiver.count.load(Ordering::SeqCst) > usual {
            self.leave_places(number);
        }
        let woken = receiver.woken(number);
        let (by, back, question) = what;
        if sent != Sent::Alone && hands.carry(&woken, sent, post, by, back, question) {
            receiver.rest_claimed();
        } else {
            receiver.leave_message(post, &Envelope { from: by.sender(), back, question }, hands);
            hands.wake(woken);
        }
    }

    /// This one answers for the question in a message from now on.
    #[inline(always)]
    pub(crate) fn note_holder(&self, letter: &Letter, holder: Holder) {
        if let Some(question) = letter.question()
            && let Some(asker) = self.asked_by(question, letter)
        {
            asker.hold(question.ticket, holder);
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
                id if self.receiver(id / EACH).waits().is_some() => return true,
                id => self.unlink(queues, self.place(id)),
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
        self.unlink(&queues, self.place(id));
        let receiver = self.receiver(id / EACH);
        let is_mine = receiver.waits().is_some_and(|ticket| receiver.claim(ticket));
        Some(if is_mine { Left::Receiver(id / EACH) } else { Left::Nobody })
    }

    /// Tells whoever it concerns that the post is no more.
    pub(crate) fn turn_away(&self, left: Left, processor: usize) -> Option<Woken> {
        match left {
            Left::Message(slot) => {
                let letter = &self.slots.at(slot).letter;
                let question = letter.question().filter(|question| self.asked_by(*question, letter).is_some());
                self.done_with(slot, processor);
                question.and_then(|question| self.interrupt(question.asker, question.ticket, Error::NotFound))
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
