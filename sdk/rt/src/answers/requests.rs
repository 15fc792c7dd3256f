//! Which requests are under way, to whom, and what is known of those: what of [`super::Answers`] asks nobody but for whose text one is.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{DOUBTS, LOST_NS, PATIENCE_NS, TURN_NS};
use crate::later::again::Came;
use crate::later::way_back::WayBack;
use crate::post::{self, Message, Post};
use crate::{request, section};

/// A server that has not answered for long is looked for after as long again, and after so long at the most.
const LOOK_NS: u64 = 1_600_000_000;

#[derive(Debug, Default)]
pub(super) struct Inside {
    /// By tag.
    pub requests: Vec<Request>,
    /// Tags that nobody uses, the one used longest ago first.
    pub free: VecDeque<u32>,
    pub servers: Vec<Server>,
    /// The request that is to be asked for next.
    pub turn: usize,
    /// For how long it was waited in vain since an answer came last, or word that there may never be one.
    pub quiet_ns: u64,
    pub strangers: u64,
    /// Requests that are to be sent when their servers are there, and how often one was lost with a server and is sent again.
    pub away: u32,
    pub again: u64,
}

#[derive(Debug)]
pub(super) struct Request {
    pub head: u32,
    pub server: usize,
    pub state: State,
    /// How often its server did not know of it.
    pub doubts: u32,
    /// What was sent to its server before it: see [`Server`].
    pub watches: u32,
    /// It may lie there, and be answered when somebody begins to receive: so its tag is nobody else's.
    pub may_lie: bool,
    /// What was lent with it, of which the kernel says how it ends; 0: nothing.
    loan: u64,
}

impl Request {
    pub fn new(head: u32, server: usize, watches: u32, loan: u64) -> Request {
        Request { head, server, state: State::UnderWay, doubts: 0, watches, may_lie: false, loan }
    }

    pub fn is_under_way(&self) -> bool {
        matches!(self.state, State::UnderWay | State::Forgotten)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    UnderWay,
    /// Under way, and nobody wants the answer.
    Forgotten,
    Came(Came),
    /// Lost, and its answer may come all the same.
    Late,
}

/// Somebody to whom requests are sent.
#[derive(Debug)]
pub(super) struct Server {
    pub post: Post,
    pub identity: u32,
    /// The text that answers; 0: nobody knows yet.
    pub text: u64,
    /// Of which program that is an instance; 0: whoever may send here.
    pub original: u64,
    /// The task that has answered last; 0: none has.
    pub task: u64,
    /// Where it may be bound to, to lend something to the next one; none: nobody knows where its gates are.
    pub way_back: Option<Arc<WayBack>>,
    pub under_way: u32,
    /// How often it was asked for a request, and what of that may lie there.
    pub watches: u32,
    pub lies: Lies,
    /// See [`LOST_NS`].
    pub lost_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lies {
    Nothing,
    /// One that is received without a word.
    One,
    /// That, and one that is answered when it is received, sent at that moment.
    Two(u64),
}

impl Server {
    pub fn new(post: Post, identity: u32, text: u64, original: u64) -> Server {
        Server {
            post,
            identity,
            text,
            original,
            task: 0,
            way_back: None,
            under_way: 0,
            watches: 0,
            lies: Lies::Nothing,
            lost_ns: LOST_NS,
        }
    }

    /// Its gate or, where nobody knows that, its text; 0: that is not known either.
    pub fn stands_at(&self) -> u64 {
        self.way_back.as_ref().map_or(self.text, |way| way.service().gate())
    }

    /// What was sent there has been received.
    fn has_received(&mut self) {
        (self.lies, self.lost_ns) = (Lies::Nothing, LOST_NS);
    }

    /// Whether it may be asked for a request now, and whether it is to answer at once.
    pub fn may_ask(&mut self, now: u64) -> Option<bool> {
        match self.lies {
            Lies::Nothing => Some(false),
            Lies::One => Some(true),
            Lies::Two(since) if now.saturating_sub(since) < self.lost_ns => None,
            Lies::Two(_) => {
                self.lost_ns = self.lost_ns.saturating_mul(2);
                Some(true)
            }
        }
    }

