//! Gates in assembly, which do to registers what no compiler would; and a call that fills and looks at all registers.

use core::arch::naked_asm;
use core::sync::atomic::{AtomicU8, Ordering};
use musubi::abi::gate::{DONE, Record};
use musubi::abi::info::feature;
use musubi::rt::task;

/// See [`raw`].
pub mod kind {
    /// Writes all registers to `w0`, spoils all of them, and returns 77 and 88 by a kernel call.
    pub const DUMP_AND_SPOIL: u64 = 0;
    /// Puts `w0` in the place of its return address and returns.
    pub const OTHER_RETURN: u64 = 1;
    /// Spoils all registers and faults.
    pub const SPOIL_AND_FAULT: u64 = 2;
    /// The first one, but returns by [`DONE`](musubi::abi::gate::DONE). From now on in this program, both do.
    pub const DUMP_AND_DONE: u64 = 3;
    /// Stores at `w0` with its first instruction, and returns.
    pub const STORE_FIRST: u64 = 4;
    /// Values: what it finds by FS and by GS at `w0`.
    pub const BY_SEGMENTS: u64 = 5;
    /// Returns, if the word at `w0` is 0; otherwise as [`SPOIL_AND_FAULT`].
    pub const MAY_FAULT: u64 = 6;
}

/// What the kernel is to hand to raw gates.
pub const COOKIE: u64 = 0xc00c_1e00_c00c_1e00;
/// What both sides keep in registers that the other must not see.
pub const CALLERS: u64 = 0x5ec7_e7ca_11e7_5ec7;
pub const SPOILT: u64 = 0xbadb_adba_dbad_badb;
/// Instead of a binding's slot: a plain call.
pub const PLAIN: u64 = 1;
/// Control words that are neither clean nor the callee's: rounding up, and a shorter precision.
pub const MXCSR: u32 = 0x5f80;
pub const FCW: u16 = 0x0a7f;

/// Whether there are registers of 256 bits.
pub static AVX: AtomicU8 = AtomicU8::new(0);

/// Whether raw gates return by the gate, and not by the kernel.
static BY_GATE: AtomicU8 = AtomicU8::new(0);

/// Address of a raw gate's code.
pub fn raw(which: u64) -> u64 {
    find_avx();
    match which {
        kind::DUMP_AND_SPOIL => dump_and_spoil as *const () as u64,
        kind::DUMP_AND_DONE => {
            BY_GATE.store(1, Ordering::SeqCst);
            dump_and_spoil as *const () as u64
        }
        kind::OTHER_RETURN => other_return as *const () as u64,
        kind::STORE_FIRST => store_first as *const () as u64,
        kind::MAY_FAULT => may_fault as *const () as u64,
        kind::BY_SEGMENTS => by_segments as *const () as u64,
        _ => spoil_and_fault as *const () as u64,
    }
}

pub fn find_avx() {
    let has = task::processors().all(|p| p.features & feature::AVX != 0);
    AVX.store(u8::from(has), Ordering::SeqCst);
}

/// Registers as they were found. The order is that of the stores below.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct Seen {
    /// rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15.
    pub general: [u64; 16],
    pub vectors: [[u64; 4]; 16],
    pub mmx: [u64; 8],
    pub mxcsr: u64,
    pub fcw: u64,
    pub flags: u64,
}

const _: () = assert!(core::mem::offset_of!(Seen, mmx) == 640 && core::mem::offset_of!(Seen, flags) == 720);

#[unsafe(naked)]
extern "C" fn by_segments() {
    naked_asm!("mov rax, fs:[rdi]", "mov rdx, gs:[rdi]", "jmp [rbx + {back}]", back = const core::mem::offset_of!(Record, back))
}

#[unsafe(naked)]
extern "C" fn other_return() {
    naked_asm!("mov [rsp], rdi", "ret")
}

#[unsafe(naked)]
extern "C" fn store_first() {
    naked_asm!(
        "mov [rdi], rdi",
        "xor eax, eax",
        "xor edx, edx",
        "jmp [rbx + {back}]",
        back = const core::mem::offset_of!(Record, back),
    )
}

