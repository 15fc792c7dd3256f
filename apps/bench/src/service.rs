//! A service that computes, with one receiving thread for each processor (K1-6, 14, 16): requests are messages to one post, and whoever
//! waits there takes the next. By the clock, by what all execute, and, where an emulator has processors take turns, in the time of one that
//! counts beside them ([`crate::stand`]). In that time, too: clients at servers of their own, programs each, and at the system's (K1-4, [`asked`]), and the loop of `matrix` (K1-2).

use crate::asked;
use crate::pool::{self, BYTES, Posts, end};
use crate::report::{Case, Report};
use crate::rounds::{Moment, Rounds};
use crate::stand::{self, Stand};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::hint::black_box;
use musubi::Error;
use musubi::abi::start::StreamRef;
use musubi::abi::task::exit;
use musubi::command::{Child, Command};
use musubi::rt::post::{FOR_EVER, Post};
use musubi::rt::{task, thread, time};

/// Requests of a run, and the steps of each, of some twenty instructions. By the clock more: at the end of a run one may be done with its last while
/// another one has begun.
const REQUESTS: u64 = 64;
const REQUESTS_BY_CLOCK: u64 = 480;
const STEPS: u64 = 250_000;
/// Beside one who counts, whose beats are many in less.
const REQUESTS_BESIDE: u64 = 256;
const STEPS_BESIDE: u64 = 20_000;
const THREADS_BESIDE: [usize; 3] = [2, 4, 8];
const TRIES: usize = 4;
/// Rounds of each client with a server of its own.
const ROUNDS_BESIDE: u64 = 5_000;
/// Rows of the matrices: what is computed is long beside the program's beginning and end, which one thread does.
const ROWS: usize = 320;
const LOOPS: [usize; 2] = [2, 4];
const OP: u32 = 9;
const OVER: u32 = 10;
/// By the clock what else the host does only slows a run down: the fastest of so many counts.
const RUNS: usize = 8;
/// What is soon done: threads meet at the post all the time. Requests and answers are one for each thread under way.
const STEPS_OF_FIGHT: u64 = 100;
const REQUESTS_OF_FIGHT: u64 = 100;
/// Requests under way for each thread: nobody waits for the slower one.
const AHEAD: u64 = 4;

pub fn run(report: &Report, posts: &Posts) -> Result<(), String> {
    let processors = task::processors().count() as u64;
    let by_clock = !time::ticks_are_instructions();
    // In turn, so that a host that is busy for a while slows both down.
    let (mut alone, mut run) = (serve_all(posts, 1)?, None);
    if processors > 1 {
        let mut together = serve_all(posts, processors)?;
        for _ in 1..if by_clock { RUNS } else { 1 } {
            alone = alone.faster(serve_all(posts, 1)?);
            together = together.faster(serve_all(posts, processors)?);
        }
        run = Some(together);
    }
    report.average(Case { case: "service", way: "1-thread", bytes: BYTES }, alone.ticks, alone.requests);
    let Some(run) = run else { return Ok(()) };
    let way = format!("{processors}-threads");
    let case = Case { case: "service", way: &way, bytes: BYTES };
    report.average(case, run.ticks, run.requests);
    report.count(case, "permille", run.beside(&alone));
    Ok(())
}

/// `bench service`: what so many do in the time of one, as if all processors ran at once.
pub fn side_by_side(report: &Report) -> Result<(), String> {
    if !time::ticks_are_instructions() {
        return Err("by the clock that is `bench side-by-side`".into());
    }
    // The client has a processor of its own.
    let places = stand::places(task::processors().count()).saturating_sub(1);
    let posts = Posts::new().map_err(|e| format!("posts: {e}"))?;
    // Who prints wakes others, so not before all is known.
    let threads = THREADS_BESIDE.into_iter().filter(|threads| *threads <= places);
    let threads = threads.map(|threads| {
        let gained = beside_one(threads, |stand, threads| beats(stand, &posts, threads));
        Ok((
            "service",
            format!("{threads}-threads"),
            gained.map_err(|why| format!("a service of {threads} threads: {why}"))?,
        ))
    });
    let known: Result<Vec<_>, String> = threads.collect();
    posts.free().map_err(|e| format!("freeing: {e}"))?;
    let mut known = known?;
    for clients in THREADS_BESIDE.into_iter().filter(|clients| *clients <= places) {
        known.push(("servers", format!("{clients}-clients"), servers(clients)?));
    }
    for (case, clients, gained) in asked::gained(places)? {
        known.push((case, format!("{clients}-clients"), gained));
    }
    for threads in LOOPS.into_iter().filter(|threads| *threads <= places) {
        let gained = beside_one(threads, matrix).map_err(|why| format!("matrix by {threads} threads: {why}"))?;
        known.push(("loop", format!("{threads}-threads"), gained));
    }
    for (case, way, gained) in known {
        report.count(Case { case, way: &way, bytes: BYTES }, "permille-side-by-side", gained);
    }
    Ok(())
}

