//! Switching off. Under QEMU by the debug-exit device; elsewhere by ACPI's ports as QEMU-like machines have them.

use crate::{cpu, log_out, ports};

/// Code with which a panic ends QEMU's process: exit status `2 * code + 1`.
pub const PANIC: u8 = 0x7f;

/// Ends the machine. `code` 0: all is well.
pub fn off(code: u8) -> ! {
    log_out::last();
    ports::write(0xf4, 1, u32::from(code));
    if code != PANIC {
        // ACPI's soft-off as wired on QEMU's q35; on a machine that has neither, the processor stops here.
        ports::write(0x604, 2, 0x2000);
    }
    cpu::stop()
}
