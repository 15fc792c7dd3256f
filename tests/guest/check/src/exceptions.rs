//! Every exception of the processor that a program can have (SSS-56). The text's fault entry is told which it was, on the thread that had
//! it, mends it and goes on, in the program itself and in a callee; without an entry the call or the program ends and says why. In user
//! mode and in supervisor mode.

use crate::peer::{Peer, op};
use crate::report::{Check, NO_ALIGNMENT, NO_VECTOR_EXCEPTIONS, Outcome, doing, skipped};
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use core::arch::{asm, naked_asm};
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::frame::{Frame, reason, wants};
use musubi::abi::section::class;
use musubi::abi::task::{cause, exit};
use musubi::command::Command;
use musubi::rt::{Trap, task, thread};
use musubi::{Error, ended, eprintln};

pub const CHECKS: &[Check] = &[
    ("a_page_fault_is_heard", || each(0)),
    ("a_division_by_zero_is_heard", || each(1)),
    ("a_single_step_is_heard", || each(2)),
    ("a_breakpoint_is_heard", || each(3)),
    ("an_overflow_is_heard", || each(4)),
    ("an_undefined_instruction_is_heard", || each(5)),
    ("a_privileged_instruction_is_heard", || each(6)),
    ("an_x87_exception_is_heard", || each(7)),
    ("a_vector_exception_is_heard", || each(8)),
    ("a_non_canonical_address_is_heard", || each(10)),
    ("an_unaligned_vector_is_heard", || each(11)),
    ("a_stack_exception_is_heard", || each(STACK)),
    ("instructions_of_the_past_are_heard", || each(13).and_then(|()| each(14))),
    ("exceptions_that_only_supervisor_mode_has", || only_in_supervisor_mode(&[BY_HAND, 15, 16])),
    ("no_other_vector_can_be_asked_for", vectors_asked_for),
    ("step_by_step", step_by_step),
    ("alignment_is_checked_for_who_wants_it", alignment),
    ("an_exception_that_waits_harms_nobody_else", waiting),
];

/// What is raised, and what is said of it.
pub struct Kind {
    raise: extern "C" fn() -> u64,
    reason: u64,
    address: u64,
    cause: u64,
    /// In what people are told.
    said: &'static str,
    /// Bits that are set in the code.
    code: u64,
}

const FAULT: Kind = Kind { raise: page, reason: reason::EXCEPTION, address: 0, cause: 0, said: "", code: 0 };

pub const KINDS: [Kind; 20] = [
    Kind { raise: page, reason: reason::FAULT, address: 8, cause: cause::NO_SECTION, said: "no section", ..FAULT },
    Kind { raise: divide, address: 0, cause: cause::DIVIDE, said: "division by zero", ..FAULT },
    Kind { raise: step, address: 1, cause: cause::STEP, said: "single step", ..FAULT },
    Kind { raise: breakpoint, address: 3, cause: cause::BREAKPOINT, said: "breakpoint", ..FAULT },
    Kind { raise: overflow, address: 4, cause: cause::OVERFLOW, said: "overflow", ..FAULT },
    Kind { raise: undefined, address: 6, cause: cause::INSTRUCTION, said: "an instruction", ..FAULT },
    Kind { raise: privileged, address: 13, cause: cause::INSTRUCTION, said: "an instruction", ..FAULT },
    Kind {
        raise: x87,
        address: 16,
        cause: cause::FLOATING,
        said: "division by zero; x87 status",
        code: ZERO_DIVIDE,
        ..FAULT
    },
    Kind {
        raise: vector,
        address: 19,
        cause: cause::FLOATING,
        said: "division by zero; MXCSR",
        code: ZERO_DIVIDE,
        ..FAULT
    },
    // The same vector, which supervisor mode may ask for: the emulator raises no vector exception by itself.
    Kind { raise: vector_by_hand, address: 19, cause: cause::FLOATING, said: "MXCSR", ..FAULT },
    Kind { raise: non_canonical, address: 13, cause: cause::INSTRUCTION, said: "an instruction", ..FAULT },
    Kind { raise: unaligned, address: 13, cause: cause::INSTRUCTION, said: "an instruction", ..FAULT },
    // As the emulator has it; see `mended`.
    Kind { raise: stack, address: 13, cause: cause::INSTRUCTION, said: "an instruction", ..FAULT },
    Kind { raise: into, address: 6, cause: cause::INSTRUCTION, said: "an instruction", ..FAULT },
    Kind { raise: bound, address: 6, cause: cause::INSTRUCTION, said: "an instruction", ..FAULT },
    // No instruction of 64-bit programs raises them: their vectors are asked for, which supervisor mode may.
    Kind { raise: bound_by_hand, address: 5, cause: cause::EXCEPTION, said: "processor exception 5", ..FAULT },
    Kind { raise: device_by_hand, address: 7, cause: cause::EXCEPTION, said: "processor exception 7", ..FAULT },
    // Nothing that a program does raises it: the host does, meanwhile. The code is what the host says of it.
    Kind { raise: long, address: 18, cause: cause::MACHINE, said: "machine check", code: 0xb4 << 56, ..FAULT },
    // The emulator raises it by no access: its debugger does, meanwhile.
    Kind { raise: unaligned_some_day, address: 17, cause: cause::ALIGNMENT, said: "not aligned", ..FAULT },
    // So does it with this one. By its flag AC the debugger finds the program.
    Kind {
        raise: vector_some_day,
        address: 19,
        cause: cause::FLOATING,
        said: "division by zero; MXCSR",
        code: ZERO_DIVIDE,
        ..FAULT
    },
];

