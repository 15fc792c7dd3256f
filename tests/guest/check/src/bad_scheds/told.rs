//! What a scheduler is told and what is refused to it: accesses as they were made, and threads that cannot be had.

use super::said;
use crate::memory::{data, store};
use crate::report::{ONE_PROCESSOR, Outcome, doing, skipped};
use crate::roles::WENT_THROUGH;
use crate::sched::{Load, client};
use crate::sections::{everybody, role as run_role};
use crate::{holds, same};
use alloc::format;
use musubi::abi::layout::PAGE;
use musubi::abi::task::{cause, exit};
use musubi::rt::{guard, probe, section, task, time};
use musubi::{Error, Rights};

/// Where nothing is.
const NOWHERE: u64 = 4096;
const PATIENCE_NS: u64 = 60_000_000_000;
/// Statuses with which `bad hears` ends from this one on, one for each access; and the one if it is told otherwise.
const FIRST: u64 = 20;
const OTHERWISE: u64 = 12;
/// Statuses of `bad waits` and `bad elsewhere`: all such names were refused, or one was not.
const ALL_REFUSED: u64 = 20;
const NOT_REFUSED: u64 = 4;

/// Makes an access that has no such right, having written to the page what the scheduler is to be told.
pub fn access(page: u64, address: u64, right: u64, cause: u64, status: u64) -> i32 {
    let me = task::identity();
    store(page, 0);
    for (at, word) in (page + 8..).step_by(8).zip([me.thread, me.text, cause, right, status]) {
        store(at, word);
    }
    store(page, address);
    let right = Rights::from_bits_truncate(right as u32);
    if right == Rights::WRITE {
        probe::write(address);
    } else if right == Rights::EXECUTE {
        probe::execute(address);
    } else {
        probe::read(address);
    }
    WENT_THROUGH
}

/// The scheduler hears of each refused access, by a program that ends of it and by one that mends it: of the thread, the text, the address, and
/// the right that was missing (CUBIX-15).
pub fn refused_accesses() -> Outcome {
    let chooser = client()?;
    let (page, forbidden) = (data(PAGE).map_err(doing("create"))?.base(), data(PAGE).map_err(doing("create"))?.base());
    section::name(page, b"accesses to come").map_err(doing("name"))?;
    section::grant(page, &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let accesses =
        [(NOWHERE, cause::NO_SECTION, true), (NOWHERE, cause::NO_SECTION, false), (forbidden, cause::DENIED, false)];
    let mut status = FIRST;
    for (address, cause, mends) in accesses {
        for right in [Rights::READ, Rights::WRITE, Rights::EXECUTE] {
            let what = format!("{right:?} at {address:#x}, mended: {mends}");
            let words = [page, address, right.bits().into(), cause, status];
            let provoke = || -> Outcome {
                if mends {
                    let [page, address, right, cause, status] = words;
                    let done = guard::run(|| access(page, address, right, cause, status));
                    same!(done, Err(Error::Faulted), "{what}");
                } else {
                    let words = words.map(|word| format!("{word:#x}"));
                    let all: [&str; 5] = core::array::from_fn(|n| &*words[n]);
                    let end = run_role(&[&["access"], &all[..]].concat())?;
                    same!((end.kind, end.cause), (exit::FAULT, cause), "{what}");
                }
                Ok(())
            };
            let (before, until) = (said("hears", status)?, time::now_ns() + PATIENCE_NS);
            for round in 0.. {
                if said("hears", status)? > before {
                    break;
                }
                same!(said("hears", OTHERWISE)?, 0, "accesses that were told otherwise, {what}");
                holds!(time::now_ns() < until, "the scheduler hears nothing of {what}: {:?}", crate::sched::lines(1)?);
                if round % 100 == 0 {
                    // It may be gone again before all seats are taken, and on a busy host it may be given up.
                    let _ = chooser.choose("bad hears");
                }
                provoke()?;
                time::sleep_ns(5_000_000);
            }
            chooser.choose("none").map_err(doing("none"))?;
            status += 1;
        }
    }
    same!(said("hears", OTHERWISE)?, 0, "accesses that were told otherwise");
    Ok(())
}

/// A scheduler names a thread that is there and cannot run: it is refused each time and keeps its seat, and nobody is lost.
pub fn refused_names(mode: &str) -> Outcome {
    if mode == "elsewhere" && task::processors().count() == 1 {
        return skipped(ONE_PROCESSOR);
    }
    let load = Load::start(4 * task::processors().count())?;
    let chooser = client()?;
    let (before, until) = (said(mode, ALL_REFUSED)?, time::now_ns() + PATIENCE_NS);
    // It may be gone again before all seats are taken.
    let _ = chooser.choose(&format!("bad {mode}"));
    while said(mode, ALL_REFUSED)? == before {
        same!(said(mode, NOT_REFUSED)?, 0, "names that were not refused as they should");
        holds!(time::now_ns() < until, "{mode}: there was nobody to name: {:?}", crate::sched::lines(1)?);
        load.all_run()?;
        time::sleep_ns(1_000_000);
    }
    chooser.choose("none").map_err(doing("none"))?;
    load.all_run()?;
    load.stop()
}
