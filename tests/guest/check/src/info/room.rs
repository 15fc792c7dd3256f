//! Tables of the info sections become longer as objects come, and by nothing else.

use super::{all, own};
use crate::memory::data;
use crate::report::{Outcome, doing};
use crate::sections::role as run_role;
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use musubi::abi::info::layout::table;
use musubi::abi::layout::PAGE;
use musubi::abi::task::{cause, exit};
use musubi::rt::info::Info;
use musubi::rt::post::Post;
use musubi::rt::{sync, task, thread};

/// More of each than there was room for when tables had all their pages from the beginning.
const SECTIONS: usize = 5000;
const THREADS: usize = 1100;
const POSTS: usize = 600;

/// Nothing is left out of either section.
fn has_all(info: &Info, whose: &str) -> Outcome {
    let left = info.head().table.iter().position(|place| place.left_out > 0);
    holds!(left.is_none(), "table {left:?} of {whose} has no room");
    Ok(())
}

static GO: AtomicU32 = AtomicU32::new(0);

fn waits() {
    while GO.load(Ordering::SeqCst) == 0 {
        let _ = sync::wait(&GO, 0, u64::MAX);
    }
}

pub fn is_there_for_all() -> Outcome {
    let (me, before) = (task::own(), own()?.promised());
    let sections: Result<Vec<_>, _> = (0..SECTIONS).map(|_| data(PAGE)).collect();
    let sections = sections.map_err(doing("sections"))?;
    let threads: Result<Vec<_>, _> = (0..THREADS).map(|_| thread::spawn(waits, PAGE)).collect();
    let threads = threads.map_err(doing("threads"))?;
    let posts: Result<Vec<_>, _> = (0..POSTS).map(|_| Post::any()).collect();
    let posts = posts.map_err(doing("posts"))?;
    let (all, mine) = (all()?, own()?);
    has_all(&all, "everybody")?;
    has_all(&mine, "this user")?;
    let is_seen = |base: u64| mine.sections().any(|one| one.base == base && one.owner == me);
    holds!(sections.iter().step_by(499).all(|one| is_seen(one.base())), "a section is not seen");
    let seen = [
        mine.sections().filter(|one| one.owner == me).count(),
        all.threads().filter(|one| one.task == me).count(),
        mine.own_threads().count(),
        mine.posts().filter(|one| one.owner == me).count(),
    ];
    let there = [SECTIONS, THREADS, THREADS, POSTS];
    holds!(seen.iter().zip(there).all(|(seen, there)| *seen >= there), "{seen:?} of {there:?} are seen");
    // What is seen is paid for: in a page of sections there are 32 of them.
    let grown = mine.promised().shown - before.shown;
    let least = (SECTIONS / 32) as u64;
    holds!((least / 2..4 * least).contains(&grown), "{grown} frames more for what is seen");
    GO.store(1, Ordering::SeqCst);
    sync::wake(&GO, u64::MAX);
    threads.into_iter().try_for_each(|one| one.join().map(drop)).map_err(doing("join"))?;
    posts.into_iter().try_for_each(|one| one.free(true)).map_err(doing("free"))?;
    sections.into_iter().try_for_each(|one| one.delete()).map_err(doing("delete"))?;
    // Who comes next has the same places.
    let used = |info: &Info| info.table(table::SECTIONS).used;
    let (most, again) = (used(&mine), data(PAGE).map_err(doing("a section"))?);
    same!(used(&mine), most, "places of sections that were had");
    again.delete().map_err(doing("delete"))
}

/// Where no page of a table is yet, none comes for who reads there.
pub fn reading_makes_none() -> Outcome {
    let user = musubi::start().user();
    let base = all()?.users().find(|one| one.user == user).ok_or("this user has no section")?.section;
    let table = own()?.table(table::SECTIONS);
    let last = base + table.offset + table.size * table.room - PAGE;
    holds!(table.used + PAGE / table.size < table.room, "the table is full: {table:?}");
    let before = own()?.promised().shown;
    for _ in 0..2 {
        let how = run_role(&["peek", &format!("{last:#x}")])?;
        same!((how.kind, how.cause, how.address), (exit::FAULT, cause::INVALID, last), "reading behind what there is");
    }
    let after: Result<u64, String> = own().map(|own| own.promised().shown);
    holds!(after? <= before + 8, "more frames are the user's for it");
    Ok(())
}
