//! What a thread is doing, and whose turn it is to run it.

/// What a thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It waits, or has not begun.
    Waiting,
    /// It could run.
    Ready,
    /// It runs on one processor, or is on its way there.
    Running,
    /// For ever.
    Ended,
}

/// Why a thread cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Somebody was faster: the turn was taken, or has passed.
    Taken,
    /// That turn has not been yet. Nobody can have heard of it.
    Never,
}

/// A thread's phase. Each time that it becomes ready it gets a new turn, and each turn is taken by one processor only: so
/// whoever keeps (thread, turn) in a queue need not hear what became of it (invariant 38).
#[derive(Clone, Copy, Debug)]
pub struct Life {
    phase: Phase,
    turn: u64,
    /// The processor that has it, while it runs.
    at: usize,
    /// Ready, but in no queue: a scheduler keeps it until it names it.
    parked: bool,
}

impl Default for Life {
    fn default() -> Life {
        Life::new()
    }
}

impl Life {
    /// A thread that has not begun.
    pub const fn new() -> Life {
        Life { phase: Phase::Waiting, turn: 0, at: 0, parked: false }
    }

    /// What it is doing.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The number of its last turn; 0 before the first.
    pub fn turn(&self) -> u64 {
        self.turn
    }

    /// It could run from now on, having waited or having run. The turn; `None` if it could already, or has ended.
    pub fn ready(&mut self) -> Option<u64> {
        if !matches!(self.phase, Phase::Waiting | Phase::Running) {
            return None;
        }
        Some(self.begin_turn())
    }

    fn begin_turn(&mut self) -> u64 {
        (self.phase, self.parked) = (Phase::Ready, false);
        self.turn += 1;
        self.turn
    }

    /// The running thread is put aside by the scheduler whose code it executes, which names it again when it likes (with turn
    /// 0). Whether it was running.
    pub fn park(&mut self) -> bool {
        let running = self.phase == Phase::Running;
        if running {
            self.begin_turn();
            self.parked = true;
        }
        running
    }

    /// A parked thread is to run whatever the scheduler has meant to do with it. The turn to queue it for; `None`: it is not
    /// parked.
    pub fn unpark(&mut self) -> Option<u64> {
        (self.phase == Phase::Ready && self.parked).then(|| self.begin_turn())
    }

    /// Whether a scheduler has put it aside.
    pub fn is_parked(&self) -> bool {
        self.parked && self.phase == Phase::Ready
    }

    /// Whether it runs on this processor: not one that has not let go of it yet while the next one has it already.
    pub fn runs_at(&self, processor: usize) -> bool {
        self.phase == Phase::Running && self.at == processor
    }

    /// Processor `at` takes this turn; 0: whatever turn it is parked for.
    ///
    /// # Errors
    /// The thread is not to be had; nothing has changed.
    pub fn claim(&mut self, turn: u64, at: usize) -> Result<(), Refused> {
        if turn > self.turn {
            return Err(Refused::Never);
        }
        let same = if turn == 0 { self.parked } else { turn == self.turn };
        if self.phase != Phase::Ready || !same {
            return Err(Refused::Taken);
        }
        (self.phase, self.at, self.parked) = (Phase::Running, at, false);
        Ok(())
    }

    /// The running thread waits. Whether it was running.
    pub fn wait(&mut self) -> bool {
        let running = self.phase == Phase::Running;
        if running {
            self.phase = Phase::Waiting;
        }
        running
    }

    /// A thread that waits goes on without a turn: the one who sits in the seat of processor `at`. Whether it waited.
    pub fn resume(&mut self, at: usize) -> bool {
        let waiting = self.phase == Phase::Waiting;
        if waiting {
            (self.phase, self.at) = (Phase::Running, at);
        }
        waiting
    }

    /// It ends on processor `at`, where it runs, or has begun to wait. Whether it does: one that is ready, or runs elsewhere by now, is
    /// for whoever takes it up to end.
    pub fn end(&mut self, at: usize) -> bool {
        let ends = self.at == at && matches!(self.phase, Phase::Running | Phase::Waiting);
        if ends {
            self.phase = Phase::Ended;
        }
        ends
    }
}
