//! What the kernel records of each processor, in order of time: the section of the trace, which programs read without a call (SSS-24).
//!
//! It holds [`STEP`] bytes for each processor: a page with its [`HEAD`], a page of [`HANDLERS`], and a ring of records. A record is
//! [`RECORD`] words: which one it is in the order of all (from 1 on; 0 while it is being written), and those of an [`Event`].

use crate::calls;
use crate::layout::PAGE;
use core::fmt;

/// Records of a ring, a power of two.
pub const RECORDS: u64 = 8192;
/// Words of a record.
pub const RECORD: usize = 8;
/// Bytes for each processor.
pub const STEP: u64 = RING as u64 * 8 + RECORDS * RECORD as u64 * 8;
pub const PAGES: u64 = STEP / PAGE;

// Words of a processor's part.
/// How many records were written since boot.
pub const HEAD: usize = 0;
/// 1 while records are written.
pub const ON: usize = 8;
/// For each handler: the longest time that it took with interrupts off at a stretch, in ticks of the time-stamp counter, without what it waited for
/// other processors ([`handler::WAITS`]), and how often it was entered; both while the trace was on.
pub const HANDLERS: usize = 512;
pub const RING: usize = 1024;

/// What has happened. `a` and `b` say more.
pub mod kind {
    /// Entry into the kernel: first argument or address of the fault; where the program was.
    pub const ENTER: u64 = 1;
    /// Way out of the kernel: ticks since the entry; 0.
    pub const LEAVE: u64 = 2;
    /// Another thread runs, that of the record (0: none): the one before; 1 if on its own turn, 0 if it was handed the processor.
    pub const SWITCH: u64 = 3;
    /// A thread's wait is over: the thread; its turn.
    pub const WAKE: u64 = 4;
    /// A message hands the processor over: the thread that gets it; 0.
    pub const HAND_OVER: u64 = 5;
    /// A call into another program, made by the kernel: the callee's text; how deep the thread is then.
    pub const CALL: u64 = 6;
    /// The return from it: the text returned into; how deep the thread is then.
    pub const RETURN: u64 = 7;
    /// A pager is called: section; offset.
    pub const PAGER: u64 = 8;
    /// It has come back: section; offset.
    pub const PAGED: u64 = 9;
    /// Other processors are made to forget translations: which, as bits; 0.
    pub const SHOOTDOWN: u64 = 10;
    /// A scheduler outside the kernel is told something: which event (`sched::event`); about which thread.
    pub const SCHED: u64 = 11;
    /// An interrupt that came while nothing ran: vector; 0.
    pub const INTERRUPT: u64 = 12;
    /// Nothing is ready. 0; 0.
    pub const IDLE: u64 = 13;
    /// A thread begins: thread; task.
    pub const THREAD: u64 = 14;
    /// A thread ends: thread; its code.
    pub const THREAD_END: u64 = 15;
    /// A task begins: its number, in the place of that of the running thread's task; the first bytes of its name in both words.
    pub const TASK: u64 = 16;
    /// A task ends: task; 0.
    pub const TASK_END: u64 = 17;

    pub const NAMES: [&str; 18] = [
        "?",
        "enter",
        "leave",
        "switch",
        "wake",
        "hand-over",
        "call",
        "return",
        "pager",
        "paged",
        "shootdown",
        "sched",
        "interrupt",
        "idle",
        "thread",
        "thread-end",
        "task",
        "task-end",
    ];
}

/// One record, without its place in the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds since boot.
    pub time: u64,
    /// One of [`kind`].
    pub kind: u64,
    /// By which way the processor came into the kernel: see [`handler`].
    pub handler: u64,
    /// The running thread, its task and the text that it executes; 0: none.
    pub thread: u64,
    pub task: u64,
    pub text: u64,
    pub a: u64,
    pub b: u64,
}

impl Event {
    #[must_use]
    pub const fn words(&self) -> [u64; RECORD - 1] {
        [self.time, self.kind | self.handler << 8, self.thread, self.task, self.text, self.a, self.b]
    }

    #[must_use]
    pub const fn of_words([time, what, thread, task, text, a, b]: [u64; RECORD - 1]) -> Event {
        Event { time, kind: what & 0xff, handler: what >> 8 & 0xff, thread, task, text, a, b }
    }

    #[must_use]
    pub fn name(&self) -> &'static str {
        kind::NAMES.get(self.kind as usize).unwrap_or(&"?")
    }
}

/// Ways into the kernel by number: a call has its own, below [`FIRST_OTHER`](handler::FIRST_OTHER).
pub mod handler {
    pub const COUNT: usize = 256;
    pub const FIRST_OTHER: u64 = 0x9b;
    /// A number that is no call's.
    pub const NO_CALL: u64 = 0x9b;
    /// What the short way of a message has left to do.
    pub const POSTED: u64 = 0x9c;
    /// A call of a program in a window.
    pub const WINDOW: u64 = 0x9d;
    /// A call through a bound gate.
    pub const BOUND: u64 = 0x9e;
    /// On from idleness.
    pub const IDLE: u64 = 0x9f;
    /// No way in: what stretches have waited until other processors had forgotten translations, which the time of no other handler has in it. (No
    /// exception has this vector.)
    pub const WAITS: u64 = 0xbf;
    /// Exceptions, by vector.
    pub const EXCEPTION: u64 = 0xa0;
    /// Interrupts, by vector less 32.
    pub const INTERRUPT: u64 = 0xc0;
}

/// A handler as people call it.
#[derive(Clone, Copy, Debug)]
pub struct Handler(pub u64);

impl fmt::Display for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            handler::NO_CALL => f.write_str("no-call"),
            handler::POSTED => f.write_str("posted"),
            handler::WINDOW => f.write_str("foreign"),
            handler::BOUND => f.write_str("bound-call"),
            handler::IDLE => f.write_str("idle"),
            handler::WAITS => f.write_str("waits-for-others"),
            call if call < handler::FIRST_OTHER => match calls::TABLE.iter().find(|row| row.number == call) {
                Some(row) => f.write_str(row.name),
                None => write!(f, "call-{call:#x}"),
            },
            exception if exception < handler::INTERRUPT => match exception - handler::EXCEPTION {
                14 => f.write_str("page-fault"),
                vector => write!(f, "exception-{vector}"),
            },
            interrupt => write!(f, "interrupt-{:#x}", interrupt - handler::INTERRUPT + 32),
        }
    }
}
