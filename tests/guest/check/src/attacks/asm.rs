//! Instructions that no compiler makes: jumps with registers of one's choice, code that writes the key register, calls with
//! odd flags.

mod gate;

pub use gate::call_and_use;

use alloc::vec;
use alloc::vec::Vec;
use core::arch::naked_asm;
use core::sync::atomic::AtomicU64;

/// The status of a program that touched what is the victim's.
pub const TOUCHED: i32 = 77;
/// What is written to the victim's memory if that goes through.
pub const BRAND: u64 = 0xbad0_bad0_bad0_bad0;

/// Where [`hostile`] jumps to, and whose memory [`landing`] tries.
pub static TARGET: AtomicU64 = AtomicU64::new(0);
pub static VICTIM: AtomicU64 = AtomicU64::new(0);

/// Counts down from `rounds`, with these flags, and loads a word at `at` that lies across two.
#[unsafe(naked)]
pub extern "C" fn spin_with(flags: u64, rounds: u64, at: u64) {
    naked_asm!("push rdi", "popfq", "mov rax, [rdx + 1]", "2:", "dec rsi", "jnz 2b", "push 0x202", "popfq", "ret",)
}

/// Registers to jump with: as in [`crate::raw::Seen`], rax rbx rcx rdx rsi rdi rbp rsp r8..r15, then the flags. With 0 as
/// `rsp` the own stack is kept, with [`landing`] on top of it.
pub type Registers = [u64; 17];

/// Loads all registers and jumps to [`TARGET`].
#[unsafe(naked)]
pub extern "C" fn hostile(registers: *const Registers) -> ! {
    naked_asm!(
        "mov rax, [rdi + 0]",
        "mov rbx, [rdi + 8]",
        "mov rcx, [rdi + 16]",
        "mov rdx, [rdi + 24]",
        "mov rsi, [rdi + 32]",
        "mov rbp, [rdi + 48]",
        "mov r8, [rdi + 64]",
        "mov r9, [rdi + 72]",
        "mov r10, [rdi + 80]",
        "mov r11, [rdi + 88]",
        "mov r12, [rdi + 96]",
        "mov r13, [rdi + 104]",
        "mov r14, [rdi + 112]",
        "mov r15, [rdi + 120]",
        "push qword ptr [rdi + 128]",
        "cmp qword ptr [rdi + 56], 0",
        "je 2f",
        "popfq",
        "mov rsp, [rdi + 56]",
        "mov rdi, [rdi + 40]",
        "jmp [rip + {target}]",
        // With the trap flag set the next step but one is within the target.
        "2:",
        "mov rdi, [rdi + 40]",
        "xchg r15, [rsp]",
        "push r15",
        "lea r15, [rip + {landing}]",
        "xchg r15, [rsp + 8]",
        "popfq",
        "jmp [rip + {target}]",
        target = sym TARGET,
        landing = sym landing,
    )
}

/// Where everything forged leads: does what the victim forbids, and says so if that goes through.
#[unsafe(naked)]
pub extern "C" fn landing() {
    naked_asm!(
        "mov rcx, [rip + {victim}]",
        "mov rdx, [rcx]",
        "mov rdx, {brand}",
        "mov [rcx], rdx",
        "mov eax, 2",
        "mov edi, {touched}",
        "syscall",
        "ud2",
        victim = sym VICTIM,
        brand = const BRAND,
        touched = const TOUCHED,
    )
}

/// The same with what `rsi` leads to, first thing.
#[unsafe(naked)]
pub extern "C" fn landing_at_rsi() {
    naked_asm!("mov rdx, [rsi]", "mov eax, 2", "mov edi, {touched}", "syscall", "ud2", touched = const TOUCHED)
}

/// The same with what `rdx` leads to.
#[unsafe(naked)]
pub extern "C" fn landing_at_rdx() {
    naked_asm!("mov rdx, [rdx]", "mov eax, 2", "mov edi, {touched}", "syscall", "ud2", touched = const TOUCHED)
}

/// What opens all keys. Put together when it runs, so that this program's own text stays without it.
pub fn open_all() -> Vec<u8> {
    let last = core::hint::black_box(0xee) + 1;
    // xor ecx, ecx; xor edx, edx; xor eax, eax; wrpkru
    vec![0x31, 0xc9, 0x31, 0xd2, 0x31, 0xc0, 0x0f, 0x01, last]
}

