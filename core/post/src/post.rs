//! One post: what its lock protects, and the two queues, chains of slots and of places.

use crate::message::{Envelope, Hands, Question};
use crate::notice::Popped;
use crate::pool::{By, Permit, Pool, Woken};
use crate::receiver::{Holder, Place, Receiver, SEVERAL_MAX};
use crate::sync::owned::AtomicU32;
use crate::sync::{AtomicU64, Mutex, Ordering};
use abi::{Error, Rights};

#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Post {
    /// Odd: somebody has it. Goes up whenever a permit is no longer good; changed under the lock.
    epoch: AtomicU64,
    pub queues: Mutex<Queues>,
}

/// First and last of each chain; 0: empty. Places are numbered by receiver and place.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    first: u32,
    last: u32,
    pub messages: u32,
    head: u32,
    tail: u32,
    pub waiting: u32,
    /// Being given back: nobody can get it before that is done.
    shutting: bool,
    /// The epoch in which it was got: what is bound to it is bound to that.
    pub born: u64,
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

const EACH: u32 = SEVERAL_MAX as u32;

#[inline(always)]
fn get(word: &AtomicU32) -> u32 {
    word.load(Ordering::Relaxed)
}

#[inline(always)]
fn set(word: &AtomicU32, value: u32) {
    word.store(value, Ordering::Relaxed);
}

impl Post {
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    pub fn is_used(&self) -> bool {
        !self.epoch().is_multiple_of(2)
    }

    fn set_epoch(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::SeqCst);
    }

    /// Somebody gets it. Whether nobody had it.
    pub fn open(&self) -> bool {
        let mut queues = self.queues.lock();
        let is_free = !self.is_used() && !queues.shutting;
        if is_free {
            self.set_epoch(self.epoch() + 1);
            queues.born = self.epoch();
        }
        is_free
    }

    /// No permit is good any more. Whether anybody is in the queue of receivers; who comes later has no old permit.
    pub fn renew(&self) -> bool {
        let queues = self.queues.lock();
        self.set_epoch(self.epoch() + 2);
        queues.waiting > 0
    }

    /// All that was there is taken out.
    pub fn end(&self) {
        self.queues.lock().shutting = false;
    }

    /// Under the lock: whether the permit is good for this.
    #[inline(always)]
    pub fn check(&self, permit: Permit, needed: Rights) -> Result<(), Error> {
        let epoch = self.epoch.load(Ordering::Relaxed);
        if epoch == permit.epoch && permit.rights & needed.bits() != 0 {
            Ok(())
        } else if epoch.is_multiple_of(2) {
            Err(Error::NotFound)
        } else {
            Err(Error::Changed)
        }
    }
}

impl Queues {
    #[inline]
    pub fn has_message(&self) -> bool {
        self.first != 0
    }

    /// Whether this permit to read was given since somebody has got the post: its list may have changed since then.
    pub fn has_known(&self, permit: Permit) -> bool {
        permit.epoch >= self.born && permit.rights & Rights::READ.bits() != 0
    }
}

impl Pool {
    #[inline(always)]
    fn place(&self, id: u32) -> &Place {
        &self.receiver(id / EACH).places[(id % EACH) as usize]
    }

    /// A slot goes to the end of the queue of messages.
    pub(crate) fn push(&self, queues: &mut Queues, slot: u32) {
        set(&self.slots.at(slot).next, 0);
        if queues.last == 0 {
            queues.first = slot;
        } else {
            set(&self.slots.at(queues.last).next, slot);
        }
        queues.last = slot;
        queues.messages += 1;
    }

    /// The first slot. (Not for others than [`Pool::pop`].)
    pub(crate) fn pop_slot(&self, queues: &mut Queues) -> Option<u32> {
        let slot = queues.first;
        if slot == 0 {
            return None;
        }
        queues.first = get(&self.slots.at(slot).next);
        if queues.first == 0 {
            queues.last = 0;
        }
        queues.messages -= 1;
        Some(slot)
    }

    /// A receiver goes to the end of the queue of receivers, at one of its places.
    #[inline(always)]
    pub(crate) fn link(&self, queues: &mut Queues, number: u32, receiver: &Receiver, place: usize) {
        let id = number * EACH + place as u32;
        let this = &receiver.places[place];
        set(&this.before, queues.tail);
        set(&this.after, 0);
        set(&this.linked, 1);
        if queues.tail == 0 {
            queues.head = id;
        } else {
            set(&self.place(queues.tail).after, id);
        }
        queues.tail = id;
        queues.waiting += 1;
    }

