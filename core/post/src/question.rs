//! Questions: who answers for one, what is lent with it, and what its asker hears if that one ends.

use crate::lock::{OPEN, Seen, get, set};
use crate::message::{Body, Hands, Own, Question, Range, Sent};
use crate::pool::{By, Caller, Permit, Pool, Woken};
use crate::post::{Post, Taken};
use crate::receive::{Called, Step};
use crate::receiver::{Holder, Receiver};
use abi::{Error, Rights};
use acl::Subject;

/// Memory that is lent to whoever holds a question, or its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loan {
    pub question: Question,
    pub range: Range,
    /// Who lends it: no more than what that one may itself.
    pub from: Subject,
}

impl Pool {
    /// Answers a question that the caller holds: a right that came with it. No lock is taken.
    ///
    /// # Errors
    /// `NotFound`: the caller does not hold it, or nobody waits for the answer any more. `BadArgument`: it lends memory.
    #[inline]
    pub fn answer(&self, question: Question, by: &Caller, body: &Body) -> Result<Woken, Error> {
        let taken = self.take_asker(question, *by, body.lend)?;
        let mut own = Own::new(body);
        self.keep(taken, 0, (*by, 0, None), &mut own);
        own.woken.ok_or(Error::NotFound)
    }

    /// Ends the wait of whoever asks this. It is to be given the answer.
    #[inline(always)]
    fn take_asker(&self, question: Question, by: impl By, lend: u16) -> Result<Taken<'_>, Error> {
        if lend != 0 {
            return Err(Error::BadArgument);
        }
        let asker = self.asker(question).ok_or(Error::NotFound)?;
        let me = Holder { receiver: by.receiver(), domain: by.domain() };
        // (Who waits at a post for whatever comes is known to hear of its receiver's end, and is answered there.)
        if asker.held(question.ticket) != Some(me) || !asker.asks() || !asker.claim(question.ticket) {
            return Err(Error::NotFound);
        }
        Ok(Taken { number: question.asker, receiver: asker })
    }

    /// Answers, and receives the next message, in one step.
    ///
    /// # Errors
    /// As [`Pool::answer`]; what is wrong with the post is [`Received::Ended`].
    pub fn answer_and_receive(
        &self,
        question: Question,
        at: &Permit,
        by: &Caller,
        body: &Body,
    ) -> Result<Called, Error> {
        let mut own = Own::new(body);
        let step = self.answer_and_receive_with(question, at, by, &mut own);
        own.called(step)
    }

    /// The same with what is in these hands.
    #[inline]
    pub fn answer_and_receive_with(
        &self,
        question: Question,
        at: &Permit,
        by: &Caller,
        hands: &mut impl Hands,
    ) -> Step {
        self.answer_as(self.receiver(by.receiver), question, *at, *by, hands)
    }

    #[inline(always)]
    pub(crate) fn answer_as(
        &self,
        me: &Receiver,
        question: Question,
        at: Permit,
        by: impl By,
        hands: &mut impl Hands,
    ) -> Step {
        // (No permit is had where there is no post. What else is wrong with it comes out later.)
        let Ok(there) = self.post(at.post()) else { return Step::Refused(Error::NotFound) };
        if !there.allows(at, Rights::READ) && there.check(at, Rights::READ) == Err(Error::Changed) {
            return Step::Refused(Error::Changed);
        }
        let taken = match self.take_asker(question, by, hands.lend()) {
            Ok(taken) => taken,
            Err(error) => return Step::Refused(error),
        };
        let ticket = me.begin(by.domain());
        if let Err(seen) = self.register_first(me, by, ticket, at, there) {
            return self.answer_slowly(me, (&at, there, seen), &by, (taken, ticket), hands);
        }
        self.give(taken, (Sent::Answers, 0, 0), by, ticket, hands);
        Step::Waits(ticket)
    }

    /// The same where a message is at the post, or the wait is over.
    #[cold]
    #[inline(never)]
    fn answer_slowly(
        &self,
        me: &Receiver,
        (at, there, seen): (&Permit, &Post, Option<Seen>),
        by: impl By,
        (taken, ticket): (Taken, u32),
        hands: &mut impl Hands,
    ) -> Step {
        let arrived = self.register_slowly(me, by, ticket, 0, (*at, there, seen), hands);
        if !arrived.is_wait() {
            return self.give_and_take(Some(taken), 0, (by, 0, false), (me, arrived, ticket), hands);
        }
        self.give(taken, (Sent::Answers, 0, 0), by, ticket, hands);
        Step::Waits(ticket)
    }

    /// Nobody will receive at this post for a while, says who knows: from now on whoever asks there hears `Dead`, unless somebody waits there after all, until it is
    /// said that this is no longer so. Those whose question lies there already [`Pool::end_questions`] tells.
    ///
    /// # Errors
    /// `NotFound`: nobody has it.
    pub fn refuse_questions(&self, post: u32, refuses: bool) -> Result<(), Error> {
        let queues = self.post(post)?.queues();
        if queues.epoch() & OPEN == 0 {
            return Err(Error::NotFound);
        }
        set(&queues.refuses, refuses.into());
        Ok(())
    }

    /// Whoever has asked there and was received by nobody hears `Dead`, as long as that is refused. (What he has asked goes on lying there, as after a time-out.) All are
    /// looked through, in stretches.
    pub fn end_questions(&self, post: u32, mut wake: impl FnMut(Woken)) {
        let refuses = || self.post(post).is_ok_and(|post| get(&post.queues().refuses) != 0);
        // First the ticket, as in `Pool::changed`.
        for (number, record) in self.records_in_stretches() {
            if let Some(ticket) = record.waits().filter(|ticket| record.lies_at(*ticket, post) && refuses())
                && let Some(woken) = self.interrupt(number, ticket, Error::Dead)
            {
                wake(woken);
                self.rest_from(&woken);
            }
        }
    }

    /// Some of those who hold questions or loans are no more: threads that have ended, or texts that they executed. Their askers and lenders hear
    /// `Dead`. To be asked after it is certain that those receive nothing any more. All are looked through, in stretches.
    pub fn holders_gone(&self, is_gone: impl Fn(Holder) -> bool, mut wake: impl FnMut(Woken)) {
        for question in self.questions(None) {
            if self.holder_of(question).is_some_and(&is_gone)
                && let Some(woken) = self.end(question, Error::Dead)
            {
                wake(woken);
                self.rest_from(&woken);
            }
        }
    }

    /// After each by which something is taken back whoever waits for this processor is let in: that takes long.
    pub(crate) fn rest_from(&self, woken: &Woken) {
        if woken.touched {
            self.rest_after(0);
        }
    }

    /// A thread falls out of a text that has ended, where it executed in this domain. What it has received there nobody answers: also
    /// what was handed to it in the very moment of that end, when its asker did not say yet who holds it, and
    /// [`Pool::holders_gone`] found nobody.
    pub fn fell_out(&self, from: Holder, wake: impl FnMut(Woken)) {
        self.holders_gone(|holder| holder == from, wake);
    }

    /// What was used of that which was lent with the last question of this record ([`Woken::receiver`]) that lent anything, or with this loan, and by whom: that which
    /// is over, if any of it was used ([`Woken::touched`]), as long as nobody has collected the outcome or finished it.
    pub fn lent(&self, receiver: u32) -> (Body, Subject) {
        let of_question = || (self.receiver(receiver).last_lent(), self.receiver(receiver).touched());
        let ((body, from), touched) = self.last_lent(receiver).unwrap_or_else(of_question);
        (body.lending_only(touched), from)
    }

    /// Nobody has any of that any more, and whoever has lent it has not gone on yet.
    pub fn is_taken_back(&self, receiver: u32) {
        if let Some(record) = self.receivers.get(receiver as usize) {
            record.is_taken_back();
        }
    }

    /// A question or a loan by which its holder has memory at this address, perhaps: [`Pool::loan`] says so for certain. All are looked through, in
    /// stretches.
    ///
    /// `after`: it was refused with that one, since whoever asks that may do nothing there himself, or less; those behind it are looked through.
    pub fn lends(&self, holder: Holder, address: u64, after: Option<Question>) -> Option<Question> {
        self.questions(after).find(|question| self.lent_with(*question, holder, address).is_some())
    }

    /// What is lent at this address with a question that its holder has, as `gives` sees it. To be asked when the access list allows nothing, under the lock under
    /// which what is cached of rights there is forgotten ([`Woken::touched`]). What gives nothing counts as not used: there is nothing to be taken back.
    pub fn loan<T>(
        &self,
        question: Question,
        holder: Holder,
        address: u64,
        gives: impl Fn(&Loan) -> Option<T>,
    ) -> Option<T> {
        let (word, loan) = self.lent_with(question, holder, address)?;
        gives(&loan)?;
        // First this is known, then it is looked whether the question is still open: whoever ends it looks here afterwards.
        self.touch(question, word)?;
        let (_, loan) = self.lent_with(question, holder, address)?;
        gives(&loan)
    }

    fn lent_with(&self, question: Question, holder: Holder, address: u64) -> Option<(u32, Loan)> {
        self.holder_of(question).filter(|one| *one == holder)?;
        let (body, from) = self.lent_by(question)?;
        let covers = |range: &Range| address >= range.address && address - range.address < range.len;
        let (word, range) = body.lent_by_word().find(|(_, range)| covers(range))?;
        Some((word, Loan { question, range, from }))
    }
}
