//! Schedulers outside the kernel: what they are asked, what they are believed, and what becomes of bad ones.

mod burst;
mod crowd;
mod load;
mod reasons;

use crate::refusals::refused;
use crate::report::{Check, Outcome, doing};
use crate::stretches::exactly;
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::refusal::Object;
use musubi::abi::sched::op;
use musubi::interfaces::sched::SchedClient;
use musubi::pass::{ByKernel, Pass};
use musubi::rt::{Trap, sched, task, thread, time};
use musubi::{Error, names};

pub use load::Load;
pub use reasons::high_calls;

pub const CHECKS: &[Check] = &[
    ("use_and_back", use_and_back),
    ("answers_from_elsewhere_are_refused", from_elsewhere),
    ("sleep_and_wake_up", sleep_and_wake_up),
    ("a_wake_up_before_its_sleep_counts", kept),
    ("one_switch_in_turn", one_switch),
    ("two_switches_by_a_scheduler", two_switches),
    ("giving_way_takes_the_fixed_path", giving_way),
    ("four_switches_in_the_initial_version", four_switches),
    ("threads_get_on_in_the_initial_version", initial_under_load),
    ("the_high_level_is_called_for_two_reasons", reasons::two_reasons),
    ("the_high_level_is_quiet_otherwise", reasons::quiet_otherwise),
    ("priorities_order", priorities_order),
    ("nobody_starves", nobody_starves),
    ("work_is_shared", work_is_shared),
    ("a_burst_is_shared", burst::is_shared),
    ("past_turns_are_no_burden", burst::past_turns),
    ("a_crowd_wakes_at_once", crowd::wakes),
    ("a_crowd_with_shares_wakes_at_once", crowd::wakes_with_shares),
    ("busy_processors_share", busy_processors_share),
    ("replaced_under_load", replaced_under_load),
];

pub fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

pub fn client() -> Result<SchedClient, String> {
    names::lookup("sched").and_then(|gate| SchedClient::bind_with_args(gate, 4096)).map_err(doing("sched"))
}

pub fn choose(name: &str) -> Result<(), String> {
    let client = client()?;
    let chosen = client.choose(name).map_err(doing(name));
    // A program may have so many bindings, and this is asked often.
    client.unbind().map_err(doing("unbind"))?;
    chosen
}

pub fn lines(log: u64) -> Result<Vec<String>, String> {
    let client = client()?;
    let mut line = [0; 2048];
    let lines = (0..).map_while(|at| {
        let len = client.line(log, at, &mut line).ok()? as usize;
        Some(String::from_utf8_lossy(&line[..len]).into_owned())
    });
    let lines = lines.collect();
    client.unbind().map_err(doing("unbind"))?;
    Ok(lines)
}

/// Runs with a scheduler, and without it afterwards, however it went.
pub fn with(name: &str, what: impl FnOnce() -> Outcome) -> Outcome {
    choose(name)?;
    // What became of the scheduler says why, if it is to blame.
    let outcome = what().map_err(|why| format!("{why}\n  {}", lines(0).unwrap_or_default().join("\n  ")));
    choose("none")?;
    outcome
}

pub fn switches() -> u64 {
    task::processors().map(|p| p.switches).sum()
}

fn use_and_back() -> Outcome {
    for _ in 0..3 {
        choose("ageing")?;
        holds!(sched::seats().all(|seat| seat.thread != 0), "not all seats are taken");
        choose("none")?;
        holds!(sched::seats().all(|seat| seat.thread == 0), "not all seats are free");
        holds!(sched::seats().all(|seat| seat.missed == 0), "events were lost");
    }
    same!(client()?.choose("never-heard-of"), Err(Error::NotFound), "a scheduler that is not there");
    choose("none")
}

fn from_elsewhere() -> Outcome {
    let both = || {
        refused(stub::thread_next(&Trap, 0, 0, 0), Object::System, "an answer without a seat")?;
        refused(stub::thread_next(&Trap, task::identity().thread, 1, 0), Object::System, "naming oneself")?;
        refused(stub::scheduler_set(&Trap, 0), Object::System, "asking for a seat")?;
        same!(stub::call_scheduler(&Trap, 99, 0, 0), Err(Error::BadArgument), "an unknown request");
        same!(sched::wake_up(1 << 60), Err(Error::NotFound), "waking nobody");
        same!(sched::set_priority(task::identity().thread, 32), Err(Error::BadArgument), "below the lowest priority");
        let foreign = task::threads().find(|t| t.task == 1).ok_or("the first task has no thread")?.thread;
        refused(stub::call_scheduler(&Trap, op::WAKEUP, foreign, 0), Object::Thread(foreign), "waking another user's")
    };
    same!(sched::set_priority(task::identity().thread, 3), Err(Error::NotSupported), "a priority in turn");
    both()?;
    with("ageing", both)
}

