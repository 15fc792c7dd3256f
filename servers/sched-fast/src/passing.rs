//! The scheduler as a procedure: a thread that sleeps, wakes another, or does both, calls it by EPC and runs its code itself. The
//! kernel does not interrupt a thread in here, so on each processor one at a time is at the queue: it, or the one in the seat.

use alloc::boxed::Box;
use alloc::vec::Vec;
use board::{Bed, Beds, Board, Order, Part, Position, Proposals, Ready, Woken};
use core::sync::atomic::{AtomicUsize, Ordering};
use musubi::interfaces::passing::{Passing, passing_serve};
use musubi::rt::gate::ANYBODY;
use musubi::rt::sched::{self, Limit, Where};
use musubi::rt::{thread, time};
use musubi::{Caller, Error};

/// Processors in whose seats this program sits; when it is all of them, threads may come.
static SEATED: AtomicUsize = AtomicUsize::new(0);
static ALL: AtomicUsize = AtomicUsize::new(usize::MAX);

struct Service {
    board: Board<'static>,
    /// Parts of it that each call goes to.
    beds: Beds<'static>,
    proposals: Proposals<'static>,
    processors: Vec<Part<'static>>,
    place: Where,
}

/// Where a call is made: the number of the processor, and what the board has of it.
type Here = (usize, Part<'static>);

/// Offers it to everybody, if threads can tell where they run.
pub fn offer(board: Board<'static>, processors: usize) -> Result<(), Error> {
    let Some(place) = Where::new() else { return Ok(()) };
    let (beds, proposals) = (board.beds(), board.proposals());
    let processors = (0..processors).map(|processor| board.of(processor)).collect();
    let gates = passing_serve(Box::leak(Box::new(Service { board, beds, proposals, processors, place })))?;
    gates.admit(&ANYBODY)?;
    musubi::names::publish("passing", &gates)
}

/// This program sits in one more seat.
pub fn sits(processors: usize) {
    ALL.store(processors, Ordering::SeqCst);
    SEATED.fetch_add(1, Ordering::SeqCst);
}

/// Whether it sits in all of them.
pub fn all_sit() -> bool {
    SEATED.load(Ordering::Relaxed) >= ALL.load(Ordering::Relaxed)
}

impl Service {
    #[inline(always)]
    fn enter(&self) -> Result<Here, Error> {
        if !all_sit() {
            return Err(Error::NotSupported);
        }
        let processor = self.place.processor();
        let part = self.processors.get(processor).ok_or(Error::NotSupported)?;
        part.desk().enter();
        Ok((processor, *part))
    }

    /// Wakes a thread. Whether it is now to be queued here.
    #[inline(always)]
    fn rouse(&self, thread: u64, processor: usize) -> Result<bool, Error> {
        match self.beds.wake(thread, processor) {
            Woken::Here if self.is_plain() => Ok(true),
            other => self.rouse_by_kernel(thread, other).map(|()| false),
        }
    }

    #[cold]
    fn rouse_by_kernel(&self, thread: u64, found: Woken) -> Result<(), Error> {
        match found {
            Woken::Here | Woken::Elsewhere => sched::call_back(thread),
            // It may sleep in the kernel.
            Woken::Awake => sched::wake_up(thread),
            Woken::Unknown => {
                sched::wake_up(thread)?;
                self.beds.note(thread);
                // It may have ended meanwhile, and another processor have forgotten it before it was noted.
                if thread::info(thread).is_none() {
                    self.beds.forget(thread);
                }
                Ok(())
            }
        }
    }

    /// Nobody has agreed on anything: the queue alone says who is next. Where more is to be thought of, the one in the seat does.
    fn is_plain(&self) -> bool {
        !self.proposals.has_terms()
    }

    fn queue(&self, thread: u64, part: Part<'static>) {
        let level = self.board.priorities().of(thread);
        if !part.queue().push(Ready { thread, turn: 0 }, level) {
            // No room: the kernel says that it is ready, when there is.
            let _ = sched::call_back(thread);
        }
    }

    /// The calling thread is put aside; `next`, if it was woken just now and nobody is queued, or the first of the queue goes on.
    #[inline(always)]
    fn leave(&self, bed: Bed, part: Part<'static>, next: Option<u64>) -> Result<(), Error> {
        match next {
            Some(thread) if part.queue().is_empty() => match sched::put_aside(thread, 0, Limit::Same) {
                Ok(()) => self.back(bed, Ok(())),
                Err(error) => self.not_to(Ready { thread, turn: 0 }, None, error, bed, part),
            },
            next => self.leave_to_the_first(bed, part, next),
        }
    }

    #[inline(never)]
    fn leave_to_the_first(&self, bed: Bed, part: Part<'static>, next: Option<u64>) -> Result<(), Error> {
        next.into_iter().for_each(|thread| self.queue(thread, part));
        // With the rest of the quantum, one that was put aside goes on by the short way.
        let limit = |ready: &Ready| if ready.turn == 0 { Limit::Same } else { super::QUANTUM };
        let first = if self.is_plain() { part.queue().pop() } else { None };
        match first {
            Some((first, position)) => match sched::put_aside(first.thread, first.turn, limit(&first)) {
                Ok(()) => self.back(bed, Ok(())),
                Err(error) => self.not_to(first, Some(position), error, bed, part),
            },
            None => self.ask(bed),
        }
    }

    /// The caller goes on, and `thread` is ready, too: one who rests may have it, and if it comes first the caller gives way.
    fn woken(&self, caller: &Caller, thread: u64, processor: usize, part: Part<'static>) -> Result<(), Error> {
        self.queue(thread, part);
        if let Some(helper) = Order::new(self.board, processor, time::now_ns).helper() {
            sched::look(helper as u64)?;
        }
        let priorities = self.board.priorities();
        if priorities.of(thread) < priorities.of(caller.thread) {
            thread::yield_now();
        }
        Ok(())
    }

    /// This one did not go on.
    #[cold]
    fn not_to(
        &self,
        first: Ready,
        position: Option<Position>,
        error: Error,
        bed: Bed,
        part: Part<'static>,
    ) -> Result<(), Error> {
        // Whatever the reason, nobody else has it. It is not heard from a driver that the one in the seat is calling, say.
        if error != Error::Changed {
            let own = || Position { level: self.board.priorities().of(first.thread), ..Position::default() };
            part.queue().put(first, Position { first: true, ..position.unwrap_or_else(own) });
        }
        if matches!(error, Error::Changed | Error::Busy) { self.ask(bed) } else { self.back(bed, Err(error)) }
    }

    /// The one in the seat says who goes on.
    fn ask(&self, bed: Bed) -> Result<(), Error> {
        self.back(bed, sched::put_aside(0, 0, Limit::Same))
    }

    /// It runs again, or was not put aside.
    #[inline(always)]
    fn back(&self, bed: Bed, answer: Result<(), Error>) -> Result<(), Error> {
        let woken = bed.get_up();
        answer?;
        if woken { Ok(()) } else { Err(Error::Changed) }
    }
}

impl Passing for Service {
    fn entered(&self, processor: u64) -> Result<u64, Error> {
        let processor = usize::try_from(processor).ok().filter(|&number| number < board::PROCESSORS);
        Ok(self.board.desk(processor.ok_or(Error::BadArgument)?).entered())
    }

    fn sleep(&self, caller: &Caller) -> Result<(), Error> {
        let (processor, part) = self.enter()?;
        let bed = self.beds.of(caller.thread).ok_or(Error::TooBig)?;
        if bed.lie_down(processor) { self.leave(bed, part, None) } else { Ok(()) }
    }

    fn wake_up(&self, caller: &Caller, thread: u64) -> Result<(), Error> {
        let (processor, part) = self.enter()?;
        if self.rouse(thread, processor)? { self.woken(caller, thread, processor, part) } else { Ok(()) }
    }

    fn pass(&self, caller: &Caller, thread: u64) -> Result<(), Error> {
        let (processor, part) = self.enter()?;
        let bed = self.beds.of(caller.thread).ok_or(Error::TooBig)?;
        let here = self.rouse(thread, processor)?;
        if bed.lie_down(processor) {
            return self.leave(bed, part, here.then_some(thread));
        }
        if here { self.woken(caller, thread, processor, part) } else { Ok(()) }
    }
}
