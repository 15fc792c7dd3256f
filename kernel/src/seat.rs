//! Who decides instead of the round robin: events to the scheduler that sits in a processor's seat, its answers, and what
//! happens when it is wrong (docs/decisions/0007, CUBIX-41, 47, 58).

pub mod errand;
mod named;
pub mod neglect;
mod shown;
pub mod wishes;

pub use named::{claim, next};
pub use shown::{SHOWN, show_all};

use crate::domain::Domain;
use crate::line;
use crate::machine::machine;
use crate::post;
use crate::processor::{Processor, count, here};
use crate::ring::Ring;
use crate::sched;
use crate::section::{New, Section};
use crate::thread::Thread;
use crate::watch;
use crate::trace;
use abi::layout::PAGE;
use abi::rights::principal;
use abi::sched::{Event, SeatInfo, event, ready};
use abi::section::kind;
use abi::task::{Exit, cause, exit};
use abi::{AclEntry, Error, Rights};
use ::sched::{Phase, Reason, Seat, Shelf, Spared, Weight};
use alloc::sync::Arc;
use arch::time;
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, Ordering};
use shown::{show, shows_count};
use spin::Mutex;

/// Of a thread that has no seat.
pub const NO_SEAT: usize = usize::MAX;

/// A scheduler.
struct Holder {
    thread: Arc<Thread>,
    text: Arc<Section>,
    ring: Arc<Section>,
    /// The wait in which it sits.
    ticket: u64,
}

/// What is kept of a processor's seat.
#[derive(Default)]
pub struct Office {
    inner: Mutex<Inner>,
    /// Somebody sits there.
    taken: AtomicBool,
}

#[derive(Default)]
struct Inner {
    seat: Seat<Holder>,
    ring: Ring,
    /// Who has asked for the seat and has not sat down yet.
    asked: Option<Holder>,
    /// What the answer was: the thread to go on with, and until when.
    named: Option<Arc<Thread>>,
    until: u64,
    /// It has said that nothing is to run.
    rests: bool,
    /// It has sat down and was not asked yet: it is, whether or not anything has happened.
    fresh: bool,
    /// To be put out by its processor, on the way out of the kernel.
    wrong: Option<Reason>,
    spared: Spared,
    /// Threads whose priority is to change.
    shelf: Shelf,
}

impl Inner {
    /// Whether the one who sits here should be asked soon.
    fn post(&mut self, event: Event, weight: Weight) -> bool {
        count(&here().counters.events);
        self.ring.post(event, weight).unwrap_or_else(|_| {
            self.wrong = Some(Reason::Ring);
            true
        })
    }

    /// Puts what had no room into the ring. How much there is to read.
    fn catch_up(&mut self) -> u32 {
        self.ring.catch_up().unwrap_or_else(|_| {
            self.wrong = Some(Reason::Ring);
            0
        })
    }

    fn has_news(&self) -> bool {
        self.wrong.is_some() || self.fresh || !self.ring.is_read()
    }
}

/// What the processor does next.
pub enum Next {
    /// Nobody sits here (any more).
    InTurn,
    Run(Arc<Thread>),
    Nothing,
}

