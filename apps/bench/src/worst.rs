//! Calls that need something to work on, with what takes them longest: as the trace sees them, by the full entry, and for rounds by their short ways
//! (`short.rs`). None may be refused.

use crate::foreign;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::layout::{GRANULE, PAGE};
use musubi::abi::mbcf::{STRUCTURE_ALIGN, signal_flag};
use musubi::abi::rights::{ACL_MAX, principal};
use musubi::abi::section::{flag, kind};
use musubi::abi::task::Limits;
use musubi::interfaces::pager::{Pager, pager_serve};
use musubi::interfaces::signal::{Signalled, signalled_serve};
use musubi::rt::gate::{Caller, Skeleton, Values};
use musubi::rt::mbcf::{DATA_MAX, Queue, SignalSetup, Signals, condition, start, store};
use musubi::rt::pager::{answer, set, set_for_task, supply};
use musubi::rt::section::{self, invalidate};
use musubi::rt::{Bound, Gates, Section, Trap, fault, probe, sched, task, thread, time};
use musubi::{AclEntry, Error, Rights};

type Does = Box<dyn Fn() -> Result<u64, Error>>;

/// A call by a short way: what comes before each, and the call.
pub struct Call {
    pub name: &'static str,
    pub bytes: u64,
    pub first: Does,
    pub call: Does,
}

/// Mappings in a window that one call replaces, changes or takes out.
const ALIASES: u64 = 1024;
/// Where they lie.
const AT: u64 = 0x50_0000;
/// Sections in a row, which are asked about at once.
const ROW: u64 = 96;
/// Structures for memory operations that end with the part of a section in which they lie.
const STRUCTURES: u64 = 4096;

/// It has the kernel make the page valid.
struct Validates;

impl Pager for Validates {
    fn fault(&self, _: u64, _: u64, _: u64, _: u64) -> Result<u64, Error> {
        Ok(answer::VALID)
    }
}

/// It leaves the data where they are.
struct Leaves;

impl Signalled for Leaves {
    fn signal(&self, _: u64, _: u64) -> Result<(), Error> {
        Ok(())
    }
}

/// Whether it and its caller may read three ranges, which begin at the first and are as long as the second.
struct Asks([u64; 2]);

impl Skeleton for Asks {
    fn dispatch(&self, _: &Caller, _: u64, _: &[u64; 6]) -> Values {
        let [base, part] = self.0;
        Values::of(stub::may_pass(&Trap, base, part, base + part, part, base + 2 * part, part))
    }
}

/// So long the lists of what calls work on are made.
static ENTRIES: AtomicU64 = AtomicU64::new(0);
/// As long as a list may be, with some room for what calls add.
pub const MOST: u64 = ACL_MAX as u64 - 8;

fn made(pages: u64) -> Result<u64, Error> {
    let one = Section::create(pages * PAGE, pages * PAGE, kind::DATA, flag::ANY_PRINCIPAL)?;
    strangers(one.base(), ENTRIES.load(Ordering::Relaxed))?;
    (0..pages).for_each(|page| probe::write(one.base() + page * PAGE));
    Ok(one.base())
}

/// Entries for so many threads that are nobody: whoever asks for a right goes through all of them.
pub fn strangers(base: u64, count: u64) -> Result<(), Error> {
    let entry = |n| AclEntry { principal: principal::THREAD, rights: Rights::READ.bits(), id: 1 << 40 | n, text: 0 };
    (0..count).try_for_each(|n| section::grant(base, &entry(n)))
}

fn nothing() -> Does {
    Box::new(|| Ok(0))
}

/// Each light call and each memory operation that is not measured by what is done to 512 pages.
pub fn short_calls() -> Result<Vec<Call>, Error> {
    let mut all = plain()?;
    all.extend(operations()?);
    all.extend(queues()?);
    all.extend(signals()?);
    all.extend(paged()?);
    all.extend(ports()?);
    Ok(all)
}

fn one(name: &'static str, bytes: u64, call: impl Fn() -> Result<u64, Error> + 'static) -> Call {
    Call { name, bytes, first: nothing(), call: Box::new(call) }
}

