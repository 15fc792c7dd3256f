//! A thread that was stopped, as a program is shown it: on the stack of the text that is to deal with it, entered with `rdi` = address of
//! the [`Frame`].
//!
//! - *Foreign programs* (architecture, sections 7 and 11): a thread in a window has entered the kernel, and the kernel calls its
//!   personality's gate, which ends with `foreign_return(frame)`.
//! - *A text's own faults* (pitfalls, H8; SSS-56): a thread that executes the text does what it must not, and goes on at the text's
//!   `fault_entry`, before the kernel ends the call or the program. That is entered like a call that never returns, with vector registers
//!   as they were, and ends with `fault_return(frame, mended)`. A fault in between, in the same call, takes its usual course,
//!   and so does the first one if the text has not ended with it after `task::CALLEE_GRACE_NS` (in a call; on a busy machine later).
//!   The frame lies on the thread's stack for this text, even if the call runs on its caller's: that is the caller's to take away.
//!
//! What was changed in the frame takes effect.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Why it was stopped.
pub mod reason {
    /// The `syscall` instruction: number in `rax`.
    pub const SYSCALL: u64 = 0;
    /// An access that is not allowed: `address`, `right`.
    pub const FAULT: u64 = 1;
    /// A processor exception: `address` = vector, `cause` and `code` as in `task::Exit`. A fault shows the instruction that had it, a trap
    /// (breakpoint, overflow, single step) the one behind it.
    pub const EXCEPTION: u64 = 2;
    /// Somebody looks (`thread_registers`), and these are its registers. `address`: the text that it executes meanwhile; 0: its own.
    pub const STOPPED: u64 = 3;
    /// The same, but only `rip` and `rsp` are told: it has called the text at `address`, or (0) waits in a post, where it has no others.
    pub const AWAY: u64 = 4;
}

/// What a text that has a `fault_entry`, or had one, or none, wants to be told besides.
pub mod wants {
    /// Accesses that are not aligned, while the thread has AC set: `task::cause::ALIGNMENT`. The gate passes that flag on, so such a text is called, and calls,
    /// by the kernel, which does not; calls that are under way when it asks are as they were. Whoever does not want this does not have it either: the kernel takes the flag away, and the access is made.
    pub const ALIGNMENT: u64 = 1;
}

#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Frame {
    pub rax: u64,
    pub rbx: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rbp: u64,
    pub rsp: u64,
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rip: u64,
    /// The arithmetic flags and DF are taken back; and TF, by which a text goes through its own code step by step, and AC ([`wants::ALIGNMENT`]).
    pub rflags: u64,
    pub fs_base: u64,
    pub gs_base: u64,
    /// One of [`reason`].
    pub reason: u64,
    pub address: u64,
    /// The missing right (bits of `Rights`).
    pub right: u64,
    pub task: u64,
    pub thread: u64,
    /// Of faults and exceptions: one of `task::cause`.
    pub cause: u64,
    /// What there is to be said besides, as in `task::Exit`.
    pub code: u64,
}

/// Vector and floating-point registers of window code (`foreign_vectors`), in XSAVE's standard form: x87 and SSE as FXSAVE has them, the
/// components that are not in their initial state as bits (0: x87, 1: SSE, 2: AVX) at [`Vectors::PRESENT`], AVX. A processor without AVX looks at the first
/// part only.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Vectors(pub [u8; Vectors::LEN]);

impl Vectors {
    pub const LEN: usize = 832;
    /// Bytes of what FXSAVE has.
    pub const LEGACY: usize = 512;
    pub const PRESENT: usize = 512;
    /// Offsets of x87's control and status word, and of MXCSR.
    pub const CONTROL: usize = 0;
    pub const STATUS: usize = 2;
    pub const MXCSR: usize = 24;

    /// Those with which programs start.
    #[must_use]
    pub const fn clean() -> Vectors {
        let mut bytes = [0; Vectors::LEN];
        [bytes[Vectors::CONTROL], bytes[Vectors::CONTROL + 1]] = 0x037fu16.to_le_bytes();
        [bytes[Vectors::MXCSR], bytes[Vectors::MXCSR + 1]] = 0x1f80u16.to_le_bytes();
        bytes[Vectors::PRESENT] = 3;
        Vectors(bytes)
    }
}
