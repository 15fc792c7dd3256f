//! What takes long goes by parts (architecture, section 14, bounded calls): how long somebody who is ready waits for his turn meanwhile, on one
//! processor. More than a quantum it takes only by what is not divided.

use crate::pool;
use crate::report::{Case, Report};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::layout::PAGE;
use musubi::abi::rights::{ANY_TEXT, principal};
use musubi::abi::section::kind;
use musubi::abi::task::Limits;
use musubi::command::Command;
use musubi::rt::post::Post;
use musubi::rt::section::{self, alloc, free};
use musubi::rt::{Bound, Section, Trap, probe, task, thread, time};
use musubi::{AclEntry, Error, Rights};

/// Of what is deleted, given back, cut, cloned, counted: in small pages.
const LONG: u64 = 1 << 30;
/// Of what is sealed, each byte of which is looked at.
const TEXT: u64 = 128 << 20;
/// Mappings of a window that never runs.
const ALIASES: u64 = 48 << 10;
/// Where they lie.
const AT: u64 = 0x50_0000;
/// Of a program that has little memory, but much of everything else.
const SECTIONS: u64 = 16_000;
const TEXTS: u64 = 300;
const THREADS: u64 = 250;
const PATIENCE_NS: u64 = 10_000_000_000;

fn said(what: &'static str) -> impl Fn(Error) -> String {
    move |error| format!("{what}: {error}")
}

pub fn run(report: &Report) -> Result<(), String> {
    if task::processors().count() != 1 {
        return Err(String::from(
            "whoever is ready would have his turn on another processor: start the machine with --cpus 1",
        ));
    }
    let watcher = Watcher::start().map_err(said("a thread"))?;
    let done = each(report, &watcher);
    watcher.stop().map_err(said("the thread's end"))?;
    done
}

/// A thread that is always ready, and sees for how long it was not its turn.
struct Watcher {
    stop: Arc<AtomicBool>,
    longest: Arc<AtomicU64>,
    thread: thread::Thread,
}

impl Watcher {
    fn start() -> Result<Watcher, Error> {
        let (stop, longest) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (until, seen) = (stop.clone(), longest.clone());
        let watch = move || {
            let mut last = time::ticks();
            while !until.load(Ordering::Relaxed) {
                let now = time::ticks();
                seen.fetch_max(now - last, Ordering::Relaxed);
                last = now;
            }
        };
        Ok(Watcher { thread: thread::spawn(watch, 0)?, stop, longest })
    }

    fn stop(self) -> Result<(), Error> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map(drop)
    }

    /// What takes long: the ticks until it is done, and how long others waited at most.
    fn during(&self, long: impl FnOnce() -> Result<(), Error>) -> Result<[u64; 2], Error> {
        // It has had its turn when this has the next one.
        thread::yield_now();
        self.longest.store(0, Ordering::Relaxed);
        let began = time::ticks();
        long()?;
        let ticks = time::ticks() - began;
        thread::yield_now();
        Ok([ticks, self.longest.load(Ordering::Relaxed)])
    }
}

fn each(report: &Report, watcher: &Watcher) -> Result<(), String> {
    let tell = |case, bytes: u64, [ticks, waited]: [u64; 2]| {
        for (way, ticks) in [("call", ticks), ("who-waits", waited)] {
            report.once(Case { case, way, bytes: bytes as usize }, ticks);
        }
    };
    let mut long = filled(LONG)?;
    let during = |what, long: &mut dyn FnMut() -> Result<(), Error>| watcher.during(long).map_err(said(what));
    tell("free", LONG, during("free", &mut || free(long.base(), LONG))?);
    tell("alloc", LONG, during("alloc", &mut || alloc(long.base(), LONG))?);
    touch(long.base(), LONG);
    tell("section_info", LONG, during("info", &mut || section::info(long.base()).map(drop))?);
    tell("section_pages", LONG, during("pages", &mut || section::pages(long.base()).map(drop))?);
    let mut clone = None;
    tell(
        "clone",
        LONG,
        during("clone", &mut || Section::clone_of(long.base(), 0, 0, 0).map(|made| clone = Some(made)))?,
    );
    tell("delete-clone", LONG, during("delete", &mut || clone.take().map_or(Ok(()), Section::delete))?);
    touch(long.base(), LONG);
    let everybody = AclEntry { principal: principal::ANY, rights: Rights::READ.bits(), id: 0, text: ANY_TEXT };
    section::grant(long.base(), &everybody).map_err(said("a list"))?;
    let seen = Post::any().map_err(said("a post"))?;
    seen.allow(&AclEntry { rights: Rights::CALL.bits(), ..everybody }).map_err(said("its list"))?;
    let viewer = crate::memory::viewer(seen, long.base(), LONG)?;
    let nobody = AclEntry { rights: Rights::empty().bits(), ..everybody };
    tell("acl_set", LONG, during("a list", &mut || section::grant(long.base(), &nobody))?);
    pool::end(viewer)?;
    tell("resize", LONG, during("resize", &mut || long.resize(0))?);
    long.delete().map_err(said("delete"))?;
    let long = filled(LONG)?;
    let mut long = Some(long);
    tell("delete", LONG, during("delete", &mut || long.take().map_or(Ok(()), Section::delete))?);
    let text = filled(TEXT)?;
    let (base, mut text) = (text.base(), Some(text));
    tell("seal", TEXT, during("seal", &mut || text.take().map_or(Ok(()), |text| text.seal().map(drop)))?);
    tell("delete-text", TEXT, during("delete", &mut || section::delete(base))?);
    let bound = Bound::bind(musubi::start().names(), LONG).map_err(said("a binding"))?;
    fill(bound.binding().args, LONG)?;
    let mut bound = Some(bound);
    tell("unbind", LONG, during("unbind", &mut || bound.take().map_or(Ok(()), Bound::unbind))?);
    let task = unstarted().map_err(said("a task"))?;
    let given = filled(LONG)?;
    section::give(given.base(), task).map_err(said("give"))?;
    core::mem::forget(given);
    tell("end-unstarted", LONG, during("its end", &mut || stub::task_end(&Trap, task, 0).map(drop))?);
    changes(&tell, &during)?;
    let words = [seen.0, LONG].map(|word| format!("{word}"));
    let command =
        words.iter().fold(Command::new(b"bin/bench").arg(b"hoard"), |command, word| command.arg(word.as_bytes()));
    let mut child = Some(command.spawn().map_err(|e| format!("bin/bench: {e}"))?);
    seen.receive(PATIENCE_NS).map_err(said("a program with much memory"))?;
    let end = &mut || child.take().map_or(Ok(()), |child| child.kill().and_then(|()| child.wait()).map(drop));
    tell("task-end", LONG, during("its end", end)?);
    let limits = Limits { frames: 0, sections: SECTIONS + 1000, reserve: 64 << 30, threads: THREADS + 50 };
    let command = Command::new(b"bin/bench").arg(b"crowd").arg(format!("{}", seen.0).as_bytes()).limits(limits);
    let mut child = Some(command.spawn().map_err(|e| format!("bin/bench: {e}"))?);
    seen.receive(PATIENCE_NS).map_err(said("a program with much of everything"))?;
    let end = &mut || child.take().map_or(Ok(()), |child| child.kill().and_then(|()| child.wait()).map(drop));
    tell("task-end-of-many", SECTIONS * PAGE, during("its end", end)?);
    seen.free(true).map_err(said("freeing"))
}

