//! What happens at a moment that was set before.

use crate::alarm;
use crate::fault;
use crate::gate::{Binding, lent};
use crate::machine::machine;
use crate::pager;
use crate::post::{limit, loan};
use crate::processor::{Processor, here};
use crate::section::Section;
use crate::thread::{Thread, Wait};
use abi::Error;
use ::post::Question;
use ::sched::Phase;
use alloc::sync::{Arc, Weak};

/// What a timer does.
pub enum Timeout {
    Wake { thread: Arc<Thread>, ticket: u64, result: Result<u64, Error> },
    /// The thread's waits for messages, set for this moment: see [`crate::post::limit`].
    Message(Arc<Thread>, u64),
    /// What was lent with a message was lent until now: see [`loan`].
    Loan(Question),
    /// A killed thread's callee has had its time.
    Grace(Arc<Thread>),
    /// A text has had a while for a fault, or for a call of one that has ended.
    Fault(Weak<Thread>),
    /// What a binding has lent to a task may have served its purpose.
    Lent(Weak<Binding>, u64),
    /// The addresses that a binding had lent may be of use to nobody any more.
    Addresses(Arc<Binding>),
    /// Those of a section likewise.
    Passed(Arc<Section>),
    /// See [`alarm`].
    Alarm,
    /// Whether pagers take too long.
    Pagers(pager::Round),
}

/// Something to happen at `deadline` (ns since boot), on this processor.
pub fn at(deadline: u64, what: Timeout) -> (usize, ::sched::Key) {
    let here = here();
    let key = here.timers(|timers| timers.add(deadline, what));
    here.attend();
    (here.index, key)
}

/// Ends this wait of the thread with `result` at `deadline`, unless it is over already.
pub fn wake_at(deadline: u64, thread: &Arc<Thread>, ticket: u64, result: Result<u64, Error>) {
    let new = at(deadline, Timeout::Wake { thread: thread.clone(), ticket, result });
    keep(thread, ticket, new, |wait| &mut wait.timer);
}

/// The callee of a thread that is killed, or a text that has ended, has its time until `deadline`; this wait lasts no longer. Gone with the
/// wait: one who waits again and again has one such timer.
pub fn grace_until(deadline: u64, thread: &Arc<Thread>, ticket: u64) {
    let new = at(deadline, Timeout::Grace(thread.clone()));
    keep(thread, ticket, new, |wait| &mut wait.grace);
}

/// A timer stays as long as the wait that it was set for, in its place there.
fn keep(thread: &Thread, ticket: u64, new: (usize, ::sched::Key), place: impl FnOnce(&mut Wait) -> &mut Option<(usize, ::sched::Key)>) {
    let unused = {
        let mut wait = thread.wait.lock();
        let waits = wait.life.phase() == Phase::Waiting && wait.ticket == ticket;
        if waits { place(&mut wait).replace(new) } else { Some(new) }
    };
    if let Some((processor, key)) = unused {
        machine().processors[processor].timers(|timers| timers.cancel(key));
    }
}

/// So much is dealt with in one interrupt at most.
const AT_ONCE: usize = 16;

/// What is due on this processor; of much a part, and the timer comes again at once for the rest. So it does after each wait, or loan, of which something was taken
/// back: that takes as long as many others.
pub fn expire(here: &Processor, now: u64) {
    for _ in 0..AT_ONCE {
        let expired = here.timers(|timers| timers.expired(now));
        match expired {
            Some(Timeout::Wake { thread, ticket, result }) => {
                super::wake(&thread, ticket, result);
            }
            Some(Timeout::Message(thread, until)) if limit::rings(&thread, until, now) => break,
            Some(Timeout::Loan(one)) if loan::rings(one) => break,
            Some(Timeout::Message(..) | Timeout::Loan(_)) => {}
            Some(Timeout::Grace(thread)) => thread.grace_over(),
            Some(Timeout::Fault(thread)) => thread.upgrade().iter().for_each(fault::look_at),
            Some(Timeout::Addresses(binding)) => binding.is_over_perhaps(),
            Some(Timeout::Passed(section)) => lent::passed_perhaps(section),
            Some(Timeout::Lent(binding, task)) => binding.upgrade().into_iter().for_each(|binding| binding.is_due(task)),
            Some(Timeout::Alarm) => alarm::ring(),
            Some(Timeout::Pagers(round)) => pager::look(round),
            None => return,
        }
    }
    if here.next_timer().is_some_and(|next| next <= now) {
        // Also in the middle of a long call, whose way out would set it late.
        here.set_alarm(Some(now));
    }
}
