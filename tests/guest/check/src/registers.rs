//! Registers across calls: what a callee finds in them, what a caller gets back, and that neither sees what the other had
//! in the rest.

use crate::memory::data;
use crate::peer::{Peer, op};
use crate::report::{Check, Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::string::String;
use core::arch::naked_asm;
use core::sync::atomic::{AtomicU8, Ordering};
use musubi::abi::gate::call_number;
use musubi::abi::info::feature;
use musubi::abi::layout::PAGE;
use musubi::rt::{Bound, section, task};
use musubi::{Error, Rights};

pub const CHECKS: &[Check] = &[
    ("registers_of_a_bound_call", || across(Way::Bound)),
    ("registers_of_a_plain_call", || across(Way::Plain)),
    ("registers_after_a_fault", after_a_fault),
    ("control_words_of_the_caller", control_words),
];

/// Gates in assembly, see [`raw`].
pub mod raw_kind {
    /// Writes all registers to `w0`, spoils all of them, and returns 77 and 88 by a kernel call.
    pub const DUMP_AND_SPOIL: u64 = 0;
    /// Puts `w0` in the place of its return address and returns.
    pub const OTHER_RETURN: u64 = 1;
    /// Spoils all registers and faults.
    pub const SPOIL_AND_FAULT: u64 = 2;
}

/// What the kernel is to hand to raw gates.
pub const COOKIE: u64 = 0xc00c_1e00_c00c_1e00;
/// What both sides keep in registers that the other must not see.
const CALLERS: u64 = 0x5ec7_e7ca_11e7_5ec7;
const SPOILT: u64 = 0xbadb_adba_dbad_badb;
/// Control words that are neither clean nor the callee's: rounding up, and a shorter precision.
const MXCSR: u32 = 0x5f80;
const FCW: u16 = 0x0a7f;

/// Whether there are registers of 256 bits.
static AVX: AtomicU8 = AtomicU8::new(0);

/// Address of a raw gate's code.
pub fn raw(kind: u64) -> u64 {
    find_avx();
    match kind {
        raw_kind::DUMP_AND_SPOIL => dump_and_spoil as *const () as u64,
        raw_kind::OTHER_RETURN => other_return as *const () as u64,
        _ => spoil_and_fault as *const () as u64,
    }
}

fn find_avx() {
    let has = task::processors().all(|p| p.features & feature::AVX != 0);
    AVX.store(u8::from(has), Ordering::SeqCst);
}

/// Registers as they were found. The order is that of the stores below.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Seen {
    /// rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15.
    general: [u64; 16],
    vectors: [[u64; 4]; 16],
    mmx: [u64; 8],
    mxcsr: u64,
    fcw: u64,
    flags: u64,
}

const _: () = assert!(core::mem::offset_of!(Seen, mmx) == 640 && core::mem::offset_of!(Seen, flags) == 720);

