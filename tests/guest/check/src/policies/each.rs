//! Shares and deadlines where there are several processors: each keeps what was agreed on with it.

use super::{Busy, MS, compute, iterations_per_ms, lines, patient, said};
use crate::report::{Outcome, doing};
use crate::sched::{client, leak, with};
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::rt::sched::set_priority;
use musubi::rt::{task, thread, time};

/// Where each of these threads is.
fn places(threads: &[thread::Thread]) -> Result<Vec<u64>, String> {
    let place =
        |one: &thread::Thread| task::threads().find(|info| info.thread == one.number()).map(|info| info.processor);
    threads.iter().map(|one| place(one).ok_or_else(|| format!("no thread {}", one.number()))).collect()
}

/// Three threads for each processor that always compute. On whichever processor they are, those that are there have its turns by their
/// weights, within two turns and a twentieth.
pub fn shares_on_each_processor() -> Outcome {
    const WEIGHTS: [u64; 3] = [10, 20, 50];
    const TURNS: u64 = 80;
    let processors = task::processors().count();
    with("share", || {
        let busy = Busy::start(WEIGHTS.len() * processors)?;
        let weights: Vec<u64> = WEIGHTS.iter().copied().cycle().take(busy.threads.len()).collect();
        for (one, weight) in busy.threads.iter().zip(&weights) {
            let sched = client()?;
            patient(|| sched.share(one.number(), *weight)).map_err(doing("share"))?;
        }
        let turns = || busy.threads.iter().map(|one| said(one.number(), "had ")).collect::<Result<Vec<u64>, _>>();
        let until = time::now_ns() + 100_000 * MS;
        // What each has had while all of them stayed where they were.
        let window = || -> Result<(Vec<u64>, Vec<u64>), String> {
            let (mut before, mut where_from) = (turns()?, places(&busy.threads)?);
            loop {
                time::sleep_ns(50 * MS);
                let now = places(&busy.threads)?;
                if now != where_from {
                    (before, where_from) = (turns()?, now);
                }
                let had: Vec<u64> = turns()?.iter().zip(&before).map(|(now, before)| now - before).collect();
                let on = |processor: u64| {
                    had.iter().zip(&where_from).filter(move |(_, at)| **at == processor).map(|(had, _)| had)
                };
                if where_from.iter().all(|processor| on(*processor).sum::<u64>() >= TURNS) {
                    return Ok((had, where_from));
                }
                holds!(time::now_ns() < until, "only {had:?} turns on {where_from:?}");
            }
        };
        let is_fair = |had: &[u64], places: &[u64]| {
            had.iter().zip(places).zip(&weights).all(|((turns, place), weight)| {
                let here = || had.iter().zip(&weights).zip(places).filter(|(_, at)| *at == place).map(|(both, _)| both);
                let (all, of): (u64, u64) = here().fold((0, 0), |(all, of), (had, weight)| (all + had, of + weight));
                turns.abs_diff(all * weight / of) <= 2 + turns / 20
            })
        };
        // On a busy host a turn may end before it has begun, and others have theirs.
        let (mut had, mut places) = window()?;
        for _ in 0..3 {
            if !is_fair(&had, &places) {
                (had, places) = window()?;
            }
        }
        let used = (0..processors as u64).filter(|processor| places.contains(processor)).count();
        same!(used, processors, "processors that have any of them");
        holds!(is_fair(&had, &places), "{had:?} turns on {places:?}, where {weights:?} are their weights");
        busy.stop()
    })
}

/// Two periodic threads for each processor, and ten more that compute: in turn with those they would be late.
pub fn deadlines_on_each_processor() -> Outcome {
    const PERIOD_MS: u64 = 200;
    const WORK_MS: u64 = 8;
    // All that a processor may promise. Where processors take turns, work takes as many times as long as it was measured to.
    const BUDGET_MS: u64 = 88;
    const JOBS: u64 = 4;
    holds!(time::ticks_are_instructions(), "the clock does not count instructions");
    let processors = task::processors().count();
    let per_ms = iterations_per_ms();
    let run = |agrees: bool| -> Result<(u64, u64), String> {
        let (done, late) = (leak(AtomicU64::new(0)), leak(AtomicU64::new(0)));
        let begin = time::now_ns() + 300 * MS;
        let body = move || {
            for job in 0..JOBS {
                let release = begin + job * PERIOD_MS * MS;
                time::sleep_ns(release.saturating_sub(time::now_ns()));
                compute(WORK_MS * per_ms);
                done.fetch_add(1, Ordering::SeqCst);
                late.fetch_add(u64::from(time::now_ns() > release + PERIOD_MS * MS), Ordering::SeqCst);
            }
        };
        let threads = (0..2 * processors).map(|_| thread::spawn(body, 0).map_err(doing("thread")));
        let threads = threads.collect::<Result<Vec<_>, _>>()?;
        if agrees {
            let sched = client()?;
            for one in &threads {
                let ask = || sched.periodic(one.number(), PERIOD_MS * MS, PERIOD_MS * MS, BUDGET_MS * MS);
                patient(ask).map_err(doing("periodic"))?;
            }
        }
        let busy = Busy::start(10 * processors)?;
        threads.into_iter().try_for_each(|one| one.join().map(drop).map_err(doing("join")))?;
        busy.stop()?;
        Ok((done.load(Ordering::SeqCst), late.load(Ordering::SeqCst)))
    };
    let jobs = 2 * processors as u64 * JOBS;
    with("deadline", || {
        same!(run(true)?, (jobs, 0), "jobs done, and late, by deadlines");
        let (done, late) = run(false)?;
        holds!(done == jobs && late > 0, "{late} of {done} jobs were late without terms");
        Ok(())
    })
}

