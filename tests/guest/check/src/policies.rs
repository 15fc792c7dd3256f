//! Policies of schedulers outside the kernel: what threads may agree on with them, and whether that is kept.

mod each;
mod turns;

use each::{
    deadlines_on_each_processor, shares_on_each_processor, terms_outlast_wishes, terms_outlive_their_scheduler,
};

use crate::report::{Check, Outcome, doing};
use crate::sched::{Load, choose, client, leak, lines, with};
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::Error;
use musubi::interfaces::sched::SchedClient;
use musubi::rt::{sched, task, thread, time};

pub const CHECKS: &[Check] = &[
    ("who_computes_has_as_much_as_another", turns::equal_threads),
    ("who_calls_the_scheduler_has_no_more", turns::who_calls_the_scheduler),
    ("shares_are_turns", shares_are_turns),
    ("shares_are_time", shares_are_time),
    ("shares_on_each_processor", shares_on_each_processor),
    ("deadlines_on_each_processor", deadlines_on_each_processor),
    ("shares_refuse_nonsense", shares_refuse_nonsense),
    ("terms_of_others_are_refused_by_message_too", terms_of_others),
    ("deadlines_are_admitted", deadlines_are_admitted),
    ("jobs_have_their_processors", jobs_have_their_processors),
    ("terms_need_their_policy", terms_need_their_policy),
    ("terms_outlast_wishes", terms_outlast_wishes),
    ("terms_outlive_their_scheduler", terms_outlive_their_scheduler),
    ("the_highest_priority_stops_nobody", the_highest_priority_stops_nobody),
    ("every_policy_under_load", every_policy_under_load),
    ("deadlines_are_met", deadlines_are_met),
    ("priorities_miss_them", priorities_miss_them),
];

const POLICIES: [&str; 5] = ["share", "deadline", "gang", "initial", "ageing"];

/// Threads that compute until they are told to stop.
struct Busy {
    stop: &'static AtomicBool,
    threads: Vec<thread::Thread>,
}

impl Busy {
    fn start(count: usize) -> Result<Busy, String> {
        let stop: &'static AtomicBool = leak(AtomicBool::new(false));
        let body = move || {
            while !stop.load(Ordering::Relaxed) {
                compute(100);
            }
        };
        let threads = (0..count).map(|_| thread::spawn(body, 0).map_err(doing("thread")));
        Ok(Busy { stop, threads: threads.collect::<Result<_, _>>()? })
    }

    fn stop(self) -> Outcome {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().try_for_each(|one| one.join().map(drop).map_err(doing("join")))
    }
}

/// The number after `before` in what is said of a thread.
fn said(thread: u64, before: &str) -> Result<u64, String> {
    let lines = lines(0)?;
    let about = format!("thread {thread},");
    let line =
        lines.iter().find(|line| line.starts_with(&about)).ok_or_else(|| format!("nothing is said of {about}"))?;
    let rest = line.split(before).nth(1).ok_or_else(|| format!("no {before:?} in {line}"))?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|word| word.parse().ok()).ok_or_else(|| format!("no number after {before:?} in {line}"))
}

/// Threads that always compute have the turns that their weights say, within two turns.
fn shares_are_turns() -> Outcome {
    same!(task::processors().count(), 1, "processors: shares are of one");
    const WEIGHTS: [u64; 3] = [10, 20, 50];
    with("share", || {
        let busy = Busy::start(WEIGHTS.len())?;
        for (one, weight) in busy.threads.iter().zip(WEIGHTS) {
            let sched = client()?;
            patient(|| sched.share(one.number(), weight)).map_err(doing("share"))?;
        }
        let turns = || busy.threads.iter().map(|one| said(one.number(), "had ")).collect::<Result<Vec<u64>, _>>();
        let until = time::now_ns() + 100_000_000_000;
        let window = || -> Result<Vec<u64>, String> {
            let before = turns()?;
            loop {
                time::sleep_ns(50_000_000);
                let had: Vec<u64> = turns()?.iter().zip(&before).map(|(now, before)| now - before).collect();
                if had.iter().sum::<u64>() >= 160 {
                    return Ok(had);
                }
                holds!(time::now_ns() < until, "only {had:?} turns");
            }
        };
        let weights = WEIGHTS.iter().sum::<u64>();
        let is_fair = |had: &[u64]| {
            let all = had.iter().sum::<u64>();
            had.iter().zip(WEIGHTS).all(|(had, weight)| had.abs_diff(all * weight / weights) <= 2)
        };
        // On a busy host a turn may end before it has begun, and others have theirs.
        let mut had = window()?;
        for _ in 0..3 {
            if !is_fair(&had) {
                had = window()?;
            }
        }
        holds!(is_fair(&had), "{had:?} turns, where {WEIGHTS:?} of {weights} are theirs");
        busy.stop()
    })
}