const PRIVILEGED: u64 = 6;
const VECTOR: u64 = 8;
const BY_HAND: u64 = 9;
const STACK: u64 = 12;
const ALIGNMENT: u64 = 18;

/// ZE, in both status words.
const ZERO_DIVIDE: u64 = 4;

/// Values of a function that raises: it went through, or somebody mended it.
const THROUGH: u64 = 1;
const MENDED: u64 = 2;

/// A function whose instructions raise an exception. Mending it means going on at the address in r8.
macro_rules! raises {
    ($($name:ident: $($line:literal)+;)*) => { $(
        #[unsafe(naked)]
        extern "C" fn $name() -> u64 {
            naked_asm!(
                "lea r8, [rip + 3f]",
                "xor r9d, r9d",
                $($line,)+
                "mov eax, 1",
                "jmp 4f",
                "3:",
                "mov eax, 2",
                "4:",
                "fninit",
                "push 0x1f80",
                "ldmxcsr [rsp]",
                "pop rcx",
                "ret",
            )
        }
    )* };
}

raises! {
    page: "mov byte ptr [8], 0";
    divide: "xor ecx, ecx" "xor edx, edx" "mov eax, 1" "div ecx";
    step: "pushfq" "or dword ptr [rsp], 0x100" "popfq" "nop" "nop";
    // As `step`, but the entry lets it go on five times.
    steps: "mov r9d, 5" "pushfq" "or dword ptr [rsp], 0x100" "popfq" "nop" "nop" "nop" "nop" "nop" "nop" "nop" "nop";
    breakpoint: "int3";
    overflow: "int 4";
    undefined: "ud2";
    privileged: "hlt";
    x87: "fninit" "push 0x37b" "fldcw [rsp]" "pop rcx" "fld1" "fldz" "fdivp" "fwait";
    vector: "push 0x1d80" "ldmxcsr [rsp]" "pop rcx" "xorps xmm0, xmm0" "mov eax, 0x3f800000" "movd xmm1, eax" "divss xmm1, xmm0";
    vector_by_hand: "int 19";
    non_canonical: "mov rax, 0x800000000000" "mov cl, [rax]";
    unaligned: "lea rax, [rsp + 8]" "or rax, 4" "movaps xmm0, [rax]";
    into: ".byte 0xce";
    bound: ".byte 0x62, 0x00";
    bound_by_hand: "int 5";
    device_by_hand: "int 7";
    long: "2:" "pause" "jmp 2b";
    unaligned_some_day: "pushfq" "or dword ptr [rsp], 0x40000" "popfq" "2:" "pause" "jmp 2b";
    // As a division by zero leaves it that is not masked.
    vector_some_day: "push 0x1d84" "ldmxcsr [rsp]" "pop rcx" "pushfq" "or dword ptr [rsp], 0x40000" "popfq" "2:" "pause" "jmp 2b";
}