fn sleep_and_wake_up() -> Outcome {
    let check = || {
        let began = time::now_ns();
        same!(sched::sleep(3_000_000), Err(Error::TimedOut), "a sleep that nobody ends");
        holds!(time::now_ns() - began >= 3_000_000, "it was too short");
        let me = task::identity().thread;
        let other = thread::spawn(
            move || {
                time::sleep_ns(2_000_000);
                let _ = sched::wake_up(me);
            },
            0,
        );
        let other = other.map_err(doing("thread"))?;
        same!(sched::sleep(60_000_000_000), Ok(()), "a sleep that is ended");
        other.join().map_err(doing("join")).map(drop)
    };
    check()?;
    with("ageing", check)
}

fn kept() -> Outcome {
    let me = task::identity().thread;
    for _ in 0..3 {
        sched::wake_up(me).map_err(doing("wake-up"))?;
        sched::wake_up(me).map_err(doing("wake-up"))?;
        same!(sched::sleep(60_000_000_000), Ok(()), "the sleep after it");
        same!(sched::sleep(1_000_000), Err(Error::TimedOut), "the one after that");
    }
    Ok(())
}

fn one_switch() -> Outcome {
    exactly(1, ByKernel)
}

fn two_switches() -> Outcome {
    with("ageing", || exactly(2, ByKernel))
}

fn four_switches() -> Outcome {
    with("initial", || {
        exactly(4, ByKernel)?;
        in_order()
    })
}

/// Who gives way passes on to the other one, who does the same.
#[derive(Clone, Copy)]
struct Yields;

impl Pass for Yields {
    fn sleep(self) -> Result<(), Error> {
        Ok(())
    }
    fn wake_up(self, _: u64) -> Result<(), Error> {
        Ok(())
    }
    fn pass(self, _: u64) -> Result<(), Error> {
        stub::call_scheduler(&Trap, op::YIELD, 0, 0).map(drop)
    }
}

/// Two threads give way to each other: two switches each time, and nothing for the high level to do (CUBIX-57).
fn giving_way() -> Outcome {
    with("ageing", || {
        const TIMES: u64 = 500;
        let stop = leak(AtomicBool::new(false));
        let body = move || {
            while !stop.load(Ordering::Relaxed) {
                thread::yield_now();
            }
        };
        let other = thread::spawn(body, 0).map_err(doing("thread"))?;
        (0..10).for_each(|_| thread::yield_now());
        let called = high_calls()?;
        (0..10 * TIMES).for_each(|_: u64| thread::yield_now());
        let after = high_calls()?;
        stop.store(true, Ordering::Relaxed);
        other.join().map_err(doing("join"))?;
        one_priority(called.0, after.0)?;
        // On several they run side by side.
        if task::processors().count() == 1 { exactly(2, Yields) } else { Ok(()) }
    })
}

fn initial_under_load() -> Outcome {
    let load = Load::start(12)?;
    with("initial", || {
        load.all_run()?;
        load.all_run()?;
        in_order()
    })?;
    load.stop()
}

/// Request, event buffer, switch: in this order, every time.
fn in_order() -> Outcome {
    let lines = lines(0)?;
    let about: Vec<&String> = lines.iter().filter(|line| line.contains("out of order ")).collect();
    same!(about.len(), task::processors().count(), "lines about requests");
    for line in about {
        holds!(line.contains("out of order 0"), "{line}");
    }
    Ok(())
}

/// Nobody but the keyboard's driver has asked for a priority: each new scheduler once, some time.
pub fn one_priority(before: u64, after: u64) -> Outcome {
    holds!(after - before <= 1, "calls of the high level for a priority: {}", after - before);
    Ok(())
}

/// Threads of four priorities, all ready at once, run in that order on each processor.
fn priorities_order() -> Outcome {
    with("ageing", || {
        // A quantum may end on the way of one of them, and those that wait be evened out.
        for _ in 0..3 {
            if by_priority()? {
                return Ok(());
            }
        }
        holds!(
            by_priority()?,
            "of two that waited for one processor and ran there the lower priority ran first, too often in each of four tries"
        );
        Ok(())
    })
}

