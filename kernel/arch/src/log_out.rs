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

/// Lines of the log that wait until a program's line on the same port has ended (SSS-73).
struct Kept {
    /// The last byte that a program has written was no line feed.
    in_line: bool,
    bytes: [u8; KEPT_MAX],
    len: usize,
    /// When the first of them came.
    since: u64,
}

const KEPT_MAX: usize = 4096;
/// So long they wait at most, in ns: a prompt is a line that does not end.
const PATIENCE_NS: u64 = 300_000_000;

static KEPT: Mutex<Kept> = Mutex::new(Kept { in_line: false, bytes: [0; KEPT_MAX], len: 0, since: 0 });
/// For [`look`]: there are some.
static WAITS: AtomicBool = AtomicBool::new(false);

impl Kept {
    fn show(&mut self) {
        if self.in_line && self.len > 0 {
            let _ = Raw.write_char('\n');
            self.in_line = false;
        }
        if PRESENT.load(Ordering::Relaxed) {
            for &byte in &self.bytes[..self.len] {
                if byte == b'\n' {
                    put(b'\r');
                }
                put(byte);
            }
        }
        self.len = 0;
        WAITS.store(false, Ordering::Relaxed);
    }
}

impl Write for Kept {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            if self.len == KEPT_MAX {
                self.show();
            }
            self.bytes[self.len] = byte;
            self.len += 1;
        }
        Ok(())
    }
}

/// A program has written this to a port, last.
pub fn written(port: u16, last: u8) {
    if port == COM1 {
        let mut kept = KEPT.lock();
        kept.in_line = last != b'\n';
        if !kept.in_line && kept.len > 0 {
            kept.show();
        }
    }
}

/// Time has gone by.
pub fn look() {
    if WAITS.load(Ordering::Relaxed) {
        let mut kept = KEPT.lock();
        if crate::time::now() >= kept.since + PATIENCE_NS {
            kept.show();
        }
    }
}

/// Shows what is kept, if nobody is about to: for a dying kernel.
pub(crate) fn last() {
    if let Some(mut kept) = KEPT.try_lock() {
        kept.show();
    }
}

struct Logger;

impl log::Log for Logger {
    fn enabled(&self, metadata: &log::Metadata) -> bool {
        metadata.level() <= log::Level::Warn || !QUIET.load(Ordering::Relaxed)
    }
    fn log(&self, record: &log::Record) {
        if self.enabled(record.metadata()) {
            let mut kept = KEPT.lock();
            let us = crate::time::now() / 1000;
            if kept.len == 0 {
                kept.since = us * 1000;
            }
            let _ = writeln!(kept, "[{:>4}.{:06}] {}", us / 1_000_000, us % 1_000_000, record.args());
            if kept.in_line {
                WAITS.store(true, Ordering::Relaxed);
            } else {
                kept.show();
            }
        }
    }
    fn flush(&self) {}
}

pub(crate) fn set_logger() {
    static LOGGER: Logger = Logger;
    let _ = log::set_logger(&LOGGER);
    log::set_max_level(log::LevelFilter::Info);
}