#[unsafe(naked)]
extern "C" fn other_return() {
    naked_asm!("mov [rsp], rdi", "ret")
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

/// Everything that a callee can spoil, the direction flag and the control words included; then `gate_return`.
#[unsafe(naked)]
extern "C" fn spoil_and_return() {
    naked_asm!(
            "call {spoil}",
            "mov eax, 0x34",
            "mov edi, 77",
            "mov esi, 88",
            "mov rsp, 0x1230",
            "syscall",
            "ud2",
        spoil = sym spoil,
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

/// Fills all registers, calls (by `syscall` if `how` is a number of a bound call, else by `call`), and writes to `after`
/// what came back. `rdi` = how, `rsi` = first word of the call, `rdx` = after.
#[unsafe(naked)]
extern "C" fn filled_call(how: u64, word: u64, after: *mut Seen) {
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
            "mov r10d, 0x1003",
            "mov ecx, 0x1003",
            "mov r8d, 0x1004",
            "mov r9d, 0x1005",
            "mov r11, {callers}",
            "mov rbx, {callers}",
            "lea rbp, [rbx + 1]",
            "lea r12, [rbx + 2]",
            "lea r13, [rbx + 3]",
            "lea r14, [rbx + 4]",
            "lea r15, [rbx + 5]",
            "bt rax, 46",
            "jc 6f",
            "syscall",
            "jmp 7f",
            "6:",
            "call rax",
            "7:",
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
        mxcsr = const MXCSR,
        fcw = const FCW,
    )
}

fn call(how: u64, word: u64) -> Seen {
    find_avx();
    // Another value than any that can come back.
    let blank = 0x1111_1111_1111_1111;
    let mut after =
        Seen { general: [blank; 16], vectors: [[blank; 4]; 16], mmx: [blank; 8], mxcsr: blank, fcw: 0, flags: blank };
    filled_call(how, word, &mut after);
    after
}

fn no_vectors(seen: &Seen, who: &str) -> Outcome {
    let lanes = if AVX.load(Ordering::SeqCst) == 0 { 2 } else { 4 };
    for (n, vector) in seen.vectors.iter().enumerate() {
        same!(&vector[..lanes], &[0; 4][..lanes], "vector register {n} {who}");
    }
    same!(seen.mmx, [0; 8], "MMX registers {who}");
    holds!(seen.flags & 0x400 == 0, "the direction flag is set {who}");
    Ok(())
}

/// What a caller must find after a call, whatever the callee did.
fn check_after(after: &Seen, values: [u64; 3]) -> Outcome {
    let g = &after.general;
    let kept = [g[1], g[6], g[12], g[13], g[14], g[15]];
    let wanted = [0, 1, 2, 3, 4, 5].map(|n| CALLERS + n);
    same!(kept, wanted, "rbx rbp r12 r13 r14 r15 afterwards");
    same!([g[0], g[3], g[10]], values, "rax rdx r10 afterwards");
    same!([g[4], g[5], g[8], g[9]], [0; 4], "rsi rdi r8 r9 afterwards");
    holds!(![g[2], g[11]].contains(&SPOILT), "rcx and r11 afterwards are the callee's");
    same!(after.mxcsr as u32, MXCSR, "MXCSR afterwards");
    same!(after.fcw as u16, FCW, "x87 control word afterwards");
    no_vectors(after, "afterwards")
}

#[derive(PartialEq)]
enum Way {
    Bound,
    Plain,
}

fn stage(kind: u64) -> Result<(Peer, u64, Bound, u64), String> {
    let peer = Peer::start()?;
    let gate = peer.call(op::RAW, &[kind, 0]).map_err(doing("gate"))?;
    let bound = Bound::bind(gate, PAGE).map_err(doing("bind"))?;
    let room = data(PAGE).map_err(doing("create"))?;
    section::grant(room.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    Ok((peer, gate, bound, room.base()))
}

fn across(way: Way) -> Outcome {
    let (peer, gate, bound, room) = stage(raw_kind::DUMP_AND_SPOIL)?;
    let who = task::identity();
    let how = if way == Way::Bound { call_number(bound.binding().number, 0) } else { gate };
    for _ in 0..3 {
        let after = call(how, room);
        // SAFETY: the callee wrote such a record there, and is done with it.
        let seen = unsafe { *(room as *const Seen) };
        let g = &seen.general;
        same!([g[5], g[4], g[3], g[2], g[8], g[9]], [room, 0x1001, 0x1002, 0x1003, 0x1004, 0x1005], "arguments");
        let args = if way == Way::Bound { [bound.binding().args, PAGE] } else { [0; 2] };
        same!([g[1], g[12]], args, "argument section");
        same!([g[0], g[13], g[6], g[15]], [0, COOKIE, 0, 0], "index, cookie, rbp, r15");
        same!([g[10], g[11], g[14]], [who.task, who.text, who.user], "who is calling");
        same!(g[7] % 16, 8, "the stack's alignment");
        same!((seen.mxcsr as u32, seen.fcw as u16), (0x1f80, 0x037f), "control words in the callee");
        no_vectors(&seen, "in the callee")?;
        check_after(&after, [77, 88, 0])?;
    }
    peer.end()
}

fn after_a_fault() -> Outcome {
    let (peer, gate, bound, room) = stage(raw_kind::SPOIL_AND_FAULT)?;
    for how in [call_number(bound.binding().number, 0), gate] {
        check_after(&call(how, room), [0, 0, Error::Faulted as u64])?;
    }
    // A call that is not made at all.
    same!(peer.call(op::OWN, &[crate::peer::own::SHUT]), Ok(0), "shutting it");
    let refused = call(call_number(bound.binding().number, 0), room).general;
    same!([refused[0], refused[3], refused[10]], [0, 0, Error::Denied as u64], "a refused call");
    peer.end()
}

/// Each side has its own, and a server's change of rounding is no caller's.
fn control_words() -> Outcome {
    let (peer, _, bound, room) = stage(raw_kind::DUMP_AND_SPOIL)?;
    let third = || core::hint::black_box(1.0f64) / core::hint::black_box(3.0);
    let before = third();
    for _ in 0..10 {
        bound.call(0, [room, 0, 0, 0, 0, 0]).map_err(doing("call"))?;
        same!(third().to_bits(), before.to_bits(), "a third after a call that rounds in its own way");
    }
    peer.end()
}
