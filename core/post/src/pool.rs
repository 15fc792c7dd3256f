//! The pool: posts by number, and who may use them.

use crate::account::{Accounts, MESSAGES_MAX};
use crate::face::Face;
use crate::free::Chain;
use crate::lent::Loans;
use crate::lock::{Lock, OPEN};
use crate::message::{Letter, Message, Question, Sender};
use crate::part::{Kind, Reserve, Users, Whose};
use crate::post::Post;
use crate::receiver::{Holder, RECEIVERS_MAX, Receiver, SEVERAL_MAX};
use crate::shown::Shown;
use crate::slots::Slots;
use crate::sync::{AtomicU32, Ordering};
use abi::{Error, Rights};
use alloc::boxed::Box;

/// Posts up to this number are had by their number only (K1-19).
pub const KNOWN_MAX: u32 = if cfg!(test) { 2 } else { 63 };

/// How much there is of everything.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Posts have the numbers 1 to this.
    pub posts: u32,
    /// Messages that may be queued.
    pub messages: u32,
    /// Threads that may wait, and tasks that may have messages queued.
    pub receivers: u32,
    pub accounts: u32,
    pub reserve: Reserve,
    pub processors: usize,
    /// What is done between two stretches where many are dealt with. Who calls something that says so holds no locks.
    pub rest: fn(),
    /// The notice from this place waits to be received from now on, or (`false`) does no more. Under its post's lock.
    pub waits: fn(u64, bool),
}

/// Who calls, from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Goes with every message.
    pub sender: Sender,
    /// As whom it lends memory with a message, and goes on: that lasts longer than what it may only for now.
    pub lender: Sender,
    /// What the text is a clone of, or itself: for memory that is lent.
    pub original: u64,
    /// Number of the domain, among those of the thread.
    pub domain: u32,
    /// The thread's record ([`Pool::open_receiver`]).
    pub receiver: u32,
    /// Who pays for what is queued; 0: nobody, so nothing may be.
    pub account: u32,
    /// The processor that executes this.
    pub processor: usize,
}

/// Where a call finds who makes it: in a [`Caller`], or where the kernel keeps it ([`crate::Known`]).
pub trait By: Copy {
    fn sender(&self) -> Sender;
    fn original(&self) -> u64;
    fn domain(&self) -> u32;
    fn receiver(&self) -> u32;
    fn account(&self) -> u32;
    fn processor(&self) -> usize;
}

/// Where it lies, so that it need not be copied from call to call.
impl<B: By> By for &B {
    #[inline(always)]
    fn sender(&self) -> Sender {
        (**self).sender()
    }
    #[inline(always)]
    fn original(&self) -> u64 {
        (**self).original()
    }
    #[inline(always)]
    fn domain(&self) -> u32 {
        (**self).domain()
    }
    #[inline(always)]
    fn receiver(&self) -> u32 {
        (**self).receiver()
    }
    #[inline(always)]
    fn account(&self) -> u32 {
        (**self).account()
    }
    #[inline(always)]
    fn processor(&self) -> usize {
        (**self).processor()
    }
}

impl By for Caller {
    fn sender(&self) -> Sender {
        self.sender
    }
    fn original(&self) -> u64 {
        self.original
    }
    fn domain(&self) -> u32 {
        self.domain
    }
    fn receiver(&self) -> u32 {
        self.receiver
    }
    fn account(&self) -> u32 {
        self.account
    }
    fn processor(&self) -> usize {
        self.processor
    }
}

/// The wait of this thread is over, or a loan is ([`Woken::is_loan`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it sleeps until it is woken, or lends for ever"]
pub struct Woken {
    pub receiver: u32,
    pub thread: u64,
    pub card: u32,
    /// Memory that it had lent was used: what was cached of that is to be forgotten before it goes on.
    pub touched: bool,
}

/// What became of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// From this post; 0: an answer.
    Message(u32, Message),
    /// The thread waits, or will be woken at once; this is the wait's ticket.
    Waits(u32),
    /// It does not wait, and this is why.
    Ended(Error),
}

/// That the access list allows something, as long as it does not change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permit {
    pub(crate) epoch: u64,
    post: u32,
    rights: u32,
}

impl Permit {
    #[inline]
    pub fn post(&self) -> u32 {
        self.post
    }

    #[inline(always)]
    pub(crate) fn new(post: u32, epoch: u64, rights: Rights) -> Permit {
        Permit { epoch, post, rights: rights.bits() }
    }

    #[inline(always)]
    pub(crate) fn allows(&self, needed: Rights) -> bool {
        self.rights & needed.bits() != 0
    }

