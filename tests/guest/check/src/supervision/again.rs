//! Servers that end while they have a request that came by message (docs/book/services.md): who may repeat it does not notice.

use super::{gate, have};
use crate::report::{Outcome, doing};
use crate::{holds, same};
use alloc::format;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::Error;
use musubi::abi::layout::PAGE;
use musubi::interfaces::clock::ClockClient;
use musubi::interfaces::memory::MemoryClient;
use musubi::interfaces::pipes::PipesClient;
use musubi::interfaces::sched::SchedClient;
use musubi::interfaces::stream::StreamClient;
use musubi::rt::answers::join_all;
use musubi::rt::later::Answer;
use musubi::rt::{Answers, Mutex, thread, time};
use musubi::servers::{self, acts as act};

const MS: u64 = 1_000_000;

/// The clock has each of them, and keeps it until it ends.
pub fn asked_by_post() -> Outcome {
    let client = ClockClient::bind(gate("clock")?).map_err(doing("bind"))?;
    let answers = Answers::new().map_err(doing("a post for answers"))?;
    let posts = client.by_post(&answers).map_err(doing("by_post"))?;
    let kept = |ns: u64| -> Result<_, Error> {
        let at = time::now_ns() + ns;
        let one = posts.wait_until(at)?;
        // It has several receivers: what was sent before is received, or about to be.
        (0..4).try_for_each(|_| posts.now()?.wait().map(drop))?;
        Ok((at, one))
    };
    for (n, what) in [act::RESTART, act::KILL, act::KILL].into_iter().enumerate() {
        let (at, mut one) = kept(1000 * MS).map_err(doing("sending"))?;
        have("clock", what)?;
        let now = one.wait_for(20_000 * MS).map_err(|e| format!("who may repeat, {n}: {e}"))?;
        holds!(now >= at, "it came early, {n}");
    }
    holds!(answers.sent_again() >= 3, "sent again: {}", answers.sent_again());
    // As futures, and another server's beside it.
    let other = MemoryClient::bind(gate("memory")?).map_err(doing("bind"))?;
    let others = other.by_post(&answers).map_err(doing("by_post"))?;
    let ((_, one), (_, two)) = (kept(1000 * MS).map_err(doing("sending"))?, kept(MS).map_err(doing("sending"))?);
    have("clock", act::KILL)?;
    let state = others.state().map_err(doing("sending"))?;
    let all = answers.block_on(async { (join_all([one, two]).await, state.await) }).map_err(doing("futures"))?;
    holds!(all.0.iter().all(Result::is_ok) && all.1.is_ok(), "futures: {all:?}");
    same!(answers.strangers(), 0, "other messages");
    client.unbind().and(other.unbind()).map_err(doing("unbind"))
}

/// Whether it has received it, or it lies at its post; and whoever is started after all answers nobody else.
pub fn stopped() -> Outcome {
    let client = ClockClient::bind(gate("clock")?).map_err(doing("bind"))?;
    let answers = Answers::new().map_err(doing("a post for answers"))?;
    let posts = client.by_post(&answers).map_err(doing("by_post"))?;
    let kept = || posts.wait_until(time::now_ns() + 100_000 * MS);
    let stopped = || -> Result<_, Error> {
        let received = kept()?;
        (0..4).try_for_each(|_| posts.now()?.wait().map(drop))?;
        servers::act("clock", act::STOP)?;
        Ok((received, posts.wait_until(0)?))
    };
    for how in [whole, in_pieces, together] {
        let outcome = stopped().map(|(received, lies)| how(&answers, received, lies));
        have("clock", act::START)?;
        for (told, which) in outcome.map_err(doing("sending"))?.into_iter().zip(["received", "in the queue"]) {
            same!(told, Err(Error::Dead), "whose server is stopped, {which}");
        }
        for _ in 0..100 {
            let at = time::now_ns();
            let now = posts.wait_until(at).and_then(Answer::wait).map_err(doing("the next one"))?;
            holds!(now >= at, "another one's answer: {now}, not {at}");
        }
    }
    same!(answers.under_way(), 0, "requests under way");
    same!(answers.strangers(), 0, "other messages");
    client.unbind().map_err(doing("unbind"))
}