type During<'a> = &'a dyn Fn(&'static str, &mut dyn FnMut() -> Result<(), Error>) -> Result<[u64; 2], String>;

/// What goes through many mappings.
fn changes(tell: &dyn Fn(&'static str, u64, [u64; 2]), during: During<'_>) -> Result<(), String> {
    let task = unstarted().map_err(said("a task"))?;
    let section = Section::create(ALIASES * PAGE, 0, kind::DATA, 0).map_err(said("a section"))?;
    let (base, len) = (section.base(), ALIASES * PAGE);
    let [write, read] = [Rights::READ | Rights::WRITE, Rights::READ].map(|rights| u64::from(rights.bits()));
    // The last page first, so that none goes on where the one before it ends.
    let page = |n| stub::window_map(&Trap, task, AT + n * PAGE, base, len - (n + 1) * PAGE, PAGE, write).map(drop);
    let all = || (0..ALIASES).try_for_each(page).map_err(said("mappings"));
    all()?;
    let change = |what, call: &dyn Fn() -> Result<u64, Error>| {
        during(what, &mut || call().map(drop)).map(|taken| tell(what, len, taken))
    };
    change("window_protect", &|| stub::window_protect(&Trap, task, AT, len, read))?;
    change("window_unmap", &|| stub::window_unmap(&Trap, task, AT, len))?;
    all()?;
    change("window_map", &|| stub::window_map(&Trap, task, AT, base, 0, len, write))?;
    stub::task_end(&Trap, task, 0).map_err(said("its end"))?;
    section.delete().map_err(said("delete"))
}

fn unstarted() -> Result<u64, Error> {
    task::create(&Limits::default(), task::identity().user, b"never runs")
}

/// A program that has much memory, and is ended.
pub fn hoard(words: [&str; 2]) -> i32 {
    let [Ok(seen), Ok(len)] = words.map(str::parse) else { return 2 };
    let Ok(_section) = filled(len) else { return 1 };
    if Post(seen).send(0, [0; 6], None).is_err() {
        return 1;
    }
    time::sleep_ns(u64::MAX);
    0
}

/// A program that has many sections, texts and threads, and is ended.
pub fn crowd(post: &str) -> i32 {
    let Ok(seen) = post.parse() else { return 2 };
    let text = || Section::create(PAGE, 2 * PAGE, kind::DATA, 0)?.seal().map(drop);
    let data = || Section::create(PAGE, 0, kind::DATA, 0).map(core::mem::forget);
    let thread = || thread::spawn(|| thread::park(), 0).map(core::mem::forget);
    let made =
        (0..TEXTS).try_for_each(|_| text()).and_then(|()| (0..SECTIONS - TEXTS - THREADS).try_for_each(|_| data()));
    let made = made.and_then(|()| (0..THREADS).try_for_each(|_| thread()));
    if made.and_then(|()| Post(seen).send(0, [0; 6], None)).is_err() {
        return 1;
    }
    time::sleep_ns(u64::MAX);
    0
}

fn filled(len: u64) -> Result<Section, String> {
    // A text has its gates behind it.
    let section = Section::create(len, len + PAGE, kind::DATA, 0).map_err(said("a section"))?;
    fill(section.base(), len)?;
    Ok(section)
}

fn fill(base: u64, len: u64) -> Result<(), String> {
    alloc(base, len).map_err(said("its pages"))?;
    touch(base, len);
    Ok(())
}

fn touch(base: u64, len: u64) {
    (base..base + len).step_by(PAGE as usize).for_each(probe::write);
}