/// An access by way of `rbp`, which is one to the stack, where no address can be.
#[unsafe(naked)]
extern "C" fn stack() -> u64 {
    naked_asm!(
        "lea r8, [rip + 3f]",
        "mov r10, rbp",
        "mov rbp, 0x800000000000",
        "mov rcx, [rbp]",
        "mov rbp, r10",
        "mov eax, 1",
        "ret",
        "3:",
        "mov rbp, r10",
        "mov eax, 2",
        "ret"
    )
}

/// Asks for the exception or interrupt of this number.
#[unsafe(naked)]
extern "C" fn ask_for(number: u64) -> u64 {
    naked_asm!(
        "lea r8, [rip + 3f]",
        "lea rax, [rip + 2f]",
        "shl rdi, 3",
        "add rax, rdi",
        "xor r9d, r9d",
        "jmp rax",
        ".balign 8",
        "2:",
        ".set number, 0",
        ".rept 256",
        ".byte 0xcd, number",
        "jmp 4f",
        ".balign 8",
        ".set number, number + 1",
        ".endr",
        "3:",
        "mov eax, 2",
        "ret",
        "4:",
        "mov eax, 1",
        "ret"
    )
}

/// Leaves an exception of the x87 unit waiting: the next instruction of that unit has it.
#[unsafe(naked)]
extern "C" fn leave_waiting() {
    naked_asm!("fninit", "push 0x37b", "fldcw [rsp]", "pop rcx", "fld1", "fldz", "fdivp", "ret")
}

/// What the entry was told last: reason, address, cause, code, thread, and how often it was entered.
static TOLD: [AtomicU64; 6] = [const { AtomicU64::new(0) }; 6];

/// A fault entry that mends whatever it is told of.
extern "C" fn mend(frame: &mut Frame) -> ! {
    // SAFETY: takes exceptions that wait back, and turns them off, in registers that the code which had the fault sets anew.
    unsafe { asm!("fnclex", "push 0x1f80", "ldmxcsr [rsp]", "pop {}", out(reg) _) };
    let told = [frame.reason, frame.address, frame.cause, frame.code, frame.thread];
    TOLD.iter().zip(told).for_each(|(at, value)| at.store(value, Ordering::SeqCst));
    TOLD[5].fetch_add(1, Ordering::SeqCst);
    if frame.address == 1 && frame.r9 > 0 {
        frame.r9 -= 1;
    } else {
        frame.rip = frame.r8;
        frame.rflags &= !0x4_0100;
    }
    let _ = stub::fault_return(&Trap, core::ptr::from_mut(frame) as u64, 1);
    loop {
        core::hint::spin_loop();
    }
}

fn entry(to: u64) -> Outcome {
    entry_that_wants(to, 0)
}

fn entry_that_wants(to: u64, wanted: u64) -> Outcome {
    stub::fault_entry(&Trap, to, wanted).map(drop).map_err(doing("fault_entry"))
}

/// Raises one with the entry, in the text that executes this.
fn mended(number: u64) -> Outcome {
    let kind = &KINDS[number as usize];
    entry_that_wants(mend as *const () as u64, if number == ALIGNMENT { wants::ALIGNMENT } else { 0 })?;
    let times = TOLD[5].load(Ordering::SeqCst);
    let how = (kind.raise)();
    let times = TOLD[5].load(Ordering::SeqCst) - times;
    if number == VECTOR && how == THROUGH {
        // The emulator divides and raises nothing (docs/caveats.md); the entry must not have been told of anything then.
        same!(
            (is_emulated(), times),
            (true, 0),
            "whether this is the emulator's processor, and entries without an exception"
        );
        return Ok(());
    }
    same!((how, times), (MENDED, 1), "{}: whether it was mended, and in how many steps", kind.said);
    let mut told = [0, 1, 2, 4].map(|at: usize| TOLD[at].load(Ordering::SeqCst));
    if number == STACK && told[1..3] == [12, cause::EXCEPTION] {
        // Processors have a number of its own for it, the emulator has not.
        (told[1], told[2]) = (kind.address, kind.cause);
    }
    same!(
        told,
        [kind.reason, kind.address, kind.cause, task::identity().thread],
        "{}: what the entry was told",
        kind.said
    );
    let code = TOLD[3].load(Ordering::SeqCst);
    holds!(code & kind.code == kind.code, "{}: the code is {code:#x}", kind.said);
    Ok(())
}

