//! I/O ports. Which program may reach which port is decided above, by the ACL of a ports section.

use core::arch::asm;

/// Reads a port. `width` is 1, 2 or 4 bytes; anything else reads 0.
pub fn read(port: u16, width: u64) -> u32 {
    // SAFETY: reading a port has no effect on memory. Which port is the caller's decision.
    unsafe {
        match width {
            1 => {
                let v: u8;
                asm!("in al, dx", in("dx") port, out("al") v, options(nomem, nostack));
                u32::from(v)
            }
            2 => {
                let v: u16;
                asm!("in ax, dx", in("dx") port, out("ax") v, options(nomem, nostack));
                u32::from(v)
            }
            4 => {
                let v: u32;
                asm!("in eax, dx", in("dx") port, out("eax") v, options(nomem, nostack));
                v
            }
            _ => 0,
        }
    }
}

/// Writes a port. `width` is 1, 2 or 4 bytes; anything else does nothing.
pub fn write(port: u16, width: u64, value: u32) {
    // SAFETY: the ports of devices that do DMA by themselves are never given out without the right `dma`.
    unsafe {
        match width {
            1 => asm!("out dx, al", in("dx") port, in("al") value as u8, options(nomem, nostack)),
            2 => asm!("out dx, ax", in("dx") port, in("ax") value as u16, options(nomem, nostack)),
            4 => asm!("out dx, eax", in("dx") port, in("eax") value, options(nomem, nostack)),
            _ => {}
        }
    }
}

/// Writes all bytes to one port, in order.
pub fn write_bytes(port: u16, bytes: &[u8]) {
    // SAFETY: reads `bytes` only.
    unsafe {
        asm!("rep outsb", in("dx") port, inout("rsi") bytes.as_ptr() => _, inout("rcx") bytes.len() => _,
             options(nostack, preserves_flags, readonly));
    }
}
