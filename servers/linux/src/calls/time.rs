//! Clocks and sleep.

use linux_raw_sys::general as linux;

use crate::answer::{Answer, Errno, Stop, errno, fail};
use crate::load::CLOCK_TICKS;
use crate::machine::{Clock, Machine, TaskState};
use crate::process::Call;
use crate::record;

const SECOND: u64 = 1_000_000_000;
/// `getrusage` of what.
const RUSAGE_SELF: i32 = 0;
const RUSAGE_CHILDREN: i32 = -1;
const RUSAGE_THREAD: i32 = 1;

/// The bytes of a `timespec`.
#[must_use]
pub fn timespec(ns: u64) -> [u8; size_of::<linux::timespec>()] {
    record!(linux::timespec { tv_sec: (ns / SECOND) as i64, tv_nsec: (ns % SECOND) as i64 })
}

/// The bytes of a `timeval`.
#[must_use]
pub fn timeval(ns: u64) -> [u8; size_of::<linux::timeval>()] {
    record!(linux::timeval { tv_sec: (ns / SECOND) as i64, tv_usec: (ns % SECOND / 1000) as i64 })
}

/// Nanoseconds of a `timespec`.
///
/// # Errors
/// `EINVAL`.
pub fn nanoseconds(seconds: i64, ns: i64) -> Result<u64, Errno> {
    let seconds = u64::try_from(seconds).map_err(|_| Errno(errno::EINVAL))?;
    let ns = u64::try_from(ns).ok().filter(|&ns| ns < SECOND).ok_or(Errno(errno::EINVAL))?;
    Ok(seconds.saturating_mul(SECOND).saturating_add(ns))
}

pub fn read_timespec<M: Machine>(call: &Call<'_, M>, address: u64) -> Result<u64, Errno> {
    let bytes: [u8; size_of::<linux::timespec>()] = call.read_array(address)?;
    nanoseconds(crate::field!(bytes, linux::timespec, tv_sec), crate::field!(bytes, linux::timespec, tv_nsec))
}

fn state<M: Machine>(call: &Call<'_, M>) -> TaskState {
    call.machine().task_state(call.process.task).unwrap_or_default()
}

/// What a clock shows, ns.
fn now<M: Machine>(call: &Call<'_, M>, clock: u32) -> Result<u64, Errno> {
    match clock {
        linux::CLOCK_REALTIME | linux::CLOCK_REALTIME_COARSE => Ok(call.machine().clock(Clock::Since1970)),
        linux::CLOCK_MONOTONIC | linux::CLOCK_MONOTONIC_RAW | linux::CLOCK_MONOTONIC_COARSE | linux::CLOCK_BOOTTIME => {
            Ok(call.machine().clock(Clock::SinceBoot))
        }
        linux::CLOCK_PROCESS_CPUTIME_ID | linux::CLOCK_THREAD_CPUTIME_ID => Ok(state(call).time_ns),
        _ => fail(errno::EINVAL),
    }
}

pub fn clock_gettime<M: Machine>(call: &mut Call<'_, M>, clock: u32, time: u64) -> Answer {
    let Ok(now) = now(call, clock) else { return call.refuse("clock_gettime", clock.into(), errno::EINVAL) };
    call.write(time, &timespec(now))?;
    Ok(0)
}

pub fn clock_getres<M: Machine>(call: &mut Call<'_, M>, clock: u32, resolution: u64) -> Answer {
    now(call, clock)?;
    if resolution != 0 {
        call.write(resolution, &timespec(1))?;
    }
    Ok(0)
}

pub fn gettimeofday<M: Machine>(call: &mut Call<'_, M>, time: u64, zone: u64) -> Answer {
    let now = call.machine().clock(Clock::Since1970);
    if time != 0 {
        call.write(time, &timeval(now))?;
    }
    if zone != 0 {
        // Greenwich, and no summer time.
        call.write(zone, &[0; size_of::<linux::timezone>()])?;
    }
    Ok(0)
}

