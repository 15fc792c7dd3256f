//! Calls whose answers are waited for later: by a line, by a post, or (by a gate) made at once.

use abi::Error;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll};

use crate::answers::Answers;
use crate::bound::{not_offered, result_of};
use crate::itc::Limit;
use crate::lend::{Loan, Slice};
use crate::line::Line;
use crate::post::{FOR_EVER, Post};
use crate::serve::opener;
use crate::{AclEntry, Bound, Rights, section, time};
use abi::rights::principal;

/// How requests go to a server.
#[derive(Clone, Copy, Debug)]
pub struct Later<'a> {
    way: Way<'a>,
    /// Where memory is lent from.
    bound: Option<&'a Bound>,
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
        Later { way, bound: Some(bound) }
    }

    /// By the post of the server that a binding leads to: asks it where that is, and lets it answer. `methods` and `identity` are the
    /// interface's.
    ///
    /// # Errors
    /// `NotSupported`: the server has no post; `Refused`: its interface is another one; what the kernel answers.
    pub fn by_post(bound: &'a Bound, answers: &'a Answers, methods: u64, identity: u32) -> Result<Later<'a>, Error> {
        let post = bound.post_of(methods, identity)?;
        let text = section::info(bound.gate())?;
        // Instances that take its post over later may answer, too.
        let rights = Rights::CALL.bits();
        answers.admit(&AclEntry { principal: principal::ANY, rights, id: 0, text: text.original })?;
        let way = Way::Post(answers, answers.server(post, identity, text.base, text.original));
        Ok(Later { way, bound: Some(bound) })
    }

    /// By a post that is known: nothing can be lent to whoever receives there, and `Answers::admit` says who may answer.
    #[must_use]
    pub fn to(post: Post, answers: &'a Answers, identity: u32) -> Later<'a> {
        Later { way: Way::Post(answers, answers.server(post, identity, 0, 0)), bound: None }
    }

    /// How often the server has done something that is no matter of course: see `rt::serve::Count`.
    ///
    /// # Errors
    /// As a call.
    pub fn count(&self, methods: u64, which: crate::serve::Count) -> Result<u64, Error> {
        let bound = self.bound.ok_or(Error::NotSupported)?;
        bound.by_gate(methods, [opener::COUNT, which as u64, 0, 0, 0, 0]).map_err(not_offered).and_then(result_of)
    }

    /// Sends a request. What is passed by pointer is lent from the binding's argument section: what lies there as it is, what is
    /// only read is copied there, and is there until the answer has come.
    ///
    /// # Errors
    /// `BadAddress`: something to be written lies elsewhere, or there is no argument section; `Busy`: that is full, or as many
    /// requests are under way as can be; what the kernel answers.
    pub fn begin<const N: usize>(
        &self,
        method: u64,
        mut words: [u64; 6],
        slices: [Slice<'a>; N],
    ) -> Result<Posted<'a>, Error> {
        if let Way::AtOnce(bound) = self.way {
            return Ok(Posted::new(State::Answered(bound.call_with(method, words, slices)), None, false));
        }
        let lends = slices.iter().any(|slice| !slice.is_empty());
        let loan = match self.bound {
            _ if N == 0 => None,
            Some(bound) => bound.lend(&mut words, &slices)?,
            None if lends => return Err(Error::BadAddress),
            None => None,
        };
        let state = match self.way {
            Way::Post(answers, server) => State::Post(answers, answers.begin(server, method, words)?),
            Way::Line(line) => State::Line(line, line.begin(method, &words)?),
            Way::AtOnce(_) => return Err(Error::NotSupported),
        };
        Ok(Posted::new(state, loan, lends))
    }
}

/// A request that was sent. What was lent for it stays lent until it is answered.
#[derive(Debug)]
pub struct Posted<'a> {
    state: State<'a>,
    lends: bool,
    _loan: Option<Loan<'a>>,
    _lent: PhantomData<&'a mut [u8]>,
}

#[derive(Debug)]
enum State<'a> {
    Line(&'a Line, u64),
    Post(&'a Answers, u32),
    Answered(Result<[u64; 2], Error>),
    Taken,
}

impl<'a> Posted<'a> {
    fn new(state: State<'a>, loan: Option<Loan<'a>>, lends: bool) -> Self {
        Posted { state, lends, _loan: loan, _lent: PhantomData }
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// As a call; `Dead` if the server has ended (whether it has done it is not known then).
    pub fn wait(mut self) -> Result<[u64; 2], Error> {
        self.wait_until(FOR_EVER)
    }

    /// The same until a moment.
    ///
    /// # Errors
    /// `TimedOut`: it may be waited for again; `NotFound`: it was taken before.
    fn wait_until(&mut self, until: u64) -> Result<[u64; 2], Error> {
        match self.state {
            State::Line(line, call) => {
                let outcome = line.wait(call, Limit::Snoop(until));
                if outcome == Err(Error::TimedOut) {
                    return outcome;
                }
                self.state = State::Taken;
                outcome
            }
            State::Post(answers, tag) => loop {
                if let Some(outcome) = answers.take(tag) {
                    self.state = State::Taken;
                    return outcome;
                }
                answers.receive(until)?;
            },
            State::Answered(outcome) => {
                self.state = State::Taken;
                outcome
            }
            State::Taken => Err(Error::NotFound),
        }
    }

    /// Whether it is here; `looks`: also if nobody has looked at the post yet.
    fn is_here(&mut self, looks: bool) -> bool {
        let outcome = match self.state {
            State::Line(line, call) => match line.wait(call, Limit::Poll) {
                Err(Error::Busy) => return false,
                outcome => outcome,
            },
            State::Post(answers, tag) => {
                if looks {
                    answers.look();
                }
                match answers.take(tag) {
                    Some(outcome) => outcome,
                    None => return false,
                }
            }
            _ => return true,
        };
        self.state = State::Answered(outcome);
        true
    }
}

impl Drop for Posted<'_> {
    /// What was lent comes back first. Without that nobody waits, and the answer is thrown away when it comes.
    fn drop(&mut self) {
        if self.lends || matches!(self.state, State::Line(..)) {
            let _ = self.wait_until(FOR_EVER);
        }
        if let State::Post(answers, tag) = self.state {
            answers.forget(tag);
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
    /// As a call; `Dead` if the server has ended (whether it has done it is not known then).
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
