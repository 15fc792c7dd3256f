//! Ports of devices by the processor's own instructions, where the text is executed in supervisor mode (SSS-67): the kernel is asked once what
//! a section's ports are and what this program may do there, and not for each byte. Elsewhere, and for what is not as it should
//! be, these do nothing, and the kernel does it or says why not.

use crate::section::info;
use abi::Rights;
use abi::section::kind;
use core::sync::atomic::{AtomicU64, Ordering};

/// Sections of ports that a program uses in this way; of more, the kernel is asked each time.
const KNOWN_MAX: usize = 8;

/// A section, and what is known of it: its first port, how many, and the rights.
struct Known {
    base: AtomicU64,
    what: AtomicU64,
}

static KNOWN: [Known; KNOWN_MAX] = [const { Known { base: AtomicU64::new(0), what: AtomicU64::new(0) } }; KNOWN_MAX];

/// Bit of the rights.
const RIGHTS: u32 = 32;

fn known(base: u64) -> Option<u64> {
    let found = KNOWN.iter().find(|one| one.base.load(Ordering::Acquire) == base);
    let what = found.map(|one| one.what.load(Ordering::Acquire)).filter(|what| *what != 0);
    what.or_else(|| learn(base))
}

#[cold]
fn learn(base: u64) -> Option<u64> {
    let info = info(base).ok().filter(|info| info.kind == kind::PORTS && info.base == base && info.ports != 0)?;
    let what = info.ports | info.rights << RIGHTS;
    let free = |one: &&Known| {
        let taken = one.base.compare_exchange(0, base, Ordering::AcqRel, Ordering::Acquire);
        taken.is_ok() || taken == Err(base)
    };
    if let Some(one) = KNOWN.iter().find(free) {
        one.what.store(what, Ordering::Release);
    }
    Some(what)
}

/// The machine's port, if it is in the section and this program may.
fn port(base: u64, port: u64, width: u64, right: Rights) -> Option<u16> {
    if !machine::is_supervisor() || !matches!(width, 1 | 2 | 4) {
        return None;
    }
    let what = known(base)?;
    let (first, count) = (what & 0xffff, what >> 16 & 0xffff);
    let may = what >> RIGHTS & u64::from(right.bits()) != 0 && port.checked_add(width)? <= count;
    may.then_some((first + port) as u16)
}

#[inline]
pub fn read(base: u64, number: u64, width: u64) -> Option<u64> {
    port(base, number, width, Rights::READ).map(|port| machine::read(port, width).into())
}

#[inline]
pub fn write(base: u64, number: u64, width: u64, value: u64) -> Option<()> {
    port(base, number, width, Rights::WRITE).map(|port| machine::write(port, width, value as u32))
}

#[inline]
pub fn write_bytes(base: u64, number: u64, bytes: &[u8]) -> Option<()> {
    port(base, number, 1, Rights::WRITE).map(|port| machine::write_bytes(port, bytes))
}

#[cfg(target_os = "musubi")]
mod machine {
    use core::arch::asm;

    /// The code segment's privilege.
    #[inline]
    pub fn is_supervisor() -> bool {
        let segment: u64;
        // SAFETY: reads a register that everybody may read.
        unsafe { asm!("mov {}, cs", out(reg) segment, options(nomem, nostack, preserves_flags)) };
        segment & 3 == 0
    }

    pub fn read(port: u16, width: u64) -> u32 {
        let value: u32;
        // SAFETY: in supervisor mode; the caller has seen that the program may use the port.
        unsafe {
            match width {
                1 => asm!("in al, dx", "movzx eax, al", in("dx") port, out("eax") value, options(nostack)),
                2 => asm!("in ax, dx", "movzx eax, ax", in("dx") port, out("eax") value, options(nostack)),
                _ => asm!("in eax, dx", in("dx") port, out("eax") value, options(nostack, preserves_flags)),
            }
        }
        value
    }

    pub fn write(port: u16, width: u64, value: u32) {
        // SAFETY: as above.
        unsafe {
            match width {
                1 => asm!("out dx, al", in("dx") port, in("eax") value, options(nostack, preserves_flags)),
                2 => asm!("out dx, ax", in("dx") port, in("eax") value, options(nostack, preserves_flags)),
                _ => asm!("out dx, eax", in("dx") port, in("eax") value, options(nostack, preserves_flags)),
            }
        }
    }

    pub fn write_bytes(port: u16, bytes: &[u8]) {
        // SAFETY: as above; the bytes are only read.
        unsafe {
            asm!("rep outsb", in("dx") port, inout("rsi") bytes.as_ptr() => _, inout("rcx") bytes.len() => _,
                 options(nostack, preserves_flags, readonly));
        }
    }
}

#[cfg(not(target_os = "musubi"))]
mod machine {
    pub fn is_supervisor() -> bool {
        false
    }

    pub fn read(_: u16, _: u64) -> u32 {
        0
    }

    pub fn write(_: u16, _: u64, _: u32) {}

    pub fn write_bytes(_: u16, _: &[u8]) {}
}
