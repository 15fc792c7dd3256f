//! `call_scheduler`: what every thread may ask of the scheduler, whoever that is (CUBIX-56, 57).

use crate::domain::Domain;
use crate::line;
use crate::machine::machine;
use crate::pass;
use crate::processor::here;
use crate::saved::Saved;
use crate::sched;
use crate::seat::{NO_SEAT, wishes};
use crate::section::Section;
use crate::thread::Thread;
use crate::wait;
use crate::watch;
use ::sched::{Phase, Weight};
use abi::Error;
use abi::refusal::Object;
use abi::sched::{Event, PRIORITY_LOWEST, event, op};
use abi::task::USER_SYSTEM;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

/// `call_scheduler`.
pub fn serve(saved: Saved<'_>, d: &Domain, what: u64, a: u64, b: u64) {
    let thread: &Arc<Thread> = &saved;
    let result = match what {
        op::YIELD => {
            sched::give_way(saved);
            Ok(0)
        }
        op::SLEEP => return wait::sleep_until_woken(saved, b),
        op::WAKEUP => other(thread, d, a).map(|other| u64::from(wait::rouse(&other))),
        op::PASS => match other(thread, d, a) {
            Ok(other) => {
                wait::rouse(&other);
                return wait::sleep_until_woken(saved, b);
            }
            Err(error) => Err(error),
        },
        op::CALL_BACK => other(thread, d, a).map(|other| {
            u64::from(pass::call_back(&other))
        }),
        op::WATCH => watch::begin(thread, a),
        op::UNWATCH => watch::end(thread, a),
        op::PRIORITY if b > PRIORITY_LOWEST => Err(Error::BadArgument),
        op::PRIORITY => other(thread, d, a).and_then(|other| wishes::make(&other, b).map(|()| 0)),
        op::LOOK => look(thread, d, a),
        op::LEND => lend(saved, d, a),
        op::GIVE_BACK => line::give_back(d, a, b),
        // By its own program, not by one that it has called.
        op::SERVE if d.subject.user != USER_SYSTEM || thread.inner.lock().depth() > 0 => Err(d.subject.refused(Object::System)),
        op::SERVE => {
            thread.serves.store(true, Ordering::Relaxed);
            Ok(0)
        }
        _ => Err(Error::BadArgument),
    };
    thread.answer(result);
}

/// One scheduler has left something for another one to see.
fn look(thread: &Thread, d: &Domain, processor: u64) -> Result<u64, Error> {
    if thread.seat.load(Ordering::Relaxed) == NO_SEAT && !here().office.is_of(&d.text) {
        return Err(d.subject.refused(Object::System));
    }
    let p = usize::try_from(processor).ok().and_then(|index| machine().processors.get(index)).ok_or(Error::NotFound)?;
    let event = Event { kind: event::REQUEST, detail: op::LOOK as u32, ..Event::default() };
    p.office.tell(event, Weight::Light).ok_or(Error::NotSupported)?;
    p.make_room();
    p.poke();
    Ok(0)
}

/// Who holds what the caller waits for, in the same text, runs on the caller's turn (pitfall H13).
fn lend(thread: Saved<'_>, d: &Domain, address: u64) -> Result<u64, Error> {
    if thread.seat.load(Ordering::Relaxed) != NO_SEAT {
        return Ok(0);
    }
    let stack = Section::find(address).ok_or(Error::NotFound)?;
    // A stack for another text, too: it may run on its caller's.
    let of = stack.state.lock().stack.ok_or(Error::NotFound)?;
    let holder = machine().threads.find(of.thread).ok_or(Error::NotFound)?;
    let stands = || {
        let wait = holder.wait.lock();
        (wait.life.phase(), wait.life.turn(), wait.ticket, wait.life.is_parked())
    };
    let before = stands();
    let (phase, turn, _, parked) = before;
    if phase == Phase::Running {
        return Ok(0);
    }
    if !holder.executes(&d.text) {
        // If it has begun to run meanwhile, that says nothing.
        return if stands() == before { Err(Error::NotFound) } else { Ok(0) };
    }
    Ok(u64::from(phase == Phase::Ready && !parked && sched::lend(thread, &holder, turn)))
}

/// A thread that the caller may wake: one of its user, or one that watches it; the scheduler any.
fn other(thread: &Thread, d: &Domain, number: u64) -> Result<Arc<Thread>, Error> {
    let other = machine().threads.find(number).ok_or(Error::NotFound)?;
    if here().office.is_of(&d.text) {
        return Ok(other);
    }
    if other.watches.has(thread.number) || other.task.is_open_to(&thread.task) && other.task.is_open_to(&d.text.owner()) {
        Ok(other)
    } else {
        Err(d.subject.refused(Object::Thread(number)))
    }
}
