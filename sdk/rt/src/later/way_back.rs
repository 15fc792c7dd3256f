//! What is passed by pointer to a server that was restarted: it is lent to the one that stands there now.

use abi::Error;
use alloc::boxed::Box;
use alloc::sync::Arc;

use super::again::Sender;
use crate::answers::Answers;
use crate::lend::{Part, Slice, marks};
use crate::section;
use crate::service::{self, Held, Service};
use crate::sync::Mutex;

/// The gates of a server that is restarted where it stood, and what its interface is.
#[derive(Debug)]
pub(crate) struct WayBack {
    service: Service,
    methods: u64,
    identity: u32,
    /// The binding by which the server was told that its argument section may be named, and whether its threads may use that though no message lends it.
    told: Mutex<Option<(Arc<Held>, bool)>>,
}

impl WayBack {
    pub fn new(service: Service, methods: u64, identity: u32) -> WayBack {
        WayBack { service, methods, identity, told: Mutex::new(None) }
    }

    pub fn service(&self) -> &Service {
        &self.service
    }

    /// A binding to the server that stands there now, of which it knows that messages may name what is lent by it, each by itself or all.
    pub fn binding(&self, lends_each: bool) -> Result<Arc<Held>, Error> {
        let held = self.service.try_held()?;
        let bound = held.bound()?;
        let mut told = self.told.lock();
        let known = told.as_ref().filter(|told| Arc::ptr_eq(&told.0, &held)).map(|told| told.1);
        let is_told = known.is_some_and(|all| all || lends_each);
        let outcome = match section::owner(bound.binding().text) {
            Ok(task) if task == held.task && is_told => Ok(()),
            Ok(task) if task == held.task && lends_each => bound.lending_post_of(self.methods, self.identity).map(drop),
            Ok(task) if task == held.task => bound.post_of(self.methods, self.identity).map(drop),
            _ => Err(Error::Dead),
        };
        *told = outcome.is_ok().then(|| (held.clone(), !lends_each || known == Some(true)));
        if outcome.is_err() {
            self.service.forget(&held);
        }
        outcome.map(|()| held)
    }
}

/// The task that stands at a server's gate; 0: none.
pub(crate) fn stands_there(answers: &Answers, server: usize) -> u64 {
    answers.gate(server).and_then(|gate| section::info(gate).ok()).map_or(0, |text| text.owner)
}

/// A request by message, as it was made.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub answers: &'a Answers,
    pub server: usize,
    pub method: u64,
    /// Where something is passed by pointer, the address is filled in when it is lent.
    pub words: [u64; 6],
    pub slices: Box<[Slice<'a>]>,
    /// What they point to is lent with each message.
    pub lends_each: bool,
    /// What is lent to a server that came later than the client's own binding.
    lent: Option<(Arc<Held>, Part)>,
}

impl<'a> Request<'a> {
    pub fn new(
        answers: &'a Answers,
        server: usize,
        method: u64,
        words: [u64; 6],
        slices: Box<[Slice<'a>]>,
    ) -> Request<'a> {
        Request { answers, server, method, words, slices, lends_each: false, lent: None }
    }

    /// It is over, and has an answer: what was written to copies comes back.
    pub fn is_answered(&mut self) {
        if let Some((held, part)) = self.lent.take()
            && let Ok(bound) = held.bound()
        {
            bound.loans().take_back(part, &mut self.slices);
        }
    }

    /// It is over without an answer, or is sent again.
    pub fn is_lost(&mut self) {
        if let Some((held, part)) = self.lent.take()
            && let Ok(bound) = held.bound()
        {
            bound.loans().take_back(part, &mut []);
        }
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        self.is_lost();
    }
}

impl Sender for Request<'_> {
    fn is_back(&mut self, ns: u64) -> Result<(), Error> {
        service::is_back(self.answers.gate(self.server).ok_or(Error::Dead)?, ns)
    }

    fn send(&mut self) -> Result<(u32, u64), Error> {
        let (mut words, mut lent_to) = (self.words, 0);
        if self.slices.iter().any(|slice| !slice.is_empty()) {
            let held = self.answers.binding(self.server, self.lends_each)?;
            let part = held.bound()?.loans().lend_copies(&mut words, &self.slices)?;
            lent_to = held.task;
            self.lent = part.map(|part| (held, part));
        }
        let lend = if self.lends_each { marks(&words, &self.slices) } else { Ok(0) };
        let sent = lend.and_then(|lend| self.answers.begin(self.server, self.method, words, lend));
        if sent.is_err() {
            self.is_lost();
        }
        sent.map(|tag| (tag, lent_to))
    }
}
