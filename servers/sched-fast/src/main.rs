#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod elsewhere;
mod interrupts;
mod passing;

use board::{
    Asked, Board, Call, Called, Desk, Kind, LEVELS, Latest, Loans, Order, Over, Position, Quanta, Queue, Ready, Why,
    Wishes, reason,
};
use musubi::abi::sched::{Event, op, ready};
use musubi::interfaces::sched::SchedClient;
use musubi::rt::sched::{self, Limit, Seat};
use musubi::rt::{task, thread, time};
use musubi::{Error, Start};

musubi::program!(run);

const QUANTUM_NS: u64 = 10_000_000;
const QUANTUM: Limit = Limit::Ns(QUANTUM_NS);
/// How long the high level is let alone, and how often the processor looks whether it is there.
const THINK_MS: u64 = 2;
const ABSENT_MS: u64 = 1;
/// What the high level may take for one call, in ms. Counted in ticks, which a machine that is itself stopped does not have.
const PATIENCE_MS: u64 = 7;
/// The same if it is not there: others run in between, and each look comes later than a ms after the one before.
const ABSENT_PATIENCE_MS: u64 = 6;
/// One look before that it is given up if by the clock so much is over.
const LATE_NS: u64 = 8_000_000;
const NS_PER_MS: u64 = 1_000_000;

/// Told on whichever processor it was.
static ENDED: Over = Over::new();

fn run(_: &Start) -> i32 {
    let begun = musubi::names::lookup("sched").and_then(SchedClient::bind).and_then(|sched| {
        let words = sched::words(sched.board()?)?;
        let board = Board::new(words).ok_or(Error::BadAddress)?;
        let processors = task::processors().count().min(board::PROCESSORS);
        // Without it threads ask the kernel.
        let _ = passing::offer(board, processors);
        interrupts::begin()?;
        // Until it is there the kernel goes on in turn; from then on it has no excuse.
        while !board.has_high(processors) {
            time::sleep_ns(NS_PER_MS);
        }
        for processor in 1..processors {
            thread::spawn(move || task::exit(Level::serve(board, processor, processors).word() as i32), 0)?;
        }
        Ok(Level::serve(board, 0, processors))
    });
    // A scheduler that lost one of its seats has nothing more to do: it is started again, in all of them.
    task::exit(begun.unwrap_or_else(|e| e).word() as i32)
}

/// The fast level on one processor.
struct Level {
    board: Board<'static>,
    queue: Queue<'static>,
    desk: Desk<'static>,
    order: Order<'static>,
    processor: usize,
    processors: usize,
    /// Who ran last, and whose quantum has ended.
    running: u64,
    /// The turn of who gave way last: to those whom an interrupt has called, too.
    gave: Ready,
    ended: Option<u64>,
    quanta: Quanta,
    /// A priority is to change: when it has, the queues are not in order any more.
    unsorted: bool,
    /// Another one has asked it to look for work there.
    looks: bool,
    /// The high level runs, or would but for what has interrupted it; or it is wanted and not there, so others run.
    thinks: bool,
    absent: bool,
    /// It is wanted since this decision, so that who runs still has a time that was given him before.
    is_missed: bool,
    /// For how long it has not got on with what it was called for, by ticks; since when; and how far it had got.
    waited_ms: u64,
    since: u64,
    finished: u64,
    /// A handler of an interrupt has taken too long in this decision.
    strained: bool,
    /// Turns that running threads have given to others.
    loans: Loans,
    /// Who has a turn before those in the queue.
    called: Called,
    /// The key of who ran last.
    key: u64,
    /// For when the queue is full of turns that are past.
    latest: Latest,
    /// For the high level, as soon as it has read what was sent before. Made with room: the one in the seat must not wait for memory.
    waiting: Wishes,
}