/// What counts in the end is for how long they ran, as the kernel has it: where the clock counts instructions, by their weights within two turns.
fn shares_are_time() -> Outcome {
    holds!(time::ticks_are_instructions(), "the clock does not count instructions");
    same!(task::processors().count(), 1, "processors: shares are of one");
    const WEIGHTS: [u64; 3] = [10, 20, 50];
    const WINDOW_NS: u64 = 1_600_000_000;
    const TURN_NS: u64 = 10_000_000;
    with("share", || {
        let busy = Busy::start(WEIGHTS.len())?;
        for (one, weight) in busy.threads.iter().zip(WEIGHTS) {
            let sched = client()?;
            patient(|| sched.share(one.number(), weight)).map_err(doing("share"))?;
        }
        let times = || -> Result<Vec<u64>, String> {
            let time = |one: &thread::Thread| thread::info(one.number()).map(|info| info.time);
            busy.threads.iter().map(|one| time(one).ok_or_else(|| String::from("a thread is gone"))).collect()
        };
        time::sleep_ns(WINDOW_NS / 8);
        let before = times()?;
        time::sleep_ns(WINDOW_NS);
        let ran: Vec<u64> = times()?.iter().zip(&before).map(|(now, before)| now - before).collect();
        busy.stop()?;
        let (all, weights) = (ran.iter().sum::<u64>(), WEIGHTS.iter().sum::<u64>());
        holds!(all > WINDOW_NS * 9 / 10, "they ran for {ran:?} ns of {WINDOW_NS}");
        let is_fair = |(ran, weight): (&u64, u64)| ran.abs_diff(all * weight / weights) <= 2 * TURN_NS;
        holds!(ran.iter().zip(WEIGHTS).all(is_fair), "{ran:?} ns, where {WEIGHTS:?} of {weights} are theirs");
        Ok(())
    })
}

fn shares_refuse_nonsense() -> Outcome {
    with("share", || {
        let me = task::identity().thread;
        let sched = client()?;
        let share = |thread, weight| patient(|| sched.share(thread, weight));
        same!(share(me, 0), Err(Error::BadArgument), "no share");
        same!(share(me, 1001), Err(Error::BadArgument), "too great a share");
        same!(share(1 << 60, 5), Err(Error::NotFound), "a share for nobody");
        let foreign = task::threads().find(|t| t.task == 1).ok_or("the first task has no thread")?.thread;
        same!(share(foreign, 5), Err(Error::Denied), "a share for another user's thread");
        same!(share(me, 5), Ok(()), "a share");
        same!(said(me, "a share of ")?, 5, "the share");
        Ok(())
    })
}

/// By a message it is a thread of the server's that asks the kernel.
fn terms_of_others() -> Outcome {
    let gate = musubi::names::lookup("sched").map_err(doing("sched"))?;
    let by_post = SchedClient::bind_post(gate, 4096).map_err(doing("bind_post"))?;
    let foreign = task::threads().find(|t| t.task == 1).ok_or("the first task has no thread")?.thread;
    for policy in ["share", "gang", "deadline"] {
        with(policy, || {
            let ask = |client: &SchedClient, thread| match policy {
                "share" => client.share(thread, 5),
                "gang" => client.join(thread, 3),
                _ => client.periodic(thread, 100 * MS, 100 * MS, 20 * MS),
            };
            let me = task::identity().thread;
            let by_gate = client()?;
            for (way, client) in [("gate", &by_gate), ("post", &by_post)] {
                same!(
                    patient(|| ask(client, foreign)),
                    Err(Error::Denied),
                    "{policy} for another user's thread by {way}"
                );
                same!(patient(|| ask(client, me)), Ok(()), "{policy} for the own thread by {way}");
            }
            Ok(())
        })?;
    }
    Ok(())
}

const MS: u64 = 1_000_000;

