//! The longest time that each way into the kernel takes with interrupts off at a stretch (SSS-24): each call of the table is made, those with a
//! bound at their bound, and the trace says how long each has taken at most.

use crate::bars::{bar, bound};
use crate::report::{Longest, Report};
use crate::short;
use crate::system;
use crate::worst;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use musubi::abi::calls::{Entry, Kernel, TABLE};
use musubi::abi::gate::GATES_MAX;
use musubi::abi::layout::{GRANULE, PAGE};
use musubi::abi::post::{MANY_MAX, SEVERAL_MAX};
use musubi::abi::rights::{ACL_MAX, principal};
use musubi::abi::section::{kind, real};
use musubi::abi::trace::{Handler, handler};
use musubi::command::Command;
use musubi::rt::gate::{Caller, Skeleton, Values};
use musubi::rt::post::{self, Body, Post};
use musubi::rt::probe::Instruction;
use musubi::rt::section::{self, alloc, alloc_as, free, invalidate, validate};
use musubi::rt::trace::Trace;
use musubi::rt::{Bound, Gates, Section, Trap, guard, probe, sync, task, thread, time};
use musubi::{AclEntry, Error, Rights, trace};

/// Pages of the sections: more than a call does at a stretch, which is the bound.
const PAGES: u64 = 2048;
const BOUND: u64 = 512;
/// A page of the greatest size, and of what it is split into.
const HUGE: u64 = 1 << 30;
const PART: u64 = 2 << 20;
/// Threads that wait for the same.
const CROWD: usize = 48;
/// Threads that wait at a post where they may no more.
const WAITING: usize = 500;
/// Threads that sleep until the same moment: of each processor's timers many are due at once.
const SLEEPERS: usize = 400;
/// Threads that have called a program that is killed.
const CALLERS: usize = 96;
/// Sections of the program that is killed.
const SECTIONS: usize = 200;
/// May call.
const EVERYBODY: AclEntry = AclEntry { principal: principal::ANY, rights: Rights::CALL.bits(), id: 0, text: 0 };
/// So long others may take.
const PATIENCE_NS: u64 = 60_000_000_000;

/// Sections in a row, which are asked about at once; and entries of the list of every fourth.
const ROW: u64 = 96;
const ENTRIES: u64 = 256;
/// Messages that lie at a post.
const LYING: u64 = 3 * MANY_MAX;

pub fn run(report: &Report) -> Result<(), String> {
    let said = |what: &'static str| move |e: Error| format!("{what}: {e}");
    let trace = trace::on().map_err(said("the trace"))?;
    let done = everything().inspect_err(|_| _ = trace::off());
    done.map_err(|(what, error)| format!("{what}: {error}"))?;
    let refused = every_other_call(&trace).inspect_err(|_| _ = trace::off())?;
    let seen: Vec<(u64, u64, u64)> = trace.handlers().collect();
    trace::off().map_err(said("the trace"))?;
    if let Some(vector) =
        EXCEPTIONS.iter().find(|vector| !seen.iter().any(|one| one.0 == handler::EXCEPTION + **vector))
    {
        return Err(format!("exception {vector} was raised, and is not in the trace"));
    }
    let missing: Vec<&str> =
        TABLE.iter().filter(|row| !seen.iter().any(|one| one.0 == row.number)).map(|row| row.name).collect();
    if !missing.is_empty() {
        return Err(format!("nobody has made these calls: {}", missing.join(", ")));
    }
    for (by, longest, times) in seen {
        let name = format!("{}", Handler(by));
        let bar = bar(&name).ok_or_else(|| format!("nobody has said how long this may take: {name}"))?;
        let only_refused = refused.iter().find(|one| one.0 == name).map(|one| one.1);
        report.handler(
            &name,
            only_refused.unwrap_or(bound(&name)),
            Longest { ticks: longest, usual: longest, times, bar },
        );
    }
    short::run(report)
}