/// In the peer.
pub fn raise_here(number: u64, how: u64) -> u64 {
    if how == 3 {
        leave_waiting();
        return 0;
    }
    let done = match how {
        1 => mended(number),
        _ => entry(0).map(|()| {
            let _ = (KINDS[number as usize].raise)();
        }),
    };
    done.map_or_else(
        |why| {
            eprintln!("{why}");
            1
        },
        |()| 0,
    )
}

/// Whether the processor is one of QEMU's translator.
fn is_emulated() -> bool {
    let said = core::arch::x86_64::__cpuid(0x4000_0000);
    [said.ebx, said.ecx, said.edx].map(u32::to_le_bytes).as_flattened() == b"TCGTCGTCGTCG"
}

/// Whether the machine raises it at all.
fn is_raised(number: u64) -> Result<bool, String> {
    entry(mend as *const () as u64)?;
    Ok((KINDS[number as usize].raise)() == MENDED)
}

/// With the entry and without, in the program itself and in a callee, in user mode and in supervisor mode.
fn each(number: u64) -> Outcome {
    let kind = &KINDS[number as usize];
    mended(number)?;
    let peer = Peer::start()?;
    same!(peer.call(op::RAISE, &[number, 1]), Ok(0), "mended in a callee");
    same!(peer.plain(op::RAISE, &[number, 1]), Ok(0), "mended in a callee by a plain call");
    if number == VECTOR && !is_raised(number)? {
        return skipped(NO_VECTOR_EXCEPTIONS);
    }
    same!(peer.call(op::RAISE, &[number, 2]), Err(Error::Faulted), "a callee that does not mend it");
    same!(peer.call(op::ADD, &[1]), Ok(1), "the callee afterwards");
    same!(mended(number), Ok(()), "its caller, who still mends his own");
    for class in [class::PUSR, class::PSYS] {
        let number = match number {
            // What stops the processor in user mode is no exception there.
            PRIVILEGED if class == class::PSYS => continue,
            other => other,
        };
        program(number, class)?;
    }
    holds!(!kind.said.is_empty(), "something is said");
    Ok(())
}

/// In a program of its own, of this class, which mends it, and in one that does not.
fn program(number: u64, class: u64) -> Outcome {
    let kind = &KINDS[number as usize];
    let run = |how: &str| {
        let words = ["check", "as", "raise", &format!("{number}"), how];
        let child = Command::new(b"bin/check").args(words).placed(class, 0).spawn().map_err(|r| format!("{r}"))?;
        child.wait_for(60_000_000_000).map_err(doing("wait"))
    };
    let good = run("1")?;
    same!((good.kind, good.code), (exit::EXITED, 0), "mended, in class {class}: {}", ended::describe(&good, |_| None));
    let bad = run("2")?;
    let (mut address, mut cause) = (bad.address, bad.cause);
    let mut said = kind.said;
    if number == STACK && address == 12 {
        (address, cause, said) = (kind.address, kind.cause, "processor exception 12");
    }
    same!((bad.kind, cause, address), (exit::FAULT, kind.cause, kind.address), "not mended, in class {class}");
    let told = ended::describe(&bad, |_| None);
    holds!(told.contains(said), "what people are told: {told}");
    Ok(())
}

fn only_in_supervisor_mode(numbers: &[u64]) -> Outcome {
    numbers.iter().try_for_each(|number| program(*number, class::PSYS))
}

/// Whatever a program in user mode asks for by `int` but the two that are there for it, it hears of as refused.
fn vectors_asked_for() -> Outcome {
    entry(mend as *const () as u64)?;
    for number in 0..256u64 {
        let times = TOLD[5].load(Ordering::SeqCst);
        same!(ask_for(number), MENDED, "int {number}");
        let [address, cause, code, again] = [1, 2, 3, 5].map(|at: usize| TOLD[at].load(Ordering::SeqCst));
        // Of the interrupt table, by number: an entry of it is two of the emulator's.
        let by_number = [number << 3 | 2, number << 4 | 2].contains(&code);
        let (wanted, is_right) = match number {
            3 => ((3, cause::BREAKPOINT), code == 0),
            4 => ((4, cause::OVERFLOW), code == 0),
            _ => ((13, cause::INSTRUCTION), by_number),
        };
        same!((address, cause), wanted, "int {number}");
        holds!(is_right, "int {number}: the code is {code:#x}");
        same!(again - times, 1, "int {number}: entries");
    }
    Ok(())
}