/// Who has agreed on terms keeps the level that it has by them, however often priorities are asked for before and after.
pub fn terms_outlast_wishes() -> Outcome {
    const THREADS: usize = 6;
    with("deadline", || {
        let sched = client()?;
        let ends = leak(AtomicBool::new(false));
        let body = move || {
            while !ends.load(Ordering::SeqCst) {
                let _ = set_priority(thread::me().into(), 20);
                time::sleep_ns(MS);
            }
        };
        let threads = (0..THREADS).map(|_| thread::spawn(body, 0).map_err(doing("thread")));
        let threads = threads.collect::<Result<Vec<_>, _>>()?;
        for one in &threads {
            let ask = || sched.periodic(one.number(), 100 * MS, 100 * MS, MS);
            patient(ask).map_err(doing("periodic"))?;
        }
        // Wishes are told in their own time.
        time::sleep_ns(100 * MS);
        let levels: Result<Vec<u64>, _> = threads.iter().map(|one| said(one.number(), "level ")).collect();
        ends.store(true, Ordering::SeqCst);
        threads.into_iter().try_for_each(|one| one.join().map(drop).map_err(doing("join")))?;
        same!(levels?, [1; THREADS], "levels of threads with terms");
        Ok(())
    })
}

/// A scheduler that ends is started again, and what it was agreed on with holds again without that anybody asks: terms and priorities.
pub fn terms_outlive_their_scheduler() -> Outcome {
    const THREADS: usize = 3;
    const ENDS: usize = 3;
    with("mortal", || {
        let sched = client()?;
        let ends = leak(AtomicBool::new(false));
        let body = move || {
            while !ends.load(Ordering::SeqCst) {
                time::sleep_ns(MS);
            }
        };
        let threads = (0..=THREADS).map(|_| thread::spawn(body, 0).map_err(doing("thread")));
        let threads = threads.collect::<Result<Vec<_>, _>>()?;
        let (of_a_job, other) = threads.split_at(THREADS);
        for (job, one) in (1..).zip(of_a_job) {
            patient(|| sched.join(one.number(), job)).map_err(doing("join"))?;
        }
        set_priority(other[0].number(), 20).map_err(doing("priority"))?;
        // What is said of it: which task the high level is, jobs of threads, and who stands in line at that priority now and then.
        let high =
            |lines: &[String]| lines.first().and_then(|line| line.split("high level: task ").nth(1)).map(String::from);
        let holds = |lines: &[String]| {
            let says = |what: String| lines.iter().any(|line| line.contains(&what));
            (1..).zip(of_a_job).all(|(job, one)| says(format!("thread {}, level 5: of job {job} ", one.number())))
        };
        let stands = |lines: &[String]| {
            let line = lines.iter().find(|line| line.contains(" level 20:"));
            line.is_some_and(|line| line.split(' ').any(|word| word == format!("{}", other[0].number())))
        };
        // Of each that was there, with whom it was so. (On a busy host one may have ended before.)
        let mut seen: Vec<(String, [bool; 2])> = Vec::new();
        let until = time::now_ns() + 60_000 * MS;
        while seen.iter().filter(|(_, good)| *good == [true, true]).count() <= ENDS {
            let lines = lines(0)?;
            if let Some(task) = high(&lines) {
                if seen.last().is_none_or(|(last, _)| *last != task) {
                    seen.push((task, [false, false]));
                }
                let good = seen.last_mut().map(|(_, good)| good);
                good.into_iter().for_each(|good| *good = [good[0] || holds(&lines), good[1] || stands(&lines)]);
            }
            holds!(time::now_ns() < until, "jobs and priorities of {seen:?}: {lines:?}");
            time::sleep_ns(MS / 4);
        }
        ends.store(true, Ordering::SeqCst);
        threads.into_iter().try_for_each(|one| one.join().map(drop).map_err(doing("join")))
    })
}
