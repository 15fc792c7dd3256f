//! Where answers come that a thread does not wait for at once: one post, for requests to any number of servers.
//!
//! Nobody tells the sender of a plain message that its receiver has ended. So a wait that takes long goes on as one that began with a
//! message to the server ([`request::WATCH`]), asking for one request. Whoever has received that has received all before it. If
//! it ends, so does the wait (docs/decisions/0009); if it knows nothing of the request, it says so: then that went to another one,
//! who has ended. Of these messages one lies at a server that receives nothing, and one more that is answered as soon as it is received:
//! before that no further one is sent, for each would be charged to this program's account. What was sent with a loan needs none: the kernel says how that ends.
//!
//! A server that ends before it has received that message leaves it to the next one. If there is to be none, nobody says so: who has
//! waited for long looks whether the server stands at its gate, and asks whoever restarts it (docs/decisions/0011).

mod requests;

use abi::layout::PAGE;
use abi::{AclEntry, Error};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};

use crate::later::again::Came;
use crate::later::way_back::WayBack;
use crate::post::{self, FOR_EVER, Message, Post};
use crate::service::{self, Held, PAUSE_NS, Service};
use crate::{request, section, time};
use requests::{Inside, Lies, Request, Server, State};

/// After so long a wait it is looked whether the server is there.
const PATIENCE_NS: u64 = 20_000_000;
/// For how long at a time, if there are several requests to be asked for.
const TURN_NS: u64 = 100_000_000;
/// A server's thread may have received a request and not said so yet: it is believed when it was asked so often.
const DOUBTS: u32 = 3;
/// Tags rest: an answer that comes after all is not to be taken for another one's.
const RESTING: usize = 64;
/// An answer to what was to be answered as soon as it was received may be lost with a server: after so long another one is sent, and
/// after twice as long the next.
const LOST_NS: u64 = 10_000_000_000;

/// A post of this program's, and what is to come there. For one thread at a time.
#[derive(Debug)]
pub struct Answers {
    post: Post,
    inside: RefCell<Inside>,
}

impl Answers {
    /// # Errors
    /// What the kernel answers.
    pub fn new() -> Result<Answers, Error> {
        Ok(Answers { post: Post::any()?, inside: RefCell::default() })
    }

