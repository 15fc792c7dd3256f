//! How long those who are ready are kept from running when a scheduler goes wrong, by their own clock: they stamp the time as often as they
//! can, and look at the longest times in between.

use crate::holds;
use crate::report::{Outcome, doing};
use crate::sched::{client, leak};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use musubi::abi::sched::reason;
use musubi::rt::{sched, task, thread, time};

const MS: u64 = 1_000_000;
/// What is to be kept by a scheduler that goes wrong.
const LIMIT_NS: u64 = 10 * MS;
/// The same where it names nobody: between two looks it is 100 ms, and the first one is as long after all have come to rest.
const NEGLECTED_NS: u64 = 250 * MS;
/// Times without a stamp that are written down; and how many of a thread, of which none may be missed.
const LEAST_NS: u64 = MS / 4;
/// Until it goes wrong, so that whoever has started it sleeps again.
const CALM_MS: u64 = 200;
const ROOM: usize = 4096;

/// From when until when one had no turn.
type Gap = [u64; 2];

struct Victims {
    stop: &'static AtomicBool,
    logs: Vec<&'static Log>,
    threads: Vec<thread::Thread>,
}

struct Log {
    gaps: Vec<[AtomicU64; 2]>,
    used: AtomicUsize,
}

impl Victims {
    /// One for each processor.
    fn start() -> Result<Victims, String> {
        let stop: &'static AtomicBool = leak(AtomicBool::new(false));
        let mut victims = Victims { stop, logs: Vec::new(), threads: Vec::new() };
        for _ in 0..task::processors().count() {
            let gaps = (0..ROOM).map(|_| Default::default()).collect();
            let log: &'static Log = leak(Log { gaps, used: AtomicUsize::new(0) });
            victims.logs.push(log);
            victims.threads.push(thread::spawn(move || log.keep(stop), 0).map_err(doing("thread"))?);
        }
        Ok(victims)
    }

    fn stop(self) -> Result<Vec<Vec<Gap>>, String> {
        self.stop.store(true, Ordering::SeqCst);
        for one in self.threads {
            one.join().map_err(doing("join"))?;
        }
        self.logs.into_iter().map(Log::read).collect()
    }
}

impl Log {
    fn keep(&self, stop: &AtomicBool) {
        let mut last = time::now_ns();
        while !stop.load(Ordering::Relaxed) {
            let now = time::now_ns();
            if now - last >= LEAST_NS {
                let at = self.used.fetch_add(1, Ordering::Relaxed);
                for (word, value) in self.gaps.get(at).into_iter().flatten().zip([last, now]) {
                    word.store(value, Ordering::Relaxed);
                }
            }
            last = now;
        }
    }

    fn read(&self) -> Result<Vec<Gap>, String> {
        let used = self.used.load(Ordering::Relaxed);
        holds!(used <= ROOM, "{used} times without a stamp");
        let read = |gap: &[AtomicU64; 2]| [0, 1].map(|word: usize| gap[word].load(Ordering::Relaxed));
        Ok(self.gaps[..used].iter().map(read).collect())
    }
}

/// The longest that touches the time.
fn longest<'a>(gaps: impl IntoIterator<Item = &'a Gap>, [from, to]: Gap) -> u64 {
    let touches = gaps.into_iter().filter(|gap| gap[0] <= to && gap[1] >= from);
    touches.map(|gap| gap[1] - gap[0]).max().unwrap_or(0)
}

/// In a machine of one processor whose clock counts instructions a thread is ready all the time. When a scheduler goes wrong it does not wait for
/// 10 ms longer than it does otherwise, for its turn. How long that is it says itself, of a time without a scheduler and of one in which
/// this one did what it should. (Where the emulator has several processors take turns by that clock, who waits for what is not to be told.)
pub fn go_on() -> Outcome {
    holds!(time::ticks_are_instructions(), "the clock does not count instructions");
    let modes = [("loop", LIMIT_NS), ("fault", LIMIT_NS), ("wrong", LIMIT_NS), ("nobody", NEGLECTED_NS)];
    for (mode, limit) in modes {
        let name = format!("bad {mode}");
        let (usual, longest, lost) = goes_wrong(&name, limit)?;
        let about = format!("{name}: {longest} ns, usually {usual} ns; put out: {lost:?}");
        holds!(longest <= usual + limit, "{about}");
        let is_felt = lost.iter().all(|one| *one != reason::SLOW) || longest > 7 * MS;
        holds!(is_felt, "nobody has noticed that it loops: {about}");
        holds!(mode != "nobody" || longest > 100 * MS, "nobody has noticed that it names nobody: {about}");
    }
    Ok(())
}

/// The longest time without a stamp before, and of those in which a seat was lost; and for what they were.
fn goes_wrong(name: &str, limit: u64) -> Result<(u64, u64, Vec<u64>), String> {
    // What the last one has left is done with.
    time::sleep_ns(100 * MS);
    let victims = Victims::start()?;
    let chooser = client()?;
    // They come to their processors.
    time::sleep_ns(20 * MS);
    let began = time::now_ns();
    time::sleep_ns(40 * MS);
    let quiet = [began, time::now_ns()];
    let of_seats: Vec<u64> = sched::seats().map(|seat| seat.dismissed).collect();
    let is_gone = || sched::seats().zip(&of_seats).any(|(seat, before)| seat.dismissed > *before);
    // It may be gone again before all seats are taken, and whoever waits for that waits until another one is chosen.
    let chosen = format!("{name} {CALM_MS}");
    let choosing = thread::spawn(move || _ = client().map(|chooser| chooser.choose(&chosen)), 0);
    let choosing = choosing.map_err(doing("thread"))?;
    let (until, mut sat) = (time::now_ns() + 30_000 * MS, u64::MAX);
    while !is_gone() {
        holds!(time::now_ns() < until, "{name}: it was not put out");
        if sat == u64::MAX && sched::seats().all(|seat| seat.thread != 0) {
            // Whoever saw to that is done with it soon.
            sat = time::now_ns() + CALM_MS / 4 * MS;
        }
        time::sleep_ns(MS);
    }
    time::sleep_ns(2 * LIMIT_NS);
    let lost = sched::seats().zip(of_seats).filter(|(seat, before)| seat.dismissed > *before);
    let lost: Vec<(u64, u64)> = lost.map(|(seat, _)| (seat.reason, seat.when)).collect();
    let gaps = victims.stop()?;
    chooser.choose("none").map_err(doing("none"))?;
    choosing.join().map_err(doing("join"))?;
    let first = lost.iter().map(|(_, when)| *when).min().unwrap_or(0);
    // What it thought about for the last time may have begun so long before.
    let good = [sat, first.saturating_sub(limit + 2 * LIMIT_NS).max(sat)];
    let of = |time| longest(gaps.iter().flatten(), time);
    let around = lost.iter().map(|(_, when)| of([*when, *when])).max().unwrap_or(0);
    Ok((of(quiet).max(of(good)), around, lost.iter().map(|one| one.0).collect()))
}
