//! Random bytes, from the processor's own source where there is one.

use crate::time;

/// A source that answers nothing is asked again, as its maker advises.
const TRIES: usize = 10;

/// Fills a buffer with random bytes. On a processor without a source of its own they come from the clocks, which nobody
/// should rest a secret on: [`is_strong`] says which.
pub fn fill(to: &mut [u8]) {
    let mut weak = None;
    for part in to.chunks_mut(8) {
        let word = strong().unwrap_or_else(|| weak.get_or_insert_with(Weak::new).next());
        part.copy_from_slice(&word.to_le_bytes()[..part.len()]);
    }
}

/// Whether random bytes come from a source that nobody can guess.
#[must_use]
pub fn is_strong() -> bool {
    strong().is_some()
}

#[cfg(target_arch = "x86_64")]
fn strong() -> Option<u64> {
    use core::arch::x86_64::__cpuid;
    /// CPUID leaf 1, ecx.
    const RDRAND: u32 = 1 << 30;
    if __cpuid(1).ecx & RDRAND == 0 {
        return None;
    }
    (0..TRIES).find_map(|_| {
        let (value, got): (u64, u8);
        // SAFETY: the processor has the instruction; it changes nothing but the two registers and the flags.
        unsafe {
            core::arch::asm!("rdrand {}", "setc {}", out(reg) value, out(reg_byte) got, options(nomem, nostack));
        }
        (got != 0).then_some(value)
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn strong() -> Option<u64> {
    None
}

/// SplitMix64 from the clocks.
struct Weak(u64);

impl Weak {
    fn new() -> Weak {
        Weak(time::ticks() ^ time::unix_ns().rotate_left(32) ^ time::now_ns())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0 ^ time::ticks();
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_fillings_are_alike() {
        let (mut a, mut b) = ([0; 33], [0; 33]);
        fill(&mut a);
        fill(&mut b);
        assert_ne!(a, b);
        assert!(a.iter().any(|&byte| byte != a[0]));
    }

    #[test]
    fn the_clocks_do_where_the_processor_has_nothing() {
        let mut weak = Weak(1);
        let drawn: std::collections::BTreeSet<u64> = (0..1000).map(|_| weak.next()).collect();
        assert_eq!(drawn.len(), 1000);
    }
}
