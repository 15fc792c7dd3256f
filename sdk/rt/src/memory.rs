//! Copying, filling and comparing memory, for all that the compiler makes of slices: programs are linked with these as
//! `memcpy`, `memmove`, `memset`, `memcmp` and `bcmp`.

use core::arch::global_asm;
#[cfg(any(target_os = "musubi", test))]
use core::sync::atomic::{AtomicBool, Ordering};

global_asm!(include_str!("memory.S"));

#[cfg(target_os = "musubi")]
global_asm!(
    ".globl memcpy, memmove, memset, memcmp, bcmp",
    ".set memcpy, musubi_copy",
    ".set memmove, musubi_copy",
    ".set memset, musubi_fill",
    ".set memcmp, musubi_compare",
    ".set bcmp, musubi_compare",
);

#[cfg(any(target_os = "musubi", test))]
// SAFETY: memory.S defines it: one byte, 0 or 1, that anybody may change at any time.
unsafe extern "C" {
    #[link_name = "musubi_avx"]
    safe static AVX: AtomicBool;
}

/// Finds out what the processor has and the kernel keeps for each thread. Before that, and without AVX, SSE is used.
#[cfg(any(target_os = "musubi", test))]
pub(crate) fn look_at_processor() {
    use core::arch::x86_64::__cpuid;
    const OSXSAVE_AVX: u32 = 1 << 27 | 1 << 28;
    const SSE_AVX_STATE: u32 = 6;
    let kept = || {
        let state: u32;
        // SAFETY: with OSXSAVE the instruction exists; it reads which states the kernel keeps.
        unsafe { core::arch::asm!("xgetbv", in("ecx") 0, out("eax") state, out("edx") _, options(nomem, nostack)) };
        state & SSE_AVX_STATE == SSE_AVX_STATE
    };
    AVX.store(__cpuid(1).ecx & OSXSAVE_AVX == OSXSAVE_AVX && kept(), Ordering::Relaxed);
}

#[cfg(test)]
mod tests;
