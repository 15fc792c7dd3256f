//! Calls whose answers are waited for later: by a line, by a post, or (by a gate) made at once.

pub(crate) mod again;
pub(crate) mod way_back;

use abi::Error;
use alloc::boxed::Box;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll};

use crate::answers::Answers;
use crate::bound::{not_offered, result_of};
use crate::itc::Limit;
use crate::lend::{Loan, Slice, marks};
use crate::line::Line;
use crate::post::{FOR_EVER, Post};
use crate::serve::opener;
use crate::{AclEntry, Bound, Rights, section, service, time};
use abi::rights::principal;
use again::{Again, Came, Next};
use way_back::{Request, stands_there};

/// How requests go to a server.
#[derive(Clone, Copy, Debug)]
pub struct Later<'a> {
    way: Way<'a>,
    /// Where memory is lent from.
    bound: Option<&'a Bound>,
    /// The task that this is lent to; 0: nobody knows it.
    task: u64,
    /// With each message, and until that is answered.
    lends_each: bool,
}

#[derive(Clone, Copy, Debug)]
enum Way<'a> {
    AtOnce(&'a Bound),
    Line(&'a Line),
    Post(&'a Answers, usize),
}

impl<'a> Later<'a> {
    /// By the line of a binding; if it has none, calls are made at once.
    #[must_use]
    pub fn of(bound: &'a Bound) -> Later<'a> {
        let way = bound.line().map_or(Way::AtOnce(bound), Way::Line);
        Later { way, bound: Some(bound), task: 0, lends_each: false }
    }

    /// By the post of the server that a binding leads to: asks it where that is, and lets it answer. `methods` and `identity` are the
    /// interface's. What is passed by pointer is lent with its message: the receiver may use that until it has answered, or has ended. By whole pages, and by
    /// the receiver's thread only: a method that passes it on to another program as it is is refused there. What is to be written
    /// lies in the argument section, as ever (`BadAddress`): never on a stack, which nobody writes to by such a loan. Dropping a request takes it back.
    ///
    /// # Errors
    /// `NotSupported`: the server has no post; `Refused`: its interface is another one; what the kernel answers.
    pub fn by_post(bound: &'a Bound, answers: &'a Answers, methods: u64, identity: u32) -> Result<Later<'a>, Error> {
        let post = bound.lending_post_of(methods, identity)?;
        Ok(Later { lends_each: true, ..Later::by_post_of(bound, answers, methods, identity, post)? })
    }

    /// The same, and nothing is lent with a message: the server's threads may use the binding's argument section from now on, until that ends. For
    /// methods whose answers other threads give than the one that has received the request ([`defer`](crate::serve::defer)), or that go on using what they were passed.
    ///
    /// # Errors
    /// As [`Later::by_post`].
    pub fn by_post_shared(
        bound: &'a Bound,
        answers: &'a Answers,
        methods: u64,
        identity: u32,
    ) -> Result<Later<'a>, Error> {
        Later::by_post_of(bound, answers, methods, identity, bound.post_of(methods, identity)?)
    }

    fn by_post_of(
        bound: &'a Bound,
        answers: &'a Answers,
        methods: u64,
        identity: u32,
        post: Post,
    ) -> Result<Later<'a>, Error> {
        let text = section::info(bound.gate())?;
        // Instances that take its post over later may answer, too.
        let rights = Rights::CALL.bits();
        answers.admit(&AclEntry { principal: principal::ANY, rights, id: 0, text: text.original })?;
        let server = answers.server(post, identity, text.base, text.original);
        answers.stands(server, bound.gate(), bound.binding().args_len, methods);
        Ok(Later { way: Way::Post(answers, server), bound: Some(bound), task: text.owner, lends_each: false })
    }

    /// By a post that is known: nothing can be lent to whoever receives there, and `Answers::admit` says who may answer.
    #[must_use]
    pub fn to(post: Post, answers: &'a Answers, identity: u32) -> Later<'a> {
        Later::to_program(post, answers, identity, 0)
    }

    /// The same, and answers are believed only of instances of this text (0: of all that may send there).
    #[must_use]
    pub fn to_program(post: Post, answers: &'a Answers, identity: u32, original: u64) -> Later<'a> {
        let way = Way::Post(answers, answers.server(post, identity, 0, original));
        Later { way, bound: None, task: 0, lends_each: false }
    }

    /// How often the server has done something that is no matter of course: see `rt::serve::Count`.
    ///
    /// # Errors
    /// As a call.
    pub fn count(&self, methods: u64, which: crate::serve::Count) -> Result<u64, Error> {
        let bound = self.bound.ok_or(Error::NotSupported)?;
        bound.by_gate(methods, [opener::COUNT, which as u64, 0, 0, 0, 0]).map_err(not_offered).and_then(result_of)
    }

    /// Sends a request; `again`: doing it twice is doing it once. What is passed by pointer is lent from the binding's argument section:
    /// what lies there as it is, what is only read is copied there, and is there until the answer has come. Where another server has
    /// answered since, it is lent to that one.
    ///
    /// # Errors
    /// `BadAddress`: something to be written lies elsewhere, or there is no argument section; `Busy`: that is full, or as many
    /// requests are under way as can be; `NotSupported`: what is to be lent with the message has its length elsewhere than in the next word;
    /// what the kernel answers.
    pub fn begin<const N: usize>(
        &self,
        again: bool,
        method: u64,
        mut words: [u64; 6],
        slices: [Slice<'a>; N],
    ) -> Result<Posted<'a>, Error> {
        if let Way::AtOnce(bound) = self.way {
            return Ok(Posted::new(State::Answered(bound.call_with(method, words, slices)), None, false));
        }
        let lends = slices.iter().any(|slice| !slice.is_empty());
        let as_made = words;
        if let (true, Way::Post(answers, server), Some(bound)) = (lends, self.way, self.bound)
            && ![0, self.task].contains(&answers.answers_there(server))
            && stands_there(answers, server) != self.task
        {
            bound.loans().may_lend(&slices)?;
            let mut request = Request::new(answers, server, method, as_made, Box::new(slices));
            request.lends_each = self.lends_each;
            let mut posted = Posted::new(State::Taken, None, true);
            posted.request = Some(Box::new((Again::new(again, self.task), request)));
            posted.is_away(false);
            posted.is_here(false);
            return Ok(posted);
        }
        let loan = match self.bound {
            _ if N == 0 => None,
            Some(bound) => bound.lend(&mut words, &slices)?,
            None if lends => return Err(Error::BadAddress),
            None => None,
        };
        let state = match self.way {
            Way::Post(answers, server) => {
                let lend = if self.lends_each { marks(&words, &slices)? } else { 0 };
                State::Post(answers, answers.begin(server, method, words, lend)?)
            }
            Way::Line(line) => State::Line(line, line.begin(method, &words)?),
            Way::AtOnce(_) => return Err(Error::NotSupported),
        };
        let mut posted = Posted::new(state, loan, lends);
        if let Way::Post(answers, server) = self.way
            && (again || lends)
        {
            let slices: Box<[Slice<'a>]> = if lends { Box::new(slices) } else { Box::default() };
            let lent_to = if lends { self.task } else { 0 };
            let mut request = Request::new(answers, server, method, if lends { as_made } else { words }, slices);
            request.lends_each = self.lends_each;
            posted.request = Some(Box::new((Again::new(again, lent_to), request)));
        }
        Ok(posted)
    }
}

/// A request that was sent. What was lent for it stays lent until it is answered.
#[derive(Debug)]
pub struct Posted<'a> {
    state: State<'a>,
    lends: bool,
    loan: Option<Loan<'a>>,
    /// What is needed to send it again, if that may come to it. Not in here: a request is passed on by those who make it.
    request: Option<Box<(Again, Request<'a>)>>,
    _lent: PhantomData<&'a mut [u8]>,
}

#[derive(Debug)]
enum State<'a> {
    Line(&'a Line, u64),
    Post(&'a Answers, u32),
    /// Its server has ended, and it is to be sent again.
    Away(&'a Answers),
    Answered(Result<[u64; 2], Error>),
    Taken,
}

impl<'a> Posted<'a> {
    fn new(state: State<'a>, loan: Option<Loan<'a>>, lends: bool) -> Self {
        Posted { state, lends, loan, request: None, _lent: PhantomData }
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// As a call; `Dead` if the server has ended, and it may not be repeated or there is no other one (whether it has done it is not known
    /// then).
    pub fn wait(mut self) -> Result<[u64; 2], Error> {
        self.wait_until(FOR_EVER)
    }

    /// The same until a moment.
    ///
    /// # Errors
    /// `TimedOut`: it may be waited for again; `NotFound`: it was taken before.
    fn wait_until(&mut self, until: u64) -> Result<[u64; 2], Error> {
        loop {
            match self.state {
                State::Line(line, call) => {
                    let outcome = line.wait(call, Limit::Snoop(until));
                    if outcome != Err(Error::TimedOut) {
                        self.state = State::Taken;
                    }
                    return outcome;
                }
                State::Post(answers, tag) => match answers.take(tag) {
                    Some(came) => self.came(came),
                    None => answers.receive(until)?,
                },
                State::Away(_) => {
                    let left = if until == FOR_EVER { FOR_EVER } else { until.saturating_sub(time::now_ns()) };
                    if !self.try_again(left) {
                        if left == 0 {
                            return Err(Error::TimedOut);
                        }
                        service::pause()?;
                    }
                }
                State::Answered(outcome) => {
                    self.state = State::Taken;
                    return outcome;
                }
                State::Taken => return Err(Error::NotFound),
            }
        }
    }

    /// What was sent has come to this: it is over, or away.
    fn came(&mut self, came: Came) {
        let next = match (self.request.as_deref_mut(), came) {
            (Some((again, request)), came) => again.next(came, || stands_there(request.answers, request.server)),
            (None, Came::Answer(outcome, _)) => Next::Over(outcome),
            (None, Came::Lost) => Next::Over(Err(Error::Dead)),
        };
        match next {
            Next::Over(outcome) => {
                if let (Some((_, request)), Ok(_)) = (self.request.as_deref_mut(), outcome) {
                    request.is_answered();
                }
                self.state = State::Answered(outcome);
            }
            Next::Again => self.is_away(true),
        }
    }

    /// It is to be sent when its server is there. What was lent to the one before is not any more.
    fn is_away(&mut self, again: bool) {
        drop(self.loan.take());
        if let Some((_, request)) = self.request.as_deref_mut() {
            request.is_lost();
            request.answers.is_away(again);
            self.state = State::Away(request.answers);
        }
    }

    /// Sends it again if its server is there within so long. Value: whether it was, or is over.
    fn try_again(&mut self, ns: u64) -> bool {
        let (State::Away(answers), Some((again, request))) = (&self.state, self.request.as_deref_mut()) else {
            return true;
        };
        let answers = *answers;
        if ns == 0 && !again.is_due(time::now_ns()) {
            return false;
        }
        let state = match again.try_once(request, ns) {
            Ok(None) => return false,
            Ok(Some(tag)) => State::Post(answers, tag),
            Err(error) => State::Answered(Err(error)),
        };
        answers.is_back();
        self.state = state;
        true
    }

    /// Whether it is here; `looks`: also if nobody has looked at the post yet.
    fn is_here(&mut self, looks: bool) -> bool {
        if let State::Post(answers, tag) = self.state {
            if looks {
                answers.look();
            }
            match answers.take(tag) {
                Some(came) => self.came(came),
                None => return false,
            }
        }
        match self.state {
            State::Line(line, call) => match line.wait(call, Limit::Poll) {
                Err(Error::Busy) => return false,
                outcome => self.state = State::Answered(outcome),
            },
            State::Away(_) => _ = self.try_again(0),
            _ => {}
        }
        matches!(self.state, State::Answered(_) | State::Taken)
    }
}

impl Drop for Posted<'_> {
    /// What was lent comes back first: at once what was lent with the message, else with the answer. Without that nobody waits, and the answer is thrown away when it comes. Nothing is sent again.
    fn drop(&mut self) {
        match self.state {
            State::Line(line, call) => _ = line.wait(call, Limit::Snoop(FOR_EVER)),
            State::Post(answers, tag) => {
                let mut is_over = self.lends && answers.cancel(tag);
                while self.lends && !is_over {
                    is_over = answers.take(tag).is_some();
                    if !is_over && answers.receive(FOR_EVER).is_err() {
                        break;
                    }
                }
                if !is_over {
                    answers.forget(tag);
                }
            }
            State::Away(answers) => answers.is_back(),
            _ => {}
        }
    }
}

/// A request that was sent, with a value of the method's type. As a future it is driven by [`Answers::block_on`].
#[derive(Debug)]
pub struct Answer<'a, T> {
    posted: Posted<'a>,
    value: fn([u64; 2]) -> Result<T, Error>,
}

impl<'a, T> Answer<'a, T> {
    #[must_use]
    pub fn of(posted: Posted<'a>, value: fn([u64; 2]) -> Result<T, Error>) -> Self {
        Answer { posted, value }
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// As [`Posted::wait`].
    pub fn wait(self) -> Result<T, Error> {
        (self.value)(self.posted.wait()?)
    }

    /// Waits for at most `ns`.
    ///
    /// # Errors
    /// `TimedOut`: it may be waited for again; `NotFound`: it was taken before; as [`Answer::wait`].
    pub fn wait_for(&mut self, ns: u64) -> Result<T, Error> {
        let until = if ns == FOR_EVER { FOR_EVER } else { time::now_ns().saturating_add(ns) };
        (self.value)(self.posted.wait_until(until)?)
    }

    /// Whether waiting takes no time any more.
    pub fn is_ready(&mut self) -> bool {
        self.posted.is_here(true)
    }
}

impl<T> Future for Answer<'_, T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.posted.is_here(false) {
            return Poll::Pending;
        }
        let values = self.posted.wait_until(FOR_EVER);
        Poll::Ready(values.and_then(self.value))
    }
}
