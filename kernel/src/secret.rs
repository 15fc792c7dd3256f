//! Domains that have touched a secret section (decision 13; pitfalls, H17). Branch predictors are forgotten whenever one is entered and left,
//! by a call, a return or a switch of threads. All of that goes by the kernel's long way, which sees both sides: no short way enters such a
//! domain, since what would lead there is not written down for it, and none leaves it, since its processor is to look around.

use crate::domain::Domain;
use crate::processor::{Processor, count};
use crate::thread::{Inner, Thread};
use arch::cpu;
use core::sync::atomic::Ordering;

impl Domain {
    #[inline]
    pub fn is_secret(&self) -> bool {
        self.secret.load(Ordering::SeqCst)
    }
}

impl Inner {
    /// Bound calls by the kernel into a domain that are made before one goes the long way, if only long ones are allowed.
    pub fn only_long_ways(&mut self, domain: &Domain) {
        if self.is_called_by_long_ways(domain) {
            self.gate.set_countdown(domain.number, 1);
        }
    }

    /// Whether only by long ones.
    pub fn is_called_by_long_ways(&self, domain: &Domain) -> bool {
        // Of an NSys text it may have to be waited for the group (place.rs).
        domain.is_secret() || domain.text.place.is_nsys() || self.has_borrowed(domain.number)
    }
}

/// The domain has touched a secret section. Call without locks.
pub fn touched(thread: &Thread, domain: &Domain) {
    domain.secret.store(true, Ordering::SeqCst);
    let inner = &mut *thread.inner.lock();
    inner.only_long_ways(domain);
    inner.comes_back_by_kernel(domain.number);
    inner.forget_plains_to(domain.number);
    // What was found by these for a short way is not so any more.
    inner.gate.are_changed();
}

/// The processor goes on in this domain.
#[inline]
pub fn goes_on(here: &Processor, before: &mut bool, domain: &Domain) {
    let secret = domain.secret.load(Ordering::Relaxed);
    if secret || *before {
        goes_on_apart(here, before, secret);
    }
}

#[cold]
fn goes_on_apart(here: &Processor, before: &mut bool, secret: bool) {
    cpu::forget_branches();
    count(&here.counters.barriers);
    *before = secret;
    if secret {
        // So whatever it enters the kernel by, it leaves it by this way.
        here.attend();
    }
}
