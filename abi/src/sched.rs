//! Schedulers outside the kernel (docs/decisions/0007): what the kernel tells the one in a processor's seat, what may be asked of
//! it, and what is known of a seat.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Number of the call `thread_next`. From a thread that executes the scheduler's text and does not sit in the seat it puts that
/// thread aside, and returns when somebody has named it. With turn 0 (a thread that was put aside itself) and no new limit of
/// time it takes a short way: it keeps what a procedure of the C ABI keeps, and no more. The kernel calls such a thread
/// back only at its end, or if it is asked to ([`op::CALL_BACK`]).
pub const THREAD_NEXT: u64 = 0x15;

/// The ring of events of one processor: one page, which the kernel makes. First this, then [`EVENTS`] entries.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct RingHead {
    /// Written by the scheduler: entries that it has read, counted from the beginning, modulo 2^32.
    pub head: u32,
    /// Written by the kernel: entries that there are.
    pub tail: u32,
    pub missed: u64,
    pub processor: u64,
    pub reserved: [u64; 5],
}

/// Entries of a ring; entry `n` lies at `RING_FIRST + n % EVENTS * size_of::<Event>()`.
pub const EVENTS: u32 = 64;
pub const RING_FIRST: u64 = size_of::<RingHead>() as u64;

/// What has happened on a processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Event {
    /// One of [`event`].
    pub kind: u32,
    pub detail: u32,
    /// The thread that it is about; 0: none.
    pub thread: u64,
    pub a: u64,
    pub b: u64,
}

/// Kinds of events.
pub mod event {
    /// A thread can run: `a` is its turn, to be named to `thread_next`. `detail`: one of [`super::ready`].
    pub const READY: u32 = 1;
    /// A call has made the running thread wait; `a`: the number of the call.
    pub const CALL: u32 = 2;
    /// A device's interrupt came; `detail`: its vector. If a handler is bound to it (`irq_bind`), `a` is the device's section and
    /// `b` the gate to call; whoever does not call it says so ([`super::op::GIVE_BACK`]).
    pub const INTERRUPT: u32 = 3;
    /// The running thread's program did what it must not, whether or not it mends that itself. `detail`: one of `task::cause`, `a`: the address
    /// (of an instruction: the vector), `b`: the text that was executed, and within its granule the bits of the right that was missing.
    pub const EXCEPTION: u32 = 4;
    /// The time has come that the scheduler gave.
    pub const TICK: u32 = 5;
    /// A thread has ended.
    pub const ENDED: u32 = 6;
    /// `call_scheduler` asks for something: `detail`: one of [`super::op`], `a` and `b`: its arguments.
    pub const REQUEST: u32 = 7;
    /// The thread that runs, or did until now, was handed the processor by a message: it ran on the turn of thread `a`, which the scheduler
    /// (or one that it had chosen, calling it) had named. Told when the scheduler is next asked; who is on whose turn at any moment stands in
    /// memory that everybody may read (`info::RUNNING_TURN`).
    pub const HANDED: u32 = 8;
    /// Each in words, by number; 0: those of any other number.
    pub const WORDS: [&str; 9] = [
        "unknown events",
        "wake-ups",
        "calls that wait",
        "interrupts",
        "exceptions",
        "ticks",
        "ends",
        "calls of the scheduler",
        "hand-overs",
    ];
}

/// Why a thread is ready ([`event::READY`]).
pub mod ready {
    /// It is new, or what it waited for has come.
    pub const WOKEN: u32 = 0;
    /// It was running, and has to make room.
    pub const PREEMPTED: u32 = 1;
    /// It has given way by itself.
    pub const YIELDED: u32 = 2;
    /// It was ready before the scheduler sat down.
    pub const FOUND: u32 = 3;
    /// It is new here as in [`WOKEN`], and what has come is a device's interrupt, as a message to its post: what is left to do for the device
    /// waits for it.
    pub const CALLED: u32 = 4;
    /// It is ready for this turn, as was said before, and a device's interrupt waits for it to come back to its post: it is to be next, as if it were
    /// [`CALLED`]. Who does not know it as ready, any more or yet, does nothing.
    pub const HURRIED: u32 = 5;
}