fn deadlines_are_admitted() -> Outcome {
    with("deadline", || {
        let processors = task::processors().count();
        let busy = Busy::start(2 * processors)?;
        let mut threads = busy.threads.iter().map(thread::Thread::number);
        let mut next = || threads.next().ok_or("too few threads");
        let periodic = |thread, period, deadline, budget| {
            client().map(|client| patient(|| client.periodic(thread, period * MS, deadline * MS, budget * MS)))
        };
        let first = next()?;
        for (period, deadline, budget) in
            [(0, 0, 0), (10, 20, 5), (10, 5, 6), (10, 10, 0), (1000, 251, 100), (1_000_000, 1_000_000, 900_000)]
        {
            same!(periodic(first, period, deadline, budget)?, Err(Error::BadArgument), "no terms at all");
        }
        same!(periodic(first, 100, 100, 95)?, Err(Error::Busy), "nearly a whole processor");
        same!(periodic(first, 100, 50, 30)?, Ok(()), "60 % until its deadline");
        same!(periodic(first, 100, 100, 60)?, Ok(()), "60 %");
        for _ in 1..processors {
            same!(periodic(next()?, 100, 100, 60)?, Ok(()), "60 % of each processor");
        }
        let other = next()?;
        same!(periodic(other, 100, 100, 40)?, Err(Error::Busy), "more than there is");
        same!(periodic(other, 100, 100, 30)?, Ok(()), "what there is");
        busy.stop()?;
        // They are gone, and so is what was promised to them.
        time::sleep_ns(20 * MS);
        let again = Busy::start(1)?;
        same!(periodic(again.threads[0].number(), 100, 100, 90)?, Ok(()), "a whole processor again");
        again.stop()
    })
}

/// Two jobs of as many threads as there are processors: no processor has threads of both.
fn jobs_have_their_processors() -> Outcome {
    with("gang", || {
        let processors = task::processors().count();
        let jobs = [Busy::start(processors)?, Busy::start(processors)?];
        for (job, busy) in (1..).zip(&jobs) {
            for one in &busy.threads {
                let sched = client()?;
                patient(|| sched.join(one.number(), job)).map_err(doing("join"))?;
            }
        }
        let parts = [1, 2].map(|job| client().and_then(|client| client.processors(job).map_err(doing("processors"))));
        let [first, second] = parts;
        let (first, second) = (first?, second?);
        if processors > 1 {
            same!(first + second, processors as u64, "processors of both jobs");
            holds!(first.abs_diff(second) <= 1, "one job has {first} processors, the other {second}");
        }
        // Those that were running elsewhere move at the end of their quantum.
        time::sleep_ns(200 * MS);
        let mut seen = [0u64; 2];
        let until = time::now_ns() + 20_000 * MS;
        for _ in 0..50 {
            time::sleep_ns(2 * MS);
            for info in task::threads() {
                let job = jobs.iter().position(|job| job.threads.iter().any(|one| one.number() == info.thread));
                if let Some(job) = job {
                    seen[job] |= 1 << info.processor;
                }
            }
            holds!(time::now_ns() < until, "too slow");
        }
        holds!(processors == 1 || seen[0] & seen[1] == 0, "the jobs were on {:b} and {:b}", seen[0], seen[1]);
        same!(seen.map(|seen| u64::from(seen.count_ones())), [first, second], "processors that were used");
        // With one job gone the other has them all.
        let [a, b] = jobs;
        a.stop()?;
        let until = time::now_ns() + 10_000 * MS;
        while client()?.processors(2) != Ok(processors as u64) {
            holds!(time::now_ns() < until, "the processors of a job that has ended are not used");
            time::sleep_ns(5 * MS);
        }
        b.stop()
    })
}

/// On a busy host the high level may not have its time at once.
fn patient(ask: impl Fn() -> Result<(), Error>) -> Result<(), Error> {
    (0..20).map(|_| ask()).find(|answer| *answer != Err(Error::TimedOut)).unwrap_or(Err(Error::TimedOut))
}

fn terms_need_their_policy() -> Outcome {
    let me = task::identity().thread;
    same!(client()?.share(me, 5), Err(Error::NotSupported), "a share in turn");
    for policy in POLICIES {
        with(policy, || {
            let client = client()?;
            let knows = |name, ask: &dyn Fn() -> Result<(), Error>| {
                let expected = if name == policy { Ok(()) } else { Err(Error::NotSupported) };
                same!(patient(ask), expected, "{name} by {policy}");
                Ok(())
            };
            knows("share", &|| client.share(me, 5))?;
            knows("deadline", &|| client.periodic(me, 100 * MS, 100 * MS, 10 * MS))?;
            knows("gang", &|| client.join(me, 1))
        })?;
    }
    Ok(())
}

