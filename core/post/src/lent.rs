//! Memory that is lent with a message whose sender goes on: as long as the receiver has the message. A loan is a question that no thread waits
//! for: it is named, held and looked up as one, and whoever ends it gets a [`Woken`] of no thread. What was used is taken back first, as ever; then
//! the loan is [finished](Pool::finish): its lender hears of it by a message to the post that the answer goes to. Room for that is what the
//! lender has paid for since the loan began.

use crate::free::Chain;
use crate::lock::OPEN;
use crate::message::{Body, Envelope, Letter, Own, Question, Sender, is_well_formed};
use crate::notice::PLAIN;
use crate::pool::{Caller, Permit, Pool, Woken};
use crate::post::Taken;
use crate::receiver::Holder;
use crate::sync::{AtomicU32, AtomicU64, Ordering, owned};
use abi::task::USER_SYSTEM;
use abi::{Error, Rights};
use acl::Subject;
use alloc::boxed::Box;

// What a loan is, in the lowest bits of its state; above is how often the record was a loan, its turn.
/// Nobody's, or about to be one.
const NONE: u64 = 0;
/// Whoever changes this to [`OVER`] ends it, and nobody else does.
const LENT: u64 = 1;
/// Over, and to be finished.
const OVER: u64 = 2;

const TURN_AT: u32 = 8;
/// Turns go round after so many bits.
const TURNS: u64 = (1 << Question::TURN_BITS) - 1;

/// The record of a loan.
#[derive(Debug, Default)]
pub(crate) struct Lent {
    state: AtomicU64,
    /// The lowest bits of the turn and the [`Holder`].
    held: AtomicU64,
    /// The words by which somebody has used what is lent.
    touched: AtomicU32,
    /// What it was sent with, and the original of the text that has sent it.
    sent: Letter,
    original: AtomicU64,
    /// As whom it is lent: thread, task, user and place.
    lent_as: [AtomicU64; 4],
    /// Record of the thread that lends.
    lender: AtomicU32,
    /// The post for the answer, in an epoch in which the lender might receive there.
    back: AtomicU32,
    epoch: owned::AtomicU64,
    account: owned::AtomicU32,
    /// What it has ended with, if its lender is to hear that.
    error: owned::AtomicU64,
    /// Of a record that is free.
    next: AtomicU32,
}

impl Lent {
    fn turn(&self) -> u64 {
        self.state.load(Ordering::SeqCst) >> TURN_AT
    }

    /// The turn in which something is lent.
    fn open(&self) -> Option<u64> {
        let now = self.state.load(Ordering::SeqCst);
        (now % (1 << TURN_AT) == LENT).then_some(now >> TURN_AT)
    }

    fn is_open(&self, turn: u64) -> bool {
        self.open() == Some(turn)
    }

