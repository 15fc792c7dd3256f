//! A panic prints where and why, and ends the program with status 101.

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicPtr, Ordering};

static OUTPUT: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Says where panics are printed. This crate knows no interface, so the crate above names the program's error stream.
pub fn set_panic_output(write: fn(&[u8])) {
    OUTPUT.store(write as *mut (), Ordering::Release);
}

/// Text of bounded length, made without the heap: the heap may be what failed.
struct Line {
    bytes: [u8; 512],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let n = s.len().min(self.bytes.len() - self.len);
        self.bytes[self.len..self.len + n].copy_from_slice(&s.as_bytes()[..n]);
        self.len += n;
        Ok(())
    }
}

/// Prints a panic on the output that was set, or else in the kernel's log.
#[cfg_attr(not(target_os = "musubi"), allow(dead_code))]
fn report(message: &dyn fmt::Display) {
    let mut line = Line { bytes: [0; 512], len: 0 };
    let _ = writeln!(line, "{message}");
    // Taken out first: a panic while printing must not come back here.
    let output = OUTPUT.swap(core::ptr::null_mut(), Ordering::AcqRel);
    if output.is_null() {
        let text = &line.bytes[..line.len];
        let _ = abi::calls::stub::log_write(&crate::Trap, text.as_ptr() as u64, text.len() as u64);
    } else {
        // SAFETY: only `set_panic_output` stores here, and it stores a function of this type.
        let write: fn(&[u8]) = unsafe { core::mem::transmute(output) };
        write(&line.bytes[..line.len]);
    }
}

#[cfg(target_os = "musubi")]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    report(info);
    crate::task::exit(101)
}
