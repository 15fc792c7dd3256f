//! A service that computes, with one receiving thread for each processor (K1-6, 14, 16): requests are messages to one post, and whoever
//! waits there takes the next.

use crate::pool::{BYTES, Posts, end};
use crate::report::{Case, Report};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::Error;
use musubi::rt::itc::Here;
use musubi::rt::post::{FOR_EVER, Post};
use musubi::rt::{task, thread, time};

/// Requests of a run, and the steps of each, of some twenty instructions. By the clock more: at the end of a run one may be done with its last while
/// another one has begun.
const REQUESTS: u64 = 64;
const REQUESTS_BY_CLOCK: u64 = 160;
const STEPS: u64 = 250_000;
const OP: u32 = 9;
/// By the clock what else the host does only slows a run down: the fastest of so many counts.
const RUNS: usize = 8;
/// Requests under way for each thread: by the clock nobody waits for the slower one.
const AHEAD: u64 = 4;

pub fn run(report: &Report, posts: &Posts) -> Result<(), String> {
    let processors = task::processors().count() as u64;
    let by_clock = !time::ticks_are_instructions();
    // In turn, so that a host that is busy for a while slows both down.
    let (mut alone, mut run) = (serve_all(posts, 1, processors)?, None);
    if processors > 1 {
        let mut together = serve_all(posts, processors, processors)?;
        for _ in 1..if by_clock { RUNS } else { 1 } {
            alone = alone.faster(serve_all(posts, 1, processors)?);
            together = together.faster(serve_all(posts, processors, processors)?);
        }
        run = Some(together);
    }
    report.average(Case { case: "service", way: "1-thread", bytes: BYTES }, alone.ticks, alone.requests);
    let Some(run) = run else { return Ok(()) };
    let way = format!("{processors}-threads");
    let case = Case { case: "service", way: &way, bytes: BYTES };
    report.average(case, run.ticks, run.requests);
    let gained = run.beside(&alone);
    report.count(case, "permille", gained);
    // Where processors take turns, all of them together execute what is counted. Side by side they would take as long as the one with
    // the most to do.
    let most = run.served.iter().copied().max().unwrap_or(run.requests);
    report.count(case, "permille-by-share", gained * run.requests / most.max(1));
    Ok(())
}

/// How many times as fast as one thread so many are, one for each processor, by the clock: in thousandths.
pub fn gained(posts: &Posts, processors: u64) -> Result<u64, String> {
    let alone = serve_all(posts, 1, processors)?;
    serve_all(posts, processors, processors).map(|all| all.beside(&alone))
}

struct Run {
    ticks: u64,
    requests: u64,
    /// Requests by the processor that served them.
    served: Vec<u64>,
}

impl Run {
    /// How many times as fast as another one, in thousandths.
    fn beside(&self, other: &Run) -> u64 {
        1000 * other.ticks * self.requests / (self.ticks * other.requests).max(1)
    }

    fn faster(self, other: Run) -> Run {
        if other.ticks < self.ticks { other } else { self }
    }
}

/// All requests by so many threads. Where processors take turns as many are under way as threads wait, so that each goes to one that waits.
fn serve_all(posts: &Posts, threads: u64, processors: u64) -> Result<Run, String> {
    let server = posts.partner(&format!("service-{threads}"))?;
    let outcome = requests(posts, threads, processors);
    end(server)?;
    outcome.map_err(|e| format!("a service of {threads} threads: {e}"))
}

fn requests(posts: &Posts, threads: u64, processors: u64) -> Result<Run, Error> {
    let Posts { there, back, .. } = *posts;
    // Each thread says that it is there.
    for _ in 0..threads {
        back.receive(FOR_EVER)?;
    }
    // Whole rounds: where processors take turns a thread that has none of the last one would wait for ever for the others'.
    let requests = if time::ticks_are_instructions() { REQUESTS } else { REQUESTS_BY_CLOCK };
    let all = requests / threads * threads;
    let mut run = Run { ticks: 0, requests: all, served: vec![0; processors as usize] };
    let (mut sent, mut done) = (0, 0);
    let began = time::ticks();
    while done < all {
        while sent < all && may_send(sent, done, threads) {
            there.send(OP, [sent; 6], Some(back))?;
            sent += 1;
        }
        let processor = back.receive(FOR_EVER)?.words[0];
        if let Some(count) = run.served.get_mut(processor as usize) {
            *count += 1;
        }
        done += 1;
    }
    run.ticks = time::ticks() - began;
    Ok(run)
}

/// Whether one more may be under way: where processors take turns a whole round at a time.
fn may_send(sent: u64, done: u64, threads: u64) -> bool {
    if time::ticks_are_instructions() {
        sent - done / threads * threads < threads
    } else {
        sent - done < AHEAD * threads
    }
}

/// The server's main function.
pub fn serve(threads: &str, &[there, back, _]: &[Post; 3]) -> Result<(), Error> {
    let here = Here::find()?;
    let count: u64 = threads.parse().map_err(|_| Error::BadArgument)?;
    let one = move || -> Result<(), Error> {
        let me = task::identity().thread;
        back.send(OP, [0; 6], None)?;
        loop {
            let mut words = there.receive(FOR_EVER)?.words;
            if time::ticks_are_instructions() {
                meet(count);
            }
            for _ in 0..STEPS {
                words = black_box(words.map(|word| word.wrapping_mul(5).wrapping_add(1)));
            }
            let processor = here.running().position(|thread| thread == me).unwrap_or(usize::MAX);
            back.send(OP, [processor as u64; 6], None)?;
        }
    };
    let others: Result<Vec<_>, Error> = (1..count).map(|_| thread::spawn(move || _ = one(), 0)).collect();
    others?;
    one()
}

/// Waits until as many threads have a request as there are processors. Where an emulator has processors take turns, one would do the
/// work of those that have not had theirs.
fn meet(count: u64) {
    static MET: AtomicU64 = AtomicU64::new(0);
    let all = (MET.fetch_add(1, Ordering::SeqCst) + 1).next_multiple_of(count);
    while MET.load(Ordering::SeqCst) < all {
        core::hint::spin_loop();
    }
}