/// What so many do of the same work, in thousandths of what one does. `took`: beats until it is done by so many.
pub fn beside_one(count: usize, took: impl Fn(&'static Stand, usize) -> Result<u64, Error>) -> Result<u64, String> {
    let failed = |e: Error| format!("{e}");
    for _ in 0..TRIES {
        let stand = Stand::start().map_err(failed)?;
        let took = took(stand, 1).and_then(|alone| Ok([alone, took(stand, count)?]));
        let is_kept = stand.is_kept();
        stand.stop().map_err(failed)?;
        let [alone, all] = took.map_err(failed)?;
        if is_kept {
            return Ok(1000 * alone / all.max(1));
        }
    }
    Err("somebody else has come between each time".into())
}

/// Each client sends to a program of its own and has the answer back, so often: what they share is the kernel. A server goes on where its client waits.
fn servers(clients: usize) -> Result<u64, String> {
    let failed = |what: &str, e: Error| format!("{clients} clients at as many servers: {what}{e}");
    let posts: Result<Vec<Posts>, Error> = (0..clients).map(|_| Posts::new()).collect();
    let posts: &'static [Posts] = Vec::leak(posts.map_err(|e| failed("posts: ", e))?);
    let servers: Result<Vec<Child>, String> = posts.iter().map(|posts| posts.partner("pool")).collect();
    let servers = servers?;
    let round = |posts: &Posts| posts.there.send_and_receive(pool::OP, [1; 6], posts.back, FOR_EVER).map(drop);
    // Each waits for messages before it is measured.
    let begun = posts.iter().try_for_each(round).map_err(|e| failed("", e));
    let gained = begun.and_then(|()| {
        let took = |stand: &'static Stand, count: usize| {
            let job = move |number: usize| (0..ROUNDS_BESIDE).try_for_each(|_| round(&posts[number]));
            stand.run(count, job, || stand.beats()).map(|[before, after]| after - before)
        };
        beside_one(clients, took).map_err(|why| format!("{clients} clients at as many servers: {why}"))
    });
    servers.into_iter().try_for_each(end)?;
    posts.iter().try_for_each(Posts::free).map_err(|e| failed("freeing: ", e))?;
    // So many have done so many times as much.
    gained.map(|gained| gained * clients as u64)
}

/// From the program's start until its end is known. Its threads find processors that have nothing to do: those of who works here.
fn matrix(stand: &'static Stand, threads: usize) -> Result<u64, Error> {
    let job = move |_: usize| -> Result<(), Error> {
        let words = [ROWS, threads].map(|word| format!("{word}"));
        let silent = Command::new(b"bin/matrix").stream(1, StreamRef::default());
        let product = words.iter().fold(silent, |line, word| line.arg(word.as_bytes()));
        let ended = product.spawn().map_err(|refused| refused.error)?.wait()?;
        if (ended.kind, ended.code) == (exit::EXITED, 0) { Ok(()) } else { Err(Error::Faulted) }
    };
    let [before, after] = stand.run(1, job, || stand.beats())?;
    Ok(after - before)
}

/// From the first request until the last answer is there.
fn beats(stand: &'static Stand, posts: &Posts, threads: usize) -> Result<u64, Error> {
    let Posts { there, back, .. } = *posts;
    let job = move |number: usize| -> Result<(), Error> {
        if number > 0 {
            return answer(there, back, STEPS_BESIDE);
        }
        ask([there, back], REQUESTS_BESIDE, AHEAD * threads as u64)?;
        (0..threads).try_for_each(|_| there.send(OVER, [0; 6], None))
    };
    let [before, after] = stand.run(threads + 1, job, || stand.beats())?;
    Ok(after - before)
}