impl Level {
    fn serve(board: Board<'static>, processor: usize, processors: usize) -> Error {
        let (queue, desk) = (board.queue(processor), board.desk(processor));
        let order = Order::new(board, processor, time::now_ns);
        let (running, gave, ended) = (0, Ready { thread: 0, turn: 0 }, None);
        let (unsorted, looks, strained) = (false, false, false);
        let (thinks, absent, is_missed, waited_ms, since, finished) = (false, false, false, 0, 0, 0);
        let (loans, called, key, latest) = (Loans::default(), Called::new(), 0, Latest::new(&ENDED));
        let (waiting, quanta) = (Wishes::new(), Quanta::new(QUANTUM_NS));
        let mut level = Level {
            board,
            queue,
            desk,
            order,
            processor,
            processors,
            running,
            gave,
            ended,
            quanta,
            unsorted,
            looks,
            thinks,
            absent,
            is_missed,
            waited_ms,
            since,
            finished,
            strained,
            loans,
            called,
            key,
            latest,
            waiting,
        };
        let begun = Seat::ask(processor as u64).and_then(|mut seat| {
            // The first answer is only that it sits down. It is asked at once, and then threads may call.
            seat.next(0, 0, Limit::Never)?;
            Ok(seat)
        });
        let mut seat = match begun {
            Ok(seat) => seat,
            Err(error) => return error,
        };
        passing::sits(processors);
        loop {
            while let Some(event) = seat.event() {
                level.handle(&event);
            }
            let asked = seat.asked();
            if let Err(error) = level.decide(&mut seat) {
                return error;
            }
            level.strained &= seat.asked() == asked;
        }
    }

    /// Each kind of event has its handler.
    fn handle(&mut self, event: &Event) {
        // Those that are not known were counted.
        let Some(kind) = self.desk.saw(event.kind) else { return };
        match kind {
            Kind::Ready if event.detail == ready::HURRIED => self.hurries(event),
            Kind::Ready => self.ready(event),
            Kind::Tick => {
                if core::mem::take(&mut self.thinks) {
                    self.wait(THINK_MS);
                } else if self.absent {
                    self.wait(ABSENT_MS);
                } else {
                    self.ended = Some(self.running);
                    self.quanta.end(event.a);
                }
                self.running = 0;
            }
            // Somebody has left mail, which is looked for anyway.
            Kind::Request if event.detail == op::LOOK as u32 => self.looks = true,
            Kind::Request if event.detail == op::LEND as u32 => {
                let to = Ready { thread: event.a, turn: event.b };
                let level = self.board.priorities().of(event.thread);
                let key = if event.thread == self.running { self.key } else { 0 };
                // Where everybody has a share the holder has its own.
                if self.board.weight() == 0 {
                    self.loans.lend(event.thread, (level, key), to);
                }
            }
            Kind::Request => {
                if !self.waiting.put(Asked { thread: event.thread, level: event.a }) {
                    // Of more threads than the board has room for.
                    task::exit(Error::TooBig.word() as i32);
                }
                self.send();
            }
            Kind::Ended => {
                self.board.priorities().forget(event.thread);
                self.board.beds().forget(event.thread);
                ENDED.note(event.thread);
            }
            Kind::Interrupt => self.strained |= interrupts::serve(event, !self.strained),
            // They say why the processor is free, which does not matter for what runs next.
            Kind::Call | Kind::Exception | Kind::Handed => {}
        }
    }

    /// The high level has done nothing for so long of what it was called for. Without it no priority changes and nobody is raised: it is given up,
    /// with this level, and the kernel goes on in turn.
    fn wait(&mut self, ms: u64) {
        // Where nobody sits yet the kernel goes on in turn: there it may stand behind others that have whole quanta.
        if self.absent && !passing::all_sit() {
            return;
        }
        let now = time::now_ns();
        // More is to be done each time that it has done something: it is busy, not lost.
        let finished = self.desk.finished();
        if core::mem::replace(&mut self.finished, finished) != finished {
            self.waited_ms = 0;
        }
        if self.waited_ms == 0 {
            self.since = now.saturating_sub(ms * NS_PER_MS);
        }
        self.waited_ms += ms;
        let patience = if self.absent { ABSENT_PATIENCE_MS } else { PATIENCE_MS };
        let is_late = self.waited_ms + ms >= patience && now - self.since >= LATE_NS;
        if self.waited_ms >= patience || is_late {
            self.desk.give_up(now - self.since, self.absent);
            // So the `sched` server knows that it is not this level that has failed.
            task::exit(Error::TimedOut.word() as i32);
        }
    }

