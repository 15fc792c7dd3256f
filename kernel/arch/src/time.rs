//! The clock: the time-stamp counter, its rate measured once against the programmable interval timer; one-shot timer
//! interrupts by the local controller.

use crate::{apic, cpu, ports};
use core::sync::atomic::{AtomicU64, Ordering};

/// TSC at calibration, and nanoseconds per tick as a 32.32 fixed-point number.
static ORIGIN: AtomicU64 = AtomicU64::new(0);
static NS_PER_TICK: AtomicU64 = AtomicU64::new(0);
/// Timer ticks per nanosecond, 32.32.
static TIMER_PER_NS: AtomicU64 = AtomicU64::new(0);

const PIT_HZ: u64 = 1_193_182;
const WAIT_NS: u64 = 10_000_000;

/// Nanoseconds since boot; never goes back on one processor.
#[inline]
pub fn now() -> u64 {
    let ticks = cpu::tsc().wrapping_sub(ORIGIN.load(Ordering::Relaxed));
    ((u128::from(ticks) * u128::from(NS_PER_TICK.load(Ordering::Relaxed))) >> 32) as u64
}

/// Measures the counters over 10 ms of the interval timer's channel 2.
pub(crate) fn calibrate() {
    let count = PIT_HZ * WAIT_NS / 1_000_000_000;
    let gate = ports::read(0x61, 1);
    ports::write(0x61, 1, (gate & !2) | 1);
    ports::write(0x43, 1, 0xb0);
    ports::write(0x42, 1, (count & 0xff) as u32);
    ports::write(0x42, 1, (count >> 8) as u32);
    apic::start_timer(u32::MAX);
    let begin = cpu::tsc();
    // Bounded: a machine without this timer gets a guess of 1 GHz instead of a hang.
    let mut tries = 0u64;
    while ports::read(0x61, 1) & 0x20 == 0 && tries < 50_000_000 {
        tries += 1;
    }
    let (ticks, timer) = (cpu::tsc() - begin, u32::MAX - apic::timer_left());
    apic::start_timer(0);
    let (ticks, timer) = if ticks == 0 || timer == 0 { (WAIT_NS, WAIT_NS as u32) } else { (ticks, timer) };
    NS_PER_TICK.store((u128::from(WAIT_NS) << 32).div_euclid(u128::from(ticks)) as u64, Ordering::Relaxed);
    TIMER_PER_NS.store((u64::from(timer) << 32) / WAIT_NS, Ordering::Relaxed);
    ORIGIN.store(begin, Ordering::Relaxed);
}

/// Asks for a timer interrupt on this processor at `deadline` (ns since boot), or for none.
pub fn set_alarm(deadline: Option<u64>) {
    let Some(deadline) = deadline else {
        return apic::start_timer(0);
    };
    let ns = deadline.saturating_sub(now()).max(1000);
    let ticks = (u128::from(ns) * u128::from(TIMER_PER_NS.load(Ordering::Relaxed))) >> 32;
    apic::start_timer(ticks.clamp(1, u128::from(u32::MAX)) as u32);
}

/// Busy wait, for starting processors.
pub(crate) fn wait(ns: u64) {
    let until = now() + ns;
    while now() < until {
        core::hint::spin_loop();
    }
}

/// Seconds since 1970 from the battery clock (taken as UTC).
pub(crate) fn read_clock() -> u64 {
    let get = |register: u32| {
        ports::write(0x70, 1, register);
        ports::read(0x71, 1)
    };
    let read = || {
        while get(0x0a) & 0x80 != 0 {}
        [0, 2, 4, 7, 8, 9, 0x32].map(get)
    };
    // Two equal readings in a row: no update came between.
    let mut fields = read();
    loop {
        let again = read();
        if again == fields {
            break;
        }
        fields = again;
    }
    let format = get(0x0b);
    if format & 4 == 0 {
        let pm = fields[2] & 0x80;
        fields[2] &= 0x7f;
        fields = fields.map(|v| (v >> 4) * 10 + (v & 15));
        fields[2] |= pm;
    }
    if format & 2 == 0 {
        fields[2] = (fields[2] & 0x7f) % 12 + if fields[2] & 0x80 != 0 { 12 } else { 0 };
    }
    let [second, minute, hour, day, month, year, century] = fields.map(u64::from);
    let year = if (19..=21).contains(&century) { century * 100 + year } else { 2000 + year };
    days_since_1970(year, month, day) * 86400 + hour * 3600 + minute * 60 + second
}

fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    // Years begin in March, so that the leap day comes last.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1;
    days - 719_468
}