/// `mov [rdi], rsi; ret`, as a C function, and `mov rax, [rdi]; ret`.
pub const STORE: &[u8] = &[0x48, 0x89, 0x37, 0xc3];
pub const LOAD: &[u8] = &[0x48, 0x8b, 0x07, 0xc3];
/// `mov eax, 0x200; xor edx, edx; xrstor [rsi]`: the component of the key register, from an area.
/// Put together when it runs, as the one above: this program holds nothing of the kind.
pub fn restore() -> Vec<u8> {
    let last_but_one = core::hint::black_box(0xad) + 1;
    vec![0xb8, 0x00, 0x02, 0x00, 0x00, 0x31, 0xd2, 0x0f, last_but_one, 0x2e]
}

/// Calls code at an address with two words.
pub fn run(address: u64, first: u64, second: u64) -> u64 {
    // SAFETY: code that a check has put together and sealed, or the fetch faults: that is what is tried.
    let function: extern "C" fn(u64, u64) -> u64 = unsafe { core::mem::transmute(address) };
    function(first, second)
}

/// Makes a bound call with these flags, MXCSR and x87 control word; `pending` leaves an x87 exception behind. `rdi` = the
/// gate, `rsi` = slot, `rdx` = first word of the call, `rcx` = flags, `r8` = MXCSR, `r9` = control word.
#[unsafe(naked)]
pub extern "C" fn odd_call(gate: u64, slot: u64, word: u64, flags: u64, mxcsr: u64, control: u64) -> u64 {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 24",
        "stmxcsr [rsp + 8]",
        "fnstcw [rsp + 12]",
        "mov [rsp], r8d",
        "ldmxcsr [rsp]",
        "mov [rsp], r9w",
        "fldcw [rsp]",
        // A division by zero, which waits for the next x87 instruction if it is unmasked.
        "fldz",
        "fld1",
        "fdiv st(0), st(1)",
        "mov r11, rsi",
        "mov rax, rdi",
        "mov rdi, rdx",
        "mov rdx, rcx",
        "xor esi, esi",
        "xor r8d, r8d",
        "xor r9d, r9d",
        "xor r12d, r12d",
        "xor r13d, r13d",
        "xor r14d, r14d",
        "lea rcx, [rip + 2f]",
        "push rcx",
        "push rdx",
        "popfq",
        "jmp rax",
        "2:",
        "mov rax, r10",
        "pushfq",
        "push 2",
        "popfq",
        "fnclex",
        "ldmxcsr [rsp + 16]",
        "fldcw [rsp + 20]",
        "pop rdx",
        "test edx, 0x500",
        "je 3f",
        "mov rax, -1",
        "3:",
        "add rsp, 24",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
    )
}

/// Steps that the processor reports late, or in the kernel: see `state.rs`.
#[unsafe(naked)]
pub extern "C" fn step(which: u64) {
    naked_asm!(
        "mov eax, 6",
        "cmp edi, 1",
        "je 1f",
        "cmp edi, 2",
        "je 2f",
        "cmp edi, 3",
        "je 3f",
        "cmp edi, 4",
        "je 4f",
        "cmp edi, 5",
        "je 5f",
        "cmp edi, 6",
        "je 6f",
        "cmp edi, 7",
        "je 7f",
        "cmp edi, 8",
        "je 8f",
        "cmp edi, 9",
        "je 9f",
        "cmp edi, 10",
        "je 20f",
        "cmp edi, 11",
        "je 21f",
        "cmp edi, 12",
        "je 22f",
        // The trap flag, and into the kernel with the next instruction.
        "push 0x302",
        "popfq",
        "syscall",
        "ret",
        // Behind an instruction that puts off what is to be reported.
        "1: mov ecx, ss",
        "push 0x302",
        "popfq",
        "mov ss, ecx",
        "syscall",
        "ret",
        "2: .byte 0xf1",
        "ret",
        "3: mov ecx, ss",
        "mov ss, ecx",
        "int3",
        "ret",
        // Nested task, alignment check and the identification flag on the way in.
        "4: push 0x244202",
        "popfq",
        "syscall",
        "ret",
        // Segment bases: the kernel keeps its own behind one.
        "5: mov rcx, -1",
        ".byte 0xf3, 0x48, 0x0f, 0xae, 0xd9",
        "ret",
        "6: mov ecx, ss",
        "mov gs, ecx",
        "mov fs, ecx",
        "syscall",
        "ret",
        // The kernel's own vectors, and other ways in.
        "7: int 14",
        "ret",
        "8: int 0x20",
        "ret",
        "9: int 0x80",
        "ret",
        "20: sysenter",
        "ret",
        // Back to where the kernel is.
        "21: push 0x10",
        "push rsp",
        "push 0x202",
        "push 0x8",
        "lea rcx, [rip + 30f]",
        "push rcx",
        "iretq",
        "22: push 0x8",
        "lea rcx, [rip + 30f]",
        "push rcx",
        "retfq",
        "30: cli",
        "ret",
    )
}