impl Office {
    /// Whether somebody decides here.
    #[inline]
    pub fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire)
    }

    /// Tells that a thread is ready. Whether there is somebody to tell it to.
    pub fn tell_ready(&self, thread: &Thread, turn: u64, why: u32) -> bool {
        self.tell(Event { kind: event::READY, detail: why, thread: thread.number, a: turn, b: 0 }, Weight::Heavy).is_some()
    }

    /// Tells something. Whether the scheduler should be asked soon; `None`: there is none.
    pub fn tell(&self, event: Event, weight: Weight) -> Option<bool> {
        if !self.is_taken() {
            return None;
        }
        let mut inner = self.inner.lock();
        inner.seat.holder()?;
        Some(inner.post(event, weight))
    }

    /// Whether this thread sits here.
    pub fn is_holder(&self, here: &Processor, thread: &Thread) -> bool {
        self.is_taken() && thread.seat.load(Ordering::Relaxed) == here.index
    }

    /// Whether who sits here executes this text.
    pub fn is_of(&self, text: &Arc<Section>) -> bool {
        self.is_taken() && self.inner.lock().seat.holder().is_some_and(|holder| Arc::ptr_eq(&holder.text, text))
    }

    /// The text of who sits here.
    fn text(&self) -> Option<Arc<Section>> {
        self.inner.lock().seat.holder().map(|holder| holder.text.clone())
    }

    /// Whether the running thread has called the scheduler, so that it is not interrupted: it writes what the one in the seat
    /// does. In one call for a few beats.
    pub fn spares(&self, thread: &Thread, now: u64) -> bool {
        if !self.is_taken() {
            return false;
        }
        let (text, calls) = {
            let inner = thread.inner.lock();
            (inner.domain.text.clone(), inner.gate.calls(inner.domain.number))
        };
        if !self.is_of(&text) {
            self.inner.lock().spared.elsewhere(now);
            return false;
        }
        // Calls that the gate made, the kernel's short way, and its long one: all that go to an NSys text.
        let counters = &here().counters;
        let by_kernel = [&counters.crossings, &counters.epc].map(|one| one.load(Ordering::Relaxed)).iter().sum();
        let call = (calls, by_kernel);
        let inner = &mut *self.inner.lock();
        let spared = inner.spared.again(thread.number, call, now);
        if !spared {
            inner.wrong.get_or_insert(Reason::Slow);
        }
        spared
    }

    /// The processor goes on with this thread, or asks the one in the seat. Gives back who does not run: it, if nobody sits there (any more); or who was named before.
    pub fn name(&self, named: Option<Arc<Thread>>, ns: u64) -> Option<Arc<Thread>> {
        let mut inner = self.inner.lock();
        if inner.seat.holder().is_none() {
            return named;
        }
        inner.rests = false;
        if ns != 0 {
            let now = time::now();
            inner.until = now.saturating_add(ns);
            inner.spared.elsewhere(now);
        }
        core::mem::replace(&mut inner.named, named)
    }

    /// The scheduler has something to read, or is to be put out.
    pub fn has_news(&self) -> bool {
        self.is_taken() && self.inner.lock().has_news()
    }

    /// Until when the processor goes on without asking.
    pub fn until(&self) -> u64 {
        self.inner.lock().until
    }

    /// It is to be put out for this.
    fn accuse(&self, why: Reason) {
        self.inner.lock().wrong.get_or_insert(why);
    }

    /// What runs here next: what the scheduler has said, or the scheduler itself, now to be asked.
    pub fn next(&self, here: &Processor, now: u64) -> Next {
        let mut inner = self.inner.lock();
        if inner.seat.holder().is_none() {
            return Next::InTurn;
        }
        if let Some(thread) = inner.named.take() {
            return Next::Run(thread);
        }
        if inner.rests && !inner.has_news() && now < inner.looks_at() {
            return Next::Nothing;
        }
        (inner.rests, inner.fresh) = (false, false);
        if let Some((thread, turn)) = watch::borrows(here.index) {
            inner.post(Event { kind: event::HANDED, detail: 0, thread, a: turn, b: 0 }, Weight::Light);
        }
        inner.tell_wishes(now);
        let unread = u64::from(inner.catch_up());
        if inner.wrong.is_some() {
            here.attend();
            return Next::Nothing;
        }
        let Some(holder) = inner.seat.holder() else { return Next::InTurn };
        let thread = holder.thread.clone();
        {
            let mut wait = thread.wait.lock();
            if wait.ticket != holder.ticket || !wait.life.resume(here.index) {
                // It was woken by something else: killed.
                inner.wrong.get_or_insert(Reason::Ended);
                here.attend();
                return Next::Nothing;
            }
        }
        inner.seat.ask(now);
        shows_count(here.index, offset_of!(SeatInfo, asked), inner.seat.counts().asked);
        shows_count(here.index, offset_of!(SeatInfo, missed), inner.ring.missed());
        drop(inner);
        thread.answer(Ok(unread));
        Next::Run(thread)
    }
}

/// Something has happened on this processor that its scheduler should hear of some time; if there is no room, only how often.
pub fn note(event: Event) {
    tell(event, Weight::Light);
}

fn tell(event: Event, weight: Weight) {
    let here = here();
    trace::note(abi::trace::kind::SCHED, event.kind.into(), event.thread);
    if here.office.tell(event, weight) == Some(true) {
        here.make_room();
    }
}

