//! Limits: what is over them is refused by name, changes nothing, and what is given back can be had again.

use crate::deaths::settled;
use crate::memory::store;
use crate::refusals::refused;
use crate::report::{Check, Outcome, doing, in_time};
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::layout::{GRANULE, PAGE};
use musubi::abi::refusal::Object;
use musubi::abi::section::kind;
use musubi::abi::task::{Limits, STACK_MAX, cause, exit};
use musubi::command::Command;
use musubi::interfaces::names::NamesClient;
use musubi::interfaces::pipes::PipesClient;
use musubi::interfaces::stream::StreamClient;
use musubi::rt::gate::{Skeleton, Values};
use musubi::rt::{Gates, Section, Trap, section, task, thread, time};
use musubi::{Caller, Error, eprintln, names};

/// Frames that a limited program has besides what it needs itself: more than a quarter of a granule, less than a granule.
const BESIDES: u64 = GRANULE / PAGE / 2;

pub const CHECKS: &[Check] = &[
    ("limit_of_sections", || limit("sections", Limits { sections: 24, ..Limits::default() })),
    ("limit_of_reserve", || limit("reserve", Limits { reserve: 2 << 30, ..Limits::default() })),
    ("limit_of_threads", || limit("threads", Limits { threads: 6, ..Limits::default() })),
    ("limit_of_frames", || limit("frames", few_frames()?)),
    ("a_stacks_copy_counts", || limit("stacks", few_frames()?)),
    ("fault_without_frames", fault_without_frames),
    ("limits_are_not_above_the_makers", not_above),
    ("child_gives_back", child_gives_back),
    ("tasks_are_limited", tasks_end),
    ("used_up_memory_leaves_servers_whole", used_up),
];

fn start(what: &str, limits: Limits) -> Result<musubi::abi::task::Exit, String> {
    let command = Command::new(b"bin/check").args(["check", "as", "quota", what]).limits(limits);
    command.spawn().map_err(doing("start"))?.wait_for(60_000_000_000).map_err(doing("wait"))
}

/// Limits with which this program can be started, and have [`BESIDES`]: how many frames it needs, one tells that has no limit.
fn few_frames() -> Result<Limits, String> {
    let exit = start("own", Limits::default())?;
    holds!(exit.kind == exit::EXITED && exit.code > 0, "a program's own frames: {exit:?}");
    Ok(Limits { frames: exit.code as u64 + BESIDES, ..Limits::default() })
}

fn limit(what: &str, limits: Limits) -> Outcome {
    let exit = start(what, limits)?;
    same!((exit.kind, exit.code), (exit::EXITED, 0), "the limited program (see the error stream)");
    Ok(())
}

/// The program with limits. Value: its exit status.
pub fn limited(what: &str) -> i32 {
    let outcome = match what {
        "sections" => {
            twice(|| fill(|| Section::create(PAGE, 0, kind::DATA, 0).map(|s| s.base()), give_back, Error::SectionQuota))
        }
        "reserve" => twice(|| {
            fill(|| Section::create(0, 64 << 20, kind::DATA, 0).map(|s| s.base()), give_back, Error::SpaceQuota)
        }),
        "threads" => twice(threads),
        "frames" => twice(frames),
        "own" => return used().map_or(0, |used| used.frames as i32),
        "stacks" => stacks(),
        "touch" => touch(),
        "tasks" => make_tasks(),
        "memory" => use_up(),
        _ => Err("no such limit".into()),
    };
    match outcome {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("{what}: {why}");
            1
        }
    }
}

/// The same can be had again after it was given back. (Frames also hold the tables of views, a few of which stay.)
fn twice(count: impl Fn() -> Result<u64, String>) -> Outcome {
    let but_frames = || used().map(|used| (used.sections, used.reserve, used.threads));
    let (first, used) = (count()?, but_frames()?);
    let second = count()?;
    holds!(first.abs_diff(second) <= 8, "{second} the second time, {first} the first time");
    same!(but_frames()?, used, "what is used after giving everything back");
    Ok(())
}

fn used() -> Result<Limits, String> {
    let own = musubi::start().task();
    task::list().find(|t| t.task == own).map(|t| t.used).ok_or_else(|| "the own task is not listed".into())
}

fn give_back(base: u64) -> Result<(), Error> {
    section::delete(base)
}

/// Takes until it is refused, and gives everything back.
fn fill(
    take: impl Fn() -> Result<u64, Error>,
    give: impl Fn(u64) -> Result<(), Error>,
    error: Error,
) -> Result<u64, String> {
    // Room beforehand: the heap must not need a section when there is none to have.
    let mut all = Vec::with_capacity(4096);
    let why = loop {
        match take() {
            Ok(one) => all.push(one),
            Err(e) => break e,
        }
    };
    let again = take();
    let count = all.len() as u64;
    for one in all {
        give(one).map_err(doing("giving back"))?;
    }
    same!((why, again), (error, Err(error)), "the refusal after {count}");
    if count == 0 { Err("nothing could be had".into()) } else { Ok(count) }
}

