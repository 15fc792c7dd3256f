//! What servers do while they are ended again and again: each is called by its gate and asked by its post, by a thread for each way.

use super::{doing, gate};
use crate::processes::role;
use crate::report::Outcome;
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::abi::layout::PAGE;
use musubi::abi::task::exit;
use musubi::command::Child;
use musubi::files::{self, File};
use musubi::interfaces::clock::{ClockClient, ClockService};
use musubi::interfaces::console::{ConsoleClient, ConsoleService};
use musubi::interfaces::files::{FilesClient, RECORD};
use musubi::interfaces::keyboard::{KeyboardClient, KeyboardService};
use musubi::interfaces::linux::{LinuxClient, LinuxService};
use musubi::interfaces::loader::LoaderClient;
use musubi::interfaces::memory::{MemoryClient, MemoryService};
use musubi::interfaces::names::NamesClient;
use musubi::interfaces::pipes::{PipesClient, PipesService};
use musubi::interfaces::processes::{ProcessesClient, RECORD as RECORD_OF_PROCESS, whom};
use musubi::interfaces::sched::{SchedClient, SchedService};
use musubi::interfaces::stream::StreamService;
use musubi::rt::later::Answer;
use musubi::rt::thread::Thread;
use musubi::rt::{Answers, Mutex, task, thread, time};
use musubi::{Error, names, processes};

/// Longer than this nobody waits for an answer, whatever happens to whom he has asked.
const PATIENCE_NS: u64 = 60_000_000_000;

/// So many requests in a row, and a rest: or servers that start would have to wait for their turns longest of all.
#[derive(Clone, Copy)]
pub struct Pace {
    row: u64,
    rest_ns: u64,
}

/// Where servers end one after the other.
pub const IN_TURN: Pace = Pace { row: 16, rest_ns: 1_000_000 };
/// Where they end together, so that most of the time goes to those that start: a dozen requests of each between two ends all the same.
pub const TOGETHER: Pace = Pace { row: 1, rest_ns: 3_000_000 };

/// One thread's work.
pub struct Work {
    pace: Pace,
    over: AtomicBool,
    /// Requests that were done.
    done: AtomicU64,
    /// How often one by the post was sent again, because its server had ended with it: of which its sender hears nothing.
    again: AtomicU64,
}

/// Bytes of a line that a server writes.
const LINE: usize = 128;

/// What programs end with that are started.
const STATUS: u64 = 7;

/// The rest between two of them.
const STARTED_NS: u64 = 10_000_000;

/// How often it is looked whether a server has answered.
const LOOK_NS: u64 = 200_000;

impl Work {
    fn new(pace: Pace) -> Work {
        Work { pace, over: AtomicBool::new(false), done: AtomicU64::new(0), again: AtomicU64::new(0) }
    }

    /// A request is over, with its answer.
    fn did(&self) {
        if self.done.fetch_add(1, Ordering::SeqCst) % self.pace.row == self.pace.row - 1 {
            time::sleep_ns(self.pace.rest_ns);
        }
    }

    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::SeqCst)
    }

    /// Calls until it is over. What may be repeated is, so nothing may fail.
    fn calls(&self, once: impl Fn() -> Result<(), Error>) -> Result<(), Error> {
        while self.goes_on() {
            once()?;
            self.did();
        }
        Ok(())
    }

    /// Asks until it is over, and gets this answer. Nothing else may come of it: what may be repeated is sent again.
    fn asks<'a, T: PartialEq>(
        &self,
        answers: &Answers,
        ask: impl Fn() -> Result<Answer<'a, T>, Error>,
        fits: impl Fn(&Result<T, Error>) -> bool,
    ) -> Result<(), Error> {
        self.asks_all(answers, || match ask()?.wait_for(PATIENCE_NS) {
            outcome if fits(&outcome) => Ok(()),
            outcome => outcome.and(Err(Error::Changed)),
        })
    }

    fn asks_all(&self, answers: &Answers, once: impl Fn() -> Result<(), Error>) -> Result<(), Error> {
        let outcome = self.calls(once);
        self.again.store(answers.sent_again(), Ordering::SeqCst);
        outcome
    }
}

