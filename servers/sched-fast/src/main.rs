#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

mod passing;

use board::{Asked, Board, Desk, LEVELS, Queue, Ready, reason};
use musubi::abi::sched::{Event, event, ready};
use musubi::interfaces::sched::SchedClient;
use musubi::rt::sched::{self, Limit, Seat};
use musubi::rt::{task, thread};
use musubi::{Error, Start};

musubi::program!(run);

const QUANTUM: Limit = Limit::Ns(10_000_000);
/// How long a processor without work waits before it looks at the others' queues again.
const LOOK: Limit = Limit::Ns(2_000_000);
/// How long the high level may take.
const THINK: Limit = Limit::Ns(5_000_000);

fn run(_: &Start) -> i32 {
    let begun = musubi::names::lookup("sched").and_then(SchedClient::bind).and_then(|sched| {
        let words = sched::words(sched.board()?)?;
        let board = Board::new(words).ok_or(Error::BadAddress)?;
        let processors = task::processors().count().min(board::PROCESSORS);
        passing::offer(board)?;
        for processor in 1..processors {
            thread::spawn(move || thread::exit(Level::serve(board, processor, processors).word()), 0)?;
        }
        Ok(Level::serve(board, 0, processors))
    });
    // A scheduler that lost its seat has nothing more to do.
    task::exit(begun.unwrap_or_else(|e| e).word() as i32)
}

/// The fast level on one processor.
struct Level {
    board: Board<'static>,
    queue: Queue<'static>,
    desk: Desk<'static>,
    processor: usize,
    processors: usize,
    /// Who ran last, and whether its quantum has ended.
    running: u64,
    ended: bool,
    /// A priority is to change: when it has, the queues are not in order any more.
    unsorted: bool,
    /// The high level has had its time and is not done: others run first.
    late: bool,
}

impl Level {
    fn serve(board: Board<'static>, processor: usize, processors: usize) -> Error {
        let (queue, desk) = (board.queue(processor), board.desk(processor));
        let mut level =
            Level { board, queue, desk, processor, processors, running: 0, ended: false, unsorted: false, late: false };
        let begun = Seat::ask(processor as u64).and_then(|mut seat| {
            // The first answer is only that it sits down. It is asked again soon, and then threads may call.
            seat.next(0, 0, Limit::Ns(1))?;
            Ok(seat)
        });
        passing::sits(processors);
        match begun {
            Err(error) => error,
            Ok(mut seat) => loop {
                while let Some(event) = seat.event() {
                    level.handle(&event);
                }
                if let Err(error) = level.decide(&mut seat) {
                    return error;
                }
            },
        }
    }

    /// Each kind of event has its handler.
    fn handle(&mut self, event: &Event) {
        self.desk.saw(event.kind);
        match event.kind {
            event::READY => self.ready(event),
            event::TICK => {
                self.late = self.running != 0 && self.running == self.desk.high();
                self.ended = true;
                self.running = 0;
            }
            event::REQUEST => {
                if self.desk.send(Asked { thread: event.thread, level: event.a }) {
                    self.desk.call(reason::PRIORITY);
                    self.unsorted = true;
                }
            }
            event::ENDED => {
                self.board.priorities().forget(event.thread);
                self.board.beds().forget(event.thread);
            }
            // They say why the processor is free, which does not matter for what runs next.
            _ => {}
        }
    }

    fn ready(&mut self, event: &Event) {
        let ready = Ready { thread: event.thread, turn: event.a };
        if let Some(desk) = self.high_of(ready.thread) {
            return desk.high_is_ready(ready.turn);
        }
        let level = self.board.priorities().of(ready.thread);
        // Who was interrupted goes on before others, until its quantum has ended.
        let first = event.detail == ready::PREEMPTED && !self.ended;
        let had_room = if first { self.queue.push_front(ready, level) } else { self.queue.push(ready, level) };
        if !had_room {
            // More threads than the board has room for: the kernel keeps them, and says so again in its own turn.
            task::exit(Error::TooBig.word() as i32);
        }
    }

    /// The desk of a thread that is the high level somewhere.
    fn high_of(&self, thread: u64) -> Option<Desk<'static>> {
        let own = self.desk.high() == thread;
        if own {
            return Some(self.desk);
        }
        (0..self.processors).map(|p| self.board.desk(p)).find(|desk| desk.high() == thread)
    }

    fn decide(&mut self, seat: &mut Seat) -> Result<(), Error> {
        if core::mem::take(&mut self.ended) {
            self.queue.tick();
            self.desk.call(reason::QUANTUM);
        }
        if self.desk.is_wanted() && !core::mem::take(&mut self.late) {
            if let Some(high) = self.desk.take_high() {
                self.running = high.thread;
                return match seat.next(high.thread, high.turn, THINK) {
                    Err(Error::Busy) => {
                        self.desk.high_is_ready(high.turn);
                        Ok(())
                    }
                    answer => had(answer).map(drop),
                };
            }
        } else if core::mem::take(&mut self.unsorted) {
            self.queue.file_anew(|thread| self.board.priorities().of(thread));
        }
        let (levels, to) = self.desk.take_raise();
        (0..LEVELS).filter(|level| levels >> level & 1 != 0).for_each(|level| self.queue.raise(level, to as usize));
        while let Some((first, level)) = self.queue.pop() {
            let limit = if first.thread == self.running { Limit::Same } else { QUANTUM };
            self.running = first.thread;
            match seat.next(first.thread, first.turn, limit) {
                Err(Error::Busy) => {
                    self.queue.push_front(first, level);
                    return Ok(());
                }
                answer if had(answer)? => {
                    return Ok(());
                }
                _ => {}
            }
        }
        self.steal(seat)
    }

    /// Work that waits elsewhere: who names it first has it.
    fn steal(&mut self, seat: &mut Seat) -> Result<(), Error> {
        let mut any = false;
        for other in (1..self.processors).map(|step| (self.processor + step) % self.processors) {
            let queue = self.board.queue(other);
            any |= !queue.is_empty();
            let found = queue.highest().and_then(|level| queue.first(level as usize));
            if let Some((first, _)) = found {
                self.running = first.thread;
                match seat.next(first.thread, first.turn, QUANTUM) {
                    Err(Error::Busy) => return Ok(()),
                    answer if had(answer)? => return Ok(()),
                    _ => {}
                }
            }
        }
        self.running = 0;
        match seat.next(0, 0, if any { LOOK } else { Limit::Never }) {
            Err(Error::Busy) => Ok(()),
            answer => answer,
        }
    }
}

/// Whether the thread was to be had; that somebody else was faster is no mistake.
fn had(answer: Result<(), Error>) -> Result<bool, Error> {
    match answer {
        Ok(()) => Ok(true),
        Err(Error::Changed) => Ok(false),
        Err(error) => Err(error),
    }
}
