//! Foreign programs: what the personality's gate is given when a thread in a window enters the kernel
//! (architecture, sections 7 and 11). The kernel puts a [`Frame`] on the personality's stack and calls its gate with
//! `rdi` = address of the frame. The gate ends with `foreign_return(frame)`; what it changed in the frame takes effect.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Why the upcall was made.
pub mod reason {
    /// The `syscall` instruction: number in `rax`.
    pub const SYSCALL: u64 = 0;
    /// A page fault in the window that the mappings do not allow: `address`, `right`.
    pub const FAULT: u64 = 1;
    /// Another processor exception: `address` = vector.
    pub const EXCEPTION: u64 = 2;
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
    /// Only the arithmetic flags and DF are taken back.
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
}