/// Nobody who waits for the answer to a question, and nothing else, can look whether it will come: it is told when nobody is there any more, and so is who asks later. What was
/// sent meanwhile, and asks nothing, lies there for the next one.
pub fn stopped_by_question() -> Outcome {
    let client = ClockClient::bind_post(gate("clock")?, 0).map_err(doing("bind_post"))?;
    let sends = ClockClient::bind(client.bound().gate()).map_err(doing("bind"))?;
    let answers = Answers::new().map_err(doing("a post for answers"))?;
    let posts = sends.by_post(&answers).map_err(doing("by_post"))?;
    let client = Arc::new(client);
    for n in 0..8 {
        let (is_stopped, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let asks = {
            let (client, is_stopped, answered) = (client.clone(), is_stopped.clone(), answered.clone());
            // From the server's end until it is known that there is none the question lies there.
            move || -> Result<(), Error> {
                loop {
                    match client.now() {
                        Ok(_) => _ = answered.fetch_add(1, Ordering::SeqCst),
                        Err(Error::Dead) if is_stopped.load(Ordering::SeqCst) => return Ok(()),
                        Err(Error::Dead) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        };
        let told = Arc::new(Mutex::new(None));
        let said = told.clone();
        let asker = thread::spawn(move || *said.lock() = Some(asks()), 0).map_err(doing("thread"))?;
        while answered.load(Ordering::SeqCst) == 0 {
            time::sleep_ns(MS);
        }
        servers::act("clock", act::STOP).map_err(doing("stop"))?;
        is_stopped.store(true, Ordering::SeqCst);
        let heard = client.now();
        let lies = posts.now();
        asker.join().map_err(doing("join"))?;
        have("clock", act::START)?;
        same!(*told.lock(), Some(Ok(())), "who asked when it was stopped, {n}");
        same!(heard.err(), Some(Error::Dead), "who asks when it is stopped, {n}");
        holds!(client.now().is_ok(), "the next one is asked, {n}");
        let lies = lies.and_then(Answer::wait);
        holds!(lies.is_ok(), "what asks nothing lies there for the next one, {n}: {lies:?}");
    }
    sends.unbind().map_err(doing("unbind"))?;
    Arc::into_inner(client).map_or(Ok(()), ClockClient::unbind).map_err(doing("unbind"))
}

type Told = [Result<u64, Error>; 2];

fn whole(_: &Answers, one: Answer<u64>, two: Answer<u64>) -> Told {
    [one.wait(), two.wait()]
}

/// Never for as long as it takes to be told.
fn in_pieces(_: &Answers, one: Answer<u64>, two: Answer<u64>) -> Told {
    [one, two].map(|mut answer| {
        loop {
            match answer.wait_for(3 * MS) {
                Err(Error::TimedOut) => {}
                told => return told,
            }
        }
    })
}

fn together(answers: &Answers, one: Answer<u64>, two: Answer<u64>) -> Told {
    let told = answers.block_on(join_all([one, two])).unwrap_or_default();
    <[_; 2]>::try_from(told).unwrap_or([Err(Error::BadArgument); 2])
}

/// What lies in the queue names memory that was lent to the server before.
pub fn lent_to_the_next() -> Outcome {
    let client = SchedClient::bind_with_args(gate("sched")?, PAGE).map_err(doing("bind"))?;
    let answers = Answers::new().map_err(doing("a post for answers"))?;
    let posts = client.by_post(&answers).map_err(doing("by_post"))?;
    let mut wanted = [0; 128];
    let len = client.line(0, 0, &mut wanted).map_err(doing("a line"))?;
    for (n, what) in [act::STOP, act::RESTART, act::KILL].into_iter().enumerate() {
        let mut line = client.alloc(128).map_err(doing("alloc"))?;
        line.fill(0);
        have("sched", what)?;
        let mut one = posts.line(0, 0, &mut line).map_err(|e| format!("sending, {n}: {e}"))?;
        if what == act::STOP {
            same!(one.wait_for(30 * MS).err(), Some(Error::TimedOut), "there is no server now");
            have("sched", act::START)?;
        }
        same!(one.wait_for(20_000 * MS), Ok(len), "the answer, {n}");
        drop(one);
        holds!(*line == wanted[..], "what was written, {n}: {line:?}");
    }
    holds!(answers.sent_again() > 0, "nothing was sent again");
    client.unbind().map_err(doing("unbind"))
}

/// A reader: what the first one may have taken out is not asked for once more.
pub fn not_asked_again() -> Outcome {
    let pipes = PipesClient::bind(gate("pipes")?).map_err(doing("bind"))?;
    let streams = pipes.streams().map_err(doing("streams"))?;
    for n in 0.. {
        let client = StreamClient::bind_with_args(streams, PAGE).map_err(doing("bind"))?;
        let answers = Answers::new().map_err(doing("a post for answers"))?;
        let pipe = PipesClient::bind(gate("pipes")?).and_then(|pipes| {
            let pipe = pipes.make();
            pipes.unbind().and(pipe)
        });
        let pipe = pipe.map_err(doing("a pipe"))?;
        let posts = client.by_post(&answers).map_err(doing("by_post"))?;
        let mut buffer = client.alloc(8).map_err(doing("alloc"))?;
        let one = posts.read(pipe, &mut buffer).map_err(doing("sending"))?;
        // Until it waits inside, on a host that is not too busy.
        time::sleep_ns(20 * MS << n);
        have("pipes", act::RESTART)?;
        let told = one.wait();
        drop(buffer);
        client.unbind().map_err(doing("unbind"))?;
        if told == Err(Error::Dead) {
            same!(answers.sent_again(), 0, "sent again");
            break;
        }
        holds!(told == Err(Error::NotFound) && n < 6, "the reader was told {told:?}");
    }
    pipes.unbind().map_err(doing("unbind"))
}