type Done = Result<(), (&'static str, Error)>;

fn say<T>(what: &'static str, done: Result<T, Error>) -> Result<T, (&'static str, Error)> {
    done.map_err(|error| (what, error))
}

fn everything() -> Done {
    memory()?;
    rows()?;
    huge()?;
    texts()?;
    lists()?;
    gates()?;
    posts()?;
    crowds()?;
    sleepers()?;
    programs()?;
    faults()?;
    system::calls()?;
    worst::calls()
}

fn touch(base: u64, pages: u64) {
    (0..pages).for_each(|page| probe::write(base + page * PAGE));
}

fn memory() -> Done {
    let len = PAGES * PAGE;
    let mut pages = say("a section", Section::create(len, len, kind::DATA, 0))?;
    let base = pages.base();
    for _ in 0..3 {
        say("having", alloc(base, BOUND * PAGE))?;
        say("making invalid", invalidate(base, BOUND * PAGE))?;
        say("making valid", validate(base, BOUND * PAGE))?;
        say("giving back", free(base, BOUND * PAGE))?;
    }
    say("a large page", alloc_as(base, BOUND * PAGE, real::SIZE_2M))?;
    say("making a part invalid", invalidate(base + PAGE, PAGE))?;
    say("making it valid", validate(base + PAGE, PAGE))?;
    say("giving it back", free(base, BOUND * PAGE))?;
    touch(base, PAGES);
    for _ in 0..2 {
        let clone = say("cloning", Section::clone_of(base, 0, 0, 0))?;
        touch(clone.base(), 64);
        // So that each page has to be looked at by itself.
        (0..PAGES / 512).for_each(|part| probe::write(clone.base() + part * 512 * PAGE));
        say("looking at a clone", section::info(clone.base()))?;
        say("deleting a clone", clone.delete())?;
    }
    say("making shorter", pages.resize(PAGE))?;
    say("making longer", pages.resize(len))?;
    touch(base, PAGES);
    say("deleting", pages.delete())
}

/// So many sections beside each other that they are looked through in stretches, some with long lists.
fn rows() -> Done {
    let entry = |n| AclEntry { principal: principal::THREAD, rights: Rights::READ.bits(), id: 1 << 40 | n, text: 0 };
    let first = say("room", Section::create_at(GRANULE, GRANULE, kind::DATA, 0, 0, ROW * GRANULE))?;
    let base = first.base();
    let place = |n| Section::create_at(GRANULE, GRANULE, kind::DATA, 0, base + n * GRANULE, 0);
    let row: Vec<Section> = (1..ROW).map(|n| say("a section beside it", place(n))).collect::<Result<_, _>>()?;
    let all: Vec<Section> = [first].into_iter().chain(row).collect();
    let may = |rights| section::may(base, ROW * GRANULE, rights, section::Who::Own);
    for n in 0..ENTRIES {
        all.iter().step_by(4).try_for_each(|one| say("an entry", section::grant(one.base(), &entry(n))))?;
    }
    for (rights, expected) in [(Rights::READ | Rights::WRITE, true), (Rights::EXECUTE, false)] {
        if may(rights) != expected {
            return Err(("asking about a row", Error::Faulted));
        }
    }
    // All that there are.
    if section::list().count() < ROW as usize {
        return Err(("all sections", Error::NotFound));
    }
    all.into_iter().try_for_each(|one| say("deleting", one.delete()))
}

/// A page of 1 GiB that is split in all its parts, where the machine has such pages: made a clone of, given back, and had again where its tables are in the way.
fn huge() -> Done {
    let one = say("a section of 1 GiB", Section::create(HUGE, HUGE, kind::DATA, 0))?;
    let base = one.base();
    for _ in 0..2 {
        match alloc_as(base, HUGE, real::SIZE_1G) {
            Err(Error::NotSupported) => (0..HUGE / PART).for_each(|at| probe::write(base + at * PART)),
            had => say("a page of 1 GiB", had)?,
        }
        for at in 0..HUGE / PART {
            say("making a part invalid", invalidate(base + at * PART, PAGE))?;
            say("making it valid", validate(base + at * PART, PAGE))?;
        }
        let clone = say("cloning 1 GiB", Section::clone_of(base, 0, 0, 0))?;
        say("deleting a clone", clone.delete())?;
        let nobody = AclEntry { principal: principal::THREAD, rights: Rights::READ.bits(), id: 1, text: 0 };
        say("an entry", section::grant(base, &nobody))?;
        say("taking it away", section::grant(base, &AclEntry { rights: 0, ..nobody }))?;
        say("giving it back", free(base, HUGE))?;
    }
    (0..HUGE / PART).for_each(|at| probe::write(base + at * PART));
    say("deleting 1 GiB", one.delete())
}

/// Behind a text there is room for its gates.
fn texts() -> Done {
    let len = PAGES * PAGE;
    let text = say("a section", Section::create(len, len + PAGE, kind::DATA, 0))?;
    touch(text.base(), PAGES);
    let base = say("sealing", text.seal())?;
    say("deleting a text", section::delete(base))
}

fn lists() -> Done {
    let one = say("a section", Section::create(PAGE, PAGE, kind::DATA, 0))?;
    let entry = |n: u64, rights: Rights| AclEntry {
        principal: principal::THREAD,
        rights: rights.bits(),
        id: 1 << 40 | n,
        text: 0,
    };
    let most = ACL_MAX as u64 - 1;
    for n in 0..most {
        say("an entry", section::grant(one.base(), &entry(n, Rights::READ)))?;
    }
    for n in [0, most / 2, most - 1] {
        say("another right", section::grant(one.base(), &entry(n, Rights::WRITE)))?;
    }
    say("reading the list", section::acl(one.base()))?;
    say("taking one away", section::grant(one.base(), &entry(0, Rights::empty())))?;
    say("deleting", one.delete())
}

struct Answers;

impl Skeleton for Answers {
    fn dispatch(&self, _: &Caller, _: u64, words: &[u64; 6]) -> Values {
        Values::of(Ok(words[0]))
    }
}

fn gates() -> Done {
    let many = say("gates", Gates::export(Answers, GATES_MAX / 2))?;
    say("its list", many.admit(&EVERYBODY))?;
    let bound = say("a binding", Bound::bind(many.address(), 64 * PAGE))?;
    for n in 0..8 {
        say("a call", bound.call(0, [n; 6]))?;
    }
    say("no binding any more", bound.unbind())?;
    say("closing", many.close())
}

fn posts() -> Done {
    let all: Vec<Post> = (0..SEVERAL_MAX).map(|_| say("a post", Post::any())).collect::<Result<_, _>>()?;
    let last = all[all.len() - 1];
    for _ in 0..2 {
        say("many messages", last.send_copies(&Body { op: 1, words: [7; 6] }, MANY_MAX))?;
        say("receiving", post::receive_of(&all, 0))?;
    }
    for _ in 0..LYING / MANY_MAX {
        say("many messages", all[0].send_copies(&Body { op: 1, words: [7; 6] }, MANY_MAX))?;
    }
    all.into_iter().try_for_each(|one| say("freeing", one.free(true)))?;
    askers()
}

/// Many that wait at a post, and many that have asked there: it is given back, and before its list changes.
fn askers() -> Done {
    let [waits, asks] = [say("a post", Post::any())?, say("a post", Post::any())?];
    let entry = |rights: Rights| AclEntry { principal: principal::THREAD, rights: rights.bits(), id: 1, text: 0 };
    let mut crowd = Vec::new();
    for n in 0..CROWD * 2 {
        let body = move || match n % 2 {
            0 => drop(waits.receive(PATIENCE_NS)),
            _ => drop(asks.ask(1, [7; 6], PATIENCE_NS)),
        };
        crowd.push(say("a thread", thread::spawn(body, 0))?);
    }
    time::sleep_ns(20_000_000);
    for post in [waits, asks] {
        say("an entry", section::grant(post.0, &entry(Rights::READ)))?;
        say("taking it away", section::grant(post.0, &entry(Rights::empty())))?;
        say("freeing", post.free(true))?;
    }
    crowd.into_iter().for_each(|one| _ = one.join());
    turned_away()
}

/// Many that wait where they may no more: each of them is woken, by whoever changes the list and by whoever gives the post back.
fn turned_away() -> Done {
    let me = task::identity();
    let rights = Rights::CALL | Rights::CHANGE_ACL;
    let entry = AclEntry { principal: principal::TASK, rights: rights.bits(), id: me.task, text: me.text };
    for by_list in [true, false] {
        let post = say("a post", Post::any())?;
        let wait = || thread::spawn(move || _ = post.receive(PATIENCE_NS), 0);
        let crowd: Vec<_> = (0..WAITING).map(|_| say("a thread", wait())).collect::<Result<_, _>>()?;
        time::sleep_ns(50_000_000);
        if by_list {
            say("taking the right to wait", section::grant(post.0, &entry))?;
            crowd.into_iter().for_each(|one| _ = one.join());
            say("freeing", post.free(false))?;
        } else {
            say("freeing", post.free(true))?;
            crowd.into_iter().for_each(|one| _ = one.join());
        }
    }
    Ok(())
}

/// Many that wait for a word, and for a thread's end.
fn crowds() -> Done {
    static WORD: AtomicU32 = AtomicU32::new(0);
    static HERE: AtomicU64 = AtomicU64::new(0);
    let leaves = Arc::new(AtomicBool::new(false));
    let until = leaves.clone();
    let body = move || {
        while !until.load(Ordering::SeqCst) {
            time::sleep_ns(1_000_000);
        }
    };
    let last = say("a thread", thread::spawn(body, 0))?;
    let waits_for = last.number();
    let mut crowd = Vec::new();
    for n in 0..CROWD * 2 {
        let waits = move || {
            HERE.fetch_add(1, Ordering::SeqCst);
            if n % 2 == 0 {
                let _ = sync::wait(&WORD, 0, PATIENCE_NS);
            } else {
                let _ = musubi::abi::calls::stub::thread_join(&Trap, waits_for, PATIENCE_NS);
            }
        };
        crowd.push(say("a thread", thread::spawn(waits, 0))?);
    }
    while HERE.load(Ordering::SeqCst) < 2 * CROWD as u64 {
        time::sleep_ns(1_000_000);
    }
    time::sleep_ns(10_000_000);
    WORD.store(1, Ordering::SeqCst);
    sync::wake(&WORD, u64::MAX);
    leaves.store(true, Ordering::SeqCst);
    // (So many have ended that the code of the first ones is forgotten.)
    crowd.into_iter().chain([last]).for_each(|one| _ = one.join());
    Ok(())
}

/// Many that sleep until the same moment.
fn sleepers() -> Done {
    let until = time::now_ns() + 400_000_000;
    let late = Arc::new(AtomicU64::new(0));
    let mut crowd = Vec::new();
    for _ in 0..SLEEPERS {
        let late = late.clone();
        let sleeps = move || match until.checked_sub(time::now_ns()) {
            Some(ns) => time::sleep_ns(ns),
            None => _ = late.fetch_add(1, Ordering::SeqCst),
        };
        crowd.push(say("a thread", thread::spawn(sleeps, 0))?);
    }
    crowd.into_iter().for_each(|one| _ = one.join());
    // Else they have not slept together.
    if late.load(Ordering::SeqCst) > 0 { Err(("sleeping together", Error::TimedOut)) } else { Ok(()) }
}

/// One that ends by itself, and one that has much and is killed.
fn programs() -> Done {
    let refused = |_| ("a program", Error::Refused);
    let child = Command::new(b"bin/bench").args(["bench", "stamp"]).spawn().map_err(refused)?;
    say("waiting", child.wait())?;
    let seen = say("a post", Post::any())?;
    say("its list", seen.allow(&EVERYBODY))?;
    let fat = Command::new(b"bin/bench").args(["bench", "fat", &format!("{}", seen.0)]).spawn().map_err(refused)?;
    let gates = say("a program with much", seen.receive(PATIENCE_NS))?.words[0];
    let bound = Arc::new(say("a binding", Bound::bind(gates, 0))?);
    let crowd = say("its callers", callers(&bound))?;
    say("killing", fat.kill())?;
    say("its end", fat.wait())?;
    END.store(1, Ordering::SeqCst);
    sync::wake(&END, u64::MAX);
    crowd.into_iter().for_each(|one| _ = one.join());
    say("freeing", seen.free(true))
}

static END: AtomicU32 = AtomicU32::new(0);

/// Threads that have called it, and still might.
fn callers(bound: &Arc<Bound>) -> Result<Vec<thread::Thread>, Error> {
    let called = Arc::new(AtomicU64::new(0));
    let mut crowd = Vec::new();
    for n in 0..CALLERS {
        let (bound, called) = (bound.clone(), called.clone());
        let one = move || {
            let answer = bound.call(0, [n as u64; 6]);
            called.fetch_add(u64::from(answer.is_ok_and(|words| words.contains(&(n as u64)))), Ordering::SeqCst);
            let _ = sync::wait(&END, 0, PATIENCE_NS);
        };
        crowd.push(thread::spawn(one, 0)?);
    }
    let began = time::now_ns();
    while called.load(Ordering::SeqCst) < CALLERS as u64 {
        if time::now_ns() - began > PATIENCE_NS {
            return Err(Error::TimedOut);
        }
        time::sleep_ns(1_000_000);
    }
    Ok(crowd)
}

/// The program: has much, says so, and waits.
pub fn fat(post: &str) -> i32 {
    let Ok(post) = post.parse() else { return 2 };
    for _ in 0..SECTIONS {
        match Section::create(16 * PAGE, 16 * PAGE, kind::DATA, 0) {
            Ok(one) => touch(one.base(), 16),
            Err(_) => return 1,
        }
    }
    for _ in 0..8 {
        if thread::spawn(|| thread::park(), 0).is_err() {
            return 1;
        }
    }
    let gates = Gates::export(Answers, 1).and_then(|gates| gates.admit(&EVERYBODY).map(|()| gates));
    let told = gates.and_then(|gates| Post(post).send(0, [gates.address(), 0, 0, 0, 0, 0], None));
    if told.is_err() {
        return 1;
    }
    time::sleep_ns(u64::MAX / 4);
    0
}

/// First accesses, and copies on write.
fn faults() -> Done {
    let one = say("a section", Section::create(64 * PAGE, 64 * PAGE, kind::DATA, 0))?;
    (0..64).for_each(|page| _ = probe::read(one.base() + page * PAGE));
    let clone = say("cloning", Section::clone_of(one.base(), 0, 0, 0))?;
    touch(one.base(), 64);
    say("deleting", clone.delete())?;
    say("deleting", one.delete())?;
    exceptions()
}

/// What [`RAISED`] raises.
const EXCEPTIONS: [u64; 6] = [0, 1, 3, 6, 13, 16];
const RAISED: [Instruction; 7] = [
    Instruction::Divide,
    Instruction::Step,
    Instruction::Breakpoint,
    Instruction::Undefined,
    Instruction::Privileged,
    Instruction::NonCanonical,
    Instruction::X87,
];

/// In a call, which each ends (SSS-56).
fn exceptions() -> Done {
    for which in RAISED.iter().cycle().take(3 * RAISED.len()) {
        if guard::run(|| probe::instruction(*which)) != Err(Error::Faulted) {
            return Err(("an exception", Error::NotSupported));
        }
    }
    Ok(())
}

/// Why a call is measured only as it is refused.
const FOR_SYSTEM: &str = "only refused: the system's alone";
const SHORTLY: &str = "only refused: see ping-pong by question";

/// A call, and why.
type Refused = (&'static str, &'static str);
/// Those that a person's program is refused, and that none of the system's has made here.
const REFUSED: &[Refused] = &[
    ("trace_set", FOR_SYSTEM),
    ("post_answer", SHORTLY),
    ("ends_post", FOR_SYSTEM),
    ("log_write", FOR_SYSTEM),
    ("power_off", FOR_SYSTEM),
];

/// Each call that nobody has made yet, with nothing: it is refused, which is a handler's run, too. Which were, and why; no others than are said above.
fn every_other_call(trace: &Trace) -> Result<Vec<Refused>, String> {
    let made: Vec<u64> = trace.handlers().map(|one| one.0).collect();
    let others: Vec<_> = TABLE.iter().filter(|row| !made.contains(&row.number)).collect();
    for row in &others {
        let _ = match row.entry {
            Entry::Full => Trap.enter(row.number, [0; 6]),
            Entry::Light | Entry::Mbcf => Trap.enter_light(row.number, [0; 6]),
        };
    }
    let is_known = |name: &str| REFUSED.iter().any(|one| one.0 == name);
    let unknown: Vec<&str> = others.iter().map(|row| row.name).filter(|name| !is_known(name)).collect();
    if !unknown.is_empty() {
        return Err(format!("only refused: {}", unknown.join(", ")));
    }
    Ok(REFUSED.iter().filter(|one| others.iter().any(|row| row.name == one.0)).copied().collect())
}

const _: () = assert!(handler::COUNT > TABLE.len());