    #[inline(always)]
    fn unlink(&self, queues: &mut Queues, this: &Place) {
        let (before, after) = (get(&this.before), get(&this.after));
        match before {
            0 => queues.head = after,
            _ => set(&self.place(before).after, after),
        }
        match after {
            0 => queues.tail = before,
            _ => set(&self.place(after).before, before),
        }
        set(&this.linked, 0);
        queues.waiting -= 1;
    }

    /// The same of the first one.
    #[inline(always)]
    fn unlink_first(&self, queues: &mut Queues, this: &Place) {
        queues.head = get(&this.after);
        match queues.head {
            0 => queues.tail = 0,
            next => set(&self.place(next).before, 0),
        }
        set(&this.linked, 0);
        queues.waiting -= 1;
    }

    /// A receiver whose wait is over leaves one of its places, if it is still there.
    pub(crate) fn leave(&self, receiver: u32, place: usize) {
        let id = receiver * EACH + place as u32;
        let this = self.place(id);
        // Its post is written before the place is used at all (receive.rs).
        let Ok(post) = self.post(this.post.load(Ordering::SeqCst)) else { return };
        let mut queues = post.queues.lock();
        if get(&this.linked) != 0 {
            self.unlink(&mut queues, this);
        }
    }

    /// The first receiver whose wait nobody else has ended: its wait is claimed then, and it answers for the question. It is to
    /// be given the message ([`Pool::give`]) when the lock is no longer held.
    #[inline(always)]
    pub(crate) fn take_receiver(&self, queues: &mut Queues, asker: Option<(&Receiver, u32)>) -> Option<Taken<'_>> {
        while queues.head != 0 {
            let number = queues.head / EACH;
            let receiver = self.receiver(number);
            self.unlink_first(queues, &receiver.places[(queues.head % EACH) as usize]);
            if receiver.claim_any() {
                if let Some((asker, ticket)) = asker {
                    asker.hold_first(ticket, receiver.holder(number));
                }
                return Some(Taken { number, receiver });
            }
        }
        None
    }

    /// Gives a message to a receiver whose wait is claimed. `waits`: the caller waits.
    #[inline(always)]
    pub(crate) fn give(
        &self,
        to: Taken,
        post: u32,
        what: (impl By, u32, Option<Question>),
        waits: bool,
        hands: &mut impl Hands,
    ) {
        let Taken { number, receiver } = to;
        // Mostly it has waited here only.
        if receiver.count.load(Ordering::SeqCst) > u32::from(post != 0) {
            self.leave_places(number);
        }
        let woken = receiver.woken(number);
        let (by, back, question) = what;
        if waits && hands.carry(&woken, post, by, back, question) {
            receiver.rest_claimed();
        } else {
            receiver.leave_message(post, &Envelope { from: by.sender(), back, question }, hands);
            hands.wake(woken);
        }
    }

    /// This one answers for the question in a message from now on.
    #[inline(always)]
    pub(crate) fn note_holder(&self, question: Option<Question>, holder: Holder) {
        if let Some(question) = question
            && let Some(asker) = self.asker(question)
        {
            asker.hold(question.ticket, holder);
        }
    }

    /// From now on nobody comes into the post.
    pub(crate) fn shut(&self, post: &Post, force: bool) -> Result<(), Error> {
        let mut queues = post.queues.lock();
        if !post.is_used() {
            return Err(Error::NotFound);
        }
        if !force && (queues.messages > 0 || self.has_receiver(&mut queues)) {
            return Err(Error::Busy);
        }
        post.set_epoch(post.epoch() + 1);
        queues.shutting = true;
        Ok(())
    }

    /// Whether anybody waits here: those whose wait was just ended leave.
    fn has_receiver(&self, queues: &mut Queues) -> bool {
        while queues.head != 0 {
            if self.receiver(queues.head / EACH).waits().is_some() {
                return true;
            }
            let this = self.place(queues.head);
            self.unlink(queues, this);
        }
        false
    }

    /// The next message or receiver of a post that was shut.
    pub(crate) fn take_out(&self, post: &Post) -> Option<Left> {
        let queues = &mut *post.queues.lock();
        match self.pop(queues, 0) {
            Some(Popped::Slot(slot)) => return Some(Left::Message(slot)),
            Some(Popped::Kept) => return Some(Left::Nobody),
            None => {}
        }
        let id = queues.head;
        if id == 0 {
            return None;
        }
        self.unlink(queues, self.place(id));
        let receiver = self.receiver(id / EACH);
        let is_mine = receiver.waits().is_some_and(|ticket| receiver.claim(ticket));
        Some(if is_mine { Left::Receiver(id / EACH) } else { Left::Nobody })
    }

    /// Tells whoever it concerns that the post is no more.
    pub(crate) fn turn_away(&self, left: Left, processor: usize) -> Option<Woken> {
        match left {
            Left::Message(slot) => {
                let question = self.slots.at(slot).letter.question();
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