/// A program of its own. Value: its exit status.
pub fn role(number: u64, how: u64) -> i32 {
    if how == 1 {
        return raise_here(number, 1) as i32;
    }
    if how == 3 && entry_that_wants(0, wants::ALIGNMENT).is_err() {
        return 1;
    }
    // With the SDK's own entry, which mends nothing of this, or none.
    (KINDS[number as usize].raise)() as i32
}

/// An entry may leave the flag set, and hears of each instruction.
fn step_by_step() -> Outcome {
    entry(mend as *const () as u64)?;
    let before = TOLD[5].load(Ordering::SeqCst);
    same!(steps(), MENDED, "where it went on");
    same!(TOLD[5].load(Ordering::SeqCst) - before, 6, "steps");
    Ok(())
}

/// A load of eight bytes that are not aligned, with the flag set.
fn unaligned_load(words: &[u64; 2]) -> u64 {
    let got: u64;
    // SAFETY: sets a flag, loads eight of the sixteen bytes, and takes the flag back; whoever mends an exception of it goes on behind the load.
    unsafe {
        asm!(
            "lea r8, [rip + 2f]", "xor r9d, r9d", "pushfq", "or dword ptr [rsp], 0x40000", "popfq", "mov {got}, [{words} + 3]", "2:",
            "pushfq", "and dword ptr [rsp], 0xfffbffff", "popfq",
            got = inout(reg) 0u64 => got, words = in(reg) words.as_ptr(), out("r8") _, out("r9") _
        );
    }
    got
}

/// Who has not asked for it has no exception, whoever has set the flag: a caller may have, and his callee is none the wiser.
fn alignment() -> Outcome {
    let peer = Peer::start()?;
    let words = [0x0102_0304_0506_0708u64, 0x1112_1314_1516_1718];
    same!(stub::fault_entry(&Trap, mend as *const () as u64, 2), Err(Error::BadArgument), "what nobody can want");
    for _ in 0..3 {
        same!(unaligned_load(&words), 0x1617_1801_0203_0405, "a word that is not aligned");
        // SAFETY: sets a flag, as above.
        unsafe { asm!("pushfq", "or dword ptr [rsp], 0x40000", "popfq") };
        let [bound, plain] = [peer.call(op::ADD, &[0]), peer.plain(op::ADD, &[0])];
        // SAFETY: takes the flag back.
        unsafe { asm!("pushfq", "and dword ptr [rsp], 0xfffbffff", "popfq") };
        same!([bound, plain], [Ok(0), Ok(0)], "a callee");
    }
    let times = TOLD[5].load(Ordering::SeqCst);
    entry_that_wants(mend as *const () as u64, wants::ALIGNMENT)?;
    if unaligned_load(&words) != 0 {
        same!(TOLD[5].load(Ordering::SeqCst), times, "entries without an exception");
        return skipped(NO_ALIGNMENT);
    }
    let told = [0, 1, 2, 5].map(|at: usize| TOLD[at].load(Ordering::SeqCst));
    same!(told, [reason::EXCEPTION, 17, cause::ALIGNMENT, times + 1], "what the entry was told");
    Ok(())
}

/// An exception of the x87 unit comes with that unit's next instruction. Whoever is entered meanwhile does not have it.
fn waiting() -> Outcome {
    let peer = Peer::start()?;
    for n in 0..20 {
        leave_waiting();
        same!(peer.call(op::ADD, &[1]), Ok(4 * n + 1), "a bound call");
        leave_waiting();
        same!(peer.plain(op::ADD, &[1]), Ok(4 * n + 2), "a plain call");
        leave_waiting();
        thread::yield_now();
        let _ = task::memory();
        same!(peer.call(op::RAISE, &[0, 3]), Ok(0), "a callee that leaves one");
        same!(peer.call(op::ADD, &[1]), Ok(4 * n + 3), "the next call");
        same!(peer.plain(op::RAISE, &[0, 3]), Ok(0), "a callee that leaves one, by a plain call");
        same!(peer.plain(op::ADD, &[1]), Ok(4 * n + 4), "the next plain call");
    }
    // SAFETY: as programs begin.
    unsafe { asm!("fninit") };
    Ok(())
}
