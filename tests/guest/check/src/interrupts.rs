//! Interrupts that reach their drivers by EPC from the fast scheduler (CUBIX-45, U10), and drivers that go wrong there.

use crate::report::{Check, Outcome, doing};
use crate::sched::{Load, choose, leak, with};
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::abi::section::class;
use musubi::interfaces::keyboard::{KeyboardClient, way};
use musubi::rt::{interrupt, sched, section, task, thread, time};
use musubi::{Error, names};

pub const CHECKS: &[Check] = &[
    ("the_scheduler_calls_the_driver", the_scheduler_calls),
    ("without_one_its_thread_is_woken", its_thread_is_woken),
    ("a_level_that_calls_nobody_says_so", the_initial_version),
    ("no_interrupt_is_lost_when_schedulers_change", schedulers_change),
    ("an_interrupt_under_load", under_load),
    ("what_is_urgent_waits_for_nobody", urgent),
];

/// With another driver in place of the keyboard's.
pub const BAD: &[Check] = &[
    ("a_handler_that_loops", || bad(10)),
    ("a_handler_that_sleeps", || bad(11)),
    ("a_handler_that_waits", || bad(12)),
    ("a_handler_that_waits_and_is_woken_at_once", || bad(18)),
    ("a_handler_that_faults", || bad(13)),
    ("a_handler_that_calls_the_scheduler", calls_the_scheduler),
    ("a_handler_that_names_threads", names_threads),
    ("a_handler_that_yields", || harmless(15)),
    ("a_driver_that_ends", a_driver_that_ends),
];

const PROBES: u64 = 50;
/// The driver's thread looks by itself so often.
const LOOK_NS: u64 = 1_000_000_000;

pub fn keyboard() -> Result<KeyboardClient, String> {
    names::lookup("keyboard").and_then(KeyboardClient::bind).map_err(doing("keyboard"))
}

pub fn probe(keyboard: &KeyboardClient) -> Result<u64, String> {
    // Another check may have been ended while it waited.
    loop {
        match keyboard.probe() {
            Err(Error::Busy) => time::sleep_ns(10_000_000),
            answer => return answer.map_err(doing("probe")),
        }
    }
}

/// Probes, and how often the scheduler called meanwhile.
fn calls(keyboard: &KeyboardClient, count: u64) -> Result<u64, String> {
    let before = keyboard.handled().map_err(doing("handled"))?.0;
    for _ in 0..count {
        probe(keyboard)?;
    }
    Ok(keyboard.handled().map_err(doing("handled"))?.0 - before)
}

/// Until the scheduler has bound the handler.
pub fn until_bound(keyboard: &KeyboardClient) -> Outcome {
    let until = time::now_ns() + 30_000_000_000;
    while calls(keyboard, 1)? == 0 {
        holds!(time::now_ns() < until, "the scheduler never calls");
    }
    Ok(())
}

fn switches() -> u64 {
    task::processors().map(|p| p.switches).sum()
}

/// Whether one thread at a time is in the keyboard's driver (NSys).
fn is_exclusive() -> Result<bool, String> {
    let gate = names::lookup("keyboard").map_err(doing("keyboard"))?;
    section::info(gate).map(|text| text.placed.class == class::NSYS).map_err(doing("info"))
}

fn the_scheduler_calls() -> Outcome {
    let keyboard = keyboard()?;
    with("ageing", || {
        keyboard.listen(way::CALL).map_err(doing("listen"))?;
        until_bound(&keyboard)?;
        // On a busy host the driver's thread may look by itself just then; and where there are several processors one may come to another while the
        // last one is still being dealt with: then the thread is woken, too.
        let least = match (task::processors().count(), is_exclusive()?) {
            (1, _) => PROBES,
            (_, false) => PROBES * 9 / 10,
            // This thread is in it when one comes to another processor, mostly.
            (_, true) => 1,
        };
        let mut called = Vec::new();
        while called.len() < 5 && called.last().is_none_or(|n| *n < least) {
            called.push(calls(&keyboard, PROBES)?);
        }
        holds!(called.last() >= Some(&least), "of {PROBES} interrupts each time the scheduler called for {called:?}");
        if task::processors().count() == 1 {
            // To the scheduler and back, and no thread of the driver's. Others may run meanwhile: the least counts.
            let each = (0..5).map(|_| {
                let before = switches();
                calls(&keyboard, PROBES).map(|_| (switches() - before) / PROBES)
            });
            let least = each.collect::<Result<alloc::vec::Vec<u64>, _>>()?.into_iter().min();
            same!(least, Some(2), "switches for an interrupt by call");
            keyboard.listen(way::THREAD).map_err(doing("listen"))?;
            let before = switches();
            let called = calls(&keyboard, PROBES)?;
            keyboard.listen(way::CALL).map_err(doing("listen"))?;
            same!(called, 0, "calls of a handler that is not bound");
            let each = (switches() - before) / PROBES;
            holds!(each >= 4, "{each} switches for an interrupt by a thread");
        }
        Ok(())
    })
}