/// One thread for each processor, whose requests take little: what it takes that all receive at one post, and answer at another one.
pub fn fight(report: &Report) -> Result<(), String> {
    let threads = task::processors().count() as u64;
    let posts = Posts::new().map_err(|e| format!("posts: {e}"))?;
    let server = posts.partner(&format!("requests-{threads}"))?;
    let Posts { there, back, .. } = posts;
    let all = || -> Result<Rounds, Error> {
        (0..threads).try_for_each(|_| back.receive(FOR_EVER).map(drop))?;
        ask([there, back], threads, threads)?;
        let began = Moment::begins();
        let asked = ask([there, back], REQUESTS_OF_FIGHT * threads, threads);
        let round = Rounds::once([began, Moment::ends()]);
        asked.map(|()| round)
    };
    let round = all();
    end(server)?;
    posts.free().map_err(|e| format!("freeing: {e}"))?;
    let round = round.map_err(|e| format!("a service of {threads} threads: {e}"))?;
    let way = format!("{threads}-threads");
    report.at_a_stretch(Case { case: "service-all", way: &way, bytes: BYTES }, 2 * REQUESTS_OF_FIGHT * threads, &round);
    Ok(())
}

/// How many times as fast as one thread so many are, one for each processor, by the clock: in thousandths.
pub fn gained(posts: &Posts, processors: u64) -> Result<u64, String> {
    let alone = serve_all(posts, 1)?;
    serve_all(posts, processors).map(|all| all.beside(&alone))
}

struct Run {
    ticks: u64,
    requests: u64,
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

/// All requests by so many threads of a program of their own.
fn serve_all(posts: &Posts, threads: u64) -> Result<Run, String> {
    let server = posts.partner(&format!("service-{threads}"))?;
    let outcome = requests(posts, threads);
    end(server)?;
    outcome.map_err(|e| format!("a service of {threads} threads: {e}"))
}

fn requests(posts: &Posts, threads: u64) -> Result<Run, Error> {
    let Posts { there, back, .. } = *posts;
    // Each thread says that it is there.
    for _ in 0..threads {
        back.receive(FOR_EVER)?;
    }
    let requests = if time::ticks_are_instructions() { REQUESTS } else { REQUESTS_BY_CLOCK };
    let began = time::ticks();
    ask([there, back], requests, AHEAD * threads)?;
    Ok(Run { ticks: time::ticks() - began, requests })
}

/// All requests, until each is answered, so many of them under way.
fn ask([there, back]: [Post; 2], requests: u64, ahead: u64) -> Result<(), Error> {
    let mut sent = 0;
    for done in 0..requests {
        while sent < requests && sent - done < ahead {
            there.send(OP, [sent; 6], Some(back))?;
            sent += 1;
        }
        back.receive(FOR_EVER)?;
    }
    Ok(())
}

/// One thread of the service, until it is told that it is over.
fn answer(there: Post, back: Post, steps: u64) -> Result<(), Error> {
    loop {
        let message = there.receive(FOR_EVER)?;
        if message.op == OVER {
            return Ok(());
        }
        let mut words = message.words;
        for _ in 0..steps {
            words = black_box(words.map(|word| word.wrapping_mul(5).wrapping_add(1)));
        }
        back.send(OP, words, None)?;
    }
}

/// The server's main function.
pub fn serve(threads: &str, posts: &[Post; 3]) -> Result<(), Error> {
    serve_for(threads, posts, STEPS)
}

/// The same of what is soon done.
pub fn serve_soon(threads: &str, posts: &[Post; 3]) -> Result<(), Error> {
    serve_for(threads, posts, STEPS_OF_FIGHT)
}

fn serve_for(threads: &str, &[there, back, _]: &[Post; 3], steps: u64) -> Result<(), Error> {
    let count: u64 = threads.parse().map_err(|_| Error::BadArgument)?;
    let one = move || back.send(OP, [0; 6], None).and_then(|()| answer(there, back, steps));
    let others: Result<Vec<_>, Error> = (1..count).map(|_| thread::spawn(move || _ = one(), 0)).collect();
    others?;
    one()
}