type Body = fn(&Work) -> Result<(), Error>;

const ALL: [(&str, &str, Body); 22] = [
    ("names", "gate", names_called),
    ("names", "post", names_asked),
    ("loader", "gate", loader_called),
    ("loader", "post", loader_asked),
    ("files", "gate", files_called),
    ("files", "post", files_asked),
    ("processes", "gate", processes_called),
    ("processes", "post", processes_asked),
    ("clock", "gate", clock_called),
    ("clock", "post", clock_asked),
    ("memory", "gate", memory_called),
    ("memory", "post", memory_asked),
    ("keyboard", "gate", keyboard_called),
    ("keyboard", "post", keyboard_asked),
    ("console", "gate", console_called),
    ("console", "post", console_asked),
    ("pipes", "gate", pipes_called),
    ("pipes", "post", pipes_asked),
    ("linux", "gate", linux_called),
    ("linux", "post", linux_asked),
    ("sched", "gate", sched_called),
    ("sched", "post", sched_asked),
];

fn at(name: &str) -> Result<u64, Error> {
    names::lookup(name)
}

fn names_called(work: &Work) -> Result<(), Error> {
    work.calls(|| {
        names::lookup("console")?;
        names::list().map(drop)
    })
}

fn names_asked(work: &Work) -> Result<(), Error> {
    let (names, console) = (musubi::start().names(), at("console")?);
    let (client, answers) = (NamesClient::bind_with_args(names, PAGE)?, Answers::new()?);
    let posts = client.by_post(&answers)?;
    let outcome = work.asks(&answers, || posts.lookup("console"), |outcome| *outcome == Ok(console));
    client.unbind().and(outcome)
}

/// A program is started, or nobody knows whether it was: then there is another one. It does what it was started for.
fn starts(work: &Work, start: impl Fn() -> Result<Child, Error>) -> Result<(), Error> {
    while work.goes_on() {
        let child = match start() {
            Err(Error::Dead) => continue,
            started => started?,
        };
        let end = child
            .wait_for(PATIENCE_NS)
            .inspect_err(|error| musubi::eprintln!("the end of a program that was started, {}: {error}", child.task))?;
        // Each takes as long as thousands of requests do.
        time::sleep_ns(STARTED_NS);
        if (end.kind, end.code) != (exit::EXITED, STATUS) {
            musubi::eprintln!(
                "a program that was started, {}, has ended by {}, with {}",
                child.task,
                end.kind,
                end.code
            );
            return Err(Error::Changed);
        }
        return Ok(());
    }
    Ok(())
}

/// By the process server, as everybody does: it calls the loader's gate, and a start is not repeated.
fn loader_called(work: &Work) -> Result<(), Error> {
    let program = role(&["status", "7"]);
    work.calls(|| starts(work, || program.spawn().map_err(|refused| refused.error)))
}

fn loader_asked(work: &Work) -> Result<(), Error> {
    let (client, answers) = (LoaderClient::bind(at("loader")?)?, Answers::new()?);
    let (posts, request) = (client.by_post(&answers)?, role(&["status", "7"]).request());
    let start = || posts.spawn(&request, &mut [])?.wait_for(PATIENCE_NS).map(|task| Child { task });
    let outcome = work.asks_all(&answers, || starts(work, start));
    client.unbind().and(outcome)
}

/// Programs of which nobody knew whether they were started: they are found among the children, and end as the others.
fn collect_what_is_left() -> Outcome {
    loop {
        match processes::collect(whom::CHILD, PATIENCE_NS) {
            Ok((_, end)) if (end.kind, end.code) == (exit::EXITED, STATUS) || end.kind == exit::KILLED => {}
            Err(Error::NotFound) => return Ok(()),
            other => return Err(format!("a program that was left: {other:?}")),
        }
    }
}

