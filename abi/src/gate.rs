//! Gates and calls through them (architecture, section 4; CUBIX-26 to 38, 64).
//!
//! **Entry addresses** lie in the last page of the text section's reserve, 16 bytes apart. Nothing is ever mapped there:
//! a plain `call` to one faults, the kernel checks the ACL and moves the thread across.
//!
//! **Plain call**: at most six integer arguments in `rdi rsi rdx rcx r8 r9`, as in the C ABI.
//! **Bound call**: `syscall` with `rax` = [`call_number`], the arguments in `rdi rsi rdx r10 r8 r9`.
//! Either way, on return `rax` and `rdx` hold the values and `r10` is 0 or the word of an `Error`; `rbx rbp r12-r15 rsp`
//! keep their values; everything else, vector registers too, is cleared.
//!
//! **The callee** is entered with the arguments in `rdi rsi rdx rcx r8 r9`, `rsp` as after a `call` (its return address is
//! the doorstep, which returns for it), and `rax` = index of the gate in its block, `r13` = cookie of the block,
//! `r10` = the calling thread's task, `r11` = the calling text, `r14` = the calling thread's user,
//! `rbx`, `r12` = base and length of the binding's argument section (0 for a plain call), `rbp` = 0.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Calls that one thread may be deep in.
pub const DEPTH_MAX: usize = 128;
/// Gates of one text section.
pub const GATES_MAX: u64 = 256;
/// Distance of entry addresses.
pub const GATE_STEP: u64 = 16;
/// Bindings of one text section.
pub const BINDINGS_MAX: u64 = 4096;
/// Numbers from here on are bound calls.
pub const CALL_BASE: u64 = 1 << 32;

/// Number of the call `gate_return`, which the doorstep makes.
pub const RETURN: u64 = 0x34;

/// The number in `rax` for a bound call of gate `index` in the block of `binding`.
pub const fn call_number(binding: u64, index: u64) -> u64 {
    CALL_BASE | (index << 16) | binding
}

/// Flags of `gate_create` and `gate_bind`.
pub mod flag {
    /// `gate_create`: callers may ask for their own stack to be used; `gate_bind`: ask for it (CUBIX-30, 38).
    pub const CALLER_STACK: u64 = 1;
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
}

/// Grades of call.
pub mod grade {
    pub const PLAIN: u64 = 0;
    pub const EPC_S: u64 = 1;
    pub const EPC_H: u64 = 2;
}