pub fn time<M: Machine>(call: &mut Call<'_, M>, time: u64) -> Answer {
    let seconds = call.machine().clock(Clock::Since1970) / SECOND;
    if time != 0 {
        call.write(time, &seconds.to_le_bytes())?;
    }
    Ok(seconds)
}

/// Waits until so long after the call was made. Where a signal ends that, what is left is written; 0: nowhere.
fn rest<M: Machine>(call: &Call<'_, M>, ns: u64, remaining: u64) -> Answer {
    let until = call.since.saturating_add(ns);
    let left = until.saturating_sub(call.machine().clock(Clock::SinceBoot));
    if left == 0 {
        return Ok(0);
    }
    let interrupted = call.process.signals.lock().interrupts();
    if interrupted.is_none() {
        return Err(Stop::Wait(until));
    }
    if remaining != 0 {
        call.write(remaining, &timespec(left))?;
    }
    fail(errno::EINTR)
}

pub fn nanosleep<M: Machine>(call: &mut Call<'_, M>, request: u64, remaining: u64) -> Answer {
    let ns = read_timespec(call, request)?;
    rest(call, ns, remaining)
}

pub fn clock_nanosleep<M: Machine>(
    call: &mut Call<'_, M>,
    clock: u32,
    flags: u32,
    request: u64,
    remaining: u64,
) -> Answer {
    if !matches!(clock, linux::CLOCK_REALTIME | linux::CLOCK_MONOTONIC | linux::CLOCK_BOOTTIME) {
        return call.refuse("clock_nanosleep", clock.into(), errno::EINVAL);
    }
    let ns = read_timespec(call, request)?;
    if flags & linux::TIMER_ABSTIME == 0 {
        return rest(call, ns, remaining);
    }
    // Counted from when the call was made, like the rest.
    let passed = call.machine().clock(Clock::SinceBoot).saturating_sub(call.since);
    let left = ns.saturating_sub(now(call, clock)?);
    rest(call, if left == 0 { 0 } else { passed.saturating_add(left) }, 0)
}

pub fn getrusage<M: Machine>(call: &mut Call<'_, M>, who: i32, usage: u64) -> Answer {
    let state = match who {
        RUSAGE_SELF | RUSAGE_THREAD => state(call),
        RUSAGE_CHILDREN => TaskState::default(),
        _ => return fail(errno::EINVAL),
    };
    let bytes = record!(linux::rusage {
        ru_utime.tv_sec: (state.time_ns / SECOND) as i64,
        ru_utime.tv_usec: (state.time_ns % SECOND / 1000) as i64,
        ru_maxrss: (state.memory / 1024) as i64,
    });
    call.write(usage, &bytes)?;
    Ok(0)
}

/// Four words: user and system time, of the program and of its children.
pub fn times<M: Machine>(call: &mut Call<'_, M>, buffer: u64) -> Answer {
    let tick = SECOND / CLOCK_TICKS;
    if buffer != 0 {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&(state(call).time_ns / tick).to_le_bytes());
        call.write(buffer, &bytes)?;
    }
    Ok(call.machine().clock(Clock::SinceBoot) / tick)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_nanoseconds() {
        assert_eq!(nanoseconds(1, 5), Ok(SECOND + 5));
        assert_eq!(nanoseconds(i64::MAX, 0), Ok(u64::MAX));
        for (s, ns) in [(-1, 0), (0, -1), (0, 1_000_000_000)] {
            assert_eq!(nanoseconds(s, ns), Err(Errno(errno::EINVAL)));
        }
        assert_eq!(timespec(SECOND + 7)[..9], [1, 0, 0, 0, 0, 0, 0, 0, 7]);
        assert_eq!(timeval(2 * SECOND + 3999)[..9], [2, 0, 0, 0, 0, 0, 0, 0, 3]);
    }
}
