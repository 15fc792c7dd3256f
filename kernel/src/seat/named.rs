//! `thread_next`: what the one in the seat says is to run, and how it comes to sit there.

use super::{Holder, show, shows_count};
use crate::domain::Domain;
use crate::line;
use crate::machine::machine;
use crate::pass;
use crate::processor::{Processor, here};
use crate::saved::Saved;
use crate::sched;
use crate::thread::Thread;
use abi::refusal::Object;
use abi::sched::{SeatInfo, ready};
use abi::task::state;
use abi::Error;
use ::sched::{Reason, Refused};
use alloc::sync::Arc;
use arch::time;
use core::mem::offset_of;
use core::sync::atomic::Ordering;

/// `thread_next`.
pub fn next(thread: Saved<'_>, d: &Domain, number: u64, turn: u64, ns: u64) {
    let refused = |error| thread.answer(Err(error));
    let Some(p) = machine().processors.get(thread.seat.load(Ordering::Relaxed)) else {
        return pass::next(&thread, d, number, turn, ns);
    };
    // Not from inside a call that it makes, which may lead back into its own text.
    let is_text = |holder: &Holder| {
        core::ptr::eq(&*holder.text, &*d.text) && holder.thread.number == thread.number && thread.inner.lock().depth() == 0
    };
    let sits = {
        let mut inner = p.office.inner.lock();
        if inner.seat.holder().is_some_and(is_text) {
            if p.index != here().index {
                // It has waited for something else, and somebody has named it elsewhere.
                inner.wrong.get_or_insert(Reason::Ended);
                drop(inner);
                return refused(Error::Changed);
            }
            // First: who tells it something from here on wishes for room after that, and the one that it names does not begin.
            p.take_make_room();
            let unread = inner.catch_up();
            if unread > 0 && inner.wrong.is_none() {
                // What it does not know yet may change its mind.
                drop(inner);
                return refused(Error::Busy);
            }
            true
        } else if inner.asked.as_ref().is_some_and(is_text) {
            false
        } else {
            drop(inner);
            return refused(d.subject.refused(Object::System));
        }
    };
    if !sits {
        return sit(thread, p, ns);
    }
    let named = match number {
        0 => None,
        _ => match claim(number, turn, p) {
            Ok(other) => Some(other),
            Err(error) => return refused(error),
        },
    };
    let mut inner = p.office.inner.lock();
    if !inner.seat.holder().is_some_and(|holder| holder.thread.number == thread.number) {
        drop(inner);
        // It was put out since the thread was claimed, which was not found among the ready.
        named.into_iter().for_each(|lost| sched::found(p, lost));
        return refused(Error::Changed);
    }
    let ticket = rest(thread);
    inner.seat.decided(named.is_some());
    let counts = inner.seat.counts();
    match named {
        Some(_) => shows_count(p.index, offset_of!(SeatInfo, named), counts.named),
        None => shows_count(p.index, offset_of!(SeatInfo, none), counts.none),
    }
    inner.answers(named, ns);
    if let Some(holder) = inner.seat.holder_mut() {
        holder.ticket = ticket;
    }
    if !thread.is_in_wait(ticket) {
        // Its text has ended meanwhile, and nobody could see that this wait is the one for its turn.
        inner.wrong.get_or_insert(Reason::Ended);
    }
    p.attend();
}

/// The one in the seat waits to be asked.
fn rest(thread: Saved<'_>) -> u64 {
    let mut wait = thread.wait.lock();
    wait.life.wait();
    thread.shows(state::WAITING);
    wait.ticket += 1;
    wait.ticket
}

/// Takes a turn of a thread for this processor, whose scheduler has named it.
///
/// # Errors
/// `Changed`: somebody was faster. `NotFound`: nobody can have heard of that; it is put out.
pub fn claim(number: u64, turn: u64, p: &Processor) -> Result<Arc<Thread>, Error> {
    claimed(number, turn, p).map_err(|why| {
        let mut inner = p.office.inner.lock();
        if let Err(reason) = inner.seat.missed(why) {
            inner.wrong.get_or_insert(reason);
            p.attend();
        }
        shows_count(p.index, offset_of!(SeatInfo, lost), inner.seat.counts().lost);
        if why == Refused::Taken { Error::Changed } else { Error::NotFound }
    })
}

fn claimed(number: u64, turn: u64, p: &Processor) -> Result<Arc<Thread>, Refused> {
    match machine().threads.find(number) {
        Some(other) => other.wait.lock().life.claim(turn, p.index).map(|()| other.clone()),
        None if machine().threads.has_been(number) => Err(Refused::Taken),
        None => Err(Refused::Never),
    }
}

/// Its first `thread_next`: from now on it decides, beginning with what is ready here.
fn sit(thread: Saved<'_>, p: &Processor, ns: u64) {
    let ticket = rest(thread);
    let mut queued = {
        let mut inner = p.office.inner.lock();
        let Some(holder) = inner.asked.take() else { return };
        inner.seat.sit(Holder { ticket, ..holder }, time::now());
        inner.ring.forget();
        let until = if ns == 0 { u64::MAX } else { time::now().saturating_add(ns) };
        (inner.named, inner.rests, inner.fresh, inner.until, inner.wrong) = (None, false, true, until, None);
        p.office.taken.store(true, Ordering::Release);
        show(p.index, &inner);
        arch::pass::set_scheduler(p.index, inner.seat.holder().map_or(0, |holder| holder.text.base));
        p.queue.empty()
    };
    // Who puts it out meanwhile finds those that are left in the table of threads, and they are told of twice: a turn is taken once.
    sched::in_stretches(core::iter::from_fn(|| queued.pop_front()), |(other, turn)| sched::announce(p, other, turn, ready::FOUND));
    if thread.is_killed() {
        p.office.accuse(Reason::Ended);
    }
    line::seats_changed();
    here().attend();
    p.make_room();
    p.poke();
}