    /// Whether it is good for this in an epoch.
    #[inline(always)]
    pub(crate) fn check(&self, epoch: u64, needed: Rights) -> Result<(), Error> {
        if epoch == self.epoch && self.allows(needed) {
            Ok(())
        } else if epoch & OPEN == 0 {
            Err(Error::NotFound)
        } else {
            Err(Error::Changed)
        }
    }
}

/// All posts, and what belongs to them.
#[derive(Debug)]
pub struct Pool {
    pub(crate) posts: Box<[Post]>,
    pub(crate) receivers: Box<[Receiver]>,
    free_receivers: Chain,
    /// No record above this one was ever used.
    most_receivers: AtomicU32,
    pub(crate) slots: Slots,
    pub(crate) loans: Loans,
    pub(crate) accounts: Accounts,
    /// Posts in use, and where the next search begins.
    used: AtomicU32,
    cursor: AtomicU32,
    rest: fn(),
    pub(crate) waits: fn(u64, bool),
}

/// So many messages, records or posts are dealt with in a stretch.
const AT_ONCE: u32 = if cfg!(test) { 2 } else { 16 };

impl Pool {
    #[cfg(test)]
    pub fn new(config: Config) -> Pool {
        Pool::showing(config, |_| &crate::shown::NOBODYS)
    }

    /// What programs read of the post of each number from 0 on is written to what `shown` says (SSS-1).
    pub fn showing(config: Config, shown: impl Fn(u32) -> &'static Shown) -> Pool {
        let Config { posts, messages, receivers, accounts, reserve, processors, rest, waits } = config;
        let messages = messages.min(MESSAGES_MAX);
        // Of more that are asked for the same part is kept.
        let kept = |asked: u32, of: u32, all: u32| (u64::from(asked) * u64::from(all) / u64::from(of.max(1))) as u32;
        let records = receivers.min(RECEIVERS_MAX - 1);
        // In the order of the kinds.
        let parts = [
            posts.saturating_sub(reserve.posts),
            messages.saturating_sub(reserve.messages),
            records.saturating_sub(kept(reserve.receivers, receivers, records)),
            accounts.saturating_sub(reserve.accounts),
        ];
        let receivers: Box<[Receiver]> = (0..=records).map(|_| Receiver::default()).collect();
        let free_receivers = Chain::default();
        for number in (1..receivers.len()).rev() {
            receivers[number].number.store(number as u32, Ordering::Relaxed);
            free_receivers.put(number as u32, &receivers[number].next);
        }
        Pool {
            posts: (0..=posts).map(|number| Post { lock: Lock::showing(shown(number)) }).collect(),
            receivers,
            free_receivers,
            most_receivers: AtomicU32::new(0),
            slots: Slots::new(messages, processors),
            loans: Loans::new(messages),
            accounts: Accounts::new(accounts, Users::new(parts, messages)),
            used: AtomicU32::new(0),
            cursor: AtomicU32::new(KNOWN_MAX),
            rest,
            waits,
        }
    }

    /// Number 0 is nobody's: no permit is good for it.
    #[inline]
    pub(crate) fn post(&self, number: u32) -> Result<&Post, Error> {
        self.posts.get(number as usize).ok_or(Error::NotFound)
    }

    #[inline]
    pub(crate) fn receiver(&self, number: u32) -> &Receiver {
        &self.receivers[number as usize]
    }

    /// Gets the post of this number (K1-19).
    ///
    /// # Errors
    /// `Exists` if somebody has it, `NotFound` if there is no such number, `PostQuota` if what is left is others'.
    pub fn get(&self, number: u32, whose: Whose) -> Result<u32, Error> {
        if number == 0 {
            return Err(Error::NotFound);
        }
        let post = self.post(number)?;
        self.users().take(whose, Kind::Posts)?;
        if post.open(whose) {
            self.used.fetch_add(1, Ordering::Relaxed);
            Ok(number)
        } else {
            self.users().give(whose, Kind::Posts);
            Err(Error::Exists)
        }
    }

    /// Gets any post (K1-20): one that has been free for long. It is looked for in stretches.
    ///
    /// # Errors
    /// `NoMemory` if none is free, `PostQuota` if what is left is others'.
    pub fn get_any(&self, whose: Whose) -> Result<u32, Error> {
        let count = (self.posts.len() as u32 - 1).saturating_sub(KNOWN_MAX);
        for n in 1..=count {
            self.rest_after(n);
            let at = self.cursor.fetch_add(1, Ordering::Relaxed).wrapping_sub(KNOWN_MAX) % count;
            let number = KNOWN_MAX + 1 + at;
            if self.posts[number as usize].is_used() {
                continue;
            }
            match self.get(number, whose) {
                Err(Error::Exists) => {}
                other => return other,
            }
        }
        Err(Error::NoMemory)
    }

