//! Tasks and threads as programs see them.

use crate::section::NAME_LEN;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The user of the system's own servers; may kill any task and switch the machine off.
pub const USER_SYSTEM: u64 = 0;
/// The user of what is started from the shell.
pub const USER_PERSON: u64 = 1;
/// In whose name a program asks that is neither the system's nor its thread's user's: it was called on that thread, and speaks for nobody there.
pub const USER_NOBODY: u64 = u64::MAX;
/// How long a callee may go on for a caller that has been killed, ns; longer, if by then it has neither run for
/// `CALLEE_TIME_NS` nor had `CALLEE_TURNS` turns.
pub const CALLEE_GRACE_NS: u64 = 1_000_000_000;
pub const CALLEE_TIME_NS: u64 = 50_000_000;
pub const CALLEE_TURNS: u64 = 256;
/// The system's own servers may run for so long, ns, however many turns that takes: what is theirs is everybody's.
pub const CALLEE_TIME_SYSTEM_NS: u64 = 4_000_000_000;
/// Bytes of stack when `stack_len` is 0, and the most there can be (one granule).
pub const STACK_DEFAULT: u64 = 256 << 10;
pub const STACK_MAX: u64 = crate::layout::GRANULE;

/// The quota ledger's limits: pages, sections, reserved bytes, threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Limits {
    /// 4 KiB frames, page tables included.
    pub frames: u64,
    pub sections: u64,
    /// Bytes of address space.
    pub reserve: u64,
    pub threads: u64,
}

/// Who is calling (architecture, section 14, Identity).
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Identity {
    pub node: u64,
    pub task: u64,
    pub user: u64,
    pub thread: u64,
    /// The executing text section.
    pub text: u64,
    /// The task that owns it.
    pub text_task: u64,
    /// Calls that the thread is deep in.
    pub depth: u64,
    /// The text that called this one, 0 at depth 0.
    pub caller_text: u64,
}

/// How a task ended.
pub mod exit {
    /// `code` is the program's own.
    pub const EXITED: u64 = 0;
    /// A fault; the other fields say which.
    pub const FAULT: u64 = 1;
    pub const KILLED: u64 = 2;
}

/// What went wrong, in [`Exit::cause`].
pub mod cause {
    /// The ACL (or W^X, or a stack's guard) does not allow the access.
    pub const DENIED: u64 = 1;
    /// No section there.
    pub const NO_SECTION: u64 = 2;
    pub const DIVIDE: u64 = 3;
    /// An instruction that the processor refuses in user mode, or that does not exist.
    pub const INSTRUCTION: u64 = 4;
    pub const BREAKPOINT: u64 = 5;
    /// Another processor exception; `address` is the vector, as it is of all causes that are exceptions.
    pub const EXCEPTION: u64 = 6;
    pub const NO_MEMORY: u64 = 7;
    /// The stack's guard page was hit.
    pub const STACK: u64 = 8;
    /// The address is in a text's page of gates, and no gate is there (any more).
    pub const NO_GATE: u64 = 9;
    /// It sat in a processor's seat and did what a scheduler must not; `address` is one of `sched::reason`.
    pub const SCHEDULER: u64 = 10;
    /// The page was made invalid (`page_invalidate`).
    pub const INVALID: u64 = 11;
    /// The page's pager did not make it valid; [`Exit::code`] is one of `pager::why`.
    pub const PAGER: u64 = 12;
    /// A floating-point exception that the program wants to hear of: [`Exit::code`] is the x87 unit's status word (vector 16), or MXCSR (19).
    pub const FLOATING: u64 = 13;
    /// A single step: the program has set the trap flag.
    pub const STEP: u64 = 14;
    pub const OVERFLOW: u64 = 15;
    /// The machine itself is at fault, in a way that harms this program only; [`Exit::code`] is what the processor says in `MCi_STATUS`.
    pub const MACHINE: u64 = 16;
    /// An access that is not aligned, by a text that wants to hear of it (`frame::wants::ALIGNMENT`).
    pub const ALIGNMENT: u64 = 17;
}

/// How a task has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Exit {
    /// One of [`exit`].
    pub kind: u64,
    pub code: u64,
    /// One of [`cause`] if `kind` is FAULT.
    pub cause: u64,
    /// The address accessed, and the section there (0: none).
    pub address: u64,
    pub section: u64,
    /// The missing right (bits of `Rights`).
    pub right: u64,
    /// The domain: thread and text.
    pub thread: u64,
    pub text: u64,
    /// The instruction.
    pub ip: u64,
}

/// What `task_ended` writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Ended {
    pub task: u64,
    pub payer: u64,
    pub user: u64,
    /// 1: it had a thread once.
    pub began: u64,
    pub exit: Exit,
    pub name: [u8; NAME_LEN],
}

/// States of a thread.
pub mod state {
    pub const READY: u64 = 0;
    pub const RUNNING: u64 = 1;
    pub const WAITING: u64 = 2;
    pub const ENDED: u64 = 3;
}

/// What `task_list` writes.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct TaskInfo {
    pub task: u64,
    /// The task that what this one uses counts for, too; 0: none.
    pub payer: u64,
    pub user: u64,
    /// 1 when it runs Linux programs in a window.
    pub foreign: u64,
    pub threads: u64,
    /// Nanoseconds of processor time.
    pub time: u64,
    pub used: Limits,
    pub limits: Limits,
    pub name: [u8; NAME_LEN],
    pub keys: KeyUse,
    /// The class of the text that its first thread was started in (`section::class`).
    pub class: u64,
}

/// How a task's view has used its protection keys. All 0 without keys.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct KeyUse {
    /// A class of sections was needed that had no key, and none was free.
    pub misses: u64,
    /// A class got a key.
    pub given: u64,
    /// A class lost its key to another.
    pub evicted: u64,
    /// A key that can go was looked for.
    pub looks: u64,
}

/// What `thread_list` writes.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ThreadInfo {
    pub thread: u64,
    pub task: u64,
    /// One of [`state`].
    pub state: u64,
    /// Processor that it runs on or ran on last.
    pub processor: u64,
    /// The text as of its last entry to the kernel.
    pub text: u64,
    pub depth: u64,
    pub time: u64,
    pub faults: u64,
    /// The class of that text (`section::class`).
    pub class: u64,
}