fn plain() -> Result<Vec<Call>, Error> {
    let first = Section::create_at(GRANULE, GRANULE, kind::DATA, 0, 0, ROW * GRANULE)?;
    let base = first.base();
    for n in 1..ROW {
        Section::create_at(GRANULE, GRANULE, kind::DATA, 0, base + n * GRANULE, 0)?;
    }
    let (read, len) = (u64::from(Rights::READ.bits()), ROW * GRANULE);
    let (part, own) = (len / 3, musubi::start().task());
    // Of who has called: so that somebody has.
    let asked = Bound::bind(Gates::export(Asks([base, part]), 1)?.address(), GRANULE)?;
    let lent = asked.binding().args;
    Ok(Vec::from([
        one("get_taskid_light", 0, || stub::get_taskid_light(&Trap)),
        one("clock", 0, || stub::clock(&Trap, 1)),
        one("running", 0, || stub::running(&Trap)),
        one("section_owner", 0, move || stub::section_owner(&Trap, base, 0)),
        one("section_hold", 0, move || stub::section_hold(&Trap, lent, GRANULE, own)),
        one("may", len, move || stub::may(&Trap, base, len, read, 0).and_then(yes)),
        one("may_pass", len, move || asked.call(0, [0; 6]).and_then(|[_, answer]| yes(answer))),
    ]))
}

/// Those of a driver, which are nobody else's: how that is said.
fn ports() -> Result<Vec<Call>, Error> {
    let base = section::list().find(|info| info.kind == kind::PORTS).ok_or(Error::NotFound)?.base;
    let refused = |outcome: Result<u64, Error>| match outcome {
        Err(error) if error.refusal().is_some() => Ok(0),
        other => other.and(Err(Error::Exists)),
    };
    Ok(Vec::from([
        one("port_read", 0, move || refused(stub::port_read(&Trap, base, 0, 1))),
        one("port_write", 0, move || refused(stub::port_write(&Trap, base, 0, 1, 0))),
    ]))
}

/// It is so.
fn yes(answer: u64) -> Result<u64, Error> {
    if answer == 1 { Ok(1) } else { Err(Error::Refused) }
}

/// Over the border of two pages on both sides.
fn operations() -> Result<Vec<Call>, Error> {
    let base = made(8)?;
    let (to, from) = (base + PAGE - DATA_MAX / 2, base + 4 * PAGE - DATA_MAX / 2);
    let word = base + 6 * PAGE;
    Ok(Vec::from([
        one("mbcf_write", DATA_MAX, move || stub::mbcf_write(&Trap, to, from, DATA_MAX, 0, 0)),
        one("mbcf_read", DATA_MAX, move || stub::mbcf_read(&Trap, from, to, DATA_MAX, 0, 0)),
        one("mbcf_fill", DATA_MAX, move || stub::mbcf_fill(&Trap, to, 7, DATA_MAX, 0, 0)),
        one("mbcf_copy", DATA_MAX, move || stub::mbcf_copy(&Trap, to, from, DATA_MAX, 0, 0)),
        one("mbcf_store", 8, move || stub::mbcf_store(&Trap, word, 1, 0, 0)),
        one("mbcf_load", 8, move || stub::mbcf_load(&Trap, word, 0, 0)),
        one("mbcf_swap", 8, move || stub::mbcf_swap(&Trap, word, 1, 0, 0)),
        one("mbcf_add", 8, move || stub::mbcf_add(&Trap, word, 1, 0, 0)),
        one("mbcf_compare_swap", 8, move || stub::mbcf_compare_swap(&Trap, word, 1, 1, 0, 0)),
        one("mbcf_set_bits", 8, move || stub::mbcf_set_bits(&Trap, word, 3, 0, 0)),
        one("mbcf_clear_bits", 8, move || stub::mbcf_clear_bits(&Trap, word, 2, 0, 0)),
    ]))
}

