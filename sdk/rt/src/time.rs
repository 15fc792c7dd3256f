//! Clocks and sleep.

use crate::Trap;
use crate::post::Post;
use abi::Error;
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

/// Has a moment that [`alarm_at`] sets come to a post, as messages with this operation. User 0 only.
///
/// # Errors
/// What the kernel answers.
pub fn alarms_to(post: Post, op: u32) -> Result<(), Error> {
    stub::clock_post(&Trap, post.0, op.into()).map(drop)
}

/// When that message comes next, ns since boot (`u64::MAX`: never).
///
/// # Errors
/// What the kernel answers.
pub fn alarm_at(at: u64) -> Result<(), Error> {
    stub::clock_alarm(&Trap, at).map(drop)
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

/// Whether one tick is one instruction, as under `--icount`: found out by counting a loop of known length.
#[must_use]
pub fn ticks_are_instructions() -> bool {
    const ROUNDS: u64 = 1000;
    (0..3).any(|_| {
        let began = ticks();
        #[cfg(target_arch = "x86_64")]
        // SAFETY: counts a register down to zero: two instructions a round, no memory.
        unsafe {
            core::arch::asm!("2:", "dec {n}", "jnz 2b", n = inout(reg) ROUNDS => _, options(nomem, nostack));
        }
        (2 * ROUNDS..2 * ROUNDS + 32).contains(&(ticks() - began))
    })
}