/// Its contents go with the server: but what came with the image is there at any time.
fn files_called(work: &Work) -> Result<(), Error> {
    let lost = |error: &Error| matches!(*error, Error::Dead | Error::NotFound);
    work.calls(|| {
        files::find(b"/bin/check")?;
        match File::create(b"/tmp/load").and_then(|file| file.write_all(0, b"load")) {
            Err(error) if !lost(&error) => Err(error),
            _ => Ok(()),
        }
    })
}

/// What is written comes back, whoever has written it.
fn files_asked(work: &Work) -> Result<(), Error> {
    let (client, answers) = (FilesClient::bind_with_args(at("files")?, PAGE)?, Answers::new()?);
    let posts = client.by_post(&answers)?;
    let look = || {
        let mut record = client.alloc(RECORD)?;
        record.fill(0xff);
        let part = record.first_chunk_mut().ok_or(Error::Changed)?;
        posts.look(b"/bin/check", part)?.wait_for(PATIENCE_NS)?;
        if record.iter().all(|byte| *byte == 0xff) { Err(Error::Changed) } else { Ok(()) }
    };
    let outcome = work.asks_all(&answers, look);
    client.unbind().and(outcome)
}

fn processes_called(work: &Work) -> Result<(), Error> {
    let me = task::identity().task;
    let parent = processes::status(me)?.parent;
    work.calls(|| match processes::status(me)? {
        known if (known.parent, known.over) == (parent, 0) => Ok(()),
        _ => Err(Error::Changed),
    })
}

fn processes_asked(work: &Work) -> Result<(), Error> {
    let (client, answers) = (ProcessesClient::bind_with_args(at("processes")?, PAGE)?, Answers::new()?);
    let posts = client.by_post(&answers)?;
    let me = task::identity().task;
    let once = || {
        let (mut known, mut first) = (client.alloc(RECORD_OF_PROCESS)?, client.alloc(RECORD_OF_PROCESS)?);
        [&mut known, &mut first].into_iter().for_each(|record| record.fill(0xff));
        posts.status(me, known.first_chunk_mut().ok_or(Error::Changed)?)?.wait_for(PATIENCE_NS)?;
        let least = posts.next(0, first.first_chunk_mut().ok_or(Error::Changed)?)?.wait_for(PATIENCE_NS)?;
        let is_told = known.starts_with(&me.to_le_bytes()) && first.starts_with(&least.to_le_bytes());
        // Nobody is of that group.
        let killed = posts.kill(whom::GROUP | u64::MAX >> 2)?.wait_for(PATIENCE_NS);
        let waited = posts.wait(me, 0)?.wait_for(PATIENCE_NS);
        if is_told && (killed, waited) == (Err(Error::NotFound), Err(Error::TimedOut)) {
            Ok(())
        } else {
            Err(Error::Changed)
        }
    };
    let outcome = work.asks_all(&answers, once);
    client.unbind().and(outcome)
}

fn clock_called(work: &Work) -> Result<(), Error> {
    let clock = ClockService::new(at("clock")?);
    work.calls(|| {
        let soon = time::now_ns() + 50_000;
        if clock.wait_until(soon)? < soon { Err(Error::Changed) } else { Ok(()) }
    })
}

/// An answer that is given later, by another thread than that which was asked.
fn clock_asked(work: &Work) -> Result<(), Error> {
    let (client, answers) = (ClockClient::bind(at("clock")?)?, Answers::new()?);
    let posts = client.by_post(&answers)?;
    let outcome = work.asks(&answers, || posts.wait_until(time::now_ns() + 50_000), Result::is_ok);
    client.unbind().and(outcome)
}

/// Nobody has registered here, before and after.
fn memory_called(work: &Work) -> Result<(), Error> {
    let memory = MemoryService::new(at("memory")?);
    let kept = memory.state()?.0;
    work.calls(|| if memory.state()?.0 == kept && kept > 0 { Ok(()) } else { Err(Error::Changed) })
}

