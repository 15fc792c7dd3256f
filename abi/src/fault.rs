//! A text's own fault entry (CUBIX-9, SSS-56): where a thread that executes the text goes on if it does what it must not, before
//! the kernel ends the call or the program.
//!
//! The kernel puts a [`Frame`] on the thread's stack in that text and goes to the entry with `rdi` = its address, like a call
//! that never returns. It ends with `fault_return(frame)`. Vector registers are as they were. A fault in between, at the same depth
//! of calls, takes its usual course.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

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
    /// One of `task::cause`, and what belongs to it: an address or a vector, the section there, the missing right.
    pub cause: u64,
    pub address: u64,
    pub section: u64,
    pub right: u64,
    /// Not 0: the thread goes on with these registers. 0, as the kernel writes it: the fault takes its usual course.
    pub mended: u64,
    pub reserved: u64,
}
