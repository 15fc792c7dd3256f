//! Changes of priority on their way to the one in the seat (CUBIX-56): asked for by anybody as often as he likes, told in its own time.

use super::{Inner, Office};
use crate::sched::in_stretches;
use crate::machine::machine;
use crate::thread::Thread;
use abi::Error;
use abi::sched::{Event, event, op};
use ::sched::{REST_NS, Weight};
use alloc::sync::Arc;
use arch::time;
use core::sync::atomic::Ordering;

/// The scheduler of the thread's processor is to hear that it should have this priority: now, if it has not heard of such things for a
/// beat, else a beat later.
///
/// # Errors
/// `NotSupported`: nobody sits there.
pub fn make(thread: &Thread, level: u64) -> Result<(), Error> {
    let p = &machine().processors[thread.processor.load(Ordering::Relaxed)];
    if !p.office.is_taken() {
        return Err(Error::NotSupported);
    }
    // In a flood no lock is taken that the one in the seat needs.
    if !thread.wish.set(level) {
        // Whoever is about to put it on the shelf may find nobody there any more, and takes this wish back with his own.
        return if p.office.is_taken() { Ok(()) } else { Err(Error::NotSupported) };
    }
    if !p.office.shelve(thread) {
        thread.wish.take();
        return Err(Error::NotSupported);
    }
    if p.office.is_due(time::now()) {
        p.make_room();
    }
    // It sets its alarm.
    p.attend();
    p.poke();
    Ok(())
}

impl Inner {
    /// When it is to be asked at the latest.
    pub(super) fn looks_at(&self) -> u64 {
        self.shelf.due().map_or(self.until, |due| due.min(self.until))
    }

    /// It has answered, for so long (0: as long as it has said before).
    pub(super) fn answers(&mut self, named: Option<Arc<Thread>>, ns: u64) {
        let now = time::now();
        if ns != 0 {
            self.until = now.saturating_add(ns);
            self.spared.elsewhere(now);
        }
        self.rests = named.is_none();
        if self.rests {
            // Or it could be asked again and again, and the processor were never seen to rest.
            self.until = self.until.max(now + REST_NS);
        }
        self.named = named;
    }

    /// It is about to be asked. What is not due waits, however often it is asked meanwhile: each time it would have something to look at, and
    /// nobody else had a turn.
    pub(super) fn tell_wishes(&mut self, now: u64) {
        let room = self.ring.room();
        if room == 0 || self.shelf.due().is_none_or(|due| due > now) {
            return;
        }
        let mut shelf = core::mem::take(&mut self.shelf);
        for number in shelf.take(room as usize, now) {
            let Some(thread) = machine().threads.find(number) else { continue };
            if let Some(level) = thread.wish.take() {
                let event = Event { kind: event::REQUEST, detail: op::PRIORITY as u32, thread: number, a: level, b: 0 };
                self.post(event, Weight::Heavy);
            }
        }
        self.shelf = shelf;
    }
}

impl Office {
    /// Whether there is somebody who will hear of it.
    fn shelve(&self, thread: &Thread) -> bool {
        let mut inner = self.inner.lock();
        let sits = inner.seat.holder().is_some();
        if sits {
            inner.shelf.put(thread.number);
        }
        sits
    }

    /// Until when the processor goes on without asking, whether or not that is the end of somebody's time.
    pub fn asks_at(&self) -> u64 {
        self.inner.lock().looks_at()
    }

    /// The same where a thread runs that is looked at now and then.
    pub fn looks_at(&self) -> u64 {
        let inner = self.inner.lock();
        inner.looks_at().min(inner.spared.looks_at(inner.until))
    }

    /// When the running thread, which should make room at time `now`, is looked at next.
    pub fn spares_until(&self, now: u64) -> u64 {
        let later = now + ::sched::BEAT_NS;
        self.inner.lock().spared.next_beat().filter(|beat| *beat > now).map_or(later, |beat| beat.min(later))
    }

    /// Looks where the running thread is, if it is time to.
    pub fn look(&self, thread: &Thread, now: u64) {
        let is_time = {
            let inner = self.inner.lock();
            now >= inner.spared.looks_at(inner.until)
        };
        if is_time {
            self.spares(thread, now);
        }
    }

    /// Whether the one in the seat is to be asked for the sake of wishes.
    pub fn is_due(&self, now: u64) -> bool {
        self.is_taken() && self.inner.lock().shelf.due().is_some_and(|due| due <= now)
    }

    /// Who was to hear of these threads' wishes sits there no more. Whoever sits there by now hears of them; if nobody does, whoever
    /// wished for something asks the next one.
    pub(super) fn forget_wishes(&self, threads: impl IntoIterator<Item = u64>) {
        in_stretches(threads, |number| {
            if let Some(thread) = machine().threads.find(number).filter(|thread| !self.shelve(thread)) {
                thread.wish.take();
            }
        });
    }
}