/// Records of the greatest length, with their sender's name, that lie in several pages and go over the buffer's end.
fn queues() -> Result<Vec<Call>, Error> {
    let base = made(8)?;
    let (queue, from, to) = (base + 64, base + 5 * PAGE - DATA_MAX / 2, base + 7 * PAGE - DATA_MAX / 2);
    let (begin, end) = (base + PAGE, base + 3 * PAGE);
    let room = DATA_MAX + 64;
    Queue::init(queue, begin, end, true)?;
    let drained = move || {
        while stub::fifo_read(&Trap, queue, to, room)? != u64::MAX {}
        Ok(0)
    };
    let sent = move || stub::mbcf_fifo(&Trap, queue, from, DATA_MAX, 0, 0);
    let with = |name, first: Does, call: Does| Call { name, bytes: DATA_MAX, first, call };
    let other = base + 128;
    Ok(Vec::from([
        with("mbcf_fifo", Box::new(drained), Box::new(sent)),
        with(
            "mbcf_fifoe_normal",
            Box::new(drained),
            Box::new(move || stub::mbcf_fifoe_normal(&Trap, queue, from, DATA_MAX, 1, 0, 0)),
        ),
        with(
            "mbcf_fifoe_retry",
            Box::new(drained),
            Box::new(move || stub::mbcf_fifoe_retry(&Trap, queue, from, DATA_MAX, 1, 0, 0)),
        ),
        with("fifo_read", Box::new(sent), Box::new(move || stub::fifo_read(&Trap, queue, to, room).and_then(some))),
        one("fifo_init", 0, move || stub::fifo_init(&Trap, other, base + 3 * PAGE, base + 4 * PAGE, 0)),
        with(
            "structure_end",
            Box::new(move || stub::fifo_init(&Trap, other, base + 3 * PAGE, base + 4 * PAGE, 0)),
            Box::new(move || stub::structure_end(&Trap, other)),
        ),
    ]))
}

/// There was a record.
fn some(len: u64) -> Result<u64, Error> {
    if len == u64::MAX { Err(Error::NotFound) } else { Ok(len) }
}

/// With data of the greatest length, kept in a queue; each starts a program on this thread.
fn signals() -> Result<Vec<Call>, Error> {
    let gate = signalled_serve(&Leaves)?.address();
    let base = made(8)?;
    let (structure, queue, from) = (base, base + 64, base + 5 * PAGE - DATA_MAX / 2);
    let (to, room) = (base + 7 * PAGE - DATA_MAX / 2, DATA_MAX + 64);
    Queue::init(queue, base + PAGE, base + 3 * PAGE, false)?;
    let setup = SignalSetup {
        thread: task::identity().thread,
        entry: gate,
        start: start::DESTINATION,
        store: store::QUEUE,
        condition: condition::START_ANYWAY,
        most: 1,
        buffer: queue,
        buffer_len: 0,
        flags: signal_flag::SENDER,
    };
    Signals::init(structure, &setup)?;
    let setup = Box::leak(Box::new(SignalSetup { ..setup }));
    let setup = core::ptr::from_ref(setup) as u64;
    let drained = move || {
        while stub::signal_take(&Trap, structure, to, room)? != u64::MAX {}
        Ok(0)
    };
    let sent = move || stub::mbcf_signal(&Trap, structure, from, DATA_MAX, 0, 0, 0);
    let with = |name, bytes, first: Does, call: Does| Call { name, bytes, first, call };
    Ok(Vec::from([
        with("signal_init", 0, Box::new(drained), Box::new(move || stub::signal_init(&Trap, structure, setup))),
        with("mbcf_signal", DATA_MAX, Box::new(drained), Box::new(sent)),
        with(
            "signal_take",
            DATA_MAX,
            Box::new(sent),
            Box::new(move || stub::signal_take(&Trap, structure, to, room).and_then(some)),
        ),
    ]))
}

/// Pages that move between a section with a pager and another one, each mapped before.
fn paged() -> Result<Vec<Call>, Error> {
    let (base, other) = (made(1)?, made(1)?);
    set(base, pager_serve(&Validates)?.address(), 1, 0)?;
    let taken = move || stub::page_take(&Trap, base, other);
    let supplied = move || stub::page_supply(&Trap, base, other, 0);
    let mapped = |at| {
        probe::write(at);
        Ok(0)
    };
    Ok(Vec::from([
        Call {
            name: "page_take",
            bytes: 0,
            // (The first time it is there.)
            first: Box::new(move || {
                let _ = supplied();
                mapped(base)
            }),
            call: Box::new(taken),
        },
        Call {
            name: "page_supply",
            bytes: 0,
            first: Box::new(move || {
                let _ = taken();
                mapped(other)
            }),
            call: Box::new(supplied),
        },
        // And as a copy.
        Call {
            name: "page_supply",
            bytes: PAGE,
            first: Box::new(move || {
                let _ = taken();
                mapped(other)
            }),
            call: Box::new(move || stub::page_supply(&Trap, base, other, supply::COPY)),
        },
    ]))
}

/// So often each is made while the trace is on.
const TIMES: usize = 4;

/// Those, by the full entry, with what has the longest lists.
pub fn calls_by_long_lists() -> Result<(), (&'static str, Error)> {
    ENTRIES.store(MOST, Ordering::Relaxed);
    in_turn()
}