fn threads() -> Result<u64, String> {
    let mut all = Vec::with_capacity(64);
    let why = loop {
        match thread::spawn(|| musubi::rt::time::sleep_ns(50_000_000), 0) {
            Ok(one) => all.push(one),
            Err(e) => break e,
        }
    };
    let count = all.len() as u64;
    for one in all {
        one.join().map_err(doing("join"))?;
    }
    same!((why, count), (Error::ThreadQuota, 5), "the refusal, and threads beside the first");
    Ok(count)
}

/// Pages one by one, by the kernel's own stores: what is refused is an error, not a fault.
fn frames() -> Result<u64, String> {
    let mut section = Section::create(GRANULE, GRANULE, kind::DATA, 0).map_err(doing("create"))?;
    let mut count = 0;
    let why = loop {
        if count * PAGE >= GRANULE {
            return Err("a whole section was had".into());
        }
        match stub::identity(&Trap, section.base() + count * PAGE) {
            Ok(_) => count += 1,
            Err(e) => break e,
        }
    };
    same!(why, Error::MemoryQuota, "the refusal after {count} frames");
    // Cut off, they can be had again.
    section.resize(GRANULE / 4).map_err(doing("resize"))?;
    section.resize(GRANULE).map_err(doing("resize"))?;
    // (But for a few, which tables of views may take or leave.)
    let mut again = GRANULE / 4 / PAGE;
    let why = loop {
        match stub::identity(&Trap, section.base() + again * PAGE) {
            Ok(_) => again += 1,
            Err(e) => break e,
        }
    };
    holds!(
        why == Error::MemoryQuota && again.abs_diff(count) <= 8,
        "{again} frames the second time, not {count}: {why}"
    );
    section.delete().map_err(doing("delete"))?;
    Ok(count)
}

/// A stack may have more than its owner has frames for, and only a stack.
fn stacks() -> Outcome {
    let local = 0u64;
    let own = musubi::rt::section::info(core::ptr::from_ref(&local) as u64).map_err(doing("the own stack"))?;
    let copy = stub::section_clone(&Trap, own.base, 0, 0, 0).map_err(doing("a copy"))?;
    stub::section_resize(&Trap, copy, STACK_MAX).map_err(doing("its length"))?;
    let refused = (0..STACK_MAX / PAGE).find_map(|page| stub::identity(&Trap, copy + page * PAGE).err());
    same!(refused, Some(Error::MemoryQuota), "as much of it as there is");
    section::delete(copy).map_err(doing("delete"))
}

fn touch() -> Outcome {
    let section = Section::create(4 * GRANULE, 0, kind::DATA, 0).map_err(doing("create"))?;
    (0..4 * GRANULE / PAGE).for_each(|page| store(section.base() + page * PAGE, 1));
    Err("more frames than the limit".into())
}

fn fault_without_frames() -> Outcome {
    let exit = start("touch", few_frames()?)?;
    same!((exit.kind, exit.cause), (exit::FAULT, cause::NO_MEMORY), "how it ended");
    Ok(())
}

/// Whatever is asked for, a child may not have more than its maker.
fn not_above() -> Outcome {
    let listed = |number| task::list().find(|t| t.task == number).map(|t| t.limits).ok_or("a task is not listed");
    let mine = listed(musubi::start().task())?;
    let user = musubi::start().user();
    let all = u64::MAX;
    for asked in [
        Limits { frames: all, sections: all, reserve: all, threads: all },
        Limits { frames: mine.frames + 1, sections: 5, reserve: 6, threads: 7 },
        Limits::default(),
    ] {
        let child = task::create(&asked, user, b"child").map_err(doing("create"))?;
        let least = |asked: u64, mine: u64| if asked == 0 { mine } else { asked.min(mine) };
        let wanted = Limits {
            frames: least(asked.frames, mine.frames),
            sections: least(asked.sections, mine.sections),
            reserve: least(asked.reserve, mine.reserve),
            threads: least(asked.threads, mine.threads),
        };
        same!(listed(child)?, wanted, "the limits of a child that asked for {asked:?}");
        task::kill(child).map_err(doing("kill"))?;
    }
    refused(task::create(&Limits::default(), user + 1, b"other"), Object::System, "another user's task")?;
    refused(task::create(&Limits::default(), 0, b"system"), Object::System, "a task of the system's user")
}

/// Making tasks has an end, too, and the machine goes on.
fn tasks_end() -> Outcome {
    let exit = start("tasks", Limits::default())?;
    same!((exit.kind, exit.code), (exit::EXITED, 0), "the program that made tasks (see the error stream)");
    let exit = start("sections", Limits { sections: 24, ..Limits::default() })?;
    same!(exit.code, 0, "a program after it");
    Ok(())
}

fn make_tasks() -> Outcome {
    let user = musubi::start().user();
    for _ in 0..300_000 {
        match task::create(&Limits::default(), user, b"one of many") {
            Ok(_) => {}
            Err(Error::TaskQuota | Error::NoMemory) => return Ok(()),
            Err(e) => return Err(alloc::format!("the refusal: {e}")),
        }
    }
    Err("300000 tasks by one program".into())
}

