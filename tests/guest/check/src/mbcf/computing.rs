//! A signal in the middle of a computation (SSS-106, 107).

use super::signals::{Does, Own, setup, signals, until};
use crate::memory::store as put;
use crate::report::{Outcome, doing};
use crate::{holds, same};
use core::arch::naked_asm;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use musubi::abi::layout::PAGE;
use musubi::rt::mbcf::{Sent, SignalSetup, Signals, condition, start, store};
use musubi::rt::{thread, time};

/// Fills registers, waits until the word at `rdi` is not 0, and stores them at `rsi`.
#[unsafe(naked)]
extern "C" fn compute(flag: u64, to: *mut [u64; 16]) {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov eax, 1",
        "mov ebx, 2",
        "mov ecx, 3",
        "mov edx, 4",
        "mov ebp, 5",
        "mov r8d, 6",
        "mov r9d, 7",
        "mov r10d, 8",
        "mov r11d, 9",
        "mov r12d, 10",
        "mov r13d, 11",
        "mov r14d, 12",
        "mov r15d, 13",
        "movq xmm0, r14",
        "movq xmm7, r13",
        "movq xmm15, r12",
        "stc",
        "2:",
        // Keeps the carry flag, and needs it.
        "inc eax",
        "dec eax",
        "jnc 3f",
        "push rcx",
        "mov rcx, [rdi]",
        "jrcxz 4f",
        "pop rcx",
        "mov [rsi], rax",
        "mov [rsi + 8], rbx",
        "mov [rsi + 16], rcx",
        "mov [rsi + 24], rdx",
        "mov [rsi + 32], rbp",
        "mov [rsi + 40], r8",
        "mov [rsi + 48], r9",
        "mov [rsi + 56], r10",
        "mov [rsi + 64], r11",
        "mov [rsi + 72], r12",
        "mov [rsi + 80], r13",
        "mov [rsi + 88], r14",
        "mov [rsi + 96], r15",
        "movq [rsi + 104], xmm0",
        "movq [rsi + 112], xmm7",
        "movq [rsi + 120], xmm15",
        "3:",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
        "4:",
        "pop rcx",
        "jmp 2b",
    )
}

/// SSS-106, 107: another thread signals one that computes.
pub fn registers() -> Outcome {
    static AT: AtomicU64 = AtomicU64::new(0);
    let (own, gate) = Own::new(Does::Take)?;
    let wants = SignalSetup { most: 4, ..setup(start::DESTINATION, store::QUEUE, condition::START_ANYWAY, gate) };
    let (section, _, _) = signals(wants)?;
    let flag = section.base() + 3 * PAGE;
    AT.store(section.base(), SeqCst);
    for round in 1..=20_u64 {
        put(flag, 0);
        let other = thread::spawn(
            move || {
                for n in 0..5 {
                    while Signals::at(AT.load(SeqCst)).send(&[n + 1; 8], 0) != Ok(Sent::Registered) {
                        thread::yield_now();
                    }
                    time::sleep_ns(200_000);
                }
                put(AT.load(SeqCst) + 3 * PAGE, 1);
            },
            0,
        )
        .map_err(doing("thread"))?;
        let mut after = [0; 16];
        compute(flag, &raw mut after);
        same!(after, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 12, 11, 10], "registers after round {round}");
        other.join().map_err(doing("join"))?;
        holds!(until(|| own.sum.load(SeqCst) == 15 * round), "{} of {} has arrived", own.sum.load(SeqCst), 15 * round);
    }
    // A program that has a fault is over, and what it has interrupted goes on.
    let (bad, gate) = Own::new(Does::Fault)?;
    let (_kept, signal, _) = signals(setup(start::DESTINATION, store::QUEUE, condition::REFUSE, gate))?;
    for n in 1..=3 {
        holds!(until(|| signal.send(b"", 0) == Ok(Sent::Registered)), "signal {n} to a program with a fault");
        holds!(until(|| bad.count() == n), "the program with a fault was not started");
    }
    Ok(())
}
