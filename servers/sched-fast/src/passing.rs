//! The scheduler as a procedure: a thread that sleeps, wakes another, or does both, calls it by EPC and runs its code itself. The
//! kernel does not interrupt a thread in here, so on each processor one at a time is at the queue: it, or the one in the seat.

use alloc::boxed::Box;
use board::{Bed, Board, Order, Position, Ready, Woken};
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
    place: Where,
}

/// Offers it to everybody, if threads can tell where they run.
pub fn offer(board: Board<'static>) -> Result<(), Error> {
    let Some(place) = Where::new() else { return Ok(()) };
    let gates = passing_serve(Box::leak(Box::new(Service { board, place })))?;
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
    /// Number of the processor.
    fn enter(&self) -> Result<usize, Error> {
        if !all_sit() {
            return Err(Error::NotSupported);
        }
        let processor = self.place.processor();
        self.board.desk(processor).enter();
        Ok(processor)
    }

    /// Wakes a thread. Whether it is now to be queued here.
    fn rouse(&self, thread: u64, processor: usize) -> Result<bool, Error> {
        match self.board.beds().wake(thread, processor) {
            Woken::Here if self.is_plain() => return Ok(true),
            Woken::Here | Woken::Elsewhere => sched::call_back(thread)?,
            // It may sleep in the kernel.
            Woken::Awake => sched::wake_up(thread)?,
            Woken::Unknown => {
                sched::wake_up(thread)?;
                self.board.beds().note(thread);
                // It may have ended meanwhile, and another processor have forgotten it before it was noted.
                if thread::info(thread).is_none() {
                    self.board.beds().forget(thread);
                }
            }
        }
        Ok(false)
    }

    /// Nobody has agreed on anything: the queue alone says who is next. Where more is to be thought of, the one in the seat does.
    fn is_plain(&self) -> bool {
        !self.board.proposals().has_terms() && self.board.weight() == 0
    }

    fn queue(&self, thread: u64, processor: usize) {
        let level = self.board.priorities().of(thread);
        if !self.board.queue(processor).push(Ready { thread, turn: 0 }, level) {
            // No room: the kernel says that it is ready, when there is.
            let _ = sched::call_back(thread);
        }
    }

    /// The calling thread is put aside; `next`, if it was woken just now, or the first of the queue goes on.
    fn leave(&self, bed: Bed, processor: usize, next: Option<u64>) -> Result<(), Error> {
        let queue = self.board.queue(processor);
        let at_once = next.filter(|_| queue.is_empty());
        if let (Some(thread), None) = (next, at_once) {
            self.queue(thread, processor);
        }
        let first = match at_once {
            Some(thread) => Some((Ready { thread, turn: 0 }, None, Limit::Same)),
            // With the rest of the quantum, one that was put aside goes on by the short way.
            None if self.is_plain() => {
                let limit = |ready: &Ready| if ready.turn == 0 { Limit::Same } else { super::QUANTUM };
                queue.pop().map(|(first, position)| (first, Some(position), limit(&first)))
            }
            None => None,
        };
        let mut answer = match first {
            Some((first, position, limit)) => {
                let answer = sched::put_aside(first.thread, first.turn, limit);
                // Whatever the reason, nobody else has it. It is not heard from a driver that the one in the seat is calling, say.
                if !matches!(answer, Ok(()) | Err(Error::Changed)) {
                    let own = || Position { level: self.board.priorities().of(first.thread), ..Position::default() };
                    queue.put(first, Position { first: true, ..position.unwrap_or_else(own) });
                }
                answer
            }
            None => Err(Error::Changed),
        };
        if matches!(answer, Err(Error::Changed | Error::Busy)) {
            answer = sched::put_aside(0, 0, Limit::Same);
        }
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
        let processor = self.enter()?;
        let bed = self.board.beds().of(caller.thread).ok_or(Error::TooBig)?;
        if bed.lie_down(processor) { self.leave(bed, processor, None) } else { Ok(()) }
    }

    fn wake_up(&self, caller: &Caller, thread: u64) -> Result<(), Error> {
        let processor = self.enter()?;
        if self.rouse(thread, processor)? {
            self.queue(thread, processor);
            if let Some(helper) = Order::new(self.board, processor, time::now_ns).helper() {
                sched::look(helper as u64)?;
            }
            let priorities = self.board.priorities();
            if priorities.of(thread) < priorities.of(caller.thread) {
                thread::yield_now();
            }
        }
        Ok(())
    }

    fn pass(&self, caller: &Caller, thread: u64) -> Result<(), Error> {
        let processor = self.enter()?;
        let bed = self.board.beds().of(caller.thread).ok_or(Error::TooBig)?;
        let here = self.rouse(thread, processor)?;
        if bed.lie_down(processor) {
            return self.leave(bed, processor, here.then_some(thread));
        }
        if here {
            self.queue(thread, processor);
        }
        Ok(())
    }
}