fn its_thread_is_woken() -> Outcome {
    choose("none")?;
    same!(calls(&keyboard()?, PROBES)?, 0, "calls by nobody");
    Ok(())
}

fn the_initial_version() -> Outcome {
    with("initial", || {
        same!(calls(&keyboard()?, PROBES)?, 0, "calls by a level that knows no drivers");
        Ok(())
    })
}

/// Somebody causes interrupts while schedulers come and go: none is missed for long, by whichever way.
fn schedulers_change() -> Outcome {
    let stop: &'static AtomicBool = leak(AtomicBool::new(false));
    let done: &'static AtomicU64 = leak(AtomicU64::new(0));
    let late: &'static AtomicU64 = leak(AtomicU64::new(0));
    let prober = thread::spawn(
        move || {
            let outcome = keyboard().and_then(|keyboard| {
                while !stop.load(Ordering::Relaxed) {
                    let began = time::now_ns();
                    probe(&keyboard)?;
                    // What gets lost is found when the thread looks by itself.
                    let lost = time::now_ns() - began >= LOOK_NS;
                    (if lost { late } else { done }).fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            });
            if let Err(why) = outcome {
                musubi::println!("{why}");
                done.store(u64::MAX / 2, Ordering::Relaxed);
            }
        },
        0,
    )
    .map_err(doing("thread"))?;
    let mut outcome = Ok(());
    for name in ["ageing", "none", "share", "initial", "ageing", "gang", "none"] {
        outcome = choose(name).and_then(|()| {
            let (before, until) = (done.load(Ordering::Relaxed), time::now_ns() + 20_000_000_000);
            while done.load(Ordering::Relaxed) < before + 5 {
                holds!(time::now_ns() < until, "{name}: interrupts get lost");
                time::sleep_ns(1_000_000);
            }
            Ok(())
        });
        if outcome.is_err() {
            break;
        }
    }
    stop.store(true, Ordering::Relaxed);
    choose("none")?;
    prober.join().map_err(doing("join"))?;
    outcome?;
    let (done, late) = (done.load(Ordering::Relaxed), late.load(Ordering::Relaxed));
    holds!(done < u64::MAX / 4, "a probe failed");
    holds!(10 * late <= done, "{late} interrupts were late, {done} were not");
    Ok(())
}

fn under_load() -> Outcome {
    let keyboard = keyboard()?;
    with("ageing", || {
        let load = Load::start(4 * task::processors().count())?;
        until_bound(&keyboard)?;
        load.all_run()?;
        load.stop()
    })
}

/// Beside threads that compute, four for each processor, which have whole quanta (10 ms): an interrupt comes to its driver, and a thread of high priority
/// goes on, long before one of those is over. The clock counts instructions, of all processors together.
fn urgent() -> Outcome {
    const TIMES: usize = 30;
    holds!(time::ticks_are_instructions(), "the clock does not count instructions");
    let keyboard = keyboard()?;
    with("ageing", || {
        let processors = task::processors().count() as u64;
        let most = 1_000_000 * processors;
        let load = Load::start(4 * processors as usize)?;
        until_bound(&keyboard)?;
        let latencies: Result<alloc::vec::Vec<u64>, String> = (0..TIMES).map(|_| probe(&keyboard)).collect();
        let latencies = latencies?;
        let me = task::identity().thread;
        sched::set_priority(me, 1).map_err(doing("priority"))?;
        let late: alloc::vec::Vec<u64> = (0..TIMES)
            .map(|_| {
                let until = time::now_ns() + 3_000_000;
                time::sleep_ns(3_000_000);
                time::now_ns().saturating_sub(until)
            })
            .collect();
        sched::set_priority(me, 16).map_err(doing("priority"))?;
        load.all_run()?;
        load.stop()?;
        holds!(
            latencies.iter().all(|one| *one < most),
            "interrupts came to their driver after {latencies:?} instructions"
        );
        holds!(late.iter().all(|one| *one < most), "the most important thread went on {late:?} ns late");
        Ok(())
    })
}

fn put_out() -> u64 {
    sched::seats().map(|seat| seat.dismissed).sum()
}

/// Has the driver do this when it is called next. If that cannot be had: where interrupts have gone, and whom they were told.
fn listen(keyboard: &KeyboardClient, how: u64) -> Outcome {
    let state =
        || (put_out(), keyboard.handled(), interrupt::all().find(|line| line.number == 1), sched::seats().next());
    let before = state();
    keyboard.listen(how).map_err(|e| format!("listen: {e}: {before:?} -> {:?}", state()))
}

/// The scheduler keeps its seat, the interrupt is served by the driver's thread instead, and everybody gets on.
fn bad(how: u64) -> Outcome {
    let keyboard = keyboard()?;
    with("ageing", || {
        let load = Load::start(4)?;
        listen(&keyboard, how)?;
        let before = put_out();
        // Given up after a few times: from then on its thread is asked.
        let until = time::now_ns() + 30_000_000_000;
        while calls(&keyboard, 5)? != 0 {
            holds!(time::now_ns() < until, "a handler that has failed is called again and again");
            time::sleep_ns(50_000_000);
        }
        same!(put_out() - before, 0, "schedulers put out for it");
        load.all_run()?;
        load.stop()
    })
}

/// What is no wait costs it nothing.
fn harmless(how: u64) -> Outcome {
    let keyboard = keyboard()?;
    with("ageing", || {
        listen(&keyboard, how)?;
        let before = put_out();
        // On a busy host the driver's thread may be faster now and then.
        holds!(calls(&keyboard, 30)? >= 5, "the handler is not called any more");
        same!(put_out() - before, 0, "schedulers put out for it");
        Ok(())
    })
}

/// It comes back into the scheduler's text, on the thread in the seat and not as that: what it answers there is refused.
fn calls_the_scheduler() -> Outcome {
    harmless(14)?;
    let refused = keyboard()?.write_time().map_err(doing("answers in the scheduler's place"))?;
    holds!(refused >= 5, "{refused} answers were refused");
    Ok(())
}

/// It says itself which thread is to run, one that is ready: each time the kernel refuses that, nobody is switched to, and the scheduler
/// keeps its seat (CUBIX-58).
fn names_threads() -> Outcome {
    let keyboard = keyboard()?;
    let seats = || -> Vec<(u64, u64)> { sched::seats().map(|seat| (seat.thread, seat.dismissed)).collect() };
    with("ageing", || {
        listen(&keyboard, 17)?;
        let (before, until) = (seats(), time::now_ns() + 30_000_000_000);
        let refused = loop {
            calls(&keyboard, 1)?;
            match keyboard.write_time() {
                Err(Error::Busy) => holds!(time::now_ns() < until, "there is nobody to name"),
                answer => break answer.map_err(doing("names from a handler"))?,
            }
        };
        holds!(refused > 100, "{refused} names were refused");
        holds!(calls(&keyboard, 30)? >= 5, "the handler is not called any more");
        same!(seats(), before, "seats");
        Ok(())
    })
}

fn a_driver_that_ends() -> Outcome {
    let keyboard = keyboard()?;
    with("ageing", || {
        let load = Load::start(4)?;
        listen(&keyboard, 16)?;
        let before = put_out();
        let ended = (0..30).find_map(|_| keyboard.probe().err());
        same!(ended, Some(Error::Dead), "who was inside");
        load.all_run()?;
        same!(put_out() - before, 0, "schedulers put out for it");
        load.stop()
    })
}
