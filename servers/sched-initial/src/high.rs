#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

use board::{Board, Called, Chosen, LEVELS, Latest, Loans, Order, Over, Position, Quanta, Ready};
use musubi::abi::sched::{event, op, ready};
use musubi::interfaces::sched::SchedClient;
use musubi::rt::{sched, task, thread, time};
use musubi::{Error, Start};

musubi::program!(run);

const QUANTUM_NS: u64 = 10_000_000;
const LOOK_NS: u64 = 2_000_000;

/// Told on whichever processor it was.
static ENDED: Over = Over::new();
/// Turns that are looked at in another processor's queue, which others may claim just then.
const TRIES: usize = 4;
/// How many of them are named one after the other.
const TRIES_MAX: usize = 64;
/// Quanta that a thread may wait before it gets a turn at the highest level.
const PATIENCE: u64 = 8;

fn run(_: &Start) -> i32 {
    let begun = musubi::names::lookup("sched").and_then(SchedClient::bind).and_then(|client| {
        let shown = Board::new(sched::words(client.board()?)?).ok_or(Error::BadAddress)?;
        shown.proposals().know(&[]);
        let processors = task::processors().count().min(board::PROCESSORS);
        // The queues are where the fast level has no right to be.
        let own = Board::new(sched::words(client.private()?)?).ok_or(Error::BadAddress)?;
        for processor in 1..processors {
            thread::spawn(move || Policy::new(shown, own, processor, processors).serve(), 0)?;
        }
        Ok(Policy::new(shown, own, 0, processors))
    });
    match begun {
        Ok(policy) => policy.serve(),
        Err(e) => e.word() as i32,
    }
}

/// The high level on one processor: fixed priorities.
struct Policy {
    shown: Board<'static>,
    own: Board<'static>,
    processor: usize,
    processors: usize,
    running: u64,
    /// The quantum of the one that ran has ended.
    ended: bool,
    /// The turn of who gave way last: to those whom an interrupt has called, too.
    gave: Ready,
    /// Turns that running threads have given to others.
    loans: Loans,
    /// Who has a turn before those in the queue.
    called: Called,
    /// What was chosen last, and who ran before that.
    chosen: Ready,
    before: u64,
    /// For when a queue is full of turns that are past.
    latest: Latest,
    quanta: Quanta,
    /// Work may wait elsewhere: this processor was told, or has taken some.
    looks: bool,
    /// Priorities have changed: those who are ready are filed anew before one is chosen, once for all changes, since many may be ready.
    unsorted: bool,
    /// How many turns from elsewhere it still names before it rests for a moment: most may be past.
    tries: usize,
}

impl Policy {
    fn new(shown: Board<'static>, own: Board<'static>, processor: usize, processors: usize) -> Policy {
        Policy {
            shown,
            own,
            processor,
            processors,
            running: 0,
            ended: false,
            gave: Ready { thread: 0, turn: 0 },
            loans: Loans::default(),
            called: Called::new(),
            chosen: Ready { thread: 0, turn: 0 },
            before: 0,
            latest: Latest::new(&ENDED),
            quanta: Quanta::new(QUANTUM_NS),
            looks: false,
            unsorted: false,
            tries: TRIES_MAX,
        }
    }

    fn serve(mut self) -> ! {
        let (desk, buffer) = (self.shown.desk(self.processor), self.shown.buffer(self.processor));
        desk.set_high(task::identity().thread);
        sched::serve();
        loop {
            if buffer.is_asked() {
                while let Some([kind, thread, a, b]) = buffer.receive() {
                    self.handle(kind as u32, (kind >> 32) as u32, thread, [a, b]);
                }
                let chosen = self.choose();
                if let Some(helper) = self.helper(chosen) {
                    buffer.rouse(helper);
                }
                buffer.answer(chosen);
            } else if desk.seen(event::READY) == 0 {
                time::sleep_ns(1_000_000);
                continue;
            }
            thread::yield_now();
        }
    }

    /// Who may have somebody who waits: here, or where this processor was to look itself, which has something to run.
    fn helper(&mut self, chosen: Chosen) -> Option<usize> {
        let others = core::mem::take(&mut self.looks) && chosen.thread != 0;
        let own = self.order().helper();
        own.or_else(|| if others { self.order().helper_of_others(self.processors) } else { None })
    }

