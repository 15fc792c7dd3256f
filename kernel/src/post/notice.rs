//! Messages that an event is (K1-44): an interrupt, ends of tasks, a moment. Whoever has the event keeps the notice, the pool has the rules.

use super::{account, pool, with};
use crate::domain::Domain;
use crate::machine::machine;
use crate::processor::here;
use crate::section::Section;
use crate::thread::Thread;
use abi::task::USER_SYSTEM;
use abi::{Error, Rights};
use ::post::{Caller, Notice, Sender, Woken};
use alloc::sync::Arc;
use spin::Mutex;

/// Binds a message of the device behind section `from` to a post; the owner of the executing text pays for its slot.
pub fn bind(thread: &Thread, d: &Domain, post: u64, op: u64, from: u64) -> Result<Notice, Error> {
    let account = account(&d.text.owner())?;
    let from = Sender { thread: 0, task: 0, user: USER_SYSTEM, place: from | machine().node };
    with(thread, d, &[(post, Rights::READ)], |by, permits| pool().bind(&permits[0], &Caller { account, ..*by }, op, from))
}

/// It has come. Who is to be woken for it.
pub fn notify(notice: &Notice) -> Result<Option<Woken>, Error> {
    pool().notify(notice)
}

pub fn unbind(notice: Notice) {
    pool().unbind(notice, here().index);
}

/// The message that an event is to a post.
pub struct Bound {
    pub notice: Notice,
    /// Whose it is.
    pub text: Arc<Section>,
}

impl Bound {
    pub fn is_of_another(&self, domain: &Domain) -> bool {
        !core::ptr::eq(&*self.text, &*domain.text) && !self.text.is_dead()
    }
}

/// An event of the kernel's own that a program may hear of.
pub struct Bell(Mutex<Option<Bound>>);

impl Bell {
    pub const fn new() -> Bell {
        Bell(Mutex::new(None))
    }

    /// Whether the executing text has bound it.
    pub fn is_of(&self, domain: &Domain) -> bool {
        self.0.lock().as_ref().is_some_and(|bound| core::ptr::eq(&*bound.text, &*domain.text))
    }

    /// From now on it is a message to that post; once at once, so that nothing that came before is overlooked.
    pub fn bind(&self, thread: &Thread, domain: &Domain, post: u64, op: u64) -> Result<u64, Error> {
        if op > u64::from(u32::MAX) {
            return Err(Error::BadArgument);
        }
        let notice = if post == 0 { None } else { Some(bind(thread, domain, post, op, 0)?) };
        let mut bound = self.0.lock();
        if bound.as_ref().is_some_and(|bound| bound.is_of_another(domain)) {
            drop(bound);
            notice.into_iter().for_each(unbind);
            return Err(Error::Busy);
        }
        let old = core::mem::replace(&mut *bound, notice.map(|notice| Bound { notice, text: domain.text.clone() }));
        drop(bound);
        old.into_iter().for_each(|old| unbind(old.notice));
        if domain.text.is_dead() {
            // It may have been looked for before.
            self.text_ended(&domain.text);
        }
        self.ring();
        Ok(0)
    }

    /// It has come.
    pub fn ring(&self) {
        let mut bound = self.0.lock();
        match bound.as_ref().map(|bound| notify(&bound.notice)) {
            Some(Ok(woken)) => {
                drop(bound);
                woken.into_iter().for_each(super::wake);
            }
            Some(Err(_)) => {
                // That post is gone.
                let gone = bound.take();
                drop(bound);
                gone.into_iter().for_each(|bound| unbind(bound.notice));
            }
            None => {}
        }
    }

    /// Who has bound it hears of it no more.
    pub fn text_ended(&self, text: &Section) {
        let gone = self.0.lock().take_if(|bound| core::ptr::eq(&*bound.text, text));
        gone.into_iter().for_each(|bound| unbind(bound.notice));
    }
}
