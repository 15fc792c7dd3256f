//! Limits: what is over them is refused by name, changes nothing, and what is given back can be had again.

use crate::deaths::settled;
use crate::memory::store;
use crate::refusals::refused;
use crate::report::{Check, Outcome, doing};
use crate::{holds, same};
use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::calls::stub;
use musubi::abi::layout::{GRANULE, PAGE};
use musubi::abi::refusal::Object;
use musubi::abi::section::kind;
use musubi::abi::task::{Limits, cause, exit};
use musubi::command::Command;
use musubi::rt::{Section, Trap, section, task, thread};
use musubi::{Error, eprintln};

pub const CHECKS: &[Check] = &[
    ("limit_of_sections", || limit("sections", Limits { sections: 24, ..Limits::default() })),
    ("limit_of_reserve", || limit("reserve", Limits { reserve: 2 << 30, ..Limits::default() })),
    ("limit_of_threads", || limit("threads", Limits { threads: 6, ..Limits::default() })),
    ("limit_of_frames", || limit("frames", Limits { frames: 400, ..Limits::default() })),
    ("fault_without_frames", fault_without_frames),
    ("limits_are_not_above_the_makers", not_above),
    ("child_gives_back", child_gives_back),
    ("tasks_are_limited", tasks_end),
];

fn start(what: &str, limits: Limits) -> Result<musubi::abi::task::Exit, String> {
    let command = Command::new(b"bin/check").args(["check", "as", "quota", what]).limits(limits);
    command.spawn().map_err(doing("start"))?.wait_for(60_000_000_000).map_err(doing("wait"))
}

fn limit(what: &str, limits: Limits) -> Outcome {
    let exit = start(what, limits)?;
    same!((exit.kind, exit.code), (exit::EXITED, 0), "the limited program (see the error stream)");
    Ok(())
}

/// The program with limits. Value: its exit status.
pub fn limited(what: &str) -> i32 {
    let outcome = match what {
        "sections" => twice(|| fill(|| Section::create(PAGE, 0, kind::DATA, 0).map(|s| s.base()), give_back)),
        "reserve" => twice(|| fill(|| Section::create(0, 64 << 20, kind::DATA, 0).map(|s| s.base()), give_back)),
        "threads" => twice(threads),
        "frames" => twice(frames),
        "touch" => touch(),
        "tasks" => make_tasks(),
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
    let (first, used) = (count()?, used()?);
    let second = count()?;
    holds!(first.abs_diff(second) <= 4, "{second} the second time, {first} the first time");
    same!(self::used()?, used, "what is used after giving everything back");
    Ok(())
}

fn used() -> Result<(u64, u64, u64), String> {
    let own = musubi::start().task();
    let info = task::list().find(|t| t.task == own).ok_or("the own task is not listed")?;
    Ok((info.used.sections, info.used.reserve, info.used.threads))
}

fn give_back(base: u64) -> Result<(), Error> {
    section::delete(base)
}

/// Takes until it is refused, and gives everything back.
fn fill(take: impl Fn() -> Result<u64, Error>, give: impl Fn(u64) -> Result<(), Error>) -> Result<u64, String> {
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
    same!((why, again), (Error::Quota, Err(Error::Quota)), "the refusal after {count}");
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
    same!((why, count), (Error::Quota, 5), "the refusal, and threads beside the first");
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
    same!(why, Error::Quota, "the refusal after {count} frames");
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
    holds!(why == Error::Quota && again.abs_diff(count) <= 4, "{again} frames the second time, not {count}: {why}");
    section.delete().map_err(doing("delete"))?;
    Ok(count)
}

fn touch() -> Outcome {
    let section = Section::create(4 * GRANULE, 0, kind::DATA, 0).map_err(doing("create"))?;
    (0..4 * GRANULE / PAGE).for_each(|page| store(section.base() + page * PAGE, 1));
    Err("more frames than the limit".into())
}

fn fault_without_frames() -> Outcome {
    let exit = start("touch", Limits { frames: 400, ..Limits::default() })?;
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
            Err(Error::Quota | Error::NoMemory) => return Ok(()),
            Err(e) => return Err(alloc::format!("the refusal: {e}")),
        }
    }
    Err("300000 tasks by one program".into())
}

/// What a task had is free when it is over.
fn child_gives_back() -> Outcome {
    let once = || start("frames", Limits { frames: 400, ..Limits::default() });
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
    holds!(after.views <= before.views + 4 * PAGE, "views grew from {} to {}", before.views, after.views);
    // The kernel's own heap grows in steps; what 20 children had would be 8000 frames.
    let lost = before.free.saturating_sub(after.free);
    if lost > 64 * PAGE { Err(alloc::format!("{lost} bytes were lost")) } else { Ok(()) }
}
