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

/// The chip takes so many bytes at once when it has sent everything.
const FIFO_LEN: usize = 16;

fn is_ready() -> bool {
    crate::ports::read(COM1 + 5, 1) & 0x20 != 0
}

fn put(byte: u8) {
    for _ in 0..10_000 {
        if is_ready() {
            break;
        }
    }
    crate::ports::write(COM1, 1, u32::from(byte));
}

/// Lines of the log on their way to the port, which a program shares (SSS-22, 73): whoever writes there has this lock as long as his bytes
/// go out. They wait until the program's line has ended, and go out a piece at a time, so that nobody is long in the kernel for them.
struct Kept {
    /// The last byte that a program has written was no line feed.
    in_line: bool,
    /// A line of the log has begun, and its rest waits.
    is_broken: bool,
    /// A program sets the line's speed: what goes to the port would be that.
    is_set: bool,
    /// What waits, round and round: so many bytes from `first` on.
    bytes: [u8; KEPT_MAX],
    first: usize,
    len: usize,
    /// When the first of them came.
    since: u64,
    /// Lines that there was no room for since that was last told.
    lost: u64,
}

/// A driver that says much while a program's line is not ended, or faster than the chip sends, fills it. Nobody waits in the kernel until there is room:
/// what is more is lost, line by line, and the log says how many were.
const KEPT_MAX: usize = 32 * 1024;
/// So many go out at most at a time.
const PIECE: usize = 256;
/// So long they wait at most, in ns: a prompt is a line that does not end.
const PATIENCE_NS: u64 = 300_000_000;

static KEPT: Mutex<Kept> = Mutex::new(Kept {
    in_line: false,
    is_broken: false,
    is_set: false,
    bytes: [0; KEPT_MAX],
    first: 0,
    len: 0,
    since: 0,
    lost: 0,
});
/// For [`look`]: there are some.
static WAITS: AtomicBool = AtomicBool::new(false);

impl Kept {
    /// The next byte goes out, by this. With a program's line before it, that ends first.
    fn send(&mut self, put: impl Fn(u8)) {
        let byte = self.bytes[self.first];
        (self.first, self.len) = ((self.first + 1) % KEPT_MAX, self.len - 1);
        if PRESENT.load(Ordering::Relaxed) {
            if core::mem::take(&mut self.in_line) {
                put(b'\r');
                put(b'\n');
            }
            if byte == b'\n' {
                put(b'\r');
            }
            put(byte);
        }
        self.is_broken = byte != b'\n';
    }

    /// A piece goes out, as far as the chip takes it without being waited for.
    fn show(&mut self) {
        let mut sent = 0;
        while self.len > 0 && !self.is_set && sent < PIECE && (!PRESENT.load(Ordering::Relaxed) || is_ready()) {
            // Each byte may be a line feed, and a return before it; and another one's line may end first.
            let part = self.len.min(FIFO_LEN / 2 - 1);
            (0..part).for_each(|_| self.send(|byte| crate::ports::write(COM1, 1, u32::from(byte))));
            sent += part;
        }
        if self.len == 0 {
            self.owns_up(crate::time::now() / 1000);
        }
        WAITS.store(self.len > 0, Ordering::Relaxed);
    }

    /// Everything goes out, however long that takes.
    fn finish(&mut self) {
        while self.len > 0 || self.lost > 0 {
            while self.len > 0 {
                self.send(put);
            }
            self.owns_up(crate::time::now() / 1000);
        }
        WAITS.store(false, Ordering::Relaxed);
    }

    /// A line behind the time in microseconds, as a whole or not at all. Whether there was room.
    fn line(&mut self, us: u64, what: fmt::Arguments) -> bool {
        let before = self.len;
        let is_there = writeln!(self, "[{:>4}.{:06}] {what}", us / 1_000_000, us % 1_000_000).is_ok();
        if !is_there {
            self.len = before;
        }
        is_there
    }

    /// Says what was lost, before anything else is said. Whether nothing is left to say of that.
    fn owns_up(&mut self, us: u64) -> bool {
        let lost = self.lost;
        if lost > 0 && self.line(us, format_args!("the log had no room for {lost} lines")) {
            self.lost = 0;
        }
        self.lost == 0
    }

    /// Whether a program's line has to be waited for.
    fn is_held(&self, now: u64) -> bool {
        self.in_line && now < self.since.saturating_add(PATIENCE_NS)
    }
}

impl Write for Kept {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            if self.len == KEPT_MAX {
                return Err(fmt::Error);
            }
            self.bytes[(self.first + self.len) % KEPT_MAX] = byte;
            self.len += 1;
        }
        Ok(())
    }
}

/// A program writes these bytes to a port. Where that is the log's too, a line of the log that has begun goes first, and only what the chip has room
/// for is written. How many were; who has more tries again.
pub fn program_writes(port: u16, bytes: &[u8]) -> usize {
    if port != COM1 {
        crate::ports::write_bytes(port, bytes);
        return bytes.len();
    }
    let mut kept = KEPT.lock();
    if kept.is_broken {
        kept.show();
    }
    if !kept.in_line {
        // What still waits for the chip waits for a line that begins, from now on.
        kept.since = crate::time::now();
    }
    let mut done = 0;
    while !kept.is_broken && done < bytes.len() && (!PRESENT.load(Ordering::Relaxed) || is_ready()) {
        let part = &bytes[done..bytes.len().min(done + FIFO_LEN)];
        crate::ports::write_bytes(port, part);
        done += part.len();
        kept.in_line = part.last() != Some(&b'\n');
    }
    if !kept.in_line {
        kept.show();
    }
    done
}

/// The same for one register. Whoever sets the line's speed does so at the port of its bytes.
pub fn program_sets(port: u16, width: u64, value: u32) {
    if port & !7 != COM1 {
        return crate::ports::write(port, width, value);
    }
    let mut kept = KEPT.lock();
    crate::ports::write(port, width, value);
    match port - COM1 {
        0 if !kept.is_set => kept.in_line = value as u8 != b'\n',
        3 => kept.is_set = value & 0x80 != 0,
        _ => {}
    }
}

/// Time has gone by.
pub fn look() {
    if WAITS.load(Ordering::Relaxed) {
        let mut kept = KEPT.lock();
        if !kept.is_held(crate::time::now()) {
            kept.show();
        }
    }
}

/// Something waits: when to look next, in ns.
pub fn looks_at() -> Option<u64> {
    const LOOK_NS: u64 = 1_000_000;
    WAITS.load(Ordering::Relaxed).then(|| crate::time::now() + LOOK_NS)
}

/// Shows what is kept, if nobody is about to: for a kernel that ends.
pub(crate) fn last() {
    if let Some(mut kept) = KEPT.try_lock() {
        kept.finish();
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
            if !(kept.owns_up(us) && kept.line(us, *record.args())) {
                kept.lost += 1;
            }
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
