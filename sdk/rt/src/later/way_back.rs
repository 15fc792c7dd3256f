//! What is passed by pointer to a server that was restarted: it is lent to the one that stands there now.

use abi::Error;
use alloc::boxed::Box;
use alloc::sync::Arc;

use super::again::Sender;
use crate::answers::Answers;
use crate::lend::{Part, Slice};
use crate::section;
use crate::service::{self, Held, Service};
use crate::sync::Mutex;

/// The gates of a server that is restarted where it stood, and what its interface is.
#[derive(Debug)]
pub(crate) struct WayBack {
    service: Service,
    methods: u64,
    identity: u32,
    /// The binding by which the server was told that its argument section may be named.
    told: Mutex<Option<Arc<Held>>>,
}

impl WayBack {
    pub fn new(service: Service, methods: u64, identity: u32) -> WayBack {
        WayBack { service, methods, identity, told: Mutex::new(None) }
    }

    pub fn service(&self) -> &Service {
        &self.service
    }

    /// A binding to the server that stands there now, of which it knows that messages may name what is lent by it.
    pub fn binding(&self) -> Result<Arc<Held>, Error> {
        let held = self.service.try_held()?;
        let bound = held.bound()?;
        let mut told = self.told.lock();
        let is_told = told.as_ref().is_some_and(|told| Arc::ptr_eq(told, &held));
        let outcome = match section::owner(bound.binding().text) {
            Ok(task) if task == held.task && is_told => Ok(()),
            Ok(task) if task == held.task => bound.post_of(self.methods, self.identity).map(drop),
            _ => Err(Error::Dead),
        };
        *told = outcome.is_ok().then(|| held.clone());
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
        Request { answers, server, method, words, slices, lent: None }
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
            let held = self.answers.binding(self.server)?;
            let part = held.bound()?.loans().lend_copies(&mut words, &self.slices)?;
            lent_to = held.task;
            self.lent = part.map(|part| (held, part));
        }
        let sent = self.answers.begin(self.server, self.method, words);
        if sent.is_err() {
            self.is_lost();
        }
        sent.map(|tag| (tag, lent_to))
    }
}