#[unsafe(naked)]
extern "C" fn dump_and_spoil() {
    naked_asm!(
            "mov [rdi + 0], rax",
            "mov [rdi + 8], rbx",
            "mov [rdi + 16], rcx",
            "mov [rdi + 24], rdx",
            "mov [rdi + 32], rsi",
            "mov [rdi + 40], rdi",
            "mov [rdi + 48], rbp",
            "mov [rdi + 56], rsp",
            "mov [rdi + 64], r8",
            "mov [rdi + 72], r9",
            "mov [rdi + 80], r10",
            "mov [rdi + 88], r11",
            "mov [rdi + 96], r12",
            "mov [rdi + 104], r13",
            "mov [rdi + 112], r14",
            "mov [rdi + 120], r15",
            "pushfq",
            "pop rax",
            "mov [rdi + 720], rax",
            // A word that lies across two: whoever cares for alignment would fault.
            "mov rax, [rdi + 3]",
            "cmp byte ptr [rip + {avx}], 0",
            "jne 2f",
            "movups [rdi + 128], xmm0",
            "movups [rdi + 160], xmm1",
            "movups [rdi + 192], xmm2",
            "movups [rdi + 224], xmm3",
            "movups [rdi + 256], xmm4",
            "movups [rdi + 288], xmm5",
            "movups [rdi + 320], xmm6",
            "movups [rdi + 352], xmm7",
            "movups [rdi + 384], xmm8",
            "movups [rdi + 416], xmm9",
            "movups [rdi + 448], xmm10",
            "movups [rdi + 480], xmm11",
            "movups [rdi + 512], xmm12",
            "movups [rdi + 544], xmm13",
            "movups [rdi + 576], xmm14",
            "movups [rdi + 608], xmm15",
            "jmp 3f",
            "2:",
            "vmovups [rdi + 128], ymm0",
            "vmovups [rdi + 160], ymm1",
            "vmovups [rdi + 192], ymm2",
            "vmovups [rdi + 224], ymm3",
            "vmovups [rdi + 256], ymm4",
            "vmovups [rdi + 288], ymm5",
            "vmovups [rdi + 320], ymm6",
            "vmovups [rdi + 352], ymm7",
            "vmovups [rdi + 384], ymm8",
            "vmovups [rdi + 416], ymm9",
            "vmovups [rdi + 448], ymm10",
            "vmovups [rdi + 480], ymm11",
            "vmovups [rdi + 512], ymm12",
            "vmovups [rdi + 544], ymm13",
            "vmovups [rdi + 576], ymm14",
            "vmovups [rdi + 608], ymm15",
            "3:",
            "stmxcsr [rdi + 704]",
            "fnstcw [rdi + 712]",
            "movq [rdi + 640], mm0",
            "movq [rdi + 648], mm1",
            "movq [rdi + 656], mm2",
            "movq [rdi + 664], mm3",
            "movq [rdi + 672], mm4",
            "movq [rdi + 680], mm5",
            "movq [rdi + 688], mm6",
            "movq [rdi + 696], mm7",
            "fninit",
            "jmp {spoil}",
        avx = sym AVX,
        spoil = sym spoil_and_return,
    )
}

/// Everything that a callee can spoil, the direction flag and the control words included; then it returns.
#[unsafe(naked)]
extern "C" fn spoil_and_return() {
    naked_asm!(
            "call {spoil}",
            "cmp byte ptr [rip + {by_gate}], 0",
            "jne 2f",
            "mov eax, 0x34",
            "mov edi, 77",
            "mov esi, 88",
            "mov rsp, 0x1230",
            "syscall",
            "ud2",
            "2:",
            "mov rcx, {done}",
            "mov eax, 77",
            "mov edx, 88",
            "mov rsp, 0x1230",
            "jmp rcx",
        spoil = sym spoil,
        by_gate = sym BY_GATE,
        done = const DONE,
    )
}

#[unsafe(naked)]
extern "C" fn may_fault() {
    naked_asm!(
        "cmp qword ptr [rdi], 0",
        "jne {faults}",
        "xor eax, eax",
        "xor edx, edx",
        "jmp [rbx + {back}]",
        faults = sym spoil_and_fault,
        back = const core::mem::offset_of!(Record, back),
    )
}

#[unsafe(naked)]
extern "C" fn spoil_and_fault() {
    naked_asm!("call {spoil}", "mov rsp, 0x1230", "ud2", spoil = sym spoil)
}

