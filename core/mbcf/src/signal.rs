//! A signal's structure (SSS-108 to 121): what its receiver has set, and what becomes of a signal that comes to it.

use abi::mbcf::{SignalSetup, SignalWords, condition, magic, signal_flag, start, store};

/// How a program is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// What the structure names, which is told what the sender has named (SSS-112).
    Scheduler,
    /// What the structure names (SSS-113).
    Destination,
    /// What the sender names (SSS-114).
    Source,
}

/// Where its data go (SSS-116).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// To the beginning of the buffer, over what was there.
    Memory { start: u64, end: u64 },
    /// To the queue whose structure lies there.
    Queue { at: u64 },
}

/// What becomes of a signal while an earlier one's program is under way (SSS-119 to 121).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Refuse,
    StoreOnly,
    StartAnyway,
}

/// What becomes of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its data are stored, and this program is to start.
    Start(u64),
    /// Its data are stored; the program under way will see them, or one is started when it has ended.
    Store,
    Cancelled,
    /// The structure does not allow what the sender wants (SSS-110): it names a program where the receiver's is meant, or none where one has to be.
    Refused,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    pub start: Start,
    pub store: Store,
    pub condition: Condition,
    /// Every signal's data begin with who sent it (SSS-117).
    pub sender: bool,
    pub thread: u64,
    entry: u64,
    most: u64,
    /// Programs that run, and that are to start.
    begun: u64,
    waiting: u64,
    /// Data have come that no start will be for, and nobody has looked since.
    unseen: bool,
    /// The program that was last asked for.
    last: u64,
}

impl Signal {
    /// As its receiver wants it. `None`: a number that means nothing.
    #[must_use]
    pub fn new(setup: &SignalSetup) -> Option<Signal> {
        let start = match setup.start {
            start::SCHEDULER => Start::Scheduler,
            start::DESTINATION => Start::Destination,
            start::SOURCE => Start::Source,
            _ => return None,
        };
        let store = match setup.store {
            store::MEMORY => {
                let end = setup.buffer.checked_add(setup.buffer_len)?;
                (setup.buffer.is_multiple_of(8) && setup.buffer_len.is_multiple_of(8))
                    .then_some(Store::Memory { start: setup.buffer, end })?
            }
            store::QUEUE => (setup.buffer_len == 0).then_some(Store::Queue { at: setup.buffer })?,
            _ => return None,
        };
        let condition = match setup.condition {
            condition::REFUSE => Condition::Refuse,
            condition::STORE_ONLY => Condition::StoreOnly,
            condition::START_ANYWAY => Condition::StartAnyway,
            _ => return None,
        };
        if setup.flags & !signal_flag::SENDER != 0 || setup.most == 0 || setup.most > abi::mbcf::NEST_MAX {
            return None;
        }
        Some(Signal {
            start,
            store,
            condition,
            sender: setup.flags & signal_flag::SENDER != 0,
            thread: setup.thread,
            entry: setup.entry,
            most: setup.most,
            begun: 0,
            waiting: 0,
            unseen: false,
            last: setup.entry,
        })
    }

    /// Whether data begin with what the sender has named.
    #[must_use]
    pub fn tells_entry(&self) -> bool {
        self.start == Start::Scheduler
    }

    /// What becomes of a signal for which its sender names `entry` (0: nothing). Nothing is done yet.
    #[must_use]
    pub fn admit(&self, entry: u64) -> Verdict {
        let program = match self.start {
            Start::Scheduler => self.entry,
            Start::Destination if entry == 0 => self.entry,
            Start::Source if entry != 0 => entry,
            _ => return Verdict::Refused,
        };
        let under_way = self.begun + self.waiting;
        match self.condition {
            _ if under_way == 0 => Verdict::Start(program),
            Condition::Refuse => Verdict::Cancelled,
            Condition::StoreOnly => Verdict::Store,
            Condition::StartAnyway if under_way >= self.most => Verdict::Cancelled,
            Condition::StartAnyway => Verdict::Start(program),
        }
    }

    /// Its data are stored.
    pub fn commit(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Start(program) => {
                self.waiting += 1;
                self.last = program;
            }
            Verdict::Store => self.unseen = true,
            Verdict::Cancelled | Verdict::Refused => {}
        }
    }

    /// A program that was to start does. Whether one was.
    pub fn begin(&mut self) -> bool {
        if self.waiting == 0 {
            return false;
        }
        self.waiting -= 1;
        self.begun += 1;
        true
    }

    /// One has ended. The program that is to start now: data have come as it was returning, and it has not looked (SSS-120).
    pub fn end(&mut self) -> Option<u64> {
        self.begun = self.begun.saturating_sub(1);
        if self.begun + self.waiting > 0 || !core::mem::take(&mut self.unseen) {
            return None;
        }
        self.waiting += 1;
        Some(self.last)
    }

    /// One that was begun could not be started. What has come while it was to be is for whom the next signal starts: nobody is asked again at once.
    pub fn failed(&mut self) {
        self.begun = self.begun.saturating_sub(1);
    }

    /// Somebody has looked for data, and has all of them now.
    pub fn seen(&mut self) -> bool {
        core::mem::take(&mut self.unseen)
    }

    /// Where its buffer ends.
    #[must_use]
    pub fn end_of_buffer(&self) -> u64 {
        match self.store {
            Store::Memory { end, .. } => end,
            Store::Queue { at } => at + 1,
        }
    }

    /// What everybody sees of it (SSS-109).
    #[must_use]
    pub fn words(&self) -> SignalWords {
        let (store, buffer, buffer_end) = match self.store {
            Store::Memory { start, end } => (store::MEMORY, start, end),
            Store::Queue { at } => (store::QUEUE, at, 0),
        };
        let start = match self.start {
            Start::Scheduler => start::SCHEDULER,
            Start::Destination => start::DESTINATION,
            Start::Source => start::SOURCE,
        };
        let condition = match self.condition {
            Condition::Refuse => condition::REFUSE,
            Condition::StoreOnly => condition::STORE_ONLY,
            Condition::StartAnyway => condition::START_ANYWAY,
        };
        let flags = if self.sender { signal_flag::SENDER } else { 0 };
        SignalWords {
            kinds: start | store << 8 | condition << 16,
            entry: self.entry,
            buffer,
            buffer_end,
            thread: self.thread,
            under_way: self.begun + self.waiting,
            flags: magic::SIGNAL | flags,
        }
    }
}
