//! Gates and calls through them (architecture, section 4; CUBIX-26 to 38, 64).
//!
//! **Entry addresses** lie in the last page of the text section's reserve, 16 bytes apart. Nothing is ever mapped there:
//! a plain `call` to one faults, the kernel checks the ACL and moves the thread across.
//!
//! **Plain call**: at most six integer arguments in `rdi rsi rdx rcx r8 r9`, as in the C ABI. On return `rax` and `rdx`
//! hold the values and `r10` is 0 or the word of an `Error`; `rbx rbp r12-r15 rsp` and the control words keep their
//! values.
//!
//! **Bound call**: a `call` of [`GATE`] (EPC-H) or [`ENTER`] (EPC-S) with `r11` = [`slot`] of the binding, `r14` = index of
//! the gate in its block, and the arguments in `rdi rsi r12 r13 r8 r9`. On return `rdi` and `rsi` hold the values and
//! `r10` is 0 or the word of an `Error`; `rsp` keeps its value, everything else is lost: what the caller wants to
//! keep, and to keep to itself, it saves and clears. MXCSR and the x87 control word have their default values. Beside an
//! error, `rdi` is [`NOT_MADE`] if the callee was not entered.
//!
//! **The callee** is entered with the arguments in `rdi rsi r12 r13 r8 r9`, `r14` = index of the gate in its block, `rbx` =
//! address of the [`Record`] that says who calls (read-only, until it returns), and where to go when it is done, with two
//! values in `rax` and `rdx`. `rsp` is its own stack, a multiple of 16; where the thread was not yet inside the
//! callee, the word at `rsp` leads back, too: the callee may be a function that ends with `ret`.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Calls that one thread may be deep in.
pub const DEPTH_MAX: usize = 128;
/// Gates of one text section.
pub const GATES_MAX: u64 = 256;
/// Distance of entry addresses.
pub const GATE_STEP: u64 = 16;
/// Bindings of one text section.
pub const BINDINGS_MAX: u64 = 4096;
/// Numbers from here on are bound calls: this plus [`slot`].
pub const CALL_BASE: u64 = 1 << 32;

/// In the place of the first value of a bound call that was refused: nothing of the callee's has run.
pub const NOT_MADE: u64 = 1;

/// Number of the call `gate_return`, which the doorstep makes.
pub const RETURN: u64 = 0x34;

/// In a length that `may_pass` is given: the range is to be written, too.
pub const PASSED_FOR_WRITING: u64 = 1 << 63;

/// Where every thread finds its gate: page-table slot 128, in the slice that stays empty.
pub const GATE_BASE: u64 = crate::layout::SPACE_BASE;
/// The user-mode gate, EPC-H.
pub const GATE: u64 = GATE_BASE;
/// The way into the kernel for a bound call, EPC-S.
pub const ENTER: u64 = GATE_BASE + 0x200;
/// Where a callee returns to that the gate has entered.
pub const DONE: u64 = GATE_BASE + 0x100;
/// Where a callee returns to that the kernel has entered.
pub const DOORSTEP: u64 = GATE_BASE + 0x240;

/// What `r11` says of a binding: the offset of its record.
pub const fn slot(binding: u64) -> u64 {
    binding * size_of::<Record>() as u64
}

/// What the gate knows of a call that a thread may make, and the callee of its caller. The kernel writes it; programs can
/// read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(128))]
pub struct Record {
    /// Gates that may be called without the kernel. As long as the index that is compared with it, of which the callee
    /// uses all bits.
    pub direct: u64,
    /// Where the callee is entered.
    pub entry: u64,
    /// Where the callee's stack pointer is kept while the thread is elsewhere.
    pub cell: u64,
    /// The callee's own records.
    pub records: u64,
    /// Of the block of gates.
    pub cookie: u64,
    /// The binding's argument section; 0 for a plain call.
    pub args_base: u64,
    pub args_len: u64,
    /// Task of the calling thread (which need not own the calling text).
    pub task: u64,
    /// The calling text.
    pub text: u64,
    pub user: u64,
    /// Gates that may be called at all.
    pub gates: u64,
    /// The callee, among the texts that the thread has been in.
    pub domain: u32,
    /// Bytes of `records` that there are.
    pub records_len: u32,
    /// Union of [`record`].
    pub flags: u32,
    /// The key register's value in the callee.
    pub register: u32,
    /// Where the callee goes when it is done.
    pub back: u64,
    /// Number of the thread.
    pub thread: u64,
    /// In the first record of all, at [`ATTENTION`]: union of [`attention`].
    pub attention: u64,
}