    /// Who rests, on the board that is this level's alone.
    fn order(&self) -> Order<'static> {
        Order::new(self.own, self.processor, time::now_ns)
    }

    fn handle(&mut self, kind: u32, detail: u32, thread: u64, [a, b]: [u64; 2]) {
        let (queue, priorities) = (self.own.queue(self.processor), self.own.priorities());
        match kind {
            event::READY => {
                let (ready, level) = (Ready { thread, turn: a }, priorities.of(thread));
                self.latest.is_told(ready);
                if detail == ready::HURRIED {
                    return self.called.hurry(queue, ready);
                }
                if ready == self.chosen {
                    // It was not carried out: nobody else has begun to run.
                    self.running = self.before;
                    let was_called = self.called.was_taken(ready);
                    self.called.undo(ready, false);
                    if was_called {
                        return;
                    }
                }
                if detail == ready::CALLED && self.called.put(ready) {
                    return;
                }
                if detail == ready::YIELDED {
                    self.gave = ready;
                }
                let first = detail == ready::PREEMPTED && !self.ended && {
                    let now = time::now_ns();
                    self.ended |= !self.quanta.interrupted(thread, level, now);
                    if !queue.is_empty() && self.quanta.is_overdue(now) {
                        self.ended = true;
                        self.quanta.end(now);
                        queue.tick();
                    }
                    !self.ended
                };
                let own = Position { level, first, ..Position::default() };
                let position = if first { self.quanta.resumes(thread, own) } else { own };
                let put = || queue.put(ready, position);
                if !put() && (queue.purge(&mut self.latest) == 0 || !put()) {
                    task::exit(Error::TooBig.word() as i32);
                }
            }
            event::TICK => {
                self.tries = TRIES_MAX;
                (self.ended, self.running) = (true, 0);
                self.quanta.end(a);
                queue.tick();
            }
            event::REQUEST if detail == op::LEND as u32 => {
                let to = Ready { thread: a, turn: b };
                self.loans.lend(thread, (priorities.of(thread), 0), to);
            }
            // Another processor has more than it runs: the choice comes next.
            event::REQUEST if detail == op::LOOK as u32 => self.looks = true,
            event::REQUEST => {
                priorities.set(thread, a);
                self.unsorted = true;
            }
            event::ENDED => {
                priorities.forget(thread);
                ENDED.note(thread);
            }
            _ => {}
        }
    }

    /// Who has waited for too many quanta gets a turn at the highest level, so that nobody starves.
    fn age(&self) {
        let queue = self.own.queue(self.processor);
        let Some(highest) = queue.highest() else { return };
        let waits = |level: &usize| queue.first(*level).is_some_and(|(_, waited)| waited >= PATIENCE);
        (highest as usize + 1..LEVELS).filter(waits).for_each(|level| queue.raise(level, highest as usize));
    }

    fn begin(&mut self, thread: u64, level: u64) -> u64 {
        let now = time::now_ns();
        if self.quanta.is_overdue(now) {
            // For those who wait, if anybody does: with the next choice.
            self.ended = !self.own.queue(self.processor).is_empty();
            self.quanta.end(now);
            self.own.queue(self.processor).tick();
        }
        self.quanta.begin(thread, level, now)
    }

    fn choose(&mut self) -> Chosen {
        self.before = self.running;
        if core::mem::take(&mut self.unsorted) {
            let priorities = self.own.priorities();
            self.own.queue(self.processor).file_anew(|thread| priorities.of(thread));
        }
        self.order().rests(false);
        let chosen = self.choice();
        self.chosen = Ready { thread: chosen.thread, turn: chosen.turn };
        chosen
    }

    fn choice(&mut self) -> Chosen {
        if core::mem::take(&mut self.ended) {
            self.age();
        }
        let queue = self.own.queue(self.processor);
        // If something came in between, the waiter will give its next turn.
        let lent = self.loans.take(queue).filter(|lent| lent.waiter == self.running);
        self.loans.begin(lent);
        if let Some(lent) = lent {
            self.running = lent.to.thread;
            // It stays behind in the queue.
            self.latest.is_over(lent.to);
            return Chosen { thread: lent.to.thread, turn: lent.to.turn, ns: 0 };
        }
        if let Some(Ready { thread, turn }) = self.called.take(self.own.queue(self.processor), self.running, self.gave)
        {
            let ns = self.begin(thread, self.own.priorities().of(thread));
            self.quanta.taken(thread, Position::default());
            self.running = thread;
            return Chosen { thread, turn, ns };
        }
        if let Some((Ready { thread, turn }, position)) = self.own.queue(self.processor).pop() {
            self.tries = TRIES_MAX;
            let ns = if thread == self.running { 0 } else { self.begin(thread, position.level) };
            self.quanta.taken(thread, position);
            self.running = thread;
            return Chosen { thread, turn, ns };
        }
        // First it says so, then it looks; who has more than it runs first queues that, then reads who rests.
        self.order().rests(true);
        let mut any = false;
        for other in (1..self.processors).map(|step| (self.processor + step) % self.processors) {
            let queue = self.own.queue(other);
            any |= !queue.is_empty();
            // Each turn is named once: if it was not to be had, somebody else has taken it, or it is announced here.
            let mut offers = queue.first_of::<TRIES>(|_| true).into_iter().flatten();
            if self.tries > 0
                && let Some(offer) = offers.find(|offer| queue.claim(offer))
            {
                self.tries -= 1;
                let ready = offer.ready;
                self.running = ready.thread;
                self.order().rests(false);
                self.looks = true;
                return Chosen { thread: ready.thread, turn: ready.turn, ns: QUANTUM_NS };
            }
        }
        (self.running, self.tries) = (0, TRIES_MAX);
        Chosen { thread: 0, turn: 0, ns: if any { LOOK_NS } else { u64::MAX } }
    }
}
