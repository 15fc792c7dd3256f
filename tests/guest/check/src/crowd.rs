//! The whole machine used up, and not only what one program may have: many programs take all of everything at the same time, and
//! hold it. Each is refused with its own error, the servers go on, nobody stands still; and when they have ended all is there again.

use crate::deaths::settled;
use crate::memory::{data, load, store, word};
use crate::report::{Check, Outcome, doing};
use crate::sections::everybody;
use crate::supervision::{others, sections_of_all};
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use musubi::abi::calls::stub;
use musubi::abi::info::Memory;
use musubi::abi::layout::PAGE;
use musubi::abi::section::kind;
use musubi::abi::task::Limits;
use musubi::command::{Child, Command};
use musubi::files::{self, File};
use musubi::interfaces::memory::MemoryClient;
use musubi::interfaces::pipes::PipesService;
use musubi::interfaces::stream::StreamService;
use musubi::rt::post::{Body, Post};
use musubi::rt::{Section, Trap, section, task, thread, time};
use musubi::{Error, Rights, eprintln, names, println};

pub const CHECKS: &[Check] = &[("a_crowd_takes_all_there_is", a_crowd)];

const CROWD: usize = 10;
/// Of the memory that they and this program share: a word that lets them begin, and for each what it was refused with (bits by the
/// errors' words) of each kind, how much it has taken, and how often it has tried everything in vain since.
const WORDS: u64 = KINDS.len() as u64 + 2;
/// Tries in vain of each until all there is counts as taken.
const VAIN: u64 = 3;
/// Longer than this nothing takes.
const PATIENCE_NS: u64 = 240_000_000_000;
/// Bytes that may be fewer afterwards: tables of servers that have grown for so many programs.
const GROWN: u64 = 2 << 20;

// What there is to take.
const PAGES: usize = 0;
const SECTIONS: usize = 1;
const THREADS: usize = 2;
const POSTS: usize = 3;
const MESSAGES: usize = 4;
const TASKS: usize = 5;
const FILES: usize = 6;
/// Of each kind what it is called, the error with which somebody is refused in the end, and with which others somebody may be: a thread needs a stack, which is a
/// section and has pages; of pages, and of the kernel's heap, the machine may be short before anybody has all that he may have. What is
/// queued has its room from the beginning.
const KINDS: [(&str, Error, &[Error]); 7] = [
    ("pages", Error::MemoryQuota, &[Error::NoMemory]),
    ("sections", Error::SectionQuota, &[Error::NoMemory]),
    ("threads", Error::ThreadQuota, &[Error::SectionQuota, Error::MemoryQuota, Error::NoMemory]),
    ("posts", Error::PostQuota, &[Error::NoMemory]),
    ("messages", Error::MessageQuota, &[]),
    ("tasks", Error::TaskQuota, &[Error::NoMemory]),
    ("files", Error::Quota, &[Error::NoMemory]),
];
const TAKEN: usize = KINDS.len();
const VAINLY: usize = TAKEN + 1;

/// What a refusal for want of something may be. (`Quota` is a server's.)
fn is_want(error: Error) -> bool {
    error.is_quota() || error == Error::NoMemory
}

fn a_crowd() -> Outcome {
    let probe = Probe::new()?;
    // Bindings, and stacks in servers, are there beforehand.
    probe.servers()?;
    // What the first crowd needs others find there: this program's stacks in servers, and tables that have grown.
    all_at_once(&probe)?;
    let before = at_rest()?;
    let sections = sections_of_all();
    let refused = all_at_once(&probe)?;
    afterwards(&before).map_err(|why| format!("{why}; others: {:?}", others(&sections, &sections_of_all())))?;
    probe.servers()?;
    for ((kind, own, others), refused) in KINDS.iter().zip(refused) {
        holds!(refused & bit(*own) != 0, "{kind}: nobody was refused with {own:?}, but {refused:x} (bits by errors)");
        let wrong = others.iter().fold(refused & !bit(*own), |left, error| left & !bit(*error));
        same!(wrong, 0, "{kind}: other refusals (bits by errors)");
    }
    Ok(())
}