    /// Lets somebody send answers here who is not known by his gate.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn admit(&self, entry: &AclEntry) -> Result<(), Error> {
        self.post.allow(entry)
    }

    /// Requests whose answers are not here yet.
    #[must_use]
    pub fn under_way(&self) -> u32 {
        self.inside.borrow().servers.iter().map(|server| server.under_way).sum()
    }

    /// Messages that came and were no answer to anything.
    #[must_use]
    pub fn strangers(&self) -> u64 {
        self.inside.borrow().strangers
    }

    /// How often a request was lost with its server and is sent again.
    #[must_use]
    pub fn sent_again(&self) -> u64 {
        self.inside.borrow().again
    }

    /// A number for the server that receives at `post`. Answers are believed of texts that are instances of `original` (0: of all
    /// that may send here).
    pub(crate) fn server(&self, post: Post, identity: u32, text: u64, original: u64) -> usize {
        let servers = &mut self.inside.borrow_mut().servers;
        let same = |one: &Server| (one.post, one.identity, one.original) == (post, identity, original);
        servers.iter().position(same).unwrap_or_else(|| {
            servers.push(Server::new(post, identity, text, original));
            servers.len() - 1
        })
    }

    /// Where this server's gates are, what of them is needed to lend so much to the next one, and how many methods there are.
    pub(crate) fn stands(&self, server: usize, gate: u64, args_len: u64, methods: u64) {
        let one = &mut self.inside.borrow_mut().servers[server];
        // What lay in place is copied then, each range beginning anew.
        let room = if args_len == 0 { 0 } else { args_len.saturating_add(PAGE) };
        if one.way_back.as_ref().is_none_or(|way| way.service().args_len() < room) {
            one.way_back = Some(Arc::new(WayBack::new(Service::new(gate, room), methods, one.identity)));
        }
    }

    /// Its gate, if that is known.
    pub(crate) fn gate(&self, server: usize) -> Option<u64> {
        self.inside.borrow().servers[server].way_back.as_ref().map(|way| way.service().gate())
    }

    /// The task that has answered there last.
    pub(crate) fn answers_there(&self, server: usize) -> u64 {
        self.inside.borrow().servers[server].task
    }

    /// A binding to the server that stands there now.
    ///
    /// # Errors
    /// `NotFound`: it is not there; as `Bound::bind`.
    pub(crate) fn binding(&self, server: usize, lends_each: bool) -> Result<Arc<Held>, Error> {
        let way_back = self.inside.borrow().servers[server].way_back.clone();
        way_back.ok_or(Error::NotSupported)?.binding(lends_each)
    }

    /// A request is to be sent when its server is there; `again`: it was before.
    pub(crate) fn is_away(&self, again: bool) {
        let inside = &mut *self.inside.borrow_mut();
        inside.away += 1;
        inside.again += u64::from(again);
    }

    /// It was, or is not to be any more.
    pub(crate) fn is_back(&self) {
        self.inside.borrow_mut().away -= 1;
    }

    /// Sends a request; `lend`: what is lent with it, as `abi::post::head` has it. Its tag.
    ///
    /// # Errors
    /// `Busy`: as many are under way as there are tags; what the kernel answers.
    pub(crate) fn begin(&self, server: usize, method: u64, words: [u64; 6], lend: u16) -> Result<u32, Error> {
        let Inside { requests, free, servers, quiet_ns, .. } = &mut *self.inside.borrow_mut();
        if servers.iter().all(|one| one.under_way == 0) {
            // How long it was waited for others says nothing of this one.
            *quiet_ns = 0;
        }
        let to = &mut servers[server];
        let all = requests.len();
        let again = free.len() >= RESTING || all as u32 == request::TAG_MAX;
        let tag = match free.front() {
            Some(tag) if again => *tag,
            // Rather than none at all one whose answer may still come, if somebody starts a server that was stopped.
            None if again => requests.iter().position(|one| one.state == State::Late).ok_or(Error::Busy)? as u32,
            _ => all as u32,
        };
        let head = request::head(to.identity, tag, method);
        let loan = match lend {
            0 => to.post.send(head, words, Some(self.post)).map(|()| 0),
            _ => to.post.send_lending(head, words, lend, self.post, FOR_EVER),
        };
        let loan = loan?;
        to.under_way += 1;
        let request = Request::new(head, server, to.watches, loan);
        if again {
            free.pop_front();
            requests[tag as usize] = request;
        } else {
            requests.push(request);
        }
        Ok(tag)
    }

    /// The answer, if it is here: then the tag is nobody's any more.
    pub(crate) fn take(&self, tag: u32) -> Option<Came> {
        self.inside.borrow_mut().take(tag)
    }

    /// Nobody wants the answer to what was lent with a message. Whether it comes no more, and the server has nothing of that.
    pub(crate) fn cancel(&self, tag: u32) -> bool {
        let loan = self.inside.borrow().loan(tag);
        let is_over = loan != 0 && post::cancel(loan).is_ok();
        if is_over {
            self.inside.borrow_mut().cancelled(tag);
        }
        is_over
    }

    /// Nobody wants the answer.
    pub(crate) fn forget(&self, tag: u32) {
        self.inside.borrow_mut().forget(tag);
    }

    fn came(&self, message: &Message) {
        self.inside.borrow_mut().came(message);
    }

    /// Takes what has come.
    pub(crate) fn look(&self) {
        while let Ok(message) = self.post.receive(0) {
            self.came(&message);
        }
    }

    /// Waits until something has come, until a moment (`u64::MAX`: for ever).
    ///
    /// # Errors
    /// `TimedOut`, `Killed`, `NotFound` if the own post is gone.
    pub(crate) fn receive(&self, until: u64) -> Result<(), Error> {
        let left = || if until == FOR_EVER { FOR_EVER } else { until.saturating_sub(time::now_ns()) };
        // Who waits for a short time again and again has no less patience, and no more.
        let patience_ns = self.inside.borrow().patience_ns();
        let ns = left().min(patience_ns);
        match self.post.receive(ns) {
            Ok(message) => self.came(&message),
            Err(Error::TimedOut) => {
                self.inside.borrow_mut().was_quiet(ns);
                match left() {
                    0 => return Err(Error::TimedOut),
                    ns => self.watch(ns)?,
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Waits for so long, or for less, asking for one of the requests if its server has received what it was asked before.
    fn watch(&self, ns: u64) -> Result<(), Error> {
        let now = time::now_ns();
        let next = 'next: {
            let inside = &mut *self.inside.borrow_mut();
            let (Some(at), several) = inside.next() else {
                break 'next Err(ns.min(inside.look_ns()));
            };
            let look_ns = inside.look_ns();
            let Request { head, server, .. } = inside.requests[at];
            let to = &mut inside.servers[server];
            let asks = to.may_ask(now);
            // The server may end before it has received what would tell of its end, and nobody take over: so it is looked for.
            let turn_ns = match asks {
                _ if several => TURN_NS,
                Some(false) if to.stands_at() == 0 => ns,
                Some(false) => look_ns,
                _ => TURN_NS,
            };
            let ns = ns.min(turn_ns);
            Ok((server, to.post, head, to.identity, ns, asks))
        };
        let (at, to, asked, identity, ns, asks) = match next {
            Ok(next) => next,
            Err(ns) => return self.wait(ns),
        };
        let outcome = match asks {
            None => section::info(to.0).and_then(|_| self.post.receive(ns)),
            Some(at_once) => {
                let before = self.asks(at, if at_once { Lies::Two(now) } else { Lies::One });
                let head = request::head(identity, request::WATCH, 0);
                let outcome = to.send_and_receive(head, [asked.into(), at_once.into(), 0, 0, 0, 0], self.post, ns);
                if !matches!(outcome, Ok(_) | Err(Error::TimedOut | Error::Killed)) {
                    // It was not sent, or its receiver has ended.
                    self.asks(at, before);
                }
                outcome
            }
        };
        match outcome {
            Ok(message) => self.came(&message),
            Err(Error::TimedOut) => {
                if self.inside.borrow_mut().was_quiet(ns) {
                    self.look_for_all();
                }
            }
            Err(error @ Error::Killed) => return Err(error),
            Err(error) => {
                let gone = matches!(error, Error::Dead | Error::NotFound) || section::info(to.0).is_err();
                // What it has answered before is here.
                self.look();
                if gone {
                    self.inside.borrow_mut().lost(at, false);
                }
                // The own post may be what is gone.
                section::info(self.post.0)?;
            }
        }
        Ok(())
    }

    /// Waits so long. Of what is under way the kernel says how it ends, but for what lies at a server that will not be there again.
    fn wait(&self, ns: u64) -> Result<(), Error> {
        match self.post.receive(ns) {
            Ok(message) => self.came(&message),
            Err(Error::TimedOut) => {
                if self.inside.borrow_mut().was_quiet(ns) {
                    self.look_for_all();
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// What lies at the posts of servers that will not be there again is received by nobody.
    fn look_for_all(&self) {
        let all = self.inside.borrow().servers.len();
        for server in (0..all).filter(|server| self.is_given_up(*server)) {
            self.look();
            self.inside.borrow_mut().lost(server, true);
        }
    }

    /// Whether a server that somebody waits for is not there, and whoever restarts it says that it will not be.
    fn is_given_up(&self, server: usize) -> bool {
        let (stands_at, under_way) = {
            let one = &self.inside.borrow().servers[server];
            (one.stands_at(), one.under_way)
        };
        under_way > 0 && stands_at != 0 && section::info(stands_at).is_err() && service::is_given_up(stands_at)
    }

    /// A server is asked for a request: what may lie there then. Value: what did before.
    fn asks(&self, server: usize, lies: Lies) -> Lies {
        let to = &mut self.inside.borrow_mut().servers[server];
        to.watches = to.watches.wrapping_add(1);
        core::mem::replace(&mut to.lies, lies)
    }

    /// Runs something that waits for answers to requests of here, one step after each message.
    ///
    /// # Errors
    /// `NotFound`: it waits for something else; `Killed`.
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, Error> {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
                return Ok(value);
            }
            let is_away = self.inside.borrow().away > 0;
            if self.under_way() == 0 && !is_away {
                return Err(Error::NotFound);
            }
            // Who is to be sent again looks at times whether its server is there.
            match self.receive(if is_away { time::now_ns() + PAUSE_NS } else { FOR_EVER }) {
                Err(Error::TimedOut) if is_away => {}
                outcome => outcome?,
            }
        }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        let _ = self.post.free(true);
    }
}

/// All of these at once; the values in their order.
pub fn join_all<F: Future + Unpin>(futures: impl IntoIterator<Item = F>) -> JoinAll<F> {
    let all: Vec<_> = futures.into_iter().map(|future| (Some(future), None)).collect();
    JoinAll { left: all.len(), all }
}

/// See [`join_all`].
#[derive(Debug)]
pub struct JoinAll<F: Future> {
    all: Vec<(Option<F>, Option<F::Output>)>,
    left: usize,
}

impl<F: Future> Unpin for JoinAll<F> {}

impl<F: Future + Unpin> Future for JoinAll<F> {
    type Output = Vec<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Vec<F::Output>> {
        let JoinAll { all, left } = &mut *self;
        for (future, value) in all.iter_mut() {
            if let Some(one) = future
                && let Poll::Ready(done) = Pin::new(one).poll(context)
            {
                (*future, *value) = (None, Some(done));
                *left -= 1;
            }
        }
        if *left > 0 {
            return Poll::Pending;
        }
        Poll::Ready(all.drain(..).filter_map(|(_, value)| value).collect())
    }
}