/// What `call_scheduler` does.
pub mod op {
    /// Gives the processor up.
    pub const YIELD: u64 = 0;
    /// Waits for a wake-up (one that came before counts), at most `b` ns.
    pub const SLEEP: u64 = 1;
    /// Wakes thread `a`, or lets its next sleep end at once.
    pub const WAKEUP: u64 = 2;
    /// Both in one: wakes thread `a` and sleeps, at most `b` ns.
    pub const PASS: u64 = 3;
    /// From now on thread `a`, whoever's it is, may wake the caller, and its end does so. As often as it is taken back,
    /// at most [`super::WATCHES_MAX`] threads at a time. Errors: `Dead` (it has ended), `TooBig`.
    pub const WATCH: u64 = 5;
    /// Takes one [`WATCH`] of thread `a` back.
    pub const UNWATCH: u64 = 6;
    /// Priority `b` (0: the highest, to [`super::PRIORITY_LOWEST`]) for thread `a`. For the scheduler to follow.
    pub const PRIORITY: u64 = 4;
    /// Has the scheduler of processor `a` look around. Only for who sits in the seat of another one.
    pub const LOOK: u64 = 7;
    /// Thread `a` was put aside by the scheduler, or is about to be: it is ready. From the scheduler's text, or for a thread of
    /// the caller's user.
    pub const CALL_BACK: u64 = 8;
    /// What is left of interrupt `a` (its vector) is a message to its driver's post (`irq_post`). `b`: the gate of a handler that is not
    /// to be called again; 0: none. Only from the text of a scheduler.
    pub const GIVE_BACK: u64 = 9;
    /// The thread whose stack lies at address `a`, on which it executes the caller's text, holds what the caller waits for: it runs on the caller's turn, who
    /// stays ready (pitfall H13). The scheduler hears `a`: that thread, `b`: its turn. Value: 1, or 0 if it is not ready: it runs, or
    /// waits itself. Errors: `NotFound`: there is no such stack, or its thread does not execute this text any more.
    pub const LEND: u64 = 10;
    /// The caller's thread is a level of a scheduler, which has it run when it is wanted: that it is ready is no reason to. (Otherwise a scheduler under which
    /// all rest while it is ready is put out, [`super::reason::NEGLECT`].) Errors: `Denied`: not by the thread's own program, which is the system's.
    pub const SERVE: u64 = 11;
}

pub const PRIORITY_LOWEST: u64 = 31;
/// Threads that one thread may watch.
pub const WATCHES_MAX: usize = 16;

/// Why a scheduler lost its seat, in [`SeatInfo::reason`] and in the report of how it ended.
pub mod reason {
    /// None ever has.
    pub const NONE: u64 = 0;
    pub const REPLACED: u64 = 1;
    pub const ENDED: u64 = 2;
    /// It decided for too long.
    pub const SLOW: u64 = 3;
    /// It named a thread that never was, or a turn that has not been.
    pub const WRONG: u64 = 4;
    /// It waited for something else than its seat.
    pub const WAITED: u64 = 5;
    /// It said that it had read what was not written.
    pub const RING: u64 = 6;
    /// It named nobody, on all processors, while a thread was ready.
    pub const NEGLECT: u64 = 7;
    /// Each in words, by number.
    pub const WORDS: [&str; 8] = [
        "none",
        "replaced",
        "it ended",
        "it decided for too long",
        "it named a thread or a turn that never was",
        "it waited for something else than its seat",
        "it read what was not written",
        "it named nobody while threads were ready",
    ];
}

/// What is known of a seat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SeatInfo {
    pub processor: u64,
    /// Who sits there: thread and text; 0: nobody, the kernel's round robin.
    pub thread: u64,
    pub text: u64,
    /// Times that a scheduler was asked here, since boot.
    pub asked: u64,
    /// Threads that it named and got; times that it named none; threads that somebody else had got.
    pub named: u64,
    pub none: u64,
    pub lost: u64,
    /// Events that had no room in the ring.
    pub missed: u64,
    /// Schedulers that lost this seat; the last one's [`reason`], and when, in ns since boot.
    pub dismissed: u64,
    pub reason: u64,
    pub when: u64,
    /// How long that one had been deciding then, in ms of its processor, rounded down.
    pub decided_ms: u64,
    /// How long it was, in ns by the clock, from when that one was asked (or, if it was not being asked, from when it lost the seat)
    /// until the kernel's round robin had all its threads.
    pub took_ns: u64,
}

const _: () = assert!(RING_FIRST + EVENTS as u64 * size_of::<Event>() as u64 <= crate::layout::PAGE);