/// The stack that [`through`] calls from, if not the thread's own; and where it has its return address there.
pub static STACK: AtomicU64 = AtomicU64::new(0);
pub static RETURN_AT: AtomicU64 = AtomicU64::new(0);

/// Makes a bound call with three words by a way of the gate, and a return address with `tag` added. Value: the second value,
/// or the status with the highest bit set.
#[unsafe(naked)]
pub extern "C" fn through(via: u64, slot: u64, first: u64, second: u64, third: u64, tag: u64) -> u64 {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov rax, rdi",
        "mov r11, rsi",
        "mov rdi, rdx",
        "mov rsi, rcx",
        "mov r12, r8",
        "xor r13d, r13d",
        "xor r14d, r14d",
        "xor r8d, r8d",
        "lea rcx, [rip + 2f]",
        "add rcx, r9",
        "mov r9, rsp",
        "mov rbx, [rip + {stack}]",
        "test rbx, rbx",
        "cmovne rsp, rbx",
        "push r9",
        "xor r9d, r9d",
        "push rcx",
        "mov [rip + {at}], rsp",
        "jmp rax",
        "2:",
        "pop rsp",
        "mov rax, rsi",
        "test r10, r10",
        "je 3f",
        "mov rax, r10",
        "bts rax, 63",
        "3:",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
        at = sym RETURN_AT,
        stack = sym STACK,
    )
}

/// Leaves everything in disorder that can be, and goes back by the door at `door` (0: by the kernel call) with the values 0
/// and `value`.
#[unsafe(naked)]
pub extern "C" fn disorderly_return(door: u64, value: u64) -> u64 {
    naked_asm!(
        "push 0",
        "ldmxcsr [rsp]",
        "mov word ptr [rsp], 0x0340",
        "fldcw [rsp]",
        "fldz",
        "fld1",
        "fdiv st(0), st(1)",
        "push 0x244602",
        "popfq",
        "test rdi, rdi",
        "je 2f",
        "mov rcx, rdi",
        "mov rdx, rsi",
        "xor eax, eax",
        "mov rsp, 0x1230",
        "jmp rcx",
        "2:",
        "mov eax, 0x34",
        "mov rsp, 0x1230",
        "syscall",
        "ud2",
    )
}

/// A program of its own: binds to the gates that are named at `rdi`, writes the binding behind that, and ends.
#[unsafe(naked)]
pub extern "C" fn binds(block: u64) {
    naked_asm!(
        "mov rbx, rdi",
        "mov eax, 0x32",
        "mov rdi, [rbx]",
        "xor esi, esi",
        "xor edx, edx",
        "lea r10, [rbx + 16]",
        "syscall",
        "mov [rbx + 8], rax",
        "mov eax, 2",
        "xor edi, edi",
        "syscall",
        "ud2",
    )
}

/// A program of its own: makes a gate, writes status and address behind the first word of the block at `rdi`, and sleeps. The gate
/// answers 42.
#[unsafe(naked)]
pub extern "C" fn exports(block: u64) {
    naked_asm!(
        "mov rbx, rdi",
        "mov eax, 0x30",
        "lea rdi, [rip + 2f]",
        "mov esi, 1",
        "xor edx, edx",
        "xor r10d, r10d",
        "syscall",
        "mov [rbx + 16], rdx",
        "mov [rbx + 8], rax",
        "3:",
        "mov eax, 7",
        "mov edi, 1000000000",
        "syscall",
        "jmp 3b",
        "2:",
        "xor eax, eax",
        "mov edx, 42",
        "ret",
    )
}

/// Spins, and then copies from where there may be nothing to read; 1 if there is not. Until then it touches no memory.
#[unsafe(naked)]
pub extern "C" fn spin_and_copy(to: u64, from: u64, len: u64, rounds: u64) -> u64 {
    naked_asm!("2:", "dec rcx", "jnz 2b", "jmp musubi_guarded_copy")
}

/// Stores the 32-bit word at `said` at `says`, waits until the word at `flag` is not 0, and loads the word at `from`: in registers alone. A
/// callee that touches its own memory when its key is gone lives apart from then on, and has nothing open.
#[unsafe(naked)]
pub extern "C" fn spin_and_load(flag: u64, from: u64, says: u64, said: u64) -> u64 {
    naked_asm!(
        "mov rax, [rdi]",
        "mov ecx, [rcx]",
        "mov [rdx], rcx",
        "2:",
        "pause",
        "cmp qword ptr [rdi], 0",
        "je 2b",
        "mov rax, [rsi]",
        "ret",
    )
}
