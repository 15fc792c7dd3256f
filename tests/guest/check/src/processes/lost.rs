//! The process server is ended again and again while programs start, end and are waited for.

use super::{END_NS, role, start};
use crate::report::{Outcome, doing};
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::Error;
use musubi::abi::task::exit;
use musubi::command::Child;
use musubi::processes::{self, group, of_group, whom};
use musubi::rt::{Mutex, task, thread, time};
use musubi::servers::{self, acts as act, state};

/// Threads that start programs and hear how they end.
const CALLERS: usize = 3;

fn end_it() -> Outcome {
    servers::act("processes", act::KILL).map_err(|e| format!("ending the process server: {e}"))
}

/// Starts a program with this status. One whose start was under way when the server ended is found among the children, or is not there.
fn started(code: u64) -> Result<Option<Child>, String> {
    match role(&["status", &format!("{code}")]).spawn() {
        Ok(child) => Ok(Some(child)),
        Err(refused) if refused.error == Error::Dead => Ok(None),
        Err(refused) => Err(format!("start: {refused}")),
    }
}

pub fn under_load(kills: u64) -> Outcome {
    let over: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let told: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
    // These live through all of it.
    let parked: Result<Vec<Child>, String> =
        (0..4).map(|_| role(&["park"]).group(group::NEW).spawn().map_err(doing("start"))).collect();
    let parked = parked?;
    let heard: &'static Mutex<BTreeSet<u64>> = Box::leak(Box::new(Mutex::new(BTreeSet::new())));
    let caller = move |seed: u64| {
        let mut code = seed;
        while !over.load(Ordering::SeqCst) {
            code = (code * 5 + 3) % 250;
            let outcome = started(code).and_then(|child| match child {
                Some(child) => {
                    let end = child.wait_for(END_NS).map_err(|e| format!("{}: {e}", child.task))?;
                    heard.lock().insert(child.task);
                    Ok(Some(end))
                }
                None => Ok(None),
            });
            match outcome {
                Ok(Some(end)) if (end.kind, end.code) == (exit::EXITED, code) => {
                    told.fetch_add(1, Ordering::SeqCst);
                }
                Ok(None) => {}
                other => {
                    musubi::eprintln!("a program with status {code}: {other:?}");
                    thread::exit(1);
                }
            }
        }
    };
    let callers: Result<Vec<_>, Error> =
        (0..CALLERS as u64).map(|seed| thread::spawn(move || caller(seed * 40 + 1), 0)).collect();
    let callers = callers.map_err(doing("thread"))?;
    for _ in 0..kills {
        let before = told.load(Ordering::SeqCst);
        while told.load(Ordering::SeqCst) < before + 4 {
            thread::yield_now();
        }
        end_it()?;
    }
    over.store(true, Ordering::SeqCst);
    for one in callers {
        same!(one.join(), Ok(0), "a caller (see the error stream)");
    }
    holds!(told.load(Ordering::SeqCst) >= 4 * kills, "{} programs in all", told.load(Ordering::SeqCst));
    let me = task::identity().task;
    for child in &parked {
        let known = processes::status(child.task).map_err(doing("status"))?;
        same!((known.parent, known.group, known.over), (me, child.task, 0), "one that goes on");
        same!(processes::kill(of_group(child.task)), Ok(1), "its group");
    }
    // Those whose start was under way are here, too. Then nothing is left, here or in the kernel.
    let mut left: BTreeSet<u64> = parked.iter().map(|child| child.task).collect();
    loop {
        match processes::collect(whom::CHILD, END_NS) {
            Ok((task, _)) => {
                holds!(!heard.lock().contains(&task), "the end of {task} is told twice");
                left.remove(&task);
            }
            Err(Error::NotFound) => break,
            Err(error) => return Err(format!("the last ones: {error}")),
        }
    }
    same!(left.len(), 0, "programs whose ends were lost");
    same!(task::list().filter(|one| one.payer == me).count(), 0, "tasks that go on");
    let known = processes::list().map_err(doing("list"))?;
    same!(known.iter().filter(|one| one.parent == me).count(), 0, "processes that are known");
    same!(start(&["status", "3"])?.wait().map(|end| end.code), Ok(3), "a program after it");
    Ok(())
}

/// Programs end in the very moments in which nobody is there to hear of it, and somebody waits all the while.
pub fn ends_while_it_is_away() -> Outcome {
    let mut away = 0;
    for round in 0..ROUNDS {
        let children: Result<Vec<Child>, String> = (0..8).map(|_| start(&["park"])).collect();
        let children = children?;
        let last = children[7].task;
        let waiter = {
            let wait = move || thread::exit(processes::wait(last, END_NS).map_or(u64::MAX, |end| end.1.kind));
            thread::spawn(wait, 0).map_err(doing("thread"))?
        };
        // By the kernel: the server is not asked. Value: whether it was not there before the first and after the last one.
        let killer = {
            let children = children.clone();
            let kill = move || {
                let until = time::now_ns() + END_NS;
                while is_there() && time::now_ns() < until {}
                for child in &children {
                    let _ = task::kill(child.task);
                }
                thread::exit(u64::from(!is_there() && time::now_ns() < until))
            };
            thread::spawn(kill, 0).map_err(doing("thread"))?
        };
        end_it()?;
        away += killer.join().map_err(doing("join"))?;
        same!(waiter.join(), Ok(exit::KILLED), "round {round}: what was told to who waited");
        for child in children {
            same!(child.wait_for(END_NS).map(|end| end.kind), Ok(exit::KILLED), "round {round}: an end");
            same!(child.wait_for(0).map(drop), Err(Error::NotFound), "round {round}: the same end once more");
        }
        if away >= 3 {
            return Ok(());
        }
    }
    Err(format!("of {ROUNDS} times it was away while they ended {away} times"))
}

/// Rounds at most, until it was away in three of them.
const ROUNDS: usize = 40;

fn is_there() -> bool {
    servers::list().is_ok_and(|all| all.iter().any(|one| one.name == "processes" && one.info.state == state::RUNNING))
}