    /// Ends it. Whoever has done so finishes it.
    #[must_use]
    fn claim(&self, turn: u64) -> bool {
        let (lent, over) = (turn << TURN_AT | LENT, turn << TURN_AT | OVER);
        self.state.compare_exchange(lent, over, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// The message was received by this one: only once, and only this loan's.
    fn hold(&self, turn: u64, holder: Holder) {
        let (none, held) = (u64::from(turn as u32) << 32, holder.word(turn as u32));
        let _ = self.held.compare_exchange(none, held, Ordering::SeqCst, Ordering::SeqCst);
    }

    fn held(&self, turn: u64) -> Option<Holder> {
        let word = self.held.load(Ordering::SeqCst);
        if (word >> 32) as u32 == turn as u32 { Holder::from_word(word) } else { None }
    }

    fn lends_as(&self, one: &Sender) {
        let Sender { thread, task, user, place } = *one;
        self.lent_as.iter().zip([thread, task, user, place]).for_each(|(to, word)| to.store(word, Ordering::Release));
    }

    fn lent_as(&self) -> Sender {
        let [thread, task, user, place] = [0, 1, 2, 3].map(|at: usize| self.lent_as[at].load(Ordering::Acquire));
        Sender { thread, task, user, place }
    }

    fn last_lent(&self) -> (Body, Subject) {
        (self.sent.body(), self.lent_as().subject(self.original.load(Ordering::Acquire)))
    }

    /// What is lent. Whoever makes the next loan of it first changes the turn.
    fn lent(&self, turn: u64) -> Option<(Body, Subject)> {
        let lent = self.last_lent();
        self.is_open(turn).then_some(lent)
    }
}

/// All loans: as many as messages can be paid for, as each is paid for as one.
#[derive(Debug)]
pub(crate) struct Loans {
    all: Box<[Lent]>,
    free: Chain,
    /// No record above this one was ever used.
    most: AtomicU32,
}

impl Loans {
    pub fn new(count: u32) -> Loans {
        let all: Box<[Lent]> = (0..=count).map(|_| Lent::default()).collect();
        let free = Chain::default();
        (1..=count).rev().for_each(|number| free.put(number, &all[number as usize].next));
        Loans { all, free, most: AtomicU32::new(0) }
    }

    fn at(&self, number: u32) -> &Lent {
        &self.all[number as usize]
    }

    /// The record that a question is, which is a loan, and the turn. Programs may write anything there.
    fn of(&self, question: Question) -> Option<(&Lent, u64)> {
        let (number, turn) = question.loan()?;
        Some((self.all.get(number as usize)?, turn))
    }
}

impl Woken {
    /// It is a loan that is over, and no thread: see [`Pool::finish`].
    pub fn is_loan(&self) -> bool {
        self.loan().is_some()
    }

    /// Its number ([`Question::number`]).
    pub fn loan(&self) -> Option<u32> {
        Question { asker: self.receiver, ticket: 0 }.number()
    }
}

impl Pool {
    /// Sends one message and lends memory with it, until whoever has received it answers ([`Pool::answer_loan`]) or ends, the lender ends or
    /// [takes it back](Pool::cancel), one of the posts is no more or something else [ends](Pool::end) it: how, comes to the post `back`. Who is to
    /// be woken for the message, and the loan.
    ///
    /// # Errors
    /// As [`Pool::send`]; `BadArgument`: it lends nothing, or what has no length. A loan is paid for as a message, besides that which it goes with.
    pub fn send_lending(
        &self,
        to: &Permit,
        back: &Permit,
        by: &Caller,
        body: &Body,
    ) -> Result<(Question, Option<Woken>), Error> {
        self.lend_and_send(to, back, by, body).inspect_err(|error| self.refused(to, *error))
    }

    fn lend_and_send(
        &self,
        to: &Permit,
        back: &Permit,
        by: &Caller,
        body: &Body,
    ) -> Result<(Question, Option<Woken>), Error> {
        if body.lend == 0 || !is_well_formed(body.lend) {
            return Err(Error::BadArgument);
        }
        let mut own = Own::new(body);
        let loan = self.lend(back, by, &own)?;
        // First it is lent, then it is looked whether the post is still there: whoever frees that looks in the other order.
        let there = self.post(back.post()).and_then(|post| post.check(*back, Rights::READ));
        let handed =
            there.and_then(|()| self.put_lending(to, by, loan, &own)).inspect_err(|_| self.unlend(loan, by))?;
        if let Some(taken) = handed {
            self.keep(taken, to.post(), (*by, 0, Some(loan)), &mut own);
        }
        Ok((loan, own.woken))
    }

    fn lend(&self, back: &Permit, by: &Caller, hands: &Own) -> Result<Question, Error> {
        self.accounts.charge(by.account)?;
        // There is one for each message that can be paid for.
        let number = self.loans.free.take(|number| &self.loans.at(number).next);
        let number = number.ok_or(Error::MessageQuota).inspect_err(|_| self.accounts.release(by.account))?;
        let one = self.loans.at(number);
        let turn = (one.turn() + 1) & TURNS;
        let loan = Question::of_loan(number, turn);
        one.state.store(turn << TURN_AT | NONE, Ordering::SeqCst);
        one.held.store(u64::from(turn as u32) << 32, Ordering::SeqCst);
        one.touched.store(0, Ordering::SeqCst);
        one.sent.write(0, &Envelope { from: by.sender, back: 0, question: Some(loan) }, hands);
        one.original.store(by.original, Ordering::Release);
        one.lends_as(&by.lender);
        one.lender.store(by.receiver, Ordering::Relaxed);
        one.back.store(back.post(), Ordering::Relaxed);
        one.epoch.store(back.epoch, Ordering::Relaxed);
        one.account.store(by.account, Ordering::Relaxed);
        self.loans.most.fetch_max(number, Ordering::SeqCst);
        one.state.store(turn << TURN_AT | LENT, Ordering::SeqCst);
        Ok(loan)
    }

    /// The message of a loan could not be sent: nobody has heard of that.
    fn unlend(&self, loan: Question, by: &Caller) {
        if let Some(over) = self.end_loan(loan, None) {
            let _ = self.finish(over, by.processor);
        }
    }

    /// [`Pool::put`] of a message with a loan: whoever gets it holds that.
    fn put_lending(&self, to: &Permit, by: &Caller, loan: Question, own: &Own) -> Result<Option<Taken<'_>>, Error> {
        let queues = self.post(to.post())?.queues();
        to.check(queues.epoch(), Rights::CALL)?;
        let handed = self.take_receiver(&queues, None);
        match &handed {
            Some(taken) => self.hold_loan(loan, taken.receiver.holder(taken.number)),
            None => {
                let envelope = Envelope { from: by.sender, back: 0, question: Some(loan) };
                self.queue(&queues, (to.post(), by), &envelope, own)?;
            }
        }
        Ok(handed)
    }

    /// Who has received the message of a loan.
    #[cold]
    #[inline(never)]
    pub(crate) fn hold_loan(&self, loan: Question, holder: Holder) {
        if let Some((one, turn)) = self.loans.of(loan) {
            one.hold(turn, holder);
        }
    }

    /// Its holder has done with it. Then it is to be taken back, and finished [with the answer](Pool::finish_with).
    ///
    /// # Errors
    /// As [`Pool::answer`].
    pub fn answer_loan(&self, loan: Question, by: &Caller, lend: u16) -> Result<Woken, Error> {
        if lend != 0 {
            return Err(Error::BadArgument);
        }
        let me = Holder { receiver: by.receiver, domain: by.domain };
        let (one, turn) = self.loans.of(loan).ok_or(Error::NotFound)?;
        let is_mine = one.held(turn) == Some(me);
        if is_mine { self.end_loan(loan, None).ok_or(Error::NotFound) } else { Err(Error::NotFound) }
    }

    /// The lender wants it back, by any thread that lends as that task in that text. Then it is to be taken back and [finished](Pool::finish), and nothing is heard of it.
    ///
    /// # Errors
    /// `NotFound`: it is none of this one's, or is over: what has come of it comes to the post, or has come.
    pub fn cancel(&self, loan: Question, by: &Caller) -> Result<Woken, Error> {
        let (one, turn) = self.loans.of(loan).ok_or(Error::NotFound)?;
        let from = |lender: &Sender| (lender.task, lender.place);
        // First it is this loan, then it is looked whose: until it is, there may stand who had the record last. If it can be ended afterwards, it was this
        // one's all the time.
        let is_mine = one.is_open(turn) && from(&one.lent_as()) == from(&by.lender);
        if is_mine { self.end_loan(loan, None).ok_or(Error::NotFound) } else { Err(Error::NotFound) }
    }

    /// Ends a loan, or the wait for an answer, by something else than that: its lender or asker hears this error. `None`: it is over, or about to be.
    pub fn end(&self, question: Question, error: Error) -> Option<Woken> {
        if question.is_loan() {
            self.end_loan(question, Some(error))
        } else {
            self.interrupt(question.asker, question.ticket, error)
        }
    }

    fn end_loan(&self, loan: Question, error: Option<Error>) -> Option<Woken> {
        let (one, turn) = self.loans.of(loan)?;
        if !one.claim(turn) {
            return None;
        }
        one.error.store(error.map_or(0, Error::word), Ordering::Relaxed);
        let touched = one.touched.load(Ordering::SeqCst) != 0;
        Some(Woken { receiver: loan.asker, thread: 0, card: 0, touched })
    }

    /// Whether a loan is not over.
    pub fn is_lent(&self, loan: Question) -> bool {
        self.loans.of(loan).is_some_and(|(one, turn)| one.is_open(turn))
    }

    /// A loan is over that was not answered, and nobody has any of it: its lender hears why, in a message from no thread with the operation of his
    /// own, whose first word is the error. Who is to be woken for that.
    pub fn finish(&self, over: Woken, processor: usize) -> Option<Woken> {
        let one = self.loans.at(over.loan()?);
        let error = one.error.load(Ordering::Relaxed);
        let from = Sender { thread: 0, task: 0, user: USER_SYSTEM, place: one.sent.from().node() };
        let body = Body { op: one.sent.body().op, words: [error, 0, 0, 0, 0, 0], lend: 0 };
        self.say_end(over, (from, processor), (error != 0).then_some(&body))
    }

    /// A loan is over that was answered so, and nobody has any of it.
    pub fn finish_with(&self, over: Woken, by: &Caller, body: &Body) -> Option<Woken> {
        self.say_end(over, (by.sender, by.processor), Some(body))
    }

    /// Its record is free, and what was paid for it goes on for the message that says how it has ended, until that is received.
    fn say_end(&self, over: Woken, (from, processor): (Sender, usize), body: Option<&Body>) -> Option<Woken> {
        let number = over.loan()?;
        let one = self.loans.at(number);
        let loan = Question::of_loan(number, one.turn());
        let (back, epoch) = (one.back.load(Ordering::Relaxed), one.epoch.load(Ordering::Relaxed));
        let account = one.account.load(Ordering::Relaxed);
        one.state.store(one.turn() << TURN_AT | NONE, Ordering::SeqCst);
        self.loans.free.put(number, &one.next);
        let mut handed = None;
        if let (Some(body), Ok(post)) = (body, self.post(back)) {
            let envelope = Envelope { from, back: 0, question: None };
            let queues = post.queues();
            // The next one who has got that number has lent nothing.
            if queues.epoch() & OPEN != 0 && epoch >= queues.born.load(Ordering::Relaxed) {
                handed = self.take_receiver(&queues, None);
                let Some(taken) = &handed else {
                    let slot = self.slots.take(processor);
                    let this = self.slots.at(slot);
                    this.letter.write(back, &envelope, &Own::new(body));
                    this.letter.is_of(loan);
                    this.account.store(account, Ordering::Relaxed);
                    this.notice.store(PLAIN, Ordering::Relaxed);
                    self.push(&queues, slot);
                    return None;
                };
                taken.receiver.leave_message(back, &envelope, &Own::new(body));
                taken.receiver.letter.is_of(loan);
            }
        }
        self.accounts.release(account);
        handed.map(|taken| {
            self.leave_places(taken.number);
            self.woken(taken.number)
        })
    }

    /// All loans that are not over, behind this number, in stretches.
    fn loans_behind(&self, number: u32) -> impl Iterator<Item = (Question, &Lent)> {
        let all = number + 1..=self.loans.most.load(Ordering::SeqCst);
        all.inspect(|number| self.rest_after(*number)).filter_map(|number| {
            let one = self.loans.at(number);
            one.open().map(|turn| (Question::of_loan(number, turn), one))
        })
    }

    /// Questions by the numbers of who asks, then loans by theirs, in stretches: what may be held, and what is lent with it. Only those behind `after`,
    /// which need not be open any more.
    pub(crate) fn questions(&self, after: Option<Question>) -> impl Iterator<Item = Question> {
        let (asker, loan) = match after.map(|after| after.number().ok_or(after.asker)) {
            None => (0, 0),
            Some(Err(asker)) => (asker, 0),
            Some(Ok(loan)) => (u32::MAX, loan),
        };
        let waits = self.records_behind(asker);
        let waits = waits.filter_map(|(asker, one)| one.waits().map(|ticket| Question { asker, ticket }));
        waits.chain(self.loans_behind(loan).map(|(loan, _)| loan))
    }

    /// Ends all loans of which this is so.
    fn end_loans(&self, error: Option<Error>, mut wake: impl FnMut(Woken), is: impl Fn(&Lent) -> bool) {
        for (loan, one) in self.loans_behind(0) {
            // What is looked at is this loan's if it can be ended afterwards.
            if is(one)
                && let Some(over) = self.end_loan(loan, error)
            {
                wake(over);
                self.rest_from(&over);
            }
        }
    }

    /// The post for the answers is no more, so nobody hears of it.
    pub(crate) fn end_loans_back(&self, post: u32, wake: impl FnMut(Woken)) {
        self.end_loans(None, wake, |one| one.back.load(Ordering::Relaxed) == post);
    }

    /// The access list of a post has changed so that somebody may have lost a right, as for [`Pool::changed`], which comes first. Whoever has lent something until it is
    /// answered there, and may not receive there any more (`may` looks at the list), says nothing there either: not by a second thread of his that
    /// holds the loan. It is over, and nobody hears of it.
    pub fn lenders_changed(&self, post: u32, may: impl Fn(&Subject) -> bool, wake: impl FnMut(Woken)) {
        // Who lends in this moment looks afterwards whether his permit is still good.
        let sender = |one: &Lent| one.sent.from().subject(one.original.load(Ordering::Acquire));
        self.end_loans(None, wake, |one| one.back.load(Ordering::Relaxed) == post && !may(&sender(one)));
    }

    /// The thread with this record has ended.
    pub(crate) fn end_loans_of(&self, lender: u32, wake: impl FnMut(Woken)) {
        self.end_loans(Some(Error::Dead), wake, |one| one.lender.load(Ordering::Relaxed) == lender);
    }

    /// A text has ended: what was lent from there is not any more.
    pub fn lenders_gone(&self, text: u64, wake: impl FnMut(Woken)) {
        self.end_loans(Some(Error::Dead), wake, |one| one.sent.from().text() == text);
    }

    /// Who holds a question, or what is lent.
    pub(crate) fn holder_of(&self, question: Question) -> Option<Holder> {
        match self.loans.of(question) {
            Some((one, turn)) => one.held(turn),
            None => self.asker(question)?.held(question.ticket),
        }
    }

    /// What is lent with a question that is open, or by itself.
    pub(crate) fn lent_by(&self, question: Question) -> Option<(Body, Subject)> {
        match self.loans.of(question) {
            Some((one, turn)) => one.lent(turn),
            None => self.asker(question)?.lent(question),
        }
    }

    /// Somebody uses that, by this word.
    pub(crate) fn touch(&self, question: Question, word: u32) -> Option<()> {
        match self.loans.of(question) {
            Some((one, _)) => _ = one.touched.fetch_or(1 << word, Ordering::SeqCst),
            None => self.asker(question)?.touch(word),
        }
        Some(())
    }

    /// [`Pool::lent`] of a loan, and the words by which that was used.
    pub(crate) fn last_lent(&self, over: u32) -> Option<((Body, Subject), u32)> {
        let (one, _) = self.loans.of(Question { asker: over, ticket: 0 })?;
        Some((one.last_lent(), one.touched.load(Ordering::SeqCst)))
    }
}