fn memory_asked(work: &Work) -> Result<(), Error> {
    let (client, answers) = (MemoryClient::bind(at("memory")?)?, Answers::new()?);
    let posts = client.by_post(&answers)?;
    let once = || {
        // A page is there without anybody giving one back.
        let (there, kept) = (posts.want(1)?.wait_for(PATIENCE_NS)?, posts.state()?.wait_for(PATIENCE_NS)?.0);
        posts.pager(0)?.wait_for(PATIENCE_NS)?;
        if there == 1 && kept > 0 { Ok(()) } else { Err(Error::Changed) }
    };
    let outcome = work.asks_all(&answers, once);
    client.unbind().and(outcome)
}

fn keyboard_called(work: &Work) -> Result<(), Error> {
    let keyboard = KeyboardService::new(at("keyboard")?);
    work.calls(|| keyboard.handled().map(drop))
}

fn keyboard_asked(work: &Work) -> Result<(), Error> {
    let (client, answers) = (KeyboardClient::bind(at("keyboard")?)?, Answers::new()?);
    let posts = client.by_post(&answers)?;
    // An interrupt for each.
    let outcome = work.asks(&answers, || posts.probe(), Result::is_ok);
    client.unbind().and(outcome)
}

fn console_called(work: &Work) -> Result<(), Error> {
    let console = ConsoleService::new(at("console")?);
    let size = console.size()?;
    work.calls(|| if console.size()? == size { Ok(()) } else { Err(Error::Changed) })
}

fn console_asked(work: &Work) -> Result<(), Error> {
    let (client, answers) = (ConsoleClient::bind(at("console")?)?, Answers::new()?);
    let (posts, known) = (client.by_post(&answers)?, (client.size()?, client.streams()?));
    let once = || {
        let told = (posts.size()?.wait_for(PATIENCE_NS)?, posts.streams()?.wait_for(PATIENCE_NS)?);
        // Only who controls it says who is in the foreground.
        let foreground = posts.foreground(0)?.wait_for(PATIENCE_NS);
        if told == known && foreground != Err(Error::Dead) { Ok(()) } else { Err(Error::Changed) }
    };
    let outcome = work.asks_all(&answers, once);
    client.unbind().and(outcome)
}

fn pipes_called(work: &Work) -> Result<(), Error> {
    let pipes = PipesService::new(at("pipes")?);
    let streams = StreamService::new(pipes.streams()?);
    work.calls(|| {
        let pipe = pipes.make()?;
        let mut part = [0; 16];
        let done = streams.write(pipe + 1, b"through a pipe").and_then(|_| streams.read(pipe, &mut part));
        let _ = streams.close(pipe).and_then(|()| streams.close(pipe + 1));
        match done {
            Err(Error::Dead | Error::NotFound) => Ok(()),
            Ok(14) if part.starts_with(b"through a pipe") => Ok(()),
            Ok(_) => Err(Error::Changed),
            Err(error) => Err(error),
        }
    })
}

fn pipes_asked(work: &Work) -> Result<(), Error> {
    let (client, answers) = (PipesClient::bind(at("pipes")?)?, Answers::new()?);
    let (posts, streams) = (client.by_post(&answers)?, StreamService::new(client.streams()?));
    // Made by a message, and used by the gates, with which it may end.
    let once = || {
        let pipe = posts.make()?.wait_for(PATIENCE_NS)?;
        let mut part = [0; 16];
        let done = streams.write(pipe + 1, b"by post").and_then(|_| streams.read(pipe, &mut part));
        let _ = streams.close(pipe).and_then(|()| streams.close(pipe + 1));
        match done {
            Ok(7) if part.starts_with(b"by post") => Ok(()),
            Err(Error::Dead | Error::NotFound) => Ok(()),
            Ok(_) => Err(Error::Changed),
            Err(error) => Err(error),
        }
    };
    let outcome = work.asks_all(&answers, once);
    client.unbind().and(outcome)
}

fn linux_asked(work: &Work) -> Result<(), Error> {
    let (client, answers) = (LinuxClient::bind_with_args(at("linux")?, PAGE)?, Answers::new()?);
    let posts = client.by_post(&answers)?;
    let once = || {
        posts.unknown(u64::MAX)?.wait_for(PATIENCE_NS)?;
        let mut line = client.alloc(LINE)?;
        match posts.refused(u64::MAX, &mut line)?.wait_for(PATIENCE_NS) {
            Err(Error::NotFound) => Ok(()),
            outcome => outcome.and(Err(Error::Changed)),
        }
    };
    let outcome = work.asks_all(&answers, once);
    client.unbind().and(outcome)
}

