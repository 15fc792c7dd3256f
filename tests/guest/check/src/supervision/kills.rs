//! Every server is ended again and again while others use them all; then it is counted whether anything is missing.

use super::{doing, gate, have, running};
use crate::deaths::{nothing_lost, settled};
use crate::report::Outcome;
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::abi::info::Memory;
use musubi::abi::layout::PAGE;
use musubi::abi::section::kind;
use musubi::files::{self, File};
use musubi::interfaces::pipes::PipesService;
use musubi::interfaces::stream::StreamService;
use musubi::rt::thread::Thread;
use musubi::rt::{section, thread};
use musubi::servers::{self, acts as act};
use musubi::{Error, names, println};

/// `check as kills N [SERVER...]`
pub fn role(count: u64, only: &[&str]) -> i32 {
    match run(count, only) {
        Ok(()) => {
            println!("ok");
            0
        }
        Err(why) => {
            musubi::eprintln!("{why}");
            1
        }
    }
}

pub fn under_load(count: u64) -> Outcome {
    run(count, &[])
}

fn run(count: u64, only: &[&str]) -> Outcome {
    let all = servers::list().map_err(doing("servers"))?;
    let named: Vec<String> =
        all.into_iter().map(|one| one.name).filter(|name| only.is_empty() || only.contains(&name.as_str())).collect();
    // What has to grow has grown, and what is made once is there.
    rounds(count.div_ceil(4).max(2), &named)?;
    let mut outcome = Ok(());
    for _ in 0..BATCHES {
        let before = (settled()?, posts());
        rounds(count, &named)?;
        let after = (settled()?, posts());
        for name in &named {
            running(name)?;
        }
        outcome = compare(count * named.len() as u64, &before, &after);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

/// Of which one at least must lose nothing: what is lost for good is lost in each, what only has to grow is not.
const BATCHES: usize = 5;

fn posts() -> usize {
    section::list().filter(|info| info.kind == kind::POST).count()
}

fn compare(kills: u64, before: &(Memory, usize), after: &(Memory, usize)) -> Outcome {
    let counts = |(memory, posts): &(Memory, usize)| (memory.sections, memory.tasks, memory.threads, *posts);
    same!(counts(after), counts(before), "sections, tasks, threads, posts");
    nothing_lost(&before.0, &after.0)?;
    let heap = after.0.kernel_heap_used.saturating_sub(before.0.kernel_heap_used);
    holds!(heap < (2 * kills).max(4 * PAGE), "{heap} bytes of the kernel's heap were lost in {kills}");
    Ok(())
}

/// Ends each server so often, in turn, with the load on.
fn rounds(count: u64, named: &[String]) -> Outcome {
    let load = Load::begin()?;
    let mut outcome = Ok(());
    for n in 0..count {
        for name in named {
            outcome = have(name, act::RESTART).map_err(|why| format!("round {n}: {why}"));
            if outcome.is_err() {
                break;
            }
        }
    }
    let calls = load.end()?;
    outcome?;
    holds!(calls > 0, "nobody called anybody");
    Ok(())
}

/// Threads that call the servers all the while. What may be repeated must not fail; what may not, may.
struct Load {
    over: &'static AtomicBool,
    calls: &'static AtomicU64,
    threads: Vec<Thread>,
}

type Once = fn(&PipesService) -> Result<(), Error>;

static OVER: AtomicBool = AtomicBool::new(false);
static CALLS: AtomicU64 = AtomicU64::new(0);

impl Load {
    fn begin() -> Result<Load, String> {
        static PIPES: musubi::rt::Once<PipesService> = musubi::rt::Once::new();
        let pipes = PIPES.get_or_try(|| gate("pipes").map(PipesService::new))?;
        OVER.store(false, Ordering::SeqCst);
        CALLS.store(0, Ordering::SeqCst);
        let all: [Once; 3] = [of_names, of_files, of_pipes];
        let threads: Result<Vec<Thread>, Error> = all
            .into_iter()
            .map(|once| {
                let body = move || {
                    while !OVER.load(Ordering::SeqCst) {
                        if let Err(error) = once(pipes) {
                            thread::exit(error.word());
                        }
                        CALLS.fetch_add(1, Ordering::SeqCst);
                    }
                };
                thread::spawn(body, 0)
            })
            .collect();
        Ok(Load { over: &OVER, calls: &CALLS, threads: threads.map_err(doing("threads"))? })
    }

    fn end(self) -> Result<u64, String> {
        self.over.store(true, Ordering::SeqCst);
        for (n, one) in self.threads.into_iter().enumerate() {
            let told = one.join().map_err(doing("join"))?;
            holds_it(told == 0, || format!("caller {n} was told {:?}", Error::from_word(told)))?;
        }
        Ok(self.calls.load(Ordering::SeqCst))
    }
}

fn holds_it(holds: bool, why: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(why()) }
}

fn of_names(_: &PipesService) -> Result<(), Error> {
    names::lookup("console")?;
    names::list().map(drop)
}

/// Its contents go with the server: but what came with the image is there at any time.
fn of_files(_: &PipesService) -> Result<(), Error> {
    files::find(b"/bin/check")?;
    let lost = |error: &Error| matches!(*error, Error::Dead | Error::NotFound);
    let done = File::create(b"/tmp/load").and_then(|file| file.write_all(0, b"load"));
    match done {
        Err(error) if !lost(&error) => Err(error),
        _ => Ok(()),
    }
}

fn of_pipes(pipes: &PipesService) -> Result<(), Error> {
    static STREAMS: musubi::rt::Once<StreamService> = musubi::rt::Once::new();
    let streams = STREAMS.get_or_try(|| pipes.streams().map(StreamService::new))?;
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
}