fn in_turn() -> Result<(), (&'static str, Error)> {
    for Call { name, first, call, .. } in short_calls().map_err(|error| ("what calls work on", error))? {
        for _ in 0..TIMES {
            first().and_then(|_| call()).map_err(|error| (name, error))?;
        }
    }
    Ok(())
}

/// The same by lists as they are, and what programs do with threads, faults and windows.
pub fn calls() -> Result<(), (&'static str, Error)> {
    in_turn()?;
    others().map_err(|error| ("a call", error))?;
    structures().map_err(|error| ("a section with structures", error))?;
    window().map_err(|error| ("a window", error))?;
    foreign::calls(4).map_err(|_| ("a Linux program", Error::Refused))
}

fn others() -> Result<(), Error> {
    // A fault that the program itself deals with.
    let gone = Section::create(PAGE, PAGE, kind::DATA, 0)?;
    let bytes = section::view(gone.base(), PAGE).ok_or(Error::BadAddress)?;
    gone.delete()?;
    if fault::copy_in(bytes).is_ok() {
        return Err(Error::Faulted);
    }
    // One that the task's pager does.
    let base = made(1)?;
    set_for_task(pager_serve(&Validates)?.address(), 0)?;
    invalidate(base, PAGE)?;
    probe::write(base);
    set_for_task(0, 0)?;
    section::name(base, b"a section of the greatest name, 32")?;
    let heir = task::create(&Limits::default(), task::identity().user, b"an heir")?;
    section::give(base, heir)?;
    stub::task_end(&Trap, heir, 0)?;
    let parked = thread::spawn(|| thread::park(), 0)?;
    let until = time::now_ns() + 1_000_000_000;
    while matches!(thread::registers(parked.number()), Err(Error::Busy)) && time::now_ns() < until {
        thread::yield_now();
    }
    parked.kill()?;
    parked.join()?;
    sched::wake_up(task::identity().thread)?;
    sched::sleep(1_000_000)?;
    let _ = task::own_by_full_entry();
    thread::yield_now();
    if task::threads().count() == 0 || task::list().count() == 0 {
        return Err(Error::NotFound);
    }
    Ok(())
}

/// A section in which many structures lie becomes shorter, is sealed, and is deleted; and one at whose end the buffers of all lie.
fn structures() -> Result<(), Error> {
    let len = PAGE + STRUCTURES * STRUCTURE_ALIGN;
    let made = || {
        let section = Section::create(len, len + PAGE, kind::DATA, 0)?;
        let base = section.base();
        for n in 0..STRUCTURES {
            stub::fifo_init(&Trap, base + PAGE + n * STRUCTURE_ALIGN, base, base + PAGE, 0)?;
        }
        Ok(section)
    };
    let mut shorter = made()?;
    shorter.resize(PAGE)?;
    shorter.delete()?;
    section::delete(made()?.seal()?)?;
    made()?.delete()?;
    let mut buffers = Section::create(len, len, kind::DATA, 0)?;
    let (base, end) = (buffers.base(), buffers.base() + len);
    for n in 0..STRUCTURES {
        stub::fifo_init(&Trap, base + n * STRUCTURE_ALIGN, end - PAGE, end, 0)?;
    }
    buffers.resize(len - PAGE)?;
    buffers.delete()
}

/// The window of a task that never runs, full of mappings: each page of a section by itself.
fn window() -> Result<(), Error> {
    let base = made(ALIASES)?;
    let task = task::create(&Limits::default(), task::identity().user, b"a window")?;
    let [write, read] = [Rights::READ | Rights::WRITE, Rights::READ].map(|rights| u64::from(rights.bits()));
    let len = ALIASES * PAGE;
    let fill = || {
        // The last page first, so that none goes on where the one before it ends.
        (0..ALIASES).try_for_each(|n| {
            stub::window_map(&Trap, task, AT + n * PAGE, base, len - (n + 1) * PAGE, PAGE, write).map(drop)
        })
    };
    fill()?;
    stub::window_protect(&Trap, task, AT, len, read)?;
    stub::window_unmap(&Trap, task, AT, len)?;
    fill()?;
    // All of them make room for one.
    stub::window_map(&Trap, task, AT, base, 0, len, write)?;
    fill()?;
    stub::task_end(&Trap, task, 0)?;
    section::delete(base)
}
