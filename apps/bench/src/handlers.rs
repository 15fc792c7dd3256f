//! The longest time that each way into the kernel takes with interrupts off at a stretch (SSS-24): each call of the table is made, those with a
//! bound at their bound, and the trace says how long each has taken at most.

use crate::bars::{bound, held};
use crate::report::{Longest, Report};
use crate::{apart, crowds, holes, loans, short, system, thousands, vectors, views, worst};
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
use musubi::interfaces::devices::{DevicesClient, ask};
use musubi::rt::gate::{Caller, Skeleton, Values};
use musubi::rt::post::{self, Body, Post};
use musubi::rt::section::{self, alloc, alloc_as, free, invalidate, validate};
use musubi::rt::trace::Trace;
use musubi::rt::{Bound, Gates, Section, Trap, probe, sync, task, thread, time};
use musubi::{AclEntry, Error, Rights, names, trace};

/// Pages of the sections: more than a call does at a stretch, which is the bound.
const PAGES: u64 = 2048;
const BOUND: u64 = 512;
/// A page of the greatest size, and of what it is split into.
const HUGE: u64 = 1 << 30;
const PART: u64 = 2 << 20;
/// Threads that have called a program that is killed.
const CALLERS: usize = 96;
/// Sections of the program that is killed.
const SECTIONS: usize = 200;
/// May call.
pub const EVERYBODY: AclEntry = AclEntry { principal: principal::ANY, rights: Rights::CALL.bits(), id: 0, text: 0 };
/// So long others may take.
pub const PATIENCE_NS: u64 = 60_000_000_000;

/// Sections in a row, which are asked about at once; and entries of the list of every fourth.
const ROW: u64 = 96;
const ENTRIES: u64 = 256;
/// Messages that lie at a post.
const LYING: u64 = 3 * MANY_MAX;

pub fn run(report: &Report) -> Result<(), String> {
    let said = |what: &'static str| move |e: Error| format!("{what}: {e}");
    let processors = task::processors().count();
    first_rings(report, processors).map_err(said("the trace"))?;
    let trace = trace::on().map_err(said("the trace"))?;
    let done = everything().and_then(|()| beside_others(processors)).inspect_err(|_| _ = trace::off());
    done.map_err(|(what, error)| format!("{what}: {error}"))?;
    let refused = every_other_call(&trace).inspect_err(|_| _ = trace::off())?;
    let seen: Vec<(u64, u64, u64)> = trace.handlers().collect();
    trace::off().map_err(said("the trace"))?;
    let ways: Vec<u64> = seen.iter().map(|one| one.0).collect();
    vectors::check(&ways, processors)?;
    let missing: Vec<&str> = TABLE.iter().filter(|row| !ways.contains(&row.number)).map(|row| row.name).collect();
    if !missing.is_empty() {
        return Err(format!("nobody has made these calls: {}", missing.join(", ")));
    }
    if processors > 1 && !ways.contains(&handler::WAITS) {
        return Err("no processor has waited for another one".into());
    }
    for (by, longest, times) in seen {
        let name = format!("{}", Handler(by));
        let bar = held(&name, processors).ok_or_else(|| format!("nobody has said how long this may take: {name}"))?;
        let only_refused = refused.iter().find(|one| one.0 == name).map(|one| one.1);
        report.handler(
            &name,
            only_refused.unwrap_or(bound(&name)),
            Longest { ticks: longest, usual: longest, times, bar },
        );
    }
    vectors::tell_unseen(report, &ways);
    short::run(report)
}

/// The first call for each processor makes its ring, before it writes anything: a round with that call, made by the system on this thread.
fn first_rings(report: &Report, processors: usize) -> Result<(), Error> {
    const NAME: &str = "trace_set by the first call";
    let devices = names::lookup("devices").and_then(|gate| DevicesClient::bind_with_args(gate, 4096))?;
    let began = time::ticks();
    let done = devices.trace(ask::ON);
    let ticks = time::ticks() - began;
    devices.unbind()?;
    done?;
    let bar = held(NAME, processors).unwrap_or(0);
    report.handler(NAME, bound("trace_set"), Longest { ticks, usual: ticks, times: 1, bar });
    Ok(())
}