    /// Gives a post back (K1-21, 22): with `force`, whoever waits there or has asked there hears `NotFound`, however many they are, in
    /// stretches. What was lent until an answer comes there is not any more.
    ///
    /// # Errors
    /// `NotFound`: nobody has it; `Busy`: without `force`, and it holds messages or receivers.
    pub fn free(&self, number: u32, force: bool, processor: usize, wake: impl FnMut(Woken)) -> Result<(), Error> {
        self.shut(number, force)?;
        self.empty(number, processor, wake);
        Ok(())
    }

    /// The first half of that: nobody comes in any more, and nobody gets the number before the second ([`Pool::empty`]), which whoever has
    /// done this owes.
    ///
    /// # Errors
    /// As [`Pool::free`].
    pub fn shut(&self, number: u32, force: bool) -> Result<(), Error> {
        self.shut_post(self.post(number)?, force)
    }

    /// The second half of [`Pool::free`].
    pub fn empty(&self, number: u32, processor: usize, mut wake: impl FnMut(Woken)) {
        let Ok(post) = self.post(number) else { return };
        // What is there is taken out one by one, each woken without the lock.
        for n in 1.. {
            let Some(left) = self.take_out(post) else { break };
            if let Some(woken) = self.turn_away(left, processor) {
                wake(woken);
            }
            self.rest_after(n);
        }
        self.end_loans_back(number, wake);
        self.users().give(post.end(), Kind::Posts);
        self.used.fetch_sub(1, Ordering::Relaxed);
    }

    /// Posts in use.
    pub fn posts_used(&self) -> u32 {
        self.used.load(Ordering::Relaxed)
    }