/// A crowd comes, takes all, is looked at, and goes. What it was refused with, of each kind.
fn all_at_once(probe: &Probe) -> Result<[u64; KINDS.len()], String> {
    let shared = data(PAGE).map_err(doing("create"))?;
    section::grant(shared.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let mut crowd = Vec::with_capacity(CROWD);
    for n in 0..CROWD {
        let words = ["check", "as", "crowd", &format!("{}", shared.base()), &format!("{n}")];
        crowd.push(Command::new(b"bin/check").args(words).spawn().map_err(doing("one of the crowd"))?);
    }
    store(shared.base(), 1);
    let outcome = full(&shared, &crowd).and_then(|()| probe.servers()).and_then(|()| probe.a_program());
    // What somebody is told while he is ended is another thing.
    let report = (0..CROWD).map(|n| told(&shared, n)).collect::<Vec<_>>();
    let ended = crowd.iter().try_for_each(end);
    // What is in files stays.
    let removed = (0..CROWD).try_for_each(|n| match files::remove(format!("/tmp/crowd{n}").as_bytes()) {
        Err(Error::NotFound) => Ok(()),
        other => other.map_err(doing("remove")),
    });
    shared.delete().map_err(doing("delete"))?;
    outcome.and(ended).and(removed).map_err(|why| format!("{why}; refused with, taken: {report:x?}"))?;
    eprintln!("refused with (bits by errors), taken: {report:x?}");
    Ok(report.iter().fold([0; KINDS.len()], |all, (errors, _)| core::array::from_fn(|kind| all[kind] | errors[kind])))
}

fn bit(error: Error) -> u64 {
    1 << error.word().min(63)
}

/// Where one of them tells something: its errors of each kind, what it has taken, what was in vain.
fn at(shared: u64, n: u64, what: usize) -> u64 {
    shared + 8 * (1 + n * WORDS + what as u64)
}

fn told(shared: &Section, n: usize) -> ([u64; KINDS.len()], u64) {
    let read = |what| load(at(shared.base(), n as u64, what));
    (core::array::from_fn(read), read(TAKEN))
}

/// Waits until each has tried everything in vain. One may end: its stack or its heap found no memory.
fn full(shared: &Section, crowd: &[Child]) -> Outcome {
    let until = time::now_ns() + PATIENCE_NS;
    for (n, child) in crowd.iter().enumerate() {
        let vain = at(shared.base(), n as u64, VAINLY);
        while load(vain) < VAIN && task::info(child.task).is_some() {
            holds!(time::now_ns() < until, "number {n} of the crowd has not done yet");
            time::sleep_ns(5_000_000);
        }
    }
    Ok(())
}

fn end(child: &Child) -> Outcome {
    match child.kill() {
        Ok(()) | Err(Error::NotFound) => {}
        Err(error) => return Err(format!("a kill: {error}")),
    }
    child.wait_for(PATIENCE_NS).map(drop).map_err(doing("an end"))
}

/// What is there when nothing more is given back: a file that was removed stays until its server has heard that who had it open is gone.
fn at_rest() -> Result<Memory, String> {
    // Files are looked at twice a second, a look here takes 20 ms.
    const SAME: u32 = 60;
    let until = time::now_ns() + 30_000_000_000;
    let (mut before, mut same) = (settled()?, 0);
    while same < SAME {
        holds!(time::now_ns() < until, "{} sections now, and never the same for long", before.sections);
        let now = settled()?;
        same = if counts(&now) == counts(&before) { same + 1 } else { 0 };
        before = now;
    }
    Ok(before)
}

fn counts(of: &Memory) -> (u64, u64, u64) {
    (of.sections, of.tasks, of.threads)
}

/// All is given back, soon.
fn afterwards(before: &Memory) -> Result<(), String> {
    let until = time::now_ns() + 30_000_000_000;
    loop {
        let now = settled()?;
        let lost = (before.free + before.kept()).saturating_sub(now.free + now.kept());
        if counts(&now) == counts(before) && lost <= GROWN {
            return Ok(());
        }
        holds!(
            time::now_ns() < until,
            "sections, tasks, threads {:?}, not {:?}; {lost} bytes are lost",
            counts(&now),
            counts(before)
        );
    }
}

/// What is there, and goes on.
struct Probe {
    pipes: PipesService,
    streams: StreamService,
}

impl Probe {
    fn new() -> Result<Probe, String> {
        let pipes = PipesService::new(names::lookup("pipes").map_err(doing("pipes"))?);
        let streams = StreamService::new_with_args(pipes.streams().map_err(doing("streams"))?, 2 * PAGE);
        Ok(Probe { pipes, streams })
    }

    /// Servers of which nobody wants more than they have; on a thread that has its stacks in them.
    fn servers(&self) -> Outcome {
        let through = || -> Result<u64, Error> {
            let pipe = self.pipes.make()?;
            let mut part = [0; 16];
            let done = self.streams.write(pipe + 1, b"through a pipe").and_then(|_| self.streams.read(pipe, &mut part));
            self.streams.close(pipe).and_then(|()| self.streams.close(pipe + 1))?;
            names::lookup("console")?;
            done
        };
        for n in 0..20 {
            same!(through(), Ok(14), "what came through pipe {n}");
        }
        Ok(())
    }

    /// One more program is started, or refused.
    fn a_program(&self) -> Outcome {
        match Command::new(b"bin/check").args(["check", "as", "status", "7"]).spawn() {
            Ok(child) => child.wait_for(PATIENCE_NS).map(drop).map_err(doing("the end of one more program")),
            Err(refused) => {
                holds!(is_want(refused.error), "one more program was refused with {:?}: {refused}", refused.error);
                Ok(())
            }
        }
    }
}

/// One of the crowd: takes of everything by turns, as long as there is any, and keeps it.
pub fn one(shared: u64, n: u64) -> i32 {
    let (taken, vain) = (word(at(shared, n, TAKEN)), word(at(shared, n, VAINLY)));
    let Ok(room) = Section::create(task::memory().map_or(64 << 20, |memory| memory.total), 0, kind::DATA, 0) else {
        return 1;
    };
    let Ok(post) = Post::any() else { return 1 };
    let file = File::create(format!("/tmp/crowd{n}").as_bytes()).ok();
    let block = [7; 4096];
    let user = musubi::start().user();
    let (mut pages, mut written) = (0, 0);
    while load(shared) == 0 {
        time::sleep_ns(1_000_000);
    }
    loop {
        let mut some = false;
        let mut take = |kind: usize, took: Result<(), Error>| {
            match took {
                Ok(()) => {
                    some = true;
                    taken.fetch_add(1, Ordering::SeqCst);
                }
                Err(error) => _ = word(at(shared, n, kind)).fetch_or(bit(error), Ordering::SeqCst),
            }
            took.is_ok()
        };
        // By the kernel's own store: what is refused is an error, not a fault.
        let page = |at: u64| stub::identity(&Trap, room.base() + at * PAGE).map(drop);
        (0..64).any(|_| {
            let took = take(PAGES, page(pages));
            pages += u64::from(took);
            !took
        });
        (0..8).any(|_| !take(SECTIONS, Section::create(PAGE, PAGE, kind::DATA, 0).map(drop)));
        (0..2).any(|_| !take(THREADS, thread::spawn(|| thread::park(), 0).map(drop)));
        (0..4).any(|_| !take(POSTS, Post::any().map(drop)));
        (0..2).any(|_| !take(MESSAGES, post.send_copies(&Body { op: 1, words: [n; 6] }, 64).map(drop)));
        take(TASKS, task::create(&Limits::default(), user, b"one of many").map(drop));
        if let Some(file) = &file {
            (0..8).any(|_| {
                let took = take(FILES, file.write_all(written, &block));
                written += if took { block.len() as u64 } else { 0 };
                !took
            });
        }
        if !some {
            vain.fetch_add(1, Ordering::SeqCst);
            time::sleep_ns(20_000_000);
        }
    }
}

/// Takes up to so many MiB, a part at a time, and asks the memory server for each part first. Says how much it has got. Value: 0 if that is
/// all; 1 if it was told that there is no more.
pub fn hog(megabytes: u64) -> i32 {
    const PAGES: u64 = (1 << 20) / PAGE;
    let took = || -> Result<u64, Error> {
        let server = MemoryClient::bind(names::lookup("memory")?)?;
        let section = Section::create(megabytes << 20, megabytes << 20, kind::DATA, 0)?;
        let mut had = 0;
        while had < megabytes && server.want(PAGES)? == PAGES {
            let at = section.base() + (had << 20);
            let mut done = 0;
            while done < PAGES * PAGE {
                // (Another one may have been faster.)
                match stub::page_alloc(&Trap, at + done, PAGES * PAGE - done, 0) {
                    Ok(len) => done += len,
                    Err(_) => return Ok(had),
                }
            }
            (0..PAGES).for_each(|page| store(at + page * PAGE, had + page));
            had += 1;
        }
        for n in 0..had {
            let at = section.base() + (n << 20);
            if let Some(page) = (0..PAGES).find(|page| load(at + page * PAGE) != n + page) {
                eprintln!("hog: page {page} of MiB {n} is not what was stored");
                return Err(Error::Refused);
            }
        }
        Ok(had)
    };
    match took() {
        Ok(had) if had == megabytes => {
            println!("hog: {had} MiB, all that it wanted");
            0
        }
        Ok(had) => {
            println!("hog: {had} MiB, then there was no more");
            1
        }
        Err(error) => {
            eprintln!("hog: {error}");
            2
        }
    }
}

/// A pager that says it can give memory back, and does not answer when it is asked.
pub fn stubborn() -> i32 {
    let registered = || -> Result<(), Error> {
        let post = Post::any()?;
        post.allow(&everybody(Rights::CALL))?;
        MemoryClient::bind(names::lookup("memory")?)?.register(post.0)
    };
    match registered() {
        Ok(()) => thread::park(),
        Err(error) => {
            eprintln!("stubborn: {error}");
            1
        }
    }
}
