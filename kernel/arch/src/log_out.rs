//! Where the kernel's log goes: the first serial port, and a ring kept in memory.

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, Ordering};
use spin::Mutex;

const COM1: u16 = 0x3f8;
static PRESENT: AtomicBool = AtomicBool::new(false);
static QUIET: AtomicBool = AtomicBool::new(false);

/// Programs COM1 to 115200 8N1 with FIFOs, if it is there.
pub(crate) fn set_up() {
    use crate::ports::{read, write};
    write(COM1 + 7, 1, 0x5a);
    if read(COM1 + 7, 1) != 0x5a {
        return;
    }
    for (register, value) in [(1, 0), (3, 0x80), (0, 1), (1, 0), (3, 3), (2, 0xc7), (4, 0x0b)] {
        write(COM1 + register, 1, value);
    }
    PRESENT.store(true, Ordering::Relaxed);
}

/// Once a console program has the serial port, only warnings go there (unless the whole port is the log's).
pub fn set_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Writes without locks, for a dying kernel.
pub(crate) struct Raw;

impl Write for Raw {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if !PRESENT.load(Ordering::Relaxed) {
            return Ok(());
        }
        for byte in text.bytes() {
            if byte == b'\n' {
                put(b'\r');
            }
            put(byte);
        }
        Ok(())
    }
}

fn put(byte: u8) {
    for _ in 0..10_000 {
        if crate::ports::read(COM1 + 5, 1) & 0x20 != 0 {
            break;
        }
    }
    crate::ports::write(COM1, 1, u32::from(byte));
}

struct Logger;
static LINE: Mutex<()> = Mutex::new(());

impl log::Log for Logger {
    fn enabled(&self, metadata: &log::Metadata) -> bool {
        metadata.level() <= log::Level::Warn || !QUIET.load(Ordering::Relaxed)
    }
    fn log(&self, record: &log::Record) {
        if self.enabled(record.metadata()) {
            let _line = LINE.lock();
            let us = crate::time::now() / 1000;
            let _ = writeln!(Raw, "[{:>4}.{:06}] {}", us / 1_000_000, us % 1_000_000, record.args());
        }
    }
    fn flush(&self) {}
}

pub(crate) fn set_logger() {
    static LOGGER: Logger = Logger;
    let _ = log::set_logger(&LOGGER);
    log::set_max_level(log::LevelFilter::Info);
}
