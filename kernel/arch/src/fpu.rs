//! Vector and floating-point state: saved per thread in full, scrubbed when a call crosses protection (pitfalls, H16).

use crate::cpu::has;
use abi::frame::Vectors;
use abi::info::feature;
use core::arch::asm;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Room for x87, SSE and AVX state in XSAVE's standard form.
#[derive(Clone)]
#[repr(C, align(64))]
pub(crate) struct State([u8; Vectors::LEN]);

/// An area that says of every component that it is in its initial state.
static NOTHING: State = {
    let mut state = State([0; Vectors::LEN]);
    [state.0[24], state.0[25]] = [MXCSR_CLEAN as u8, (MXCSR_CLEAN >> 8) as u8];
    state
};

const MXCSR_CLEAN: u32 = 0x1f80;
/// Bits of MXCSR that the first processors with it had.
const MXCSR_FIRST: u32 = 0xffbf;
const FCW_CLEAN: u16 = 0x037f;
const X87_SSE_AVX: u32 = 7;

impl State {
    /// The state in which programs start: x87 and SSE are present (their zeroes and control words), AVX is in its initial state.
    pub(crate) fn clean() -> State {
        State(Vectors::clean().0)
    }

    pub(crate) fn told(&self) -> Vectors {
        Vectors(self.0)
    }

    /// What a program asks for in place of what `save` has left here, without what cannot be loaded: bits of MXCSR that this processor does
    /// not have, components that the kernel does not enable, and the compacted form.
    pub(crate) fn take(&mut self, asked: &Vectors) {
        const MASK: usize = Vectors::MXCSR + 4;
        let word = |bytes: &[u8; Vectors::LEN], at: usize| u32::from_le_bytes(core::array::from_fn(|i| bytes[at + i]));
        let mask = word(&self.0, MASK);
        // Zero: a processor that does not say which it has (SDM 1, 11.6.6).
        let known = if mask == 0 { MXCSR_FIRST } else { mask };
        let mxcsr = word(&asked.0, Vectors::MXCSR) & known;
        self.0 = asked.0;
        self.0[Vectors::MXCSR..MASK].copy_from_slice(&mxcsr.to_le_bytes());
        self.0[MASK..MASK + 4].copy_from_slice(&mask.to_le_bytes());
        let header = &mut self.0[Vectors::PRESENT..Vectors::PRESENT + 64];
        let present = header[0] & X87_SSE_AVX as u8;
        header.fill(0);
        header[0] = present;
    }

    #[inline]
    pub(crate) fn save(&mut self) {
        // SAFETY: the area is aligned and large enough for the components in XCR0; without XSAVE, for FXSAVE.
        unsafe {
            if has(feature::AVX) {
                asm!("xsave64 [{}]", in(reg) self.0.as_mut_ptr(), in("eax") X87_SSE_AVX, in("edx") 0, options(nostack));
            } else {
                asm!("fxsave64 [{}]", in(reg) self.0.as_mut_ptr(), options(nostack));
            }
        }
    }

    #[inline]
    pub(crate) fn restore(&self) {
        // SAFETY: the area was written by `save`, `clean` or `take`, so no reserved bit is set.
        unsafe {
            if has(feature::AVX) {
                asm!("xrstor64 [{}]", in(reg) self.0.as_ptr(), in("eax") X87_SSE_AVX, in("edx") 0, options(nostack));
            } else {
                asm!("fxrstor64 [{}]", in(reg) self.0.as_ptr(), options(nostack));
            }
        }
    }
}

/// The control words that the C ABI makes a callee keep: MXCSR and the x87 control word.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Control {
    mxcsr: u32,
    fcw: u16,
    reserved: u16,
}

impl Control {
    /// Masks, rounding and what has happened, of vector registers.
    #[must_use]
    pub fn mxcsr(&self) -> u32 {
        self.mxcsr
    }
}

/// The x87 unit's status word.
#[must_use]
pub fn status() -> u16 {
    let status: u16;
    // SAFETY: reads a register; this instruction is one of those that do not hear of exceptions that wait.
    unsafe { asm!("fnstsw ax", out("ax") status, options(nomem, nostack, preserves_flags)) };
    status
}

/// Reads the control words.
#[inline]
pub fn control() -> Control {
    let mut control = Control::default();
    // SAFETY: both instructions store to the two fields.
    unsafe {
        asm!("stmxcsr [{}]", "fnstcw [{}]", in(reg) &raw mut control.mxcsr, in(reg) &raw mut control.fcw, options(nostack));
    }
    control
}

/// Clears all vector and x87 registers and loads `control` (or the clean words): nothing of one program's state reaches
/// the next.
#[inline(always)]
pub fn scrub(control: Option<Control>) {
    if control.is_none() && has(feature::AVX) {
        // SAFETY: as below. MXCSR is loaded from the area where a component is that uses it, and the control word is part of x87's initial
        // state (SDM 1, 13.8).
        unsafe {
            asm!("xrstor64 [{}]", in(reg) NOTHING.0.as_ptr(), in("eax") X87_SSE_AVX, in("edx") 0, options(nostack));
        }
        return;
    }
    let Control { mxcsr, fcw, .. } = control.unwrap_or(Control { mxcsr: MXCSR_CLEAN, fcw: FCW_CLEAN, reserved: 0 });
    // SAFETY: the kernel keeps nothing in vector registers. MXCSR was read from the register or is the clean value.
    unsafe {
        if has(feature::AVX) {
            asm!("vzeroall", options(nomem, nostack, preserves_flags));
        } else {
            asm!(
                "xorps xmm0, xmm0",
                "xorps xmm1, xmm1",
                "xorps xmm2, xmm2",
                "xorps xmm3, xmm3",
                "xorps xmm4, xmm4",
                "xorps xmm5, xmm5",
                "xorps xmm6, xmm6",
                "xorps xmm7, xmm7",
                "xorps xmm8, xmm8",
                "xorps xmm9, xmm9",
                "xorps xmm10, xmm10",
                "xorps xmm11, xmm11",
                "xorps xmm12, xmm12",
                "xorps xmm13, xmm13",
                "xorps xmm14, xmm14",
                "xorps xmm15, xmm15",
                options(nomem, nostack, preserves_flags)
            );
        }
        if has(feature::AVX) {
            // Zeroes in the header mean the initial state. `fninit` alone leaves the contents of the x87 registers, which
            // can be read as MMX registers.
            asm!("xrstor64 [{}]", in(reg) NOTHING.0.as_ptr(), in("eax") 1, in("edx") 0, options(nostack));
        } else {
            asm!(
                "fninit",
                "fldz",
                "fldz",
                "fldz",
                "fldz",
                "fldz",
                "fldz",
                "fldz",
                "fldz",
                "fninit",
                options(nomem, nostack)
            );
        }
        asm!("fldcw [{}]", "ldmxcsr [{}]", in(reg) &raw const fcw, in(reg) &raw const mxcsr, options(nostack));
    }
}
