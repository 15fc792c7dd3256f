//! A call by the gate, of which what it leaves is used with the first instruction behind it.

use super::{TARGET, TOUCHED, landing};
use crate::peer::op;
use core::arch::naked_asm;
use core::sync::atomic::AtomicU64;
use musubi::abi::gate::GATE;

/// What is in `r15` at the jump: a record of the jumper's.
static RECORD: AtomicU64 = AtomicU64::new(0);
/// Whether the return address has been left where it was.
static LEFT: AtomicU64 = AtomicU64::new(0);

/// Makes a bound call by the gate, the binding of which has this slot, and comes back to an address that then lies in the frame above
/// the one on top. Stores at `place` there, if that is not 0, before anything else is touched. Otherwise jumps to [`TARGET`] with
/// registers that open all keys and with this `record`; whoever comes to that address once more goes on at [`landing`].
/// Returns if the address is not there: the kernel has made the call.
#[unsafe(naked)]
pub extern "C" fn call_and_use(slot: u64, place: u64, record: u64) {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rip + {record}], rdx",
        "mov qword ptr [rip + {left}], 0",
        "mov r11, rdi",
        // The second value of the answer.
        "mov r12, rsi",
        "mov edi, {answer}",
        "xor esi, esi",
        "xor r8d, r8d",
        "xor r9d, r9d",
        "xor r13d, r13d",
        "xor r14d, r14d",
        "lea rcx, [rip + 2f]",
        "push rcx",
        "mov rax, {gate}",
        "jmp rax",
        "2:",
        "test rsi, rsi",
        "jne 4f",
        "cmp qword ptr [rip + {left}], 0",
        "jne {landing}",
        "lea rcx, [rip + 2b]",
        "mov rax, {top}",
        "mov rax, [rax]",
        "cmp [rax + {frame}], rcx",
        "jne 3f",
        "mov qword ptr [rip + {left}], 1",
        "mov r15, [rip + {record}]",
        "xor eax, eax",
        "xor ecx, ecx",
        "xor edx, edx",
        "jmp [rip + {target}]",
        "3:",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
        "4:",
        "mov [rsi], rsi",
        "mov eax, 2",
        "mov edi, {touched}",
        "syscall",
        "ud2",
        answer = const op::ANSWER,
        gate = const GATE,
        top = const crate::attacks::TOP,
        frame = const crate::attacks::FRAME,
        record = sym RECORD,
        left = sym LEFT,
        landing = sym landing,
        target = sym TARGET,
        touched = const TOUCHED,
    )
}
