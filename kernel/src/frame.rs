//! Registers, as programs are shown them and give them back (abi/src/frame.rs).

use abi::frame::Frame;
use arch::context::{FLAG_ALIGNMENT, FLAG_STEP, FLAGS_DEFAULT, FLAGS_USER, Registers};

/// What a thread was stopped with.
pub fn of(r: &Registers) -> Frame {
    Frame {
        rax: r.rax,
        rbx: r.rbx,
        rcx: r.rcx,
        rdx: r.rdx,
        rsi: r.rsi,
        rdi: r.rdi,
        rbp: r.rbp,
        rsp: r.rsp,
        r8: r.r8,
        r9: r.r9,
        r10: r.r10,
        r11: r.r11,
        r12: r.r12,
        r13: r.r13,
        r14: r.r14,
        r15: r.r15,
        rip: r.rip,
        rflags: r.rflags,
        ..Frame::default()
    }
}

/// What it goes on with; whoever calls this has looked at `rip`. Of the flags, those that a program may choose.
pub fn registers(frame: &Frame) -> Registers {
    Registers {
        rax: frame.rax,
        rbx: frame.rbx,
        rcx: frame.rcx,
        rdx: frame.rdx,
        rsi: frame.rsi,
        rdi: frame.rdi,
        rbp: frame.rbp,
        r8: frame.r8,
        r9: frame.r9,
        r10: frame.r10,
        r11: frame.r11,
        r12: frame.r12,
        r13: frame.r13,
        r14: frame.r14,
        r15: frame.r15,
        rflags: FLAGS_DEFAULT | frame.rflags & (FLAGS_USER | FLAG_STEP | FLAG_ALIGNMENT),
        ..Registers::start(frame.rip, frame.rsp)
    }
}
