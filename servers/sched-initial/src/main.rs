#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::collections::VecDeque;
use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicUsize, Ordering};

use board::{Board, Buffer, Chosen, Desk, Kind, Ready};
use musubi::abi::sched::{Event, event};
use musubi::interfaces::sched::SchedClient;
use musubi::rt::sched::{self, Limit, Seat};
use musubi::rt::{guard, probe, section, task, thread, time};
use musubi::{Error, Start, ended};

musubi::program!(run);

/// How long the high level is let alone.
const THINK_MS: u32 = 2;
const THINK_NS: u64 = THINK_MS as u64 * 1_000_000;
/// Without a high level there is nobody to choose: it is looked for again.
const LOOK_NS: u64 = 1_000_000;
/// Events that wait for room in the buffer.
const LEFT_MAX: usize = 2 * board::THREADS;
const LOOK: Limit = Limit::Ns(LOOK_NS);
/// What a high level may take for one choice, in ms: how often it may think for too long or not be there.
const PATIENCE_MS: u32 = 7;
/// The same if it is not there: each look comes later than a ms after the one before.
const ABSENT_PATIENCE_MS: u32 = 6;

/// Levels that have asked for their seats.
static ASKED: AtomicUsize = AtomicUsize::new(0);

fn run(_: &Start) -> i32 {
    let begun = musubi::names::lookup("sched").and_then(SchedClient::bind).and_then(|sched| {
        let words = sched::words(sched.board()?)?;
        let board = Board::new(words).ok_or(Error::BadAddress)?;
        let processors = task::processors().count().min(board::PROCESSORS);
        // Nobody but the high level chooses, so it must be known by then: it could not choose itself.
        while !board.has_high(processors) {
            time::sleep_ns(1_000_000);
        }
        if !is_kept_out() {
            return Err(Error::Refused);
        }
        for processor in 1..processors {
            thread::spawn(move || task::exit(serve(board, processor, processors).word() as i32), 0)?;
        }
        Ok(serve(board, 0, processors))
    });
    task::exit(begun.unwrap_or_else(|e| e).word() as i32)
}

/// What is known of threads is the high level's alone (CUBIX-50). That is tried before this level sits down, which it does not do where it could
/// read that.
fn is_kept_out() -> bool {
    let theirs = section::list().find(|section| ended::text(&section.name) == board::PRIVATE);
    theirs.is_some_and(|theirs| guard::run(|| probe::read(theirs.base)) == Err(Error::Faulted))
}

fn serve(board: Board<'static>, processor: usize, processors: usize) -> Error {
    let mechanism = Mechanism {
        board,
        desk: board.desk(processor),
        buffer: board.buffer(processor),
        processors,
        ends: Cell::new(0),
        thinks: Cell::new(false),
        waited_ms: Cell::new(0),
        since: Cell::new(0),
        look: Cell::new(0),
        looked: Cell::new(0),
        left: RefCell::new(room()),
    };
    let begun = Seat::ask(processor as u64).and_then(|mut seat| {
        // All sit down together: while some processors go on in turn, the high level of others may be there.
        ASKED.fetch_add(1, Ordering::SeqCst);
        while ASKED.load(Ordering::SeqCst) < processors {
            time::sleep_ns(1_000_000);
        }
        seat.next(0, 0, Limit::Never).map(|()| seat)
    });
    match begun.and_then(|mut seat| mechanism.run(&mut seat)) {
        Ok(()) => Error::NotFound,
        Err(error) => error,
    }
}

/// Room for what the buffer has none for: of each thread that may be ready one event, and more. Nobody waits for memory in a seat, so it is had,
/// and stored to, before.
fn room() -> VecDeque<Words> {
    let mut room = VecDeque::with_capacity(LEFT_MAX);
    (0..LEFT_MAX).for_each(|_| room.push_back(Words::default()));
    room.clear();
    room
}

/// The fast level on one processor: no queue, no choice.
struct Mechanism {
    board: Board<'static>,
    desk: Desk<'static>,
    buffer: Buffer<'static>,
    processors: usize,
    /// When the time of the thread that was chosen is over, also while the high level chooses again. 0: it has no end.
    ends: Cell<u64>,
    /// The high level runs.
    thinks: Cell<bool>,
    /// For how long it has not chosen, by looks.
    waited_ms: Cell<u32>,
    /// Since when it was to choose; when it is looked at next, whatever interrupts it; and when it was looked for last.
    since: Cell<u64>,
    look: Cell<u64>,
    looked: Cell<u64>,
    /// Events for which there was no room in the buffer yet: the high level reads there when it runs, which the kernel refuses as long as it has more.
    left: RefCell<VecDeque<Words>>,
}

/// An event, as the buffer has it.
type Words = [u64; 4];

impl Mechanism {
    fn run(&self, seat: &mut Seat) -> Result<(), Error> {
        let mut news = false;
        loop {
            while let Some(event) = seat.event() {
                news |= self.pass_on(&event);
            }
            news |= self.send_what_is_left();
            if self.buffer.is_asked() {
                // The high level has been interrupted.
                self.switch_to_high(seat, time::now_ns())?;
            } else if let Some(chosen) = self.buffer.take() {
                self.thinks.set(false);
                self.waited_ms.set(0);
                self.carry_out(seat, chosen, &mut news)?;
            } else {
                news = false;
                self.buffer.ask();
                let now = time::now_ns();
                self.since.set(now);
                self.look.set(now + THINK_NS);
                self.switch_to_high(seat, now)?;
            }
        }
    }

