//! Passing the processor on (docs/decisions/0007): a thread that has called the scheduler by EPC names the next one itself,
//! and is put aside. The short way for that is `pass.S`; here is the long one, and what brings both together.

use crate::domain::Domain;
use crate::machine::machine;
use crate::processor::{Processor, here};
use crate::post;
use crate::sched;
use crate::seat;
use crate::thread::Thread;
use ::sched::Phase;
use abi::Error;
use abi::refusal::Object;
use abi::task::state;
use alloc::sync::Arc;
use arch::pass::{Lap, take_lap};
use core::sync::atomic::Ordering;

/// Writes down what the short way has done here since the last time. First thing on every entry, and before the processor
/// idles.
#[inline]
pub fn settle(here: &Processor) {
    match take_lap() {
        Some(lap) => settle_lap(here, lap),
        None => post::put_by::settle(here),
    }
}

/// Of one lap: those whose wait was over before it was written down. More are seldom.
const OVER: usize = 8;

#[inline(never)]
fn settle_lap(here: &Processor, lap: Lap) {
    let (mut over, mut count) = ([0; OVER], 0);
    for card in lap {
        let Some(thread) = machine().threads.find(card.number()) else { continue };
        thread.has_stopped(card.take_time());
        post::short::goes_on(&thread, here);
        let is_bearer = card.is_bearer();
        if let Some(registers) = card.take_parked() {
            {
                let inner = &mut *thread.inner.lock();
                *inner.area.registers_mut() = registers;
                inner.area.forget_vector_state();
                inner.sync();
            }
            thread.on_processor.store(false, Ordering::Release);
            let wanted = {
                let mut wait = thread.wait.lock();
                wait.life.park();
                thread.shows(state::READY);
                core::mem::take(&mut wait.woken)
            };
            // Looked at only now: who puts the scheduler out has found the thread, or is seen here.
            if wanted || thread.is_killed() || thread.falls.load(Ordering::SeqCst) || !here.office.is_taken() {
                unpark(&thread);
            }
        } else if is_bearer {
            let mut local = here.local.hold();
            local.switched_at = arch::pass::since();
            thread.runs_since(local.switched_at);
            local.current = Some(thread.clone());
        }
        if card.rests_at() == Some(here.index) {
            let is_over = post::short::rests(&thread, here, is_bearer);
            if is_over && count < OVER {
                over[count] = thread.number;
                count += 1;
            } else if is_over {
                sched::without_breath(here, || post::short::is_over(&thread));
            }
        }
    }
    post::put_by::settle(here);
    // What they had lent is taken back, and interrupts come in meanwhile, for which all of the lap has to be written down.
    over[..count].iter().filter_map(|number| machine().threads.find(*number)).for_each(|thread| post::short::is_over(&thread));
}

/// A thread that a scheduler has put aside is to run, whatever that has meant to do with it. Whether it was.
pub fn unpark(thread: &Arc<Thread>) -> bool {
    rouse(thread).is_some()
}

/// The same. By which turn.
pub fn rouse(thread: &Arc<Thread>) -> Option<u64> {
    let turn = thread.wait.lock().life.unpark()?;
    sched::ready(thread.clone(), turn);
    Some(turn)
}

/// The same for one that is about to be put aside, perhaps: on another processor, or on its way there. Whether it is ready now,
/// or will be as soon as it is put aside.
pub fn call_back(thread: &Arc<Thread>) -> bool {
    let (runs, goes_on, processor) = {
        let mut wait = thread.wait.lock();
        let phase = wait.life.phase();
        // A message has come: it may have gone on by the short way, on a processor that has not written that down.
        let goes_on = phase == Phase::Waiting && post::is_over(thread, wait.ticket);
        wait.woken |= phase == Phase::Running || goes_on;
        (phase == Phase::Running, goes_on, &machine().processors[thread.processor.load(Ordering::SeqCst)])
    };
    if goes_on {
        machine().processors.iter().for_each(Processor::look_around);
        return true;
    }
    if !runs {
        return unpark(thread);
    }
    processor.look_around();
    true
}

/// `thread_next` from a thread that executes the scheduler's text and does not sit in the seat: it is put aside, and the one
/// that it names goes on; with none named, the one in the seat is asked.
pub fn next(thread: &Arc<Thread>, d: &Domain, number: u64, turn: u64, ns: u64) {
    let here = here();
    let refused = |error| thread.answer(Err(error));
    if !here.office.is_of(&d.text) {
        return refused(d.subject.refused(Object::System));
    }
    if number != 0 {
        // What the scheduler does not know yet may change its mind. Nothing is done, so the one that it has named is still its
        // to queue.
        // A wish from before is taken back if there is nothing to hear of; one from here on is for whom it names.
        let wished = here.take_make_room();
        if here.office.has_news() || thread.wait.lock().woken || thread.is_killed() {
            if wished {
                here.make_room();
            }
            return refused(Error::Busy);
        }
    } else if core::mem::take(&mut thread.wait.lock().woken) {
        return thread.answer(Ok(0));
    } else if thread.is_killed() {
        return refused(Error::Killed);
    }
    let named = match number {
        0 => None,
        _ => match seat::claim(number, turn, here) {
            Ok(named) => Some(named),
            Err(error) => return refused(error),
        },
    };
    thread.answer(Ok(0));
    if let Some(named) = &named {
        named.card.card().remember();
    }
    if let Some(lost) = here.office.name(named, ns) {
        // The one in the seat has ended on another processor since the thread was claimed, which has not found it among the ready.
        sched::found(here, lost);
    }
    let card = thread.card.card();
    {
        let inner = thread.inner.lock();
        card.park(inner.area.registers(), d.number, d.text.base);
    }
    card.remember();
    here.attend();
}