/// Anybody may ask for the highest priority, on every processor, and compute for ever: others still get on.
fn the_highest_priority_stops_nobody() -> Outcome {
    for policy in POLICIES {
        with(policy, || {
            let seen = leak(AtomicU64::new(0));
            let other = Busy::start(1)?;
            let other_number = other.threads[0].number();
            // Who would starve cannot stop them, so they stop by themselves.
            let body = move || {
                let _ = sched::set_priority(task::identity().thread, 0);
                let (before, until) = (ran(other_number), time::now_ns() + 3_000 * MS);
                while time::now_ns() < until {
                    compute(1000);
                }
                seen.fetch_max(ran(other_number).saturating_sub(before), Ordering::Relaxed);
            };
            let hogs: Result<Vec<_>, _> = (0..task::processors().count()).map(|_| thread::spawn(body, 0)).collect();
            for hog in hogs.map_err(doing("thread"))? {
                hog.join().map_err(doing("join"))?;
            }
            other.stop()?;
            // About a ninth of one processor; on a busy host it may be less.
            let had = seen.load(Ordering::Relaxed) / MS;
            holds!(had >= 20, "by {policy} it ran for {had} ms of 3000");
            Ok(())
        })?;
    }
    Ok(())
}

/// For how long a thread has run, in ns.
fn ran(number: u64) -> u64 {
    task::threads().find(|info| info.thread == number).map_or(0, |info| info.time)
}

/// From each policy to the next while threads compute, sleep and wake each other: none is lost.
fn every_policy_under_load() -> Outcome {
    let load = Load::start(12)?;
    for policy in POLICIES {
        choose(policy)?;
        load.all_run()?;
    }
    choose("none")?;
    load.all_run()?;
    holds!(sched::seats().all(|seat| seat.missed == 0), "events were lost");
    load.stop()
}

/// Two periodic threads, and a third that computes all the time. By rate-monotonic priorities the second one gets 25 ms of
/// the 30 ms that it needs in its first period; by deadlines both get all. Of each: jobs done, and how many were late.
fn run_periodic(agree: impl Fn(u64, u64, u64) -> Outcome) -> Result<[(u64, u64); 2], String> {
    // Some less than the budgets: 25 and 30.
    const TASKS: [(u64, u64); 2] = [(50, 24), (75, 29)];
    const PERIODS: u64 = 8;
    let per_ms = iterations_per_ms();
    // Both begin at one moment, long enough after they were let know.
    let begin = time::now_ns() + 200 * MS;
    let counts: [&'static [AtomicU64; 2]; 2] = [0, 1].map(|_| &*leak([const { AtomicU64::new(0) }; 2]));
    let mut threads = Vec::new();
    for (task, (period, work)) in TASKS.into_iter().enumerate() {
        let body = move || {
            for job in 0..PERIODS {
                let release = begin + job * period * MS;
                time::sleep_ns(release.saturating_sub(time::now_ns()));
                compute(work * per_ms);
                counts[task][0].fetch_add(1, Ordering::SeqCst);
                if time::now_ns() > release + period * MS {
                    counts[task][1].fetch_add(1, Ordering::SeqCst);
                }
            }
        };
        threads.push(thread::spawn(body, 0).map_err(doing("thread"))?);
    }
    for ((period, work), one) in TASKS.iter().zip(&threads) {
        agree(one.number(), *period, work + 1)?;
    }
    let busy = Busy::start(1)?;
    while time::now_ns() < begin + PERIODS * 50 * MS {
        time::sleep_ns(100 * MS);
    }
    for one in threads {
        one.join().map_err(doing("join"))?;
    }
    busy.stop()?;
    Ok(counts.map(|count| (count[0].load(Ordering::SeqCst), count[1].load(Ordering::SeqCst))))
}

/// Always the same instructions, none of which an emulator makes something of.
#[inline(never)]
fn compute(iterations: u64) {
    for n in 0..iterations {
        core::hint::black_box(n);
    }
}

/// Measured where nobody else computes; the least of three.
fn iterations_per_ms() -> u64 {
    const ITERATIONS: u64 = 200_000;
    let ns = |_| {
        let began = time::now_ns();
        compute(ITERATIONS);
        time::now_ns() - began
    };
    let least = (0..3).map(ns).min().unwrap_or(1).max(1);
    ITERATIONS * MS / least
}

fn deadlines_are_met() -> Outcome {
    let sched = client()?;
    with("deadline", || {
        let done = run_periodic(|thread, period, budget| {
            patient(|| sched.periodic(thread, period * MS, period * MS, budget * MS)).map_err(doing("periodic"))
        })?;
        same!(done, [(8, 0), (8, 0)], "jobs done, and late, by deadlines");
        Ok(())
    })
}

fn priorities_miss_them() -> Outcome {
    with("ageing", || {
        let done = run_periodic(|thread, period, _| {
            sched::set_priority(thread, if period == 50 { 3 } else { 4 }).map_err(doing("priority"))
        })?;
        same!(done[0], (8, 0), "the one of the higher priority");
        holds!(done[1].1 > 0, "by priorities nothing was late: {done:?}");
        Ok(())
    })
}
