//! Calls that the one in the seat makes while it decides: interrupts to drivers, by EPC and without a switch of threads
//! (CUBIX-45, U10). A driver that takes too long, or waits, loses the call and not the scheduler its seat.

use super::{Office, dismiss};
use crate::epc;
use crate::processor::{Processor, here};
use crate::sched;
use crate::section::Section;
use crate::thread::Thread;
use abi::Error;
use abi::sched::{Event, event, ready};
use crate::machine::machine;
use ::sched::{Beat, Phase, Reason, Weight};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

impl Office {
    /// Tells of an interrupt whose handler is behind `gate`. Whether there is somebody to call it.
    pub fn tell_interrupt(&self, here: &Processor, vector: u8, section: u64, gate: u64) -> bool {
        let event = Event { kind: event::INTERRUPT, detail: u32::from(vector), thread: 0, a: section, b: gate };
        let told = self.tell(event, Weight::Once).is_some();
        if told {
            here.make_room();
        }
        told
    }

    /// A beat on its processor at time `now`, at which it decides. `current` runs here.
    pub fn beat(&self, current: Option<&Arc<Thread>>, on_time: bool, now: u64) {
        let errand = current.and_then(|thread| self.errand(thread));
        let beat = {
            let mut inner = self.inner.lock();
            let beat = inner.seat.beat(errand.as_ref().map(|errand| errand.number), on_time, now);
            if beat == Beat::Late {
                inner.wrong.get_or_insert(Reason::Slow);
            }
            match (beat, &errand) {
                // In the middle of a call of its own to the kernel, which goes on with who it is and where.
                (Beat::Recall, Some(errand)) if here().breaths.load(Ordering::Relaxed) > 0 => {
                    inner.seat.recalls_later(errand.number);
                    Beat::Fine
                }
                _ => beat,
            }
        };
        if let (Beat::Recall, Some(errand), Some(thread)) = (beat, errand, current) {
            recall(thread, &errand);
        }
    }

    /// What was found out about the one who sits here, on the processor whose seat it is. `current` runs here.
    /// Whether anything was done about it.
    pub fn check(&self, here: &Processor, current: Option<&Arc<Thread>>) -> bool {
        let (wrong, stuck) = {
            let inner = self.inner.lock();
            let Some(holder) = inner.seat.holder() else { return false };
            let current = current.filter(|thread| thread.number == holder.thread.number);
            let stuck = |thread: &&Arc<Thread>| {
                let wait = thread.wait.lock();
                // Or somebody was quick to wake it.
                let is_woken = || wait.life.phase() == Phase::Ready && !thread.is_killed();
                wait.ticket != holder.ticket && (wait.life.phase() == Phase::Waiting || is_woken())
            };
            (inner.wrong, current.filter(stuck))
        };
        match (wrong, stuck) {
            (Some(why), _) => dismiss(here, why),
            (None, Some(thread)) => match self.errand(thread) {
                Some(errand) => {
                    end_wait(here, thread);
                    recall(thread, &errand);
                }
                None => dismiss(here, Reason::Waited),
            },
            (None, None) => return false,
        }
        true
    }

    /// The call that the one in the seat is in, if `thread` is that and not in its own text.
    fn errand(&self, thread: &Thread) -> Option<Errand> {
        let text = {
            let inner = self.inner.lock();
            let holder = inner.seat.holder().filter(|holder| holder.thread.number == thread.number)?;
            holder.text.clone()
        };
        let inner = thread.inner.lock();
        let number = inner.gate.calls(inner.domain.number);
        (!Arc::ptr_eq(&inner.domain.text, &text)).then_some(Errand { text, number })
    }
}

struct Errand {
    /// Whose it is: the scheduler's.
    text: Arc<Section>,
    /// How often the thread has called where it is.
    number: u64,
}

/// The scheduler goes on, with an error from its call.
fn recall(thread: &Arc<Thread>, errand: &Errand) {
    while !Arc::ptr_eq(&thread.domain().text, &errand.text) {
        if !epc::unwind(thread, Error::TimedOut) {
            return;
        }
    }
}

/// Whoever wakes it now comes too late, and who has woken it has only been quick: nobody else knows of that turn ([`is_disturbed`]).
fn end_wait(here: &Processor, thread: &Thread) {
    let mut wait = thread.wait.lock();
    if let Some((processor, key)) = wait.timer.take() {
        machine().processors[processor].timers(|timers| timers.cancel(key));
    }
    let turn = wait.life.turn();
    if wait.life.resume(here.index) || wait.life.claim(turn, here.index).is_ok() {
        thread.shows(abi::task::state::RUNNING);
    }
}

/// One who sits in a seat was made ready by somebody else: it is being killed, or its text has ended. Or it had begun to wait while it decides, in
/// a call of a driver, which its processor is about to see and deals with ([`Office::check`]). Whether it was such a thread.
pub fn is_disturbed(thread: &Arc<Thread>, turn: u64) -> bool {
    let Some(p) = machine().processors.get(thread.seat.load(Ordering::Relaxed)) else { return false };
    thread.processor.store(p.index, Ordering::Relaxed);
    let is_no_holder = {
        let inner = &mut *p.office.inner.lock();
        let holder = inner.seat.holder().filter(|holder| holder.thread.number == thread.number);
        let found = holder.map(|holder| {
            let wait = thread.wait.lock();
            // Its processor may have dealt with it by now, and it may even rest again.
            let is_over = wait.life.phase() != Phase::Ready || wait.life.turn() != turn;
            (is_over, wait.ticket != holder.ticket)
        });
        match found {
            Some((true, _)) => return true,
            Some((false, decides)) if decides && !thread.is_killed() => false,
            Some(_) => {
                inner.wrong.get_or_insert(Reason::Ended);
                p.queue.push((thread.clone(), turn));
                false
            }
            None => true,
        }
    };
    if is_no_holder {
        // It has not sat down yet, or is just being put out, and somebody else may sit there by now.
        sched::announce(p, thread.clone(), turn, ready::WOKEN);
    }
    p.make_room();
    p.poke();
    true
}