    /// Lets the high level know of changes of priority, as far as there is room on the desk.
    fn send(&mut self) {
        while let Some(asked) = self.waiting.first()
            && self.desk.send(asked)
        {
            self.waiting.pop();
            self.desk.call(Call { why: reason::PRIORITY, thread: asked.thread, when: time::now_ns() });
            self.unsorted = true;
        }
    }

    fn ready(&mut self, event: &Event) {
        let ready = Ready { thread: event.thread, turn: event.a };
        if let Some(at) = self.high_of(ready.thread) {
            self.board.desk(at).high_is_ready(ready.turn);
            if at != self.processor {
                // It may have nothing else to do, and rest.
                let _ = sched::look(at as u64);
            }
            return;
        }
        if event.detail == ready::YIELDED {
            self.gave = ready;
        }
        let why = match event.detail {
            // Who was interrupted goes on before others, until its quantum has ended.
            ready::PREEMPTED if self.ended.is_none() && self.has_time(ready.thread) => Why::Interrupted,
            ready::PREEMPTED | ready::YIELDED => Why::Over,
            // Whoever has agreed on something has what that says.
            ready::CALLED if !self.order.has_agreed(ready.thread) && self.called.put(ready) => return,
            _ => Why::Came,
        };
        self.file(ready, why);
    }

    /// Whether something is left of the quantum of a thread that was interrupted. If not, it has ended.
    fn has_time(&mut self, thread: u64) -> bool {
        let now = time::now_ns();
        let has = self.quanta.interrupted(thread, self.board.priorities().of(thread), now);
        let others_wait = !self.queue.is_empty() && self.quanta.is_overdue(now);
        if others_wait {
            self.quanta.end(now);
        }
        if !has || others_wait {
            self.ended = Some(thread);
        }
        self.ended.is_none()
    }

    fn file(&mut self, ready: Ready, why: Why) {
        if self.leave_elsewhere(ready) {
            return;
        }
        let position = self.order.position(ready.thread, why);
        let position = if why == Why::Interrupted { self.quanta.resumes(ready.thread, position) } else { position };
        let is_filed = self.queue.put(ready, position)
            || self.queue.purge(&mut self.latest) > 0 && self.queue.put(ready, position);
        if !is_filed {
            // More threads than the board has room for: the kernel keeps them, and says so again in its own turn.
            task::exit(Error::TooBig.word() as i32);
        }
    }

    /// Leaves a thread to the processor where it has to run. Whether that was done; without room there it runs here.
    fn leave_elsewhere(&self, ready: Ready) -> bool {
        let to = self.order.elsewhere(ready.thread).filter(|to| *to < self.processors);
        to.is_some_and(|to| self.board.mail(to).put(ready) && sched::look(to as u64).is_ok())
    }

    /// Names a thread that has this key in the queue.
    fn name(&self, seat: &mut Seat, ready: Ready, key: u64, limit: Limit) -> Result<(), Error> {
        let limit = self.unless_absent(self.order.limit(ready.thread).map_or(limit, Limit::Ns));
        let began = self.order.begin(ready.thread, key);
        let answer = seat.next(ready.thread, ready.turn, limit);
        if answer.is_ok() {
            self.order.end(ready.thread, began);
        }
        answer
    }

    /// Who runs although the high level is wanted runs until it is looked at next.
    fn unless_absent(&self, limit: Limit) -> Limit {
        let most = ABSENT_MS * NS_PER_MS;
        match limit {
            _ if !self.absent => limit,
            Limit::Same if !self.is_missed => limit,
            Limit::Ns(ns) => Limit::Ns(ns.min(most)),
            Limit::Same | Limit::Never => Limit::Ns(most),
        }
    }

    /// Of which processor a thread is the high level.
    fn high_of(&self, thread: u64) -> Option<usize> {
        let own = self.desk.high() == thread;
        if own {
            return Some(self.processor);
        }
        (0..self.processors).find(|at| self.board.desk(*at).high() == thread)
    }

