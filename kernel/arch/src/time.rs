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
/// 10 ms of the interval timer, which runs out after 55.
const COUNT_MIN: u64 = PIT_HZ / 100;
/// Samples are good enough if together they are not wider than this part of what lies between them.
const FINE: u64 = 500;
const TRIES: u64 = 1 << 22;

/// Nanoseconds since boot; never goes back on one processor.
#[inline]
pub fn now() -> u64 {
    at(cpu::tsc())
}

/// What the counter said at boot, and nanoseconds for each tick since, 32.32.
pub fn rate() -> (u64, u64) {
    (ORIGIN.load(Ordering::Relaxed), NS_PER_TICK.load(Ordering::Relaxed))
}

/// The time at which the counter said this.
pub(crate) fn at(tsc: u64) -> u64 {
    ns(tsc.wrapping_sub(ORIGIN.load(Ordering::Relaxed)))
}

/// Nanoseconds in so many ticks of the counter.
pub(crate) fn ns(ticks: u64) -> u64 {
    ((u128::from(ticks) * u128::from(NS_PER_TICK.load(Ordering::Relaxed))) >> 32) as u64
}

/// The three counters at one moment.
struct Sample {
    /// TSC before the others were read.
    tsc: u64,
    /// What passed until they all were.
    width: u64,
    /// Of the interval timer, counting down.
    count: u16,
    /// Left of the local controller's timer.
    timer: u32,
}

/// `None` if the interval timer has run out.
fn sample() -> Option<Sample> {
    let tsc = cpu::tsc();
    ports::write(0x43, 1, 0x80);
    let (low, high) = (ports::read(0x42, 1), ports::read(0x42, 1));
    let timer = apic::timer_left();
    let over = ports::read(0x61, 1) & 0x20 != 0;
    (!over).then(|| Sample { tsc, width: cpu::tsc() - tsc, count: (high << 8 | low) as u16, timer })
}

/// Measures the counters against the interval timer's channel 2, over 10 ms or somewhat more. The processor of an
/// emulator may stand still for a while at any place, so samples count by how quickly they were taken.
pub(crate) fn calibrate() {
    let gate = ports::read(0x61, 1);
    ports::write(0x61, 1, (gate & !2) | 1);
    // The best two samples so far: what passed between them by the interval timer, the TSC and the local timer, and
    // how wide they were.
    let mut best: Option<(u64, u64, u64, u64)> = None;
    let mut first: Option<Sample> = None;
    // Bounded: a machine without this timer gets a guess of 1 GHz instead of a hang.
    for _ in 0..TRIES {
        let (Some(begin), Some(end)) = (&first, sample()) else {
            ports::write(0x43, 1, 0xb0);
            ports::write(0x42, 1, 0xff);
            ports::write(0x42, 1, 0xff);
            apic::start_timer(u32::MAX);
            // The count that was written is there only after a while.
            let _ = sample();
            first = sample();
            continue;
        };
        let count = u64::from(begin.count.saturating_sub(end.count));
        if count < COUNT_MIN {
            continue;
        }
        let (ticks, width) = (end.tsc - begin.tsc, begin.width + end.width);
        if best.is_none_or(|(_, ticks_before, _, width_before)| width * ticks_before < width_before * ticks) {
            best = Some((count, ticks, u64::from(begin.timer.saturating_sub(end.timer)), width));
        }
        if width * FINE <= ticks {
            break;
        }
        if begin.width * 2 * FINE > ticks {
            // With this beginning it takes too long to become good.
            first = None;
        }
    }
    apic::start_timer(0);
    let (ns, ticks, timer) = match best {
        Some((count, ticks, timer, _)) if ticks > 0 && timer > 0 => (count * 1_000_000_000 / PIT_HZ, ticks, timer),
        _ => (1, 1, 1),
    };
    NS_PER_TICK.store((u128::from(ns) << 32).div_euclid(u128::from(ticks)) as u64, Ordering::Relaxed);
    TIMER_PER_NS.store((timer << 32) / ns, Ordering::Relaxed);
    ORIGIN.store(cpu::tsc(), Ordering::Relaxed);
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
