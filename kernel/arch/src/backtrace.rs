//! Walks frame pointers (the kernel is compiled with them).

use crate::{image, symbols};
use core::fmt::Write;

/// Prints the callers of the frame at `rbp`, innermost first.
pub(crate) fn print(out: &mut dyn Write, rip: u64, mut rbp: u64) {
    line(out, rip);
    for _ in 0..40 {
        // Frames lie on kernel stacks or in the image; anything else ends the walk.
        if rbp < 0xffff_8700_0000_0000 || !rbp.is_multiple_of(8) {
            break;
        }
        // SAFETY: within the kernel's slots, where a bad frame pointer of a broken kernel at worst faults again, which
        // the double-fault stack reports.
        let (next, ret) = unsafe { (*(rbp as *const u64), *((rbp + 8) as *const u64)) };
        if !image::text().contains(&ret) {
            break;
        }
        line(out, ret);
        if next <= rbp {
            break;
        }
        rbp = next;
    }
}

fn line(out: &mut dyn Write, address: u64) {
    let _ = match symbols::find(address) {
        Some((name, offset)) => writeln!(out, "  {address:#018x} {name}+{offset:#x}"),
        None => writeln!(out, "  {address:#018x}"),
    };
}