/// Where a text reads what whoever called it would want it to know, at any moment and without a call: a word that the kernel keeps for
/// the running thread, at the same place for every thread.
pub const ATTENTION: u64 = GATE_BASE + (2 << 30) + core::mem::offset_of!(Record, attention) as u64;

/// Bits of the word at [`ATTENTION`].
pub mod attention {
    /// The thread has been killed. It ends as soon as the callee returns, or when the callee has had its time
    /// (`task::CALLEE_GRACE_NS`): nobody waits for the result any more.
    pub const KILLED: u64 = 1;
}

/// Flags of a record.
pub mod record {
    /// The kernel makes the calls, even if the gate could.
    pub const BY_KERNEL: u32 = 1;
    /// The callee runs on its caller's stack.
    pub const CALLER_STACK: u32 = 2;
    /// Of the SDK, in what it tells a method: the call has come by a line, and the thread is the callee's own. Nobody's
    /// rights can be asked about but the callee's.
    pub const BY_LINE: u32 = 1 << 31;
    /// The same for a message.
    pub const BY_POST: u32 = 1 << 30;
}

const _: () = assert!(size_of::<Record>() == 128);

/// Flags of `gate_create` and `gate_bind`.
pub mod flag {
    /// `gate_create`: callers may ask for their own stack to be used; `gate_bind`: ask for it (CUBIX-30, 38).
    pub const CALLER_STACK: u64 = 1;
    /// `gate_bind`: the kernel is to make the calls (EPC-S), even if the gate could.
    pub const BY_KERNEL: u64 = 2;
    /// `gate_create`: only the kernel comes in, and a scheduler that sits on a processor, whomever the text's list lets call: for what is called up
    /// with words that are believed, in a text that others may call at other gates. Nobody else, be it the system's: its servers call what they are told to.
    pub const CALLED_UP: u64 = 4;
    /// What `gate_create` knows.
    pub const OF_GATES: u64 = CALLER_STACK | CALLED_UP;
}

/// What `gate_bind` writes.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Binding {
    pub number: u64,
    /// Number of gates in the block.
    pub count: u64,
    /// Argument section, 0 if none.
    pub args: u64,
    pub args_len: u64,
    /// One of [`grade`].
    pub grade: u64,
    /// The text that is called.
    pub text: u64,
    /// Why it is not of a higher grade: one of [`why`].
    pub why: u64,
    /// With [`why::CALLER_UNCLEAR`] and [`why::CALLEE_UNCLEAR`]: the page of the text where that was found.
    pub page: u64,
}

/// Grades of call.
pub mod grade {
    pub const PLAIN: u64 = 0;
    pub const EPC_S: u64 = 1;
    pub const EPC_H: u64 = 2;
}

/// Why calls go through the kernel.
pub mod why {
    /// They do not, as long as there are keys for what both texts use.
    pub const DIRECT: u64 = 0;
    /// It was asked for, or the call is on the caller's stack.
    pub const ASKED: u64 = 1;
    /// The machine has no protection keys.
    pub const NO_KEYS: u64 = 2;
    /// The caller's text holds an instruction that could write the key register.
    pub const CALLER_UNCLEAR: u64 = 3;
    /// The callee's does.
    pub const CALLEE_UNCLEAR: u64 = 4;
    /// The caller may not execute the callee's text; who may fetch is not told apart in one view.
    pub const NOT_EXECUTABLE: u64 = 5;
    /// The caller or, on this thread, the callee has touched a secret section: it is in no view that others share.
    pub const SECRET: u64 = 6;
    /// Of the SDK: the text has as many bindings as it may have ([`super::BINDINGS_MAX`]), and calls that lend nothing need none. They are
    /// plain calls.
    pub const NO_ROOM: u64 = 7;
    /// The caller's text or the callee's is placed in supervisor mode.
    pub const SUPERVISOR: u64 = 8;
}