    /// Whether the high level should hear of it before anything else is done.
    fn pass_on(&self, event: &Event) -> bool {
        // Those that are not known were counted, and are nobody's affair.
        let Some(kind) = self.desk.saw(event.kind) else { return false };
        if kind == Kind::Interrupt && event.b != 0 {
            // This level calls nobody: it is for the driver's thread.
            let _ = sched::give_back(u64::from(event.detail), 0);
        }
        if kind == Kind::Tick {
            let now = time::now_ns();
            if self.thinks.take() {
                if now >= self.look.get() {
                    // From now on, for the machine itself may have been stopped.
                    self.look.set(now + THINK_NS);
                    self.wait(THINK_MS, now, false);
                }
                if now < self.ends.get() {
                    return false;
                }
            }
            self.ends.set(0);
        }
        if kind == Kind::Ready {
            let high = (0..self.processors).map(|p| self.board.desk(p)).find(|desk| desk.high() == event.thread);
            if let Some(desk) = high {
                desk.high_is_ready(event.a);
                return false;
            }
        }
        let words = [u64::from(event.kind) | u64::from(event.detail) << 32, event.thread, event.a, event.b];
        self.send(words);
        matches!(kind, Kind::Ready | Kind::Tick | Kind::Request)
    }

    fn switch_to_high(&self, seat: &mut Seat, now: u64) -> Result<(), Error> {
        let Some(Ready { thread, turn }) = self.desk.take_high() else {
            self.thinks.set(false);
            // Whatever else has happened in between is no reason to count more.
            if now >= self.looked.get().max(self.since.get()) + LOOK_NS {
                self.looked.set(now);
                self.wait(1, now, true);
            }
            return busy(seat.next(0, 0, LOOK)).map(drop);
        };
        let until = match self.ends.get() {
            0 => self.look.get(),
            ends => ends.min(self.look.get()),
        };
        let refused = busy(seat.next(thread, turn, Limit::Ns(until.saturating_sub(now))))?;
        self.thinks.set(!refused);
        if refused {
            self.desk.high_is_ready(turn);
        }
        Ok(())
    }

    /// Nobody else runs meanwhile, so a high level that does not answer is given up, and the kernel goes on in turn.
    fn wait(&self, ms: u32, now: u64, absent: bool) {
        let waited_ms = self.waited_ms.get() + ms;
        self.waited_ms.set(waited_ms);
        let patience = if absent { ABSENT_PATIENCE_MS } else { PATIENCE_MS };
        if waited_ms >= patience {
            self.desk.give_up(now - self.since.get(), absent);
            task::exit(Error::TimedOut.word() as i32);
        }
    }

    fn carry_out(&self, seat: &mut Seat, chosen: Chosen, news: &mut bool) -> Result<(), Error> {
        let now = time::now_ns();
        let limit = match (chosen.ns, self.ends.get()) {
            (0, 0) => Limit::Same,
            // What was left of it while the high level chose.
            (0, ends) => Limit::Ns(ends.saturating_sub(now)),
            (u64::MAX, _) => Limit::Never,
            (ns, _) => Limit::Ns(ns),
        };
        if chosen.ns != 0 {
            let has_end = chosen.thread != 0 && limit != Limit::Never;
            self.ends.set(if has_end { now + chosen.ns } else { 0 });
        }
        if let Some(roused) = self.buffer.take_roused() {
            // Nobody sits there for a moment, perhaps: then the kernel sees to it.
            let _ = sched::look(roused as u64);
        }
        let answer = if *news { Err(Error::Busy) } else { seat.next(chosen.thread, chosen.turn, limit) };
        if matches!(answer, Err(Error::Busy | Error::Changed)) {
            self.buffer.not_carried_out(chosen);
        }
        let refused = busy(answer)?;
        if refused && chosen.thread != 0 {
            // It is not carried out; the high level hears that it is ready, as it was.
            let words = [u64::from(event::READY), chosen.thread, chosen.turn, 0];
            self.send(words);
        }
        Ok(())
    }

    /// One more event for the high level, behind those before it.
    fn send(&self, words: Words) {
        let left = &mut *self.left.borrow_mut();
        if !left.is_empty() || !self.buffer.send(words) {
            if left.len() == LEFT_MAX {
                task::exit(Error::TooBig.word() as i32);
            }
            left.push_back(words);
        }
    }

    /// The high level has made room. Whether there was something for it: then it has not chosen with all in view.
    fn send_what_is_left(&self) -> bool {
        let left = &mut *self.left.borrow_mut();
        let before = left.len();
        while let Some(words) = left.front()
            && self.buffer.send(*words)
        {
            left.pop_front();
        }
        left.len() < before
    }
}

/// Whether there is something to read first. A thread that somebody else has got is no mistake.
fn busy(answer: Result<(), Error>) -> Result<bool, Error> {
    match answer {
        Ok(()) | Err(Error::Changed) => Ok(false),
        Err(Error::Busy) => Ok(true),
        Err(error) => Err(error),
    }
}