#[unsafe(naked)]
extern "C" fn spoil() {
    naked_asm!(
            "mov rax, {spoilt}",
            "movq mm0, rax",
            "movq mm1, rax",
            "movq mm2, rax",
            "movq mm3, rax",
            "movq mm4, rax",
            "movq mm5, rax",
            "movq mm6, rax",
            "movq mm7, rax",
            "emms",
            "movq xmm0, rax",
            "punpcklqdq xmm0, xmm0",
            "cmp byte ptr [rip + {avx}], 0",
            "je 4f",
            "vinsertf128 ymm0, ymm0, xmm0, 1",
            "vmovaps ymm1, ymm0",
            "vmovaps ymm2, ymm0",
            "vmovaps ymm3, ymm0",
            "vmovaps ymm4, ymm0",
            "vmovaps ymm5, ymm0",
            "vmovaps ymm6, ymm0",
            "vmovaps ymm7, ymm0",
            "vmovaps ymm8, ymm0",
            "vmovaps ymm9, ymm0",
            "vmovaps ymm10, ymm0",
            "vmovaps ymm11, ymm0",
            "vmovaps ymm12, ymm0",
            "vmovaps ymm13, ymm0",
            "vmovaps ymm14, ymm0",
            "vmovaps ymm15, ymm0",
            "jmp 5f",
            "4:",
            "movaps xmm1, xmm0",
            "movaps xmm2, xmm0",
            "movaps xmm3, xmm0",
            "movaps xmm4, xmm0",
            "movaps xmm5, xmm0",
            "movaps xmm6, xmm0",
            "movaps xmm7, xmm0",
            "movaps xmm8, xmm0",
            "movaps xmm9, xmm0",
            "movaps xmm10, xmm0",
            "movaps xmm11, xmm0",
            "movaps xmm12, xmm0",
            "movaps xmm13, xmm0",
            "movaps xmm14, xmm0",
            "movaps xmm15, xmm0",
            "5:",
            "push 0x3f80",
            "ldmxcsr [rsp]",
            "mov word ptr [rsp], 0x067f",
            "fldcw [rsp]",
            "pop rcx",
            "mov rbx, rax",
            "mov rcx, rax",
            "mov rdx, rax",
            "mov rsi, rax",
            "mov rdi, rax",
            "mov rbp, rax",
            "mov r8, rax",
            "mov r9, rax",
            "mov r10, rax",
            "mov r11, rax",
            "mov r12, rax",
            "mov r13, rax",
            "mov r14, rax",
            "mov r15, rax",
            "std",
            "ret",
        avx = sym AVX,
        spoilt = const SPOILT,
    )
}