fn linux_called(work: &Work) -> Result<(), Error> {
    let linux = LinuxService::new(at("linux")?);
    work.calls(|| linux.unknown(u64::MAX).map(drop))
}

fn sched_called(work: &Work) -> Result<(), Error> {
    let sched = SchedService::new(at("sched")?);
    let mut line = [0; 128];
    sched.line(0, 0, &mut line)?;
    work.calls(|| sched.line(0, 0, &mut [0; 128]).map(drop))
}

fn sched_asked(work: &Work) -> Result<(), Error> {
    let (client, answers) = (SchedClient::bind_with_args(at("sched")?, PAGE)?, Answers::new()?);
    let (posts, none) = (client.by_post(&answers)?, client.processors(u64::MAX));
    let once = || {
        let mut line = client.alloc(LINE)?;
        line.fill(0);
        let len = posts.line(0, 0, &mut line)?.wait_for(PATIENCE_NS)?;
        let told = posts.processors(u64::MAX)?.wait_for(PATIENCE_NS);
        if told == none && (1..=LINE as u64).contains(&len) && line[0] != 0 { Ok(()) } else { Err(Error::Changed) }
    };
    let outcome = work.asks_all(&answers, once);
    client.unbind().and(outcome)
}

/// One thread for each way to each of these servers.
pub struct Load {
    all: Vec<One>,
}

struct One {
    server: &'static str,
    way: &'static str,
    work: Arc<Work>,
    thread: Mutex<Option<Thread>>,
    /// Requests that were done when its server was ended last.
    seen: AtomicU64,
}

impl Load {
    /// Returns when each has got an answer.
    pub fn begin(servers: &[String], pace: Pace) -> Result<Load, String> {
        // A name that is not looked up yet is bound to the name service by the first who asks.
        gate("console")?;
        let mut all = Vec::new();
        for (server, way, body) in ALL {
            if !servers.iter().any(|one| one == server) {
                continue;
            }
            let work = Arc::new(Work::new(pace));
            let own = work.clone();
            let body = move || match body(&own) {
                Ok(()) => {}
                Err(error) => {
                    musubi::eprintln!("{server} by its {way}: {error}");
                    thread::exit(1);
                }
            };
            let thread = Mutex::new(Some(thread::spawn(body, 0).map_err(doing("thread"))?));
            all.push(One { server, way, work, thread, seen: AtomicU64::new(0) });
        }
        let load = Load { all };
        for server in servers {
            load.serves(server)?;
        }
        Ok(load)
    }

    /// Waits until this server has answered by each way since the last time: so each that is ended was at work.
    pub fn serves(&self, server: &str) -> Outcome {
        let until = time::now_ns() + PATIENCE_NS;
        for one in self.all.iter().filter(|one| one.server == server) {
            loop {
                let done = one.work.done.load(Ordering::SeqCst);
                if done > one.seen.load(Ordering::SeqCst) {
                    one.seen.store(done, Ordering::SeqCst);
                    break;
                }
                holds!(time::now_ns() < until, "{} does not answer by its {}", one.server, one.way);
                time::sleep_ns(LOOK_NS);
            }
        }
        Ok(())
    }

    /// Ends it, and says what was done: each way's requests, and how often one was sent again.
    pub fn end(&self) -> Result<[u64; 2], String> {
        self.all.iter().for_each(|one| one.work.over.store(true, Ordering::SeqCst));
        let mut sum = [0; 2];
        for One { server, way, work, thread, .. } in &self.all {
            let Some(thread) = thread.lock().take() else { continue };
            same!(thread.join(), Ok(0), "how the caller of {server} by its {way} ended (see the error stream)");
            sum[0] += work.done.load(Ordering::SeqCst);
            sum[1] += work.again.load(Ordering::SeqCst);
        }
        collect_what_is_left()?;
        Ok(sum)
    }
}
