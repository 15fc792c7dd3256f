//! A full call that waits saves everything of its thread (SSS-31): others run meanwhile, and leave no trace.

/// All general registers but those that a call takes (rax, rdx, rcx, r11), all vector registers, the x87 stack and both control words hold
/// `seed`, across a sleep of `ns`. Whether they do afterwards.
pub fn keeps(seed: u64, ns: u64) -> bool {
    #[cfg(target_os = "musubi")]
    {
        let mut bad = 0u64;
        // Rounding upwards, and nothing else unusual: every thread has another way of rounding.
        let (mxcsr, fcw) = (0x1f80 | (seed as u32 & 3) << 13, 0x037f | (seed as u16 & 3) << 10);
        let mut words = [seed & 0x7fff_ffff_ffff_ffff, u64::from(mxcsr), u64::from(fcw), 0, 0, 0];
        // SAFETY: registers, and stores to `words`; rbx and rbp are put back, as are both control words and the x87 stack.
        unsafe {
            core::arch::asm!(
                "push rbx", "push rbp", "push r15",
                "ldmxcsr [r15 + 8]", "fldcw [r15 + 16]", "fild qword ptr [r15]",
                "mov rbx, r14", "mov rbp, r14", "mov r8, r14", "mov r9, r14", "mov r10, r14", "mov rsi, r14", "mov r12, r14", "mov r13, r14",
                "mov r15, r14",
                "movq xmm0, r14", "movq xmm1, r14", "movq xmm2, r14", "movq xmm3, r14", "movq xmm4, r14", "movq xmm5, r14", "movq xmm6, r14", "movq xmm7, r14",
                "movq xmm8, r14", "movq xmm9, r14", "movq xmm10, r14", "movq xmm11, r14", "movq xmm12, r14", "movq xmm13, r14", "movq xmm14, r14", "movq xmm15, r14",
                "syscall",
                "mov rax, r15",
                "xor rbx, rax", "xor rbp, rax", "xor r8, rax", "xor r9, rax", "xor r10, rax", "xor rsi, rax", "xor r12, rax", "xor r13, rax", "xor r14, rax",
                "or rbx, rbp", "or rbx, r8", "or rbx, r9", "or rbx, r10", "or rbx, rsi", "or rbx, r12", "or rbx, r13", "or rbx, r14",
                "pop r15",
                // What all have been compared with, for a start.
                "mov rcx, [r15]", "xor rcx, rax", "shl rcx, 1", "or rbx, rcx",
                "movq rcx, xmm0", "xor rcx, rax", "or rbx, rcx", "movq rcx, xmm1", "xor rcx, rax", "or rbx, rcx", "movq rcx, xmm2", "xor rcx, rax", "or rbx, rcx",
                "movq rcx, xmm3", "xor rcx, rax", "or rbx, rcx", "movq rcx, xmm4", "xor rcx, rax", "or rbx, rcx", "movq rcx, xmm5", "xor rcx, rax", "or rbx, rcx",
                "movq rcx, xmm6", "xor rcx, rax", "or rbx, rcx", "movq rcx, xmm7", "xor rcx, rax", "or rbx, rcx", "movq rcx, xmm8", "xor rcx, rax", "or rbx, rcx",
                "movq rcx, xmm9", "xor rcx, rax", "or rbx, rcx", "movq rcx, xmm10", "xor rcx, rax", "or rbx, rcx", "movq rcx, xmm11", "xor rcx, rax", "or rbx, rcx",
                "movq rcx, xmm12", "xor rcx, rax", "or rbx, rcx", "movq rcx, xmm13", "xor rcx, rax", "or rbx, rcx", "movq rcx, xmm14", "xor rcx, rax", "or rbx, rcx",
                "movq rcx, xmm15", "xor rcx, rax", "or rbx, rcx",
                "fistp qword ptr [r15 + 24]", "stmxcsr [r15 + 32]", "fnstcw [r15 + 40]",
                "mov rax, rbx", "pop rbp", "pop rbx",
                inlateout("rax") musubi::abi::calls::number("sleep") => bad,
                inlateout("rdi") ns => _, inlateout("r14") seed => _, inlateout("r15") words.as_mut_ptr() => _,
                out("rcx") _, out("rdx") _, out("rsi") _, out("r8") _, out("r9") _, out("r10") _, out("r11") _, out("r12") _, out("r13") _,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _, out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
            );
            // As programs have them.
            let (usual_mxcsr, usual_fcw) = (0x1f80u32, 0x037fu16);
            core::arch::asm!("ldmxcsr [{}]", "fldcw [{}]", in(reg) &raw const usual_mxcsr, in(reg) &raw const usual_fcw);
        }
        let [whole, .., loaded, mxcsr_then, fcw_then] = words;
        // Exceptions that were met are no part of it.
        let same_control = mxcsr_then & !0x3f == u64::from(mxcsr) && fcw_then & 0xffff == u64::from(fcw);
        bad == 0 && loaded == whole && same_control
    }
    #[cfg(not(target_os = "musubi"))]
    {
        let _ = (seed, ns);
        true
    }
}
