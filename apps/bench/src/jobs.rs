//! Parallel jobs side by side (SSS-4): two jobs whose threads meet at a barrier after each round, each alone on all processors
//! and both at once, by several schedulers. What counts is rounds in the same time of all processors. One kind of job asks how many processors
//! it has, and waits in a loop; the other has a thread for each processor of the machine whatever it has (`-fixed`), and waits asleep.

use crate::report::{Case, Report};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::hint::{black_box, spin_loop};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use musubi::interfaces::sched::SchedClient;
use musubi::rt::{sync, task, thread, time};
use musubi::{Error, names};

/// What it is called in the table, and what is asked for.
const WAYS: [(&str, &str); 3] = [("gang", "gang"), ("ageing", "ageing"), ("in-turn", "none")];
/// Steps of a round, divided among the threads that take part.
const WORK: u64 = 40_000;
/// Rounds before a job looks whether it is to end; and such blocks before it asks again how many processors it has.
const BLOCK: u64 = 4;
const ASK: u32 = 64;
const SETTLE_NS: u64 = 50_000_000;
const WINDOW_NS: u64 = 150_000_000;
/// In a plan: nobody takes part any more.
const STOP: u32 = u32::MAX;

/// A parallel job: threads that do each round together.
struct Job {
    number: u64,
    /// How many take part in this block of rounds (low byte), and which block it is.
    plan: AtomicU32,
    arrived: AtomicU64,
    rounds: AtomicU64,
    /// No further block.
    stop: AtomicBool,
    /// Where the threads of a job meet that has always as many.
    fixed: Option<sync::Barrier>,
    /// Its last round.
    last: AtomicU64,
}

impl Job {
    fn start(number: u64, threads: usize, is_fixed: bool, chooser: &'static SchedClient) -> Result<Running, Error> {
        // Nobody begins before all have joined.
        let plan = AtomicU32::new(0);
        let job: &'static Job = Box::leak(Box::new(Job {
            number,
            plan,
            arrived: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            fixed: is_fixed.then(|| sync::Barrier::new(threads as u32)),
            last: AtomicU64::new(u64::MAX),
        }));
        let threads: Result<Vec<_>, _> = (0..threads)
            .map(|index| thread::spawn(move || job.work(index as u32, threads as u32, chooser), 0))
            .collect();
        Ok(Running { job, threads: threads? })
    }

    fn work(&self, index: u32, threads: u32, chooser: &SchedClient) {
        match &self.fixed {
            Some(barrier) => self.work_together(threads, barrier),
            None => self.work_on_what_it_has(index, threads, chooser),
        }
    }

    fn work_together(&self, threads: u32, barrier: &sync::Barrier) {
        while self.plan.load(Ordering::Acquire) == 0 {
            let _ = sync::wait(&self.plan, 0, u64::MAX);
        }
        // Whoever decides after a round that the next is the last does that before he comes to its end, and so before anybody leaves it.
        for round in 0.. {
            compute(WORK / u64::from(threads));
            let Ok(is_one) = barrier.wait() else { return };
            if round >= self.last.load(Ordering::Acquire) {
                return;
            }
            if is_one {
                self.rounds.store(round + 1, Ordering::Relaxed);
                if self.stop.load(Ordering::Relaxed) {
                    self.last.store(round + 1, Ordering::Release);
                }
            }
        }
    }

    fn work_on_what_it_has(&self, index: u32, threads: u32, chooser: &SchedClient) {
        let mut round = 0;
        loop {
            let plan = self.plan.load(Ordering::Acquire);
            if plan == STOP {
                return;
            }
            let active = plan & 0xff;
            if index >= active {
                let _ = sync::wait(&self.plan, plan, u64::MAX);
                continue;
            }
            round = round.max(self.rounds.load(Ordering::Acquire));
            for _ in 0..BLOCK {
                compute(WORK / u64::from(active));
                self.meet(u64::from(active), round);
                round += 1;
            }
            if index == 0 {
                let block = (plan >> 8).wrapping_add(1) & 0x7f_ffff;
                let now = if block.is_multiple_of(ASK) { self.processors(threads, chooser) } else { active };
                let next = block << 8 | now;
                let is_over = self.stop.load(Ordering::Relaxed);
                self.plan.store(if is_over { STOP } else { next }, Ordering::Release);
                if is_over || now != active {
                    sync::wake(&self.plan, u64::MAX);
                }
            } else {
                while self.plan.load(Ordering::Acquire) == plan {
                    spin_loop();
                }
            }
        }
    }

    /// How many threads have a processor each. A scheduler that knows nothing of jobs lets them have all.
    fn processors(&self, threads: u32, chooser: &SchedClient) -> u32 {
        chooser.processors(self.number).map_or(threads, |n| (n as u32).clamp(1, threads))
    }

    /// The barrier: whoever comes last lets the others go on.
    fn meet(&self, active: u64, round: u64) {
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == active {
            self.arrived.store(0, Ordering::Relaxed);
            self.rounds.store(round + 1, Ordering::Release);
        } else {
            while self.rounds.load(Ordering::Acquire) == round {
                spin_loop();
            }
        }
    }
}

