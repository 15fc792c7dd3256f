//! Questions: who answers for one, what is lent with it, and what its asker hears if that one ends.

use crate::message::{Back, Body, Message, Question, Range};
use crate::pool::{Caller, Permit, Pool, Received, Woken};
use crate::receive::Called;
use crate::receiver::Holder;
use crate::sync::Ordering;
use abi::Error;
use acl::Subject;

/// Memory that is lent to whoever holds a question.
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
    pub fn answer(&self, question: Question, by: &Caller, body: &Body) -> Result<Woken, Error> {
        if body.lend != 0 {
            return Err(Error::BadArgument);
        }
        let asker = self.asker(question).ok_or(Error::NotFound)?;
        let me = Holder { receiver: by.receiver, domain: by.domain };
        if asker.held(question.ticket) != Some(me) || !asker.claim(question.ticket) {
            return Err(Error::NotFound);
        }
        asker.leave_message(0, &Message { body: *body, from: *by.subject, back: Back::Nowhere, question: None });
        self.leave_places(question.asker);
        Ok(self.woken(question.asker))
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
        let woken = Some(self.answer(question, by, body)?);
        let received = self.receive(core::slice::from_ref(at), by, true).unwrap_or_else(Received::Ended);
        Ok(Called { woken, received })
    }

    /// Some of those who hold questions are no more: threads that have ended, or texts that they executed. Their askers hear
    /// `Dead`. To be asked after it is certain that those receive nothing any more.
    pub fn holders_gone(&self, is_gone: impl Fn(Holder) -> bool, mut wake: impl FnMut(Woken)) {
        for (number, asker) in self.records() {
            let Some(ticket) = asker.waits() else { continue };
            if asker.held(ticket).is_some_and(&is_gone)
                && let Some(woken) = self.interrupt(number, ticket, Error::Dead)
            {
                wake(woken);
            }
        }
    }

    /// Looks whether memory at this address is lent to a holder of questions. To be asked when the access list allows nothing,
    /// under the lock under which what is cached of rights there is forgotten ([`Woken::touched`]).
    pub fn loan(&self, holder: Holder, address: u64) -> Option<Loan> {
        self.records().find_map(|(asker, record)| {
            let ticket = record.waits()?;
            if record.held(ticket) != Some(holder) {
                return None;
            }
            let question = Question { asker, ticket };
            let (body, _) = record.lent(question)?;
            let covers = |range: &Range| address >= range.address && address - range.address < range.len;
            let range = body.lent().find(covers)?;
            // First this is known, then it is looked whether the question is still open: whoever ends it looks here afterwards.
            record.touched.store(1, Ordering::SeqCst);
            let (_, from) = record.lent(question)?;
            Some(Loan { question, range, from })
        })
    }
}