pub type Done = Result<(), (&'static str, Error)>;

pub fn say<T>(what: &'static str, done: Result<T, Error>) -> Result<T, (&'static str, Error)> {
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
    crowds::crowds()?;
    crowds::sleepers()?;
    crowds::viewers()?;
    holes::holes()?;
    apart::programs()?;
    say("what is lent", loans::calls())?;
    say("thousands of threads", thousands::calls())?;
    views::calls()?;
    programs()?;
    faults()?;
    system::calls()?;
    worst::calls()
}

/// What changes views, while a thread of this program has each other processor, with these views loaded: it is waited for until it has forgotten.
fn beside_others(processors: usize) -> Done {
    let is_over = Arc::new(AtomicBool::new(false));
    let mut others = Vec::new();
    for _ in 1..processors {
        let until = is_over.clone();
        let turns = move || {
            while !until.load(Ordering::Relaxed) {
                core::hint::spin_loop();
            }
        };
        others.push(say("a thread", thread::spawn(turns, 0))?);
    }
    let done = if others.is_empty() { Ok(()) } else { memory().and_then(|()| lists()).and_then(|()| gates()) };
    is_over.store(true, Ordering::Relaxed);
    others.into_iter().for_each(|one| _ = one.join());
    done
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
        say("counting a clone's pages", section::pages(clone.base()))?;
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
    say("deleting", one.delete())?;
    long_lists()
}

/// First accesses, calls about pages, a message and a binding where lists are as long as they may be.
fn long_lists() -> Done {
    let pages = 64;
    let one = say("a section", Section::create(pages * PAGE, pages * PAGE, kind::DATA, 0))?;
    say("its list", worst::strangers(one.base(), worst::MOST))?;
    (0..pages / 2).for_each(|page| _ = probe::read(one.base() + page * PAGE));
    say("having", alloc(one.base(), pages * PAGE))?;
    say("making invalid", invalidate(one.base(), pages * PAGE))?;
    say("making valid", validate(one.base(), pages * PAGE))?;
    say("giving back", free(one.base(), pages * PAGE))?;
    say("looking at it", section::info(one.base()))?;
    touch(one.base(), pages);
    let clone = say("cloning", Section::clone_of(one.base(), 0, 0, 0))?;
    touch(one.base(), pages);
    say("deleting", clone.delete())?;
    say("deleting", one.delete())?;
    let post = say("a post", Post::any())?;
    say("its list", worst::strangers(post.0, worst::MOST))?;
    for n in 0..4 {
        say("a message", post.send(1, [n; 6], None))?;
        say("receiving", post.receive(PATIENCE_NS))?;
    }
    say("freeing", post.free(true))?;
    // A program of its own: one whose own list is so long lives apart from then on.
    let refused = |_| ("a program", Error::Refused);
    let listed = Command::new(b"bin/bench").args(["bench", "listed"]).spawn().map_err(refused)?;
    match say("a program with a long list", listed.wait())?.code {
        0 => Ok(()),
        _ => Err(("a program with a long list", Error::Refused)),
    }
}

/// The program: all that the short ways do, and a binding to itself, by lists as long as may be.
pub fn listed() -> i32 {
    let binds = || {
        worst::strangers(musubi::start().text(), worst::MOST)?;
        let gates = Gates::export(Answers, 1)?;
        gates.admit(&EVERYBODY)?;
        let bound = Bound::bind(gates.address(), PAGE)?;
        bound.call(0, [1; 6])?;
        bound.unbind()
    };
    let open = say("who may call", section::grant(musubi::start().text(), &EVERYBODY));
    let done = open.and_then(|()| worst::calls_by_long_lists()).and_then(|()| say("a binding to itself", binds()));
    done.inspect_err(|(what, error)| musubi::eprintln!("{what}: {error}")).is_err().into()
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
    crowds::askers()
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
    vectors::exceptions()
}

/// A call, and why it is measured only as it is refused.
type Refused = (&'static str, &'static str);
/// Those that a person's program is refused, and that none of the system's has made here.
const REFUSED: &[Refused] = &[("power_off", "only refused: it would end the run")];

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
