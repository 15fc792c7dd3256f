//! Clocks and sleep.

use crate::Trap;
use abi::calls::stub;

/// Nanoseconds since boot.
#[must_use]
pub fn now_ns() -> u64 {
    stub::clock(&Trap, 0).unwrap_or(0)
}

/// Nanoseconds since 1970, UTC.
#[must_use]
pub fn unix_ns() -> u64 {
    stub::clock(&Trap, 1).unwrap_or(0)
}

/// Sleeps for at least `ns`; less only if the thread is being killed.
pub fn sleep_ns(ns: u64) {
    let _ = stub::sleep(&Trap, ns);
}

/// The processor's time-stamp counter; with `--icount` one tick is one instruction.
#[inline]
#[must_use]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has the instruction, and it touches no memory. The fence keeps earlier loads
        // from being counted late.
        unsafe {
            core::arch::x86_64::_mm_lfence();
            core::arch::x86_64::_rdtsc()
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}