    /// Whether an answer is from there. Another instance of the program may have taken over.
    fn has_sent(&mut self, text: u64) -> bool {
        if self.text != text {
            if self.original != 0 && !section::info(text).is_ok_and(|info| info.original == self.original) {
                return false;
            }
            self.text = text;
        }
        true
    }
}

impl Inside {
    pub fn came(&mut self, message: &Message) {
        if message.lost().is_some() {
            return self.loan_lost(message.op, message.back);
        }
        let [status, first, second, ..] = message.words;
        // Of the request that it was asked for a server says whether it knows of it.
        let (identity, tag, _) = request::of_head(message.op);
        let told = tag == request::WATCH;
        let unknown = told && second != request::KNOWN;
        let head = if told { first as u32 } else { message.op };
        let tag = request::of_head(head).1;
        let Inside { requests, servers, strangers, .. } = self;
        // What ends a loan names it, by the kernel's word. Nothing else does, whatever its receiver says: it has the memory until then.
        let is_its = |one: &Request| one.loan == 0 || !told && message.back == one.loan;
        let is_open = |one: &Request| one.is_under_way() || !told && one.state == State::Late;
        let is_meant = |one: &&mut Request| one.head == head && is_its(one) && is_open(one);
        let found = requests.get_mut(tag as usize).filter(is_meant);
        let Some(one) = found.filter(|one| servers[one.server].has_sent(message.text)) else {
            // A server may speak of a request whose answer is on the way, or here.
            let mut late = false;
            for server in servers.iter_mut().filter(|server| told && server.text == message.text) {
                late = true;
                if server.identity == identity {
                    server.has_received();
                }
            }
            *strangers += u64::from(!late);
            return;
        };
        // What was sent before what it has received it has received, too.
        let server = &mut servers[one.server];
        server.task = message.task;
        if told || one.watches == server.watches {
            server.has_received();
        }
        // Who is doubted is given time before he is asked again.
        if !told || unknown {
            self.quiet_ns = 0;
        }
        if !told && one.state == State::Late {
            self.rest(tag);
        } else if !told {
            self.end(tag, Came::Answer(request::values_of([status, first, second]), message.task));
        } else if unknown && one.doubts + 1 == DOUBTS {
            self.end(tag, Came::Lost);
        } else if unknown {
            one.doubts += 1;
        }
    }

    /// What was lent with a request is over, without an answer.
    fn loan_lost(&mut self, head: u32, loan: u64) {
        let tag = request::of_head(head).1;
        match self.requests.get(tag as usize).filter(|one| one.head == head && one.loan == loan) {
            Some(one) if one.is_under_way() => self.end(tag, Came::Lost),
            Some(one) if one.state == State::Late => self.rest(tag),
            _ => {}
        }
    }

    /// What was lent with a request.
    pub fn loan(&self, tag: u32) -> u64 {
        self.requests[tag as usize].loan
    }

    /// It was taken back: nothing comes of the request any more.
    pub fn cancelled(&mut self, tag: u32) {
        let one = &mut self.requests[tag as usize];
        if one.is_under_way() {
            one.state = State::Forgotten;
            self.end(tag, Came::Lost);
        } else {
            self.take(tag);
        }
    }

    /// A request is not under way any more.
    fn end(&mut self, tag: u32, came: Came) {
        let one = &mut self.requests[tag as usize];
        self.servers[one.server].under_way -= 1;
        if one.state == State::Forgotten {
            self.rest(tag);
        } else {
            one.state = State::Came(came);
        }
    }

    /// What has come of a request, if that is known: then the tag is nobody's any more.
    pub fn take(&mut self, tag: u32) -> Option<Came> {
        let State::Came(came) = self.requests[tag as usize].state else { return None };
        self.rest(tag);
        Some(came)
    }

    /// Nobody wants the answer.
    pub fn forget(&mut self, tag: u32) {
        if self.take(tag).is_none() {
            self.requests[tag as usize].state = State::Forgotten;
        }
    }

    /// Nobody uses a tag any more, but for an answer that may come.
    fn rest(&mut self, tag: u32) {
        let one = &mut self.requests[tag as usize];
        if core::mem::take(&mut one.may_lie) {
            one.state = State::Late;
        } else {
            one.state = State::Free;
            self.free.push_back(tag);
        }
    }

    /// The request that is to be asked for now, and whether there are others.
    pub fn next(&mut self) -> (Option<usize>, bool) {
        let count = self.requests.len();
        let asked = |at: &usize| self.requests[*at].is_under_way() && self.requests[*at].loan == 0;
        let mut all = (self.turn..self.turn + count).map(|n| n % count).filter(asked);
        let (at, several) = (all.next(), all.next().is_some());
        self.turn = at.map_or(0, |at| at + 1);
        (at, several)
    }

    /// The server has ended: what it has not answered it never will; `may_lie`: unless somebody starts it after all, and it lies there.
    pub fn lost(&mut self, server: usize, may_lie: bool) {
        for tag in 0..self.requests.len() {
            let one = &mut self.requests[tag];
            if one.server == server && one.is_under_way() {
                // Who receives it all the same is lent nothing.
                let is_void = one.loan != 0 && post::cancel(one.loan).is_ok();
                one.may_lie = may_lie && !is_void;
                self.end(tag as u32, Came::Lost);
            }
        }
    }

    /// How long it is waited before the servers are looked for.
    pub fn patience_ns(&self) -> u64 {
        PATIENCE_NS.saturating_sub(self.quiet_ns)
    }

    /// And after that, before the next look.
    pub fn look_ns(&self) -> u64 {
        self.quiet_ns.clamp(TURN_NS, LOOK_NS)
    }

    /// It was waited in vain for so long. Value: whether for so long by now that it is asked whether the server comes back.
    pub fn was_quiet(&mut self, ns: u64) -> bool {
        self.quiet_ns = self.quiet_ns.saturating_add(ns);
        self.quiet_ns >= TURN_NS
    }
}

#[cfg(test)]
mod tests;
