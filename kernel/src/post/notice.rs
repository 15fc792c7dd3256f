//! Messages that an event is (K1-44): an interrupt, ends of tasks, a moment. Whoever has the event keeps the notice, the pool has the rules.

use super::{account, pool, with};
use crate::domain::Domain;
use crate::machine::machine;
use crate::processor::here;
use crate::section::Section;
use crate::thread::Thread;
use abi::task::USER_SYSTEM;
use abi::{Error, Rights};
use ::post::{Caller, Notice, Permit, Sender, Woken};
use alloc::sync::Arc;
use spin::Mutex;

/// The message that an event is to a post, from when it is made until nobody knows it any more: who has the event takes it in hand without a lock.
pub struct Bound {
    notice: Option<Notice>,
    /// Whose it is.
    pub text: Arc<Section>,
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.notice.take().into_iter().for_each(|notice| pool().unbind(notice, here().index));
    }
}

impl Bound {
    /// A message of the device behind section `from` to a post, 0: none; the owner of the executing text pays for its slot.
    pub fn new(thread: &Thread, d: &Domain, post: u64, op: u64, from: u64) -> Result<Option<Arc<Bound>>, Error> {
        if op > u64::from(u32::MAX) {
            return Err(Error::BadArgument);
        }
        if post == 0 {
            return Ok(None);
        }
        let account = account(&d.text.owner())?;
        let from = Sender { thread: 0, task: 0, user: USER_SYSTEM, place: from | machine().node };
        let bind = |by: &Caller, permits: &[Permit]| pool().bind(&permits[0], &Caller { account, ..*by }, op, from);
        let notice = with(thread, d, &[(post, Rights::READ)], bind)?;
        Ok(Some(Arc::new(Bound { notice: Some(notice), text: d.text.clone() })))
    }

    /// It has come. Who is to be woken for it.
    ///
    /// # Errors
    /// `NotFound`: that post is gone.
    pub fn notify(&self) -> Result<Option<Woken>, Error> {
        let came = self.notice.as_ref().map_or(Err(Error::NotFound), |notice| pool().notify(notice));
        if came.is_ok() {
            arch::percpu::count_message();
        }
        came
    }

    pub fn is_of_another(&self, domain: &Domain) -> bool {
        !core::ptr::eq(&*self.text, &*domain.text) && !self.text.is_dead()
    }
}

/// Takes out what is bound there if it is this one.
pub fn take(place: &Mutex<Option<Arc<Bound>>>, one: &Arc<Bound>) -> Option<Arc<Bound>> {
    place.lock().take_if(|bound| Arc::ptr_eq(bound, one))
}

/// An event of the kernel's own that a program may hear of.
pub struct Bell(Mutex<Option<Arc<Bound>>>);

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
        let new = Bound::new(thread, domain, post, op, 0)?;
        let old = {
            let mut bound = self.0.lock();
            if bound.as_ref().is_some_and(|bound| bound.is_of_another(domain)) {
                return Err(Error::Busy);
            }
            core::mem::replace(&mut *bound, new)
        };
        drop(old);
        if domain.text.is_dead() {
            // It may have been looked for before.
            self.text_ended(&domain.text);
        }
        self.ring();
        Ok(0)
    }

    /// It has come.
    pub fn ring(&self) {
        let bound = self.0.lock().clone();
        let Some(bound) = bound else { return };
        match bound.notify() {
            Ok(woken) => woken.into_iter().for_each(super::wake),
            Err(_) => drop(take(&self.0, &bound)),
        }
    }

    /// Who has bound it hears of it no more.
    pub fn text_ended(&self, text: &Section) {
        let gone = self.0.lock().take_if(|bound| core::ptr::eq(&*bound.text, text));
        drop(gone);
    }
}