#[inline(never)]
fn compute(steps: u64) {
    for step in 0..steps {
        black_box(step);
    }
}

struct Running {
    job: &'static Job,
    threads: Vec<thread::Thread>,
}

impl Running {
    fn stop(self) -> Result<(), Error> {
        self.job.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().try_for_each(|one| one.join().map(drop))
    }
}

pub fn run(report: &Report) -> Result<(), String> {
    let chooser = names::lookup("sched").and_then(|gate| SchedClient::bind_with_args(gate, 4096));
    let chooser: &'static SchedClient = Box::leak(Box::new(chooser.map_err(|e| format!("sched: {e}"))?));
    let outcome = WAYS.into_iter().try_for_each(|(way, name)| {
        let kinds = [false, true].into_iter();
        let measured =
            chooser.choose(name).and_then(|()| kinds.map(|fixed| measure(report, way, fixed, chooser)).collect());
        measured.map_err(|e| format!("{way}: {e}"))
    });
    chooser.choose("none").map_err(|e| format!("none: {e}"))?;
    outcome
}

fn measure(report: &Report, way: &str, is_fixed: bool, chooser: &'static SchedClient) -> Result<(), Error> {
    let first = rounds(&[1], is_fixed, chooser)?;
    let second = rounds(&[2], is_fixed, chooser)?;
    let both = rounds(&[1, 2], is_fixed, chooser)?;
    let kinds = if is_fixed {
        ["alone-fixed", "side-by-side-fixed", "side-by-side-least-fixed", "kept-fixed"]
    } else {
        ["alone", "side-by-side", "side-by-side-least", "kept"]
    };
    let [of_one, of_both, of_the_least, kept] = kinds.map(|case| Case { case, way, bytes: 0 });
    // Each alone has all processors for the whole time; both at once have them for the same time, together.
    let alone = first[0].midpoint(second[0]);
    report.count(of_one, "rounds", alone);
    report.count(of_both, "rounds", both.iter().sum());
    report.count(of_the_least, "rounds", both.iter().copied().min().unwrap_or(0));
    report.count(kept, "permille", 1000 * both.iter().sum::<u64>() / alone.max(1));
    Ok(())
}

/// How many rounds these jobs do, at the same time, in the window.
fn rounds(jobs: &[u64], is_fixed: bool, chooser: &'static SchedClient) -> Result<Vec<u64>, Error> {
    let threads = task::processors().count();
    let running: Vec<Running> =
        jobs.iter().map(|job| Job::start(*job, threads, is_fixed, chooser)).collect::<Result<_, _>>()?;
    for one in &running {
        for thread in &one.threads {
            match chooser.join(thread.number(), one.job.number) {
                Ok(()) | Err(Error::NotSupported) => {}
                Err(error) => return Err(error),
            }
        }
    }
    for one in &running {
        one.job.plan.store(one.job.processors(threads as u32, chooser), Ordering::SeqCst);
        sync::wake(&one.job.plan, u64::MAX);
    }
    time::sleep_ns(SETTLE_NS);
    let count = || -> Vec<u64> { running.iter().map(|one| one.job.rounds.load(Ordering::Relaxed)).collect() };
    let (before, began) = (count(), time::now_ns());
    time::sleep_ns(WINDOW_NS);
    let (after, took) = (count(), time::now_ns() - began);
    running.into_iter().try_for_each(Running::stop)?;
    // It may have been woken late: in the window, as many.
    Ok(after.iter().zip(&before).map(|(after, before)| (after - before) * WINDOW_NS / took).collect())
}
