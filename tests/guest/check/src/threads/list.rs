//! The list of threads (`thread_list`): it names all that there are, each once and in the order of their numbers, and says of them what it may.

use super::leak;
use crate::memory::data;
use crate::report::{Outcome, doing};
use crate::{holds, same};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use musubi::Error;
use musubi::abi::calls::stub;
use musubi::abi::layout::PAGE;
use musubi::abi::task::{ThreadInfo, state};
use musubi::rt::{Trap, task, thread, time};

const STARTED: usize = 12;
/// What takes no time is not waited for longer.
const PATIENCE_NS: u64 = 20_000_000_000;

fn own() -> Vec<ThreadInfo> {
    let me = task::identity().task;
    task::threads().filter(|one| one.task == me).collect()
}

fn numbers(threads: &[ThreadInfo]) -> Vec<u64> {
    threads.iter().map(|one| one.thread).collect()
}

/// Until it is so.
fn until(what: &str, is_so: impl Fn() -> bool) -> Outcome {
    let end = time::now_ns() + PATIENCE_NS;
    while !is_so() {
        holds!(time::now_ns() < end, "{what}");
        time::sleep_ns(1_000_000);
    }
    Ok(())
}

/// What the call writes for `after`, beyond which nothing is written.
fn next(after: u64) -> Result<(u64, ThreadInfo), Error> {
    let mut out = [ThreadInfo { thread: 77, ..ThreadInfo::default() }; 2];
    let found = stub::thread_list(&Trap, after, out.as_mut_ptr() as u64);
    let untouched = out[usize::from(found.is_ok())..].iter().all(|one| one.thread == 77 && one.task == 0);
    assert!(untouched, "more was written than one record");
    found.map(|number| (number, out[0]))
}

pub fn exact() -> Outcome {
    let me = task::identity();
    let before = numbers(&own());
    holds!(before.contains(&me.thread), "{before:?} has not {}", me.thread);
    let go: &'static AtomicU32 = leak(AtomicU32::new(0));
    let waits = move || {
        while go.load(Ordering::SeqCst) == 0 {
            // In the kernel, whoever decides.
            let _ = stub::wait(&Trap, go.as_ptr() as u64, 0, u64::MAX);
        }
    };
    let started: Result<Vec<_>, _> = (0..STARTED).map(|_| thread::spawn(waits, 0)).collect();
    let started = started.map_err(doing("threads"))?;
    let mut wanted: Vec<u64> = before.iter().copied().chain(started.iter().map(thread::Thread::number)).collect();
    wanted.sort_unstable();
    same!(numbers(&own()), wanted, "this program's threads");
    same!(task::info(me.task).map(|info| info.threads), Some(wanted.len() as u64), "how many the task has");
    let new: Vec<u64> = started.iter().map(thread::Thread::number).collect();
    let waiting = || own().iter().filter(|one| new.contains(&one.thread)).all(|one| one.state == state::WAITING);
    until("they do not wait", waiting)?;
    for one in own().iter().filter(|one| new.contains(&one.thread) || one.thread == me.thread) {
        let doing = if one.thread == me.thread { state::RUNNING } else { state::WAITING };
        same!((one.state, one.text, one.depth), (doing, me.text, 0), "what thread {} does", one.thread);
        holds!((one.processor as usize) < task::processors().count(), "where it is: {}", one.processor);
    }
    one_by_one(&wanted)?;
    complete()?;
    // Who has ended, in either way, is gone.
    let (killed, others) = started.split_at(STARTED / 2);
    killed.iter().try_for_each(|one| one.kill()).map_err(doing("kill"))?;
    let gone = numbers_of(killed);
    until("killed threads stay in the list", || !own().iter().any(|one| gone.contains(&one.thread)))?;
    wanted.retain(|number| !gone.contains(number));
    same!(numbers(&own()), wanted, "what is left when some were killed");
    same!(numbers_of(others).iter().all(|number| wanted.contains(number)), true, "those that were not");
    go.store(1, Ordering::SeqCst);
    stub::wake(&Trap, go.as_ptr() as u64, u64::MAX).map_err(doing("wake"))?;
    until("threads that have ended stay in the list", || own().len() == before.len())?;
    same!(numbers(&own()), before, "what is left in the end");
    started.into_iter().try_for_each(|one| one.join().map(drop)).map_err(doing("join"))
}

fn numbers_of(threads: &[thread::Thread]) -> Vec<u64> {
    threads.iter().map(thread::Thread::number).collect()
}

/// It goes on from any number, whether there is such a thread or not, and has an end.
fn one_by_one(wanted: &[u64]) -> Outcome {
    let all: Vec<u64> = task::threads().map(|one| one.thread).collect();
    for (n, number) in wanted.iter().enumerate() {
        same!(next(number - 1).map(|(found, info)| (found, info.thread)), Ok((*number, *number)), "the next one");
        // Others' threads may lie between two of this program's; they come and go.
        if let Some(after) = wanted.get(n + 1) {
            let found = next(*number).map_err(doing("the one after it"))?.0;
            holds!(found > *number && found <= *after, "after {number} comes {found}, which should be {after} at most");
        }
    }
    let last = all.iter().max().copied().unwrap_or(0);
    let first = next(0).map_err(doing("the first"))?.0;
    holds!(first > 0 && first <= wanted[0], "the first is {first}");
    for after in [u64::MAX, u64::MAX - 1, 1 << 63] {
        same!(next(after).map(drop), Err(Error::NotFound), "after {after}");
    }
    holds!(next(last).map_or(true, |(found, _)| found > last), "after the last one");
    // Where it cannot be written nothing is told.
    let page = data(PAGE).map_err(doing("create"))?;
    same!(stub::thread_list(&Trap, 0, page.base() + PAGE), Err(Error::BadAddress), "beyond the end");
    same!(stub::thread_list(&Trap, 0, 0), Err(Error::BadAddress), "nowhere");
    page.delete().map_err(doing("delete"))
}

/// Of all tasks, as many as each has. (They change meanwhile: what is said must come out once.)
fn complete() -> Outcome {
    let tasks = || -> Vec<(u64, u64)> { task::list().map(|one| (one.task, one.threads)).collect() };
    let mut seen = None;
    for _ in 0..200 {
        let before = tasks();
        let threads: Vec<ThreadInfo> = task::threads().collect();
        holds!(threads.windows(2).all(|two| two[0].thread < two[1].thread), "they are not in order");
        let counted = |task: u64| threads.iter().filter(|one| one.task == task).count() as u64;
        let all_named = threads.iter().all(|one| before.iter().any(|(task, _)| *task == one.task));
        let wrong = before.iter().find(|(task, count)| counted(*task) != *count);
        if wrong.is_none() && all_named && tasks() == before {
            return Ok(());
        }
        seen = wrong.map(|(task, count)| (*task, *count, counted(*task)));
        time::sleep_ns(10_000_000);
    }
    Err(alloc::format!("task, threads that it has, and threads in the list: {seen:?}"))
}
