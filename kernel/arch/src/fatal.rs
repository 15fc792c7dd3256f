//! The end: a panic or a fault of the kernel shows registers, a backtrace and the build id, and switches QEMU off.

use crate::context::Registers;
use crate::{backtrace, cpu, log_out, percpu, power};
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static BUILD_ID: AtomicU64 = AtomicU64::new(0);
static DYING: AtomicBool = AtomicBool::new(false);

/// The build id shown by a panic.
pub(crate) fn set_build_id(id: u64) {
    BUILD_ID.store(id, Ordering::Relaxed);
}

fn begin() -> log_out::Raw {
    if DYING.swap(true, Ordering::SeqCst) {
        // A second panic, or one on another processor: the first one reports.
        cpu::stop();
    }
    log_out::last();
    log_out::Raw
}

fn end(mut out: log_out::Raw) -> ! {
    let _ = writeln!(out, "build {:016x}, processor {}", BUILD_ID.load(Ordering::Relaxed), percpu::index());
    let _ = writeln!(out, "musubi: the kernel has stopped");
    power::off(power::PANIC)
}

/// A fault of the kernel itself.
pub(crate) fn exception(r: &Registers) -> ! {
    let mut out = begin();
    let _ = writeln!(
        out,
        "\nmusubi: kernel fault: exception {} error {:#x} address {:#x}",
        r.vector,
        r.error,
        cpu::fault_address()
    );
    let _ =
        writeln!(out, "rip {:016x} rsp {:016x} rbp {:016x} flags {:08x} cs {:x}", r.rip, r.rsp, r.rbp, r.rflags, r.cs);
    let _ = writeln!(out, "rax {:016x} rbx {:016x} rcx {:016x} rdx {:016x}", r.rax, r.rbx, r.rcx, r.rdx);
    let _ = writeln!(out, "rsi {:016x} rdi {:016x} r8  {:016x} r9  {:016x}", r.rsi, r.rdi, r.r8, r.r9);
    let _ = writeln!(out, "r10 {:016x} r11 {:016x} r12 {:016x} r13 {:016x}", r.r10, r.r11, r.r12, r.r13);
    let _ = writeln!(out, "r14 {:016x} r15 {:016x} cr3 {:016x}", r.r14, r.r15, cpu::root());
    backtrace::print(&mut out, r.rip, r.rbp);
    end(out)
}

/// The general registers as they are: what the code that panicked had in those that a function keeps.
fn registers() -> [u64; 16] {
    let mut all = [0; 16];
    // SAFETY: writes the registers to the sixteen words.
    unsafe {
        core::arch::asm!(
            "mov [r10], rax", "mov [r10 + 8], rbx", "mov [r10 + 16], rcx", "mov [r10 + 24], rdx",
            "mov [r10 + 32], rsi", "mov [r10 + 40], rdi", "mov [r10 + 48], rbp", "mov [r10 + 56], rsp",
            "mov [r10 + 64], r8", "mov [r10 + 72], r9", "mov [r10 + 88], r11", "mov [r10 + 96], r12",
            "mov [r10 + 104], r13", "mov [r10 + 112], r14", "mov [r10 + 120], r15",
            in("r10") all.as_mut_ptr(), options(nostack, preserves_flags)
        );
    }
    all
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    let [rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8, r9, _, r11, r12, r13, r14, r15] = registers();
    let mut out = begin();
    let _ = writeln!(out, "\nmusubi: kernel panic: {info}");
    let rip: u64;
    // SAFETY: reads a register.
    unsafe { core::arch::asm!("lea {}, [rip]", out(reg) rip, options(nomem, nostack, preserves_flags)) };
    let _ = writeln!(out, "rip {rip:016x} rsp {rsp:016x} rbp {rbp:016x} cr3 {:016x}", cpu::root());
    let _ = writeln!(out, "rax {rax:016x} rbx {rbx:016x} rcx {rcx:016x} rdx {rdx:016x}");
    let _ = writeln!(out, "rsi {rsi:016x} rdi {rdi:016x} r8  {r8:016x} r9  {r9:016x}");
    let _ = writeln!(out, "r11 {r11:016x} r12 {r12:016x} r13 {r13:016x} r14 {r14:016x}");
    let _ = writeln!(out, "r15 {r15:016x}");
    backtrace::print(&mut out, rip, rbp);
    end(out)
}