/// Whether, of all that were queued together and ran on the same processor, the higher priority ran first; on several processors but for an
/// eighth of the pairs, where one was evened out and came back, or was stopped by the host before it said that it ran. (In the order in which they are
/// woken it would be half of the pairs.)
fn by_priority() -> Result<bool, String> {
    let processors = task::processors().count();
    let ran = leak(musubi::rt::Mutex::new(Vec::new()));
    let me = task::identity().thread;
    sched::set_priority(me, 0).map_err(doing("priority"))?;
    let mut sleepers = Vec::new();
    for level in [20, 10, 5, 25].repeat(processors) {
        let body = move || {
            let _ = sched::sleep(u64::MAX);
            ran.lock().push((task::identity().thread, where_is(task::identity().thread)));
        };
        let one = thread::spawn(body, 0).map_err(doing("thread"))?;
        sched::set_priority(one.number(), level).map_err(doing("priority"))?;
        sleepers.push((level, one));
    }
    // Other processors have something of the highest priority to do until all are ready, as this one has.
    let stop = leak(AtomicBool::new(false));
    let busy = move || {
        while !stop.load(Ordering::Relaxed) {
            core::hint::spin_loop();
        }
    };
    let hogs: Result<Vec<_>, _> = (1..processors).map(|_| thread::spawn(busy, 0)).collect();
    let hogs = hogs.map_err(doing("thread"))?;
    for hog in &hogs {
        sched::set_priority(hog.number(), 0).map_err(doing("priority"))?;
    }
    time::sleep_ns(30_000_000);
    for (_, one) in &sleepers {
        sched::wake_up(one.number()).map_err(doing("wake-up"))?;
    }
    let queued: Vec<u64> = sleepers.iter().map(|(_, one)| where_is(one.number())).collect();
    let early = ran.lock().len();
    stop.store(true, Ordering::Relaxed);
    let levels: Vec<(u64, u64)> = sleepers.iter().map(|(level, one)| (*level, one.number())).collect();
    for one in sleepers.into_iter().map(|(_, one)| one).chain(hogs) {
        one.join().map_err(doing("join"))?;
    }
    let order = &ran.lock().clone();
    same!(order.len(), levels.len(), "threads that ran");
    if processors == 1 {
        same!(early, 0, "threads that ran before one of the highest priority had given way");
        let found: Vec<u64> =
            order.iter().filter_map(|(n, _)| levels.iter().find(|one| one.1 == *n)).map(|one| one.0).collect();
        same!(found, [5, 10, 20, 25], "the order");
    }
    let of = |n: u64| levels.iter().position(|one| one.1 == n).map_or((0, 0), |at| (levels[at].0, queued[at]));
    let behind = |at: usize| order[at + 1..].iter().map(move |later| (order[at], *later));
    let pairs = (0..order.len()).flat_map(behind).filter(|(a, b)| a.1 == b.1 && of(a.0).1 == of(b.0).1);
    let pairs: Vec<(u64, u64)> = pairs.map(|(a, b)| (of(a.0).0, of(b.0).0)).collect();
    // Those that ran early were the only ones there.
    let wrong = pairs.iter().filter(|(first, second)| first > second).count();
    Ok(early == 0 && !pairs.is_empty() && if processors == 1 { wrong == 0 } else { 8 * wrong <= pairs.len() })
}

fn where_is(number: u64) -> u64 {
    task::threads().find(|info| info.thread == number).map_or(u64::MAX, |info| info.processor)
}