    fn decide(&mut self, seat: &mut Seat) -> Result<(), Error> {
        self.order.rests(false);
        if let Some(thread) = self.ended.take() {
            self.queue.tick();
            self.desk.call(Call { why: reason::QUANTUM, thread, when: time::now_ns() });
            self.share();
        }
        self.send();
        let high = if self.desk.is_wanted() {
            let high = self.desk.take_high();
            self.is_missed = high.is_none() && !self.absent;
            self.absent = high.is_none();
            high
        } else {
            (self.thinks, self.absent, self.is_missed, self.waited_ms) = (false, false, false, 0);
            if core::mem::take(&mut self.unsorted) {
                self.queue.file_anew(|thread| self.board.priorities().of(thread));
            }
            None
        };
        if let Some(high) = high {
            self.passes_on();
            self.running = high.thread;
            // Whatever interrupts it, its time goes on.
            let limit = if self.thinks { Limit::Same } else { Limit::Ns(THINK_MS * NS_PER_MS) };
            return match seat.next(high.thread, high.turn, limit) {
                Err(Error::Busy) => {
                    self.desk.high_is_ready(high.turn);
                    Ok(())
                }
                answer => {
                    self.thinks |= had(answer)?;
                    Ok(())
                }
            };
        }
        self.thinks = false;
        let (levels, to) = self.desk.take_raise();
        (0..LEVELS).filter(|level| levels >> level & 1 != 0).for_each(|level| self.queue.raise(level, to as usize));
        let mail = self.board.mail(self.processor);
        while let Some(ready) = mail.take() {
            self.file(ready, Why::Came);
        }
        // If something came in between, the waiter will give its next turn.
        let lent =
            self.loans.take(self.queue).filter(|lent| lent.waiter == self.running && self.may_have(lent.to.thread));
        if let Some(lent) = lent {
            self.passes_on();
            self.loans.begin(Some(lent));
            // It is the waiter's quantum that runs, and what the waiter has agreed on.
            let began = self.order.begin(lent.waiter, 0);
            match seat.next(lent.to.thread, lent.to.turn, self.unless_absent(Limit::Same)) {
                Err(Error::Busy) => {
                    self.loans.put_back(lent);
                    return Ok(());
                }
                answer if had(answer)? => {
                    // It stays behind in the queue.
                    self.latest.is_over(lent.to);
                    self.order.end(lent.waiter, began);
                    self.running = lent.to.thread;
                    return Ok(());
                }
                _ => {}
            }
        }
        self.loans.begin(None);
        loop {
            // Who goes on although he was to begin would have no limit of time.
            let running = self.running;
            if let Some(called) = self.called.take(self.queue, running, self.gave) {
                self.passes_on();
                self.running = called.thread;
                self.quanta.taken(called.thread, Position::default());
                let level = self.board.priorities().of(called.thread);
                let quantum = Limit::Ns(self.quanta.begin(called.thread, level, time::now_ns()));
                self.key = 0;
                match self.name(seat, called, 0, quantum) {
                    Err(Error::Busy) => {
                        self.called.undo(called, false);
                        self.running = running;
                        return Ok(());
                    }
                    answer if had(answer)? => return Ok(()),
                    _ => {
                        self.called.undo(called, true);
                        self.running = running;
                        continue;
                    }
                }
            }
            let Some((first, position)) = self.queue.pop() else { break };
            if self.leave_elsewhere(first) {
                continue;
            }
            if let Some(helper) = self.order.helper() {
                let _ = sched::look(helper as u64);
            }
            self.passes_on();
            let limit = if first.thread == self.running {
                self.quanta.goes_on(first.thread, position.level);
                Limit::Same
            } else {
                let now = time::now_ns();
                if self.quanta.is_overdue(now) {
                    // For those who wait, if anybody does: when it is decided next.
                    self.ended = Some(self.running).filter(|_| !self.queue.is_empty());
                    self.quanta.end(now);
                }
                Limit::Ns(self.quanta.begin(first.thread, position.level, now))
            };
            (self.running, self.key) = (first.thread, position.key);
            self.quanta.taken(first.thread, position);
            match self.name(seat, first, position.key, limit) {
                Err(Error::Busy) => {
                    self.queue.put(first, position);
                    self.called.undo(first, false);
                    self.running = running;
                    return Ok(());
                }
                answer if had(answer)? => {
                    return Ok(());
                }
                _ => self.called.undo(first, true),
            }
        }
        self.steal(seat)
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