/// What a task had is free when it is over.
fn child_gives_back() -> Outcome {
    let limits = few_frames()?;
    let once = || start("frames", limits);
    for _ in 0..3 {
        once()?;
    }
    let before = settled()?;
    for _ in 0..20 {
        same!(once()?.code, 0, "the child's status");
    }
    let after = settled()?;
    same!(
        (after.sections, after.tasks, after.threads),
        (before.sections, before.tasks, before.threads),
        "sections, tasks and threads"
    );
    // Receivers of servers that had not served yet have views of their own from then on; what 20 children had would be ten times as much.
    holds!(after.views <= before.views + 20 * PAGE, "views grew from {} to {}", before.views, after.views);
    // The kernel's own heap grows in steps; what 20 children had would be 8000 frames.
    let lost = before.free.saturating_sub(after.free);
    if lost > 64 * PAGE { Err(alloc::format!("{lost} bytes were lost")) } else { Ok(()) }
}

/// A program fills the machine's memory, which nobody forbids, and calls servers that then need more for themselves.
fn used_up() -> Outcome {
    let before = settled()?.free;
    let exit = start("memory", Limits::default())?;
    same!((exit.kind, exit.code), (exit::EXITED, 0), "the program that used up memory (see the error stream)");
    // Another thread than any that may have been lost.
    let served = in_time(|| names::lookup("pipes").and_then(PipesClient::bind).and_then(|pipes| pipes.make()));
    holds!(matches!(served, Some(Ok(_))), "the servers afterwards: {served:?}");
    let lost = before.saturating_sub(settled()?.free);
    holds!(lost < 16 << 20, "{lost} bytes were lost");
    Ok(())
}

/// Threads that fill their stacks: more than what the person may not have is room for.
const STACKS: u64 = 112;

fn use_up() -> Outcome {
    // What it needs itself is there before.
    let own = Gates::export(Nothing, 1).map_err(doing("export"))?;
    let service = NamesClient::bind_with_args(musubi::start().names(), PAGE).map_err(doing("names"))?;
    let pipes = names::lookup("pipes").and_then(PipesClient::bind).map_err(doing("pipes"))?;
    let streams =
        pipes.streams().and_then(|gate| StreamClient::bind_with_args(gate, 2 * PAGE)).map_err(doing("pipes"))?;
    let publish = |n: u8, m: u8| {
        let mut name = [b'm'; 60];
        (name[0], name[1]) = (b'a' + n, b'a' + m);
        core::str::from_utf8(&name).map_or(Err(Error::BadArgument), |name| service.publish(name, own.address()))
    };
    let pipe = || streams.write(pipes.make()? + 1, &[7; 4096]);
    publish(25, 25).map_err(doing("a name"))?;
    pipe().map_err(doing("a pipe"))?;
    let words: &'static [AtomicU64; 2] = Box::leak(Box::new([const { AtomicU64::new(0) }; 2]));
    let [go, had] = words;
    let stack = || {
        let local = 0u64;
        while go.load(Ordering::SeqCst) == 0 {
            time::sleep_ns(1_000_000);
        }
        let (mut at, mut pages) = (core::ptr::from_ref(&local) as u64 / PAGE * PAGE, 0);
        while stub::identity(&Trap, at).is_ok() {
            at -= PAGE;
            pages += 1;
        }
        had.fetch_add(1 << 32 | pages, Ordering::SeqCst);
        loop {
            time::sleep_ns(1_000_000_000);
        }
    };
    for _ in 0..STACKS {
        thread::spawn(stack, STACK_MAX).map_err(doing("thread"))?;
    }
    time::sleep_ns(50_000_000);
    let memory = task::memory().map_err(doing("memory"))?;
    let section = Section::create(memory.total, 0, kind::DATA, 0).map_err(doing("create"))?;
    let mut filled = 0;
    let why = loop {
        match stub::identity(&Trap, section.base() + filled * PAGE) {
            Ok(_) => filled += 1,
            Err(e) => break e,
        }
    };
    // A stack costs nothing above the quota: what that has left goes to stacks.
    go.store(1, Ordering::SeqCst);
    while had.load(Ordering::SeqCst) >> 32 < STACKS {
        time::sleep_ns(1_000_000);
    }
    let told = (0..10).try_for_each(|n| (0..26).try_for_each(|m| publish(n, m)));
    let piped = (0..100).try_for_each(|_| pipe().map(drop));
    section.delete().map_err(doing("delete"))?;
    let stacks = had.load(Ordering::SeqCst) & 0xffff_ffff;
    holds!(
        matches!(why, Error::NoMemory | Error::MemoryQuota),
        "the refusal after {filled} frames of {}: {why}",
        memory.total / PAGE
    );
    holds!(stacks < STACKS * (STACK_MAX / PAGE - 16), "stacks have used up {stacks} frames, and there are more");
    same!((told, piped), (Ok(()), Ok(())), "names and pipes when there was no memory left");
    Ok(())
}

pub struct Nothing;

impl Skeleton for Nothing {
    fn dispatch(&self, _: &Caller, _: u64, _: &[u64; 6]) -> Values {
        Values(0, 0)
    }
}