/// As many busy threads of the highest priority as there are processors, and one of the lowest: it gets its turns.
fn nobody_starves() -> Outcome {
    with("ageing", || {
        let stop = leak(AtomicBool::new(false));
        let progress = leak(AtomicU64::new(0));
        let busy = move || {
            while !stop.load(Ordering::Relaxed) {
                core::hint::spin_loop();
            }
        };
        let mut started = Vec::new();
        for _ in 0..task::processors().count() {
            let one = thread::spawn(busy, 0).map_err(doing("thread"))?;
            sched::set_priority(one.number(), 1).map_err(doing("priority"))?;
            started.push(one);
        }
        let low = move || {
            while !stop.load(Ordering::Relaxed) {
                progress.fetch_add(1, Ordering::Relaxed);
            }
        };
        let low = thread::spawn(low, 0).map_err(doing("thread"))?;
        sched::set_priority(low.number(), 31).map_err(doing("priority"))?;
        started.push(low);
        sched::set_priority(task::identity().thread, 0).map_err(doing("priority"))?;
        time::sleep_ns(100_000_000);
        let mut turns = 0;
        for _ in 0..5 {
            // The machine itself may be stopped for a while: it is turns that count, not time.
            let (before, until) = (progress.load(Ordering::Relaxed), time::now_ns() + 20_000_000_000);
            while progress.load(Ordering::Relaxed) == before && time::now_ns() < until {
                time::sleep_ns(20_000_000);
            }
            turns += u64::from(progress.load(Ordering::Relaxed) > before);
        }
        stop.store(true, Ordering::Relaxed);
        for one in started {
            one.join().map_err(doing("join"))?;
        }
        holds!(turns == 5, "the thread of the lowest priority ran in {turns} of 5 intervals");
        Ok(())
    })
}

/// More busy threads than processors: each processor has some of the work.
/// Each version takes work in its own way.
fn work_is_shared() -> Outcome {
    const TRIES: u64 = 24;
    const BUSY: u64 = 6;
    let shared = || {
        let processors = task::processors().count();
        let idle = || -> Vec<u64> { task::processors().map(|p| p.idle).collect() };
        let load = Load::start(2 * processors)?;
        time::sleep_ns(50_000_000);
        // A host with fewer processors stops one for long now and then, which looks idle. One that takes no work is idle most of the time.
        let mut busy: Vec<u64> = alloc::vec![0; processors];
        for _ in 0..TRIES {
            let (before, began) = (idle(), time::now_ns());
            time::sleep_ns(100_000_000);
            let took = time::now_ns() - began;
            for ((busy, before), after) in busy.iter_mut().zip(before).zip(idle()) {
                *busy += u64::from(after - before < took / 2);
            }
            if busy.iter().all(|times| *times >= BUSY) {
                break;
            }
        }
        load.stop()?;
        holds!(busy.iter().all(|times| *times >= BUSY), "processors were busy {busy:?} times of {TRIES}");
        Ok(())
    };
    ["ageing", "initial"].into_iter().try_for_each(|name| with(name, shared).map_err(|why| format!("{name}: {why}")))
}

/// Several times as many threads as processors compute for ever. They are made by one of them, where no processor is idle any more: those
/// stay on its processor unless the others take some of them.
fn busy_processors_share() -> Outcome {
    const EACH: usize = 4;
    const TRIES: usize = 60;
    // By the initial version a processor takes work when it has none.
    with("ageing", || {
        let processors = task::processors().count();
        let stop: &'static AtomicBool = leak(AtomicBool::new(false));
        let counts: &'static Vec<AtomicU64> = leak((0..EACH * processors).map(|_| AtomicU64::new(0)).collect());
        let body = move |n: usize| {
            while !stop.load(Ordering::Relaxed) {
                counts[n].fetch_add(1, Ordering::Relaxed);
            }
        };
        let threads: Result<Vec<_>, _> = (0..counts.len()).map(|n| thread::spawn(move || body(n), 0)).collect();
        let now = || -> Vec<u64> { counts.iter().map(|count| count.load(Ordering::Relaxed)).collect() };
        // A host with fewer processors stops one for long now and then, whose threads do not get on: not each time.
        let mut shared = (u64::MAX, Vec::new());
        for _ in 0..TRIES {
            let before = now();
            time::sleep_ns(300_000_000);
            let did: Vec<u64> = now().iter().zip(before).map(|(now, before)| now - before).collect();
            let most = did.iter().max().copied().unwrap_or(0);
            let ratio = most / did.iter().min().copied().unwrap_or(0).max(1);
            if ratio < shared.0 {
                shared = (ratio, did);
            }
            if ratio < EACH as u64 {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        for one in threads.map_err(doing("thread"))? {
            one.join().map_err(doing("join"))?;
        }
        holds!(shared.0 < EACH as u64, "of threads that compute all the time, at best: {:?}", shared.1);
        Ok(())
    })
}

fn replaced_under_load() -> Outcome {
    let load = Load::start(12)?;
    for _ in 0..3 {
        choose("ageing")?;
        load.all_run()?;
        choose("none")?;
        load.all_run()?;
    }
    holds!(sched::seats().all(|seat| seat.missed == 0), "events were lost");
    load.stop()
}