/// Fills all registers, calls `how` (a plain call if `slot` is [`PLAIN`], else the gate at `how` with the binding's slot), and
/// writes to `after` what came back. `rdi` = how, `rsi` = first word of the call, `rdx` = after, `rcx` = slot.
#[unsafe(naked)]
pub extern "C" fn filled_call(how: u64, word: u64, after: *mut Seen, slot: u64) {
    naked_asm!(
            "push rbx",
            "push rbp",
            "push r12",
            "push r13",
            "push r14",
            "push r15",
            "sub rsp, 24",
            "stmxcsr [rsp + 8]",
            "fnstcw [rsp + 16]",
            "mov [rsp], rdx",
            "mov r11, rcx",
            "mov rax, {callers}",
            "movq mm0, rax",
            "movq mm1, rax",
            "movq mm2, rax",
            "movq mm3, rax",
            "movq mm4, rax",
            "movq mm5, rax",
            "movq mm6, rax",
            "movq mm7, rax",
            "emms",
            "movq xmm0, rax",
            "punpcklqdq xmm0, xmm0",
            "cmp byte ptr [rip + {avx}], 0",
            "je 4f",
            "vinsertf128 ymm0, ymm0, xmm0, 1",
            "vmovaps ymm1, ymm0",
            "vmovaps ymm2, ymm0",
            "vmovaps ymm3, ymm0",
            "vmovaps ymm4, ymm0",
            "vmovaps ymm5, ymm0",
            "vmovaps ymm6, ymm0",
            "vmovaps ymm7, ymm0",
            "vmovaps ymm8, ymm0",
            "vmovaps ymm9, ymm0",
            "vmovaps ymm10, ymm0",
            "vmovaps ymm11, ymm0",
            "vmovaps ymm12, ymm0",
            "vmovaps ymm13, ymm0",
            "vmovaps ymm14, ymm0",
            "vmovaps ymm15, ymm0",
            "jmp 5f",
            "4:",
            "movaps xmm1, xmm0",
            "movaps xmm2, xmm0",
            "movaps xmm3, xmm0",
            "movaps xmm4, xmm0",
            "movaps xmm5, xmm0",
            "movaps xmm6, xmm0",
            "movaps xmm7, xmm0",
            "movaps xmm8, xmm0",
            "movaps xmm9, xmm0",
            "movaps xmm10, xmm0",
            "movaps xmm11, xmm0",
            "movaps xmm12, xmm0",
            "movaps xmm13, xmm0",
            "movaps xmm14, xmm0",
            "movaps xmm15, xmm0",
            "5:",
            "push {mxcsr}",
            "ldmxcsr [rsp]",
            "mov word ptr [rsp], {fcw}",
            "fldcw [rsp]",
            "pop rcx",
            "mov rax, rdi",
            "mov rdi, rsi",
            "mov esi, 0x1001",
            "mov edx, 0x1002",
            "mov r10, {callers}",
            "mov ecx, 0x1003",
            "mov r8d, 0x1004",
            "mov r9d, 0x1005",
            "mov rbx, {callers}",
            "lea rbp, [rbx + 1]",
            "lea r12, [rbx + 2]",
            "lea r13, [rbx + 3]",
            "lea r14, [rbx + 4]",
            "lea r15, [rbx + 5]",
            "cmp r11, {plain}",
            "je 6f",
            "mov r12d, 0x1002",
            "mov r13d, 0x1003",
            "xor r14d, r14d",
            "mov rcx, {callers}",
            "mov rdx, {callers}",
            "6:",
            "call rax",
            "xchg rdi, [rsp]",
            "mov [rdi + 0], rax",
            "mov [rdi + 8], rbx",
            "mov [rdi + 16], rcx",
            "mov [rdi + 24], rdx",
            "mov [rdi + 32], rsi",
            "mov [rdi + 48], rbp",
            "mov [rdi + 56], rsp",
            "mov [rdi + 64], r8",
            "mov [rdi + 72], r9",
            "mov [rdi + 80], r10",
            "mov [rdi + 88], r11",
            "mov [rdi + 96], r12",
            "mov [rdi + 104], r13",
            "mov [rdi + 112], r14",
            "mov [rdi + 120], r15",
            "pushfq",
            "pop rax",
            "mov [rdi + 720], rax",
            "cld",
            "mov rax, [rsp]",
            "mov [rdi + 40], rax",
            "cmp byte ptr [rip + {avx}], 0",
            "jne 2f",
            "movups [rdi + 128], xmm0",
            "movups [rdi + 160], xmm1",
            "movups [rdi + 192], xmm2",
            "movups [rdi + 224], xmm3",
            "movups [rdi + 256], xmm4",
            "movups [rdi + 288], xmm5",
            "movups [rdi + 320], xmm6",
            "movups [rdi + 352], xmm7",
            "movups [rdi + 384], xmm8",
            "movups [rdi + 416], xmm9",
            "movups [rdi + 448], xmm10",
            "movups [rdi + 480], xmm11",
            "movups [rdi + 512], xmm12",
            "movups [rdi + 544], xmm13",
            "movups [rdi + 576], xmm14",
            "movups [rdi + 608], xmm15",
            "jmp 3f",
            "2:",
            "vmovups [rdi + 128], ymm0",
            "vmovups [rdi + 160], ymm1",
            "vmovups [rdi + 192], ymm2",
            "vmovups [rdi + 224], ymm3",
            "vmovups [rdi + 256], ymm4",
            "vmovups [rdi + 288], ymm5",
            "vmovups [rdi + 320], ymm6",
            "vmovups [rdi + 352], ymm7",
            "vmovups [rdi + 384], ymm8",
            "vmovups [rdi + 416], ymm9",
            "vmovups [rdi + 448], ymm10",
            "vmovups [rdi + 480], ymm11",
            "vmovups [rdi + 512], ymm12",
            "vmovups [rdi + 544], ymm13",
            "vmovups [rdi + 576], ymm14",
            "vmovups [rdi + 608], ymm15",
            "3:",
            "stmxcsr [rdi + 704]",
            "fnstcw [rdi + 712]",
            "movq [rdi + 640], mm0",
            "movq [rdi + 648], mm1",
            "movq [rdi + 656], mm2",
            "movq [rdi + 664], mm3",
            "movq [rdi + 672], mm4",
            "movq [rdi + 680], mm5",
            "movq [rdi + 688], mm6",
            "movq [rdi + 696], mm7",
            "fninit",
            "ldmxcsr [rsp + 8]",
            "fldcw [rsp + 16]",
            "add rsp, 24",
            "pop r15",
            "pop r14",
            "pop r13",
            "pop r12",
            "pop rbp",
            "pop rbx",
            "ret",
        avx = sym AVX,
        callers = const CALLERS,
        plain = const PLAIN as i32,
        mxcsr = const MXCSR,
        fcw = const FCW,
    )
}