    /// Asks whether the access list of a post gives these rights; `check` looks. What it says is good until the list
    /// changes ([`Pool::changed`]) or the post is given back.
    ///
    /// # Errors
    /// `NotFound`, and those of `check`.
    pub fn permit(
        &self,
        post: u32,
        rights: Rights,
        check: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Permit, Error> {
        // First the epoch, then the list: who changes the list first changes that, then the epoch.
        let epoch = self.post(post)?.epoch();
        if epoch & OPEN == 0 {
            return Err(Error::NotFound);
        }
        check()?;
        Ok(Permit::new(post, epoch, rights))
    }

    /// The access list of a post has changed so that somebody may have lost a right. When this returns no permit is good any more,
    /// and of those who have waited there since before nobody waits whom `may`, which looks at the list, refuses: the wait has
    /// ended with that error, without a message. The others notice nothing. They are looked through in stretches.
    pub fn changed(&self, post: u32, may: impl Fn(Holder) -> Result<(), Error>, mut wake: impl FnMut(Woken)) {
        let Ok(there) = self.post(post) else { return };
        if !there.renew() {
            return;
        }
        // First the ticket, then all else: what is of a later wait does not end that.
        for (number, record) in self.records_in_stretches() {
            let Some(ticket) = record.waits().filter(|_| record.is_at(post)) else { continue };
            if let Err(error) = may(record.holder(number))
                && let Some(woken) = self.interrupt(number, ticket, error)
            {
                wake(woken);
            }
        }
    }

    /// Whether a permit is good.
    #[inline]
    pub fn is_good(&self, permit: &Permit) -> bool {
        self.post(permit.post()).is_ok_and(|post| post.epoch() == permit.epoch)
    }

    /// A record for a thread that is going to wait, and the number of what else is kept of it ([`Woken::card`]).
    ///
    /// # Errors
    /// `NoMemory`: there is none left, or for others only.
    pub fn open_receiver(&self, thread: u64, card: u32, whose: Whose) -> Result<u32, Error> {
        self.users().take(whose, Kind::Receivers)?;
        let Some(number) = self.free_receivers.take(|number| &self.receiver(number).next) else {
            self.users().give(whose, Kind::Receivers);
            return Err(Error::NoMemory);
        };
        let receiver = self.receiver(number);
        receiver.user.store(whose.word(), Ordering::Relaxed);
        receiver.thread.store(thread, Ordering::Relaxed);
        receiver.card.store(card, Ordering::Relaxed);
        self.most_receivers.fetch_max(number, Ordering::SeqCst);
        Ok(number)
    }

    /// The thread that a record belongs to; 0: none.
    pub fn thread_of(&self, receiver: u32) -> u64 {
        self.receivers.get(receiver as usize).map_or(0, |receiver| receiver.thread.load(Ordering::Relaxed))
    }

    /// The posts at which a record's thread waits, by their numbers: the first four in the first word, 16 bits each (SSS-1).
    pub fn places(&self, receiver: u32) -> [u64; 2] {
        let receiver = self.receiver(receiver);
        let count = receiver.count.load(Ordering::Relaxed) as usize;
        let posts = receiver.places.iter().take(count).map(|place| u64::from(place.post.load(Ordering::Relaxed)));
        posts.enumerate().fold([0; 2], |mut words, (at, post)| {
            words[at / 4] |= post << (at % 4 * 16);
            words
        })
    }

    /// All records that were ever used, in stretches.
    pub(crate) fn records_in_stretches(&self) -> impl Iterator<Item = (u32, &Receiver)> {
        self.records_behind(0)
    }

    /// The same behind this number.
    pub(crate) fn records_behind(&self, number: u32) -> impl Iterator<Item = (u32, &Receiver)> {
        let all = number.saturating_add(1)..=self.most_receivers.load(Ordering::SeqCst);
        all.inspect(|number| self.rest_after(*number)).map(|number| (number, self.receiver(number)))
    }

    /// Whoever waits for this processor is let in after every so many of many.
    pub(crate) fn rest_after(&self, n: u32) {
        if n.is_multiple_of(AT_ONCE) {
            (self.rest)();
        }
    }

    /// The thread has ended. It waits for nothing any more, what it has lent is over, and whoever asked it, or lent it something, hears `Dead`.
    pub fn close_receiver(&self, number: u32, mut wake: impl FnMut(Woken)) {
        let receiver = self.receiver(number);
        if let Some(ticket) = receiver.waits()
            && let Some(woken) = self.interrupt(number, ticket, Error::Killed)
        {
            wake(woken);
            receiver.rest(ticket);
        }
        self.end_loans_of(number, &mut wake);
        self.holders_gone(|holder| holder.receiver == number, wake);
        receiver.thread.store(0, Ordering::Relaxed);
        self.timer_is_set(number, 0);
        receiver.no_limit();
        receiver.faces.iter().for_each(Face::forget);
        // Whoever has the record next may never come to a text of that face, and would leave its permits where they are.
        (0..receiver.faces.len()).for_each(|face| receiver.further.forget(face));
        let whose = Whose::of(receiver.user.load(Ordering::Relaxed));
        self.free_receivers.put(number, &receiver.next);
        self.users().give(whose, Kind::Receivers);
    }

    /// Ends a wait by something else than a message: a time-out, a kill. `None`: it is over, or is about to be.
    pub fn interrupt(&self, receiver: u32, ticket: u32, error: Error) -> Option<Woken> {
        let one = self.receiver(receiver);
        if !one.claim(ticket) {
            return None;
        }
        one.leave_error(error);
        self.leave_places(receiver);
        Some(self.woken(receiver))
    }

    /// What a woken thread's wait has ended with. Only for itself.
    pub fn collect(&self, receiver: u32) -> Option<Received> {
        let mut came = None;
        let outcome = self.collect_into(receiver, |letter| came = Some((letter.post(), letter.read())))?;
        Some(came.map_or_else(
            || Received::Ended(outcome.err().unwrap_or(Error::Changed)),
            |(post, message)| Received::Message(post, message),
        ))
    }

    /// The same; a message is shown to `into`. It lies there until the thread is given the next one.
    #[inline]
    pub fn collect_into<'a>(&'a self, receiver: u32, into: impl FnOnce(&'a Letter)) -> Option<Result<(), Error>> {
        self.receiver(receiver).collect(into)
    }

    /// The ticket of the wait that a thread is in, while anybody may end it.
    #[inline]
    pub fn waits(&self, receiver: u32) -> Option<u32> {
        self.receiver(receiver).waits()
    }

    /// The thread of a wait that is over, and whose result nobody has collected.
    pub fn woken(&self, number: u32) -> Woken {
        self.receiver(number).woken(number)
    }

    /// Of a wait that was claimed: it is in no queue any more.
    #[cold]
    #[inline(never)]
    pub(crate) fn leave_places(&self, receiver: u32) {
        let count = self.receiver(receiver).count.load(Ordering::SeqCst) as usize;
        (0..count.min(SEVERAL_MAX)).for_each(|place| self.leave(receiver, place));
    }

    /// The question's asker, if there may be one.
    #[inline]
    pub(crate) fn asker(&self, question: Question) -> Option<&Receiver> {
        self.receivers.get(question.asker as usize).filter(|_| question.asker != 0)
    }
}