/// `scheduler_set`.
pub fn set(thread: &Arc<Thread>, d: &Domain, processor: u64) -> Result<u64, Error> {
    let index = usize::try_from(processor).map_err(|_| Error::NotFound)?;
    let p = machine().processors.get(index).filter(|p| p.online.load(Ordering::Relaxed)).ok_or(Error::NotFound)?;
    if thread.seat.load(Ordering::Relaxed) != NO_SEAT || d.in_window {
        return Err(Error::Busy);
    }
    {
        let mut inner = p.office.inner.lock();
        if inner.seat.holder().is_some() || inner.asked.is_some() {
            return Err(Error::Busy);
        }
        inner.ring.make()?;
    }
    let rights = Rights::READ | Rights::WRITE | Rights::CHANGE_ACL;
    let entry = AclEntry { principal: principal::TASK, rights: rights.bits(), id: d.subject.task, text: d.text.base };
    let owner = d.text.owner();
    let ring = Section::create(New { len: PAGE, reserve: 0, kind: kind::DATA, at: 0, room: 0, owner, entry, ports: None, live: true })?;
    let mut inner = p.office.inner.lock();
    let is_free = inner.seat.holder().is_none() && inner.asked.is_none();
    let Some(page) = is_free.then(|| inner.ring.begin(processor)).flatten() else {
        drop(inner);
        ring.delete();
        return Err(Error::Busy);
    };
    ring.state.lock().pages.supply(0, Arc::new(page));
    let base = ring.base;
    inner.asked = Some(Holder { thread: thread.clone(), text: d.text.clone(), ring, ticket: 0 });
    thread.seat.store(index, Ordering::Relaxed);
    post::sits(thread);
    Ok(base)
}

/// Puts out the one who sits there: from now on threads take turns. Every thread that is ready here is found in the table
/// of threads, whatever the scheduler knew of it.
fn dismiss(p: &Processor, why: Reason) {
    let when = time::now();
    let (holder, named, wishes) = {
        let mut inner = p.office.inner.lock();
        let Some(holder) = inner.seat.dismiss(why, when) else { return };
        p.office.taken.store(false, Ordering::SeqCst);
        arch::pass::set_scheduler(p.index, 0);
        (inner.wrong, inner.fresh) = (None, false);
        show(p.index, &inner);
        (holder, inner.named.take(), inner.shelf.clear())
    };
    if let Some(thread) = named {
        // It was on its way here.
        let mut wait = thread.wait.lock();
        wait.life.ready();
        thread.processor.store(p.index, Ordering::SeqCst);
    }
    sched::in_stretches(machine().threads.all(), |thread| {
        let turn = {
            let wait = thread.wait.lock();
            (wait.life.phase() == Phase::Ready).then_some(wait.life.turn())
        };
        if let Some(turn) = turn
            && thread.processor.load(Ordering::Relaxed) == p.index
        {
            // Somebody else may have sat down meanwhile.
            sched::announce(p, thread, turn, ready::FOUND);
        }
    });
    // Not before those who are ready have somebody to go on with.
    p.office.forget_wishes(wishes);
    {
        let mut inner = p.office.inner.lock();
        inner.seat.handed_over(when, time::now());
        show(p.index, &inner);
    }
    log::info!("the scheduler of processor {} (thread {}) is put out: {:?}", p.index, holder.thread.number, why);
    leave_seat(holder, why);
    // What it was told and has not looked after.
    line::fall_back();
    p.attend();
    p.poke();
}

fn leave_seat(holder: Holder, why: Reason) {
    holder.ring.delete();
    holder.thread.seat.store(NO_SEAT, Ordering::Relaxed);
    // One that has lost one seat by the end of a thread has failed as a whole. (A program that has ended keeps its own reason.)
    if why != Reason::Replaced {
        holder.thread.task.end(Exit {
            kind: exit::FAULT,
            code: 0,
            cause: cause::SCHEDULER,
            address: why as u64,
            section: 0,
            right: 0,
            thread: holder.thread.number,
            text: holder.text.base,
            ip: holder.thread.registers(|r| r.rip),
        });
    }
    let ticket = holder.thread.wait.lock().ticket;
    if ticket == holder.ticket {
        sched::wake(&holder.thread, ticket, Err(Error::Killed));
    }
}

/// Whether this is the text of a scheduler that sits somewhere.
pub fn is_schedulers(text: &Arc<Section>) -> bool {
    machine().processors.iter().any(|p| p.office.is_of(text))
}

/// A thread has ended.
pub fn ended(thread: &Thread) {
    if let Some(p) = machine().processors.get(thread.seat.load(Ordering::Relaxed)) {
        let asked = {
            let mut inner = p.office.inner.lock();
            if inner.asked.as_ref().is_some_and(|holder| holder.thread.number == thread.number) { inner.asked.take() } else { None }
        };
        match asked {
            Some(holder) => leave_seat(holder, Reason::Ended),
            None => dismiss(p, Reason::Ended),
        }
    }
    // What it has agreed on is given back when this is read, so it has to be.
    tell(Event { kind: event::ENDED, thread: thread.number, ..Event::default() }, Weight::Heavy);
}
