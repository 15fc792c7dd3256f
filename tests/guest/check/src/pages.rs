//! Real pages (SSS-37): there at once, without a later fault, and given back at once.

use crate::memory::{data, load, store};
use crate::report::{Check, Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::layout::PAGE;
use musubi::abi::rights::principal;
use musubi::abi::section::{SectionInfo, SectionPages};
use musubi::abi::task::{Identity, ThreadInfo};
use musubi::rt::section::{self, alloc, free, invalidate, validate};
use musubi::rt::{Trap, fault, thread, time};
use musubi::{AclEntry, Error, Rights};

mod counts;

pub const CHECKS: &[Check] = &[
    ("real_pages_are_there_at_once", at_once),
    ("real_pages_go_back_at_once", go_back),
    ("an_alarm_in_the_middle_of_having_pages", alarm_meanwhile),
    ("real_pages_and_clones", clones),
    ("real_pages_and_other_attributes", attributes),
    ("real_pages_are_refused", refusals),
    ("pages_are_counted_by_parts", counts::by_parts),
    ("clones_and_large_pages_are_counted", counts::kinds),
    ("what_cannot_be_counted", counts::refusals),
];

/// Faults of the calling thread so far.
pub fn faults() -> Result<u64, String> {
    let mut own = Identity::default();
    stub::identity(&Trap, core::ptr::from_mut(&mut own) as u64).map_err(doing("identity"))?;
    let mut thread = ThreadInfo::default();
    stub::thread_list(&Trap, own.thread - 1, core::ptr::from_mut(&mut thread) as u64).map_err(doing("thread_list"))?;
    same!(thread.thread, own.thread, "the thread that is told of");
    Ok(thread.faults)
}

pub fn info(base: u64) -> Result<SectionInfo, String> {
    section::info(base).map_err(doing("info"))
}

pub fn counts(base: u64) -> Result<SectionPages, String> {
    section::pages(base).map_err(doing("counting pages"))
}

/// All of them are new, and can be stored to. (Its code is in one place, and there when it runs for the second time.)
#[inline(never)]
fn touch(at: u64, count: u64) -> Outcome {
    for page in 0..count {
        same!(load(at + page * PAGE), 0, "a new page");
        store(at + page * PAGE, page + 1);
    }
    Ok(())
}

fn at_once() -> Outcome {
    // One page; some; more than one call does; over the border between two tables.
    for (first, count) in [(0, 1), (3, 5), (0, 1030), (510, 4)] {
        let section = data(1030 * PAGE).map_err(doing("create"))?;
        let at = section.base() + first * PAGE;
        faults()?;
        alloc(at, count * PAGE).map_err(doing("alloc"))?;
        same!(info(section.base())?.resident, count, "pages that are there");
        // What does it is there, too.
        let other = data(count * PAGE).map_err(doing("create"))?;
        touch(other.base(), count)?;
        let before = faults()?;
        touch(at, count)?;
        same!(faults()?, before, "faults at {count} pages that are there");
        // What is there stays as it is.
        alloc(at, count * PAGE).map_err(doing("alloc again"))?;
        for page in 0..count {
            same!(load(at + page * PAGE), page + 1, "a page that was there");
        }
        section.delete().map_err(doing("delete"))?;
    }
    Ok(())
}

/// Where a key changes hands for it the call lets interrupts in, as a task has many threads: whom one wakes runs when the call is over, though it is a
/// light one and the thread makes no other.
fn alarm_meanwhile() -> Outcome {
    static HEARD: AtomicU64 = AtomicU64::new(0);
    static STOP: AtomicBool = AtomicBool::new(false);
    let parked: Result<Vec<_>, _> = (0..60)
        .map(|_| {
            thread::spawn(
                || {
                    while !STOP.load(Ordering::SeqCst) {
                        time::sleep_ns(2_000_000_000);
                    }
                },
                0,
            )
        })
        .collect();
    let parked = parked.map_err(doing("thread"))?;
    time::sleep_ns(20_000_000);
    for round in 1..=8 {
        let section = data(512 * PAGE).map_err(doing("create"))?;
        // A class of its own, which has no key yet.
        let text = section.base();
        let entry = AclEntry { principal: principal::ANY, rights: Rights::READ.bits(), id: 0, text };
        section::grant(section.base(), &entry).map_err(doing("grant"))?;
        let at = time::now_ns() + 5_000_000;
        let wakes = thread::spawn(
            move || {
                time::sleep_ns(at.saturating_sub(time::now_ns()));
                HEARD.store(round, Ordering::SeqCst);
            },
            0,
        );
        let wakes = wakes.map_err(doing("thread"))?;
        // It begins to sleep.
        time::sleep_ns(1_000_000);
        while time::now_ns() + 20_000 < at {}
        alloc(section.base(), 512 * PAGE).map_err(doing("alloc"))?;
        // No call meanwhile: by the counter of the processor, for so long at least.
        let began = time::ticks();
        while HEARD.load(Ordering::SeqCst) != round && time::ticks() - began < 20_000_000_000 {
            core::hint::spin_loop();
        }
        same!(HEARD.load(Ordering::SeqCst), round, "the round that was heard of");
        wakes.join().map_err(doing("join"))?;
        section.delete().map_err(doing("delete"))?;
    }
    STOP.store(true, Ordering::SeqCst);
    parked.into_iter().try_for_each(|one| one.join().map(drop).map_err(doing("join")))
}

fn go_back() -> Outcome {
    let section = data(600 * PAGE).map_err(doing("create"))?;
    let base = section.base();
    for _ in 0..20 {
        alloc(base, 600 * PAGE).map_err(doing("alloc"))?;
        (0..600).for_each(|page| store(base + page * PAGE, page + 1));
        free(base + 7 * PAGE, 580 * PAGE).map_err(doing("free"))?;
        same!(info(base)?.resident, 20, "pages that are left");
        for page in 0..600 {
            let value = if (7..587).contains(&page) { 0 } else { page + 1 };
            same!(load(base + page * PAGE), value, "page {page}");
        }
        free(base, 600 * PAGE).map_err(doing("free all"))?;
        same!(info(base)?.resident, 0, "pages that are left of none");
        // Twice is as once.
        free(base, 600 * PAGE).map_err(doing("free none"))?;
    }
    // In the end nothing is charged that is not there: the task's whole quota can be had this way, again and again.
    section.delete().map_err(doing("delete"))
}

fn clones() -> Outcome {
    let section = data(4 * PAGE).map_err(doing("create"))?;
    let base = section.base();
    alloc(base, 4 * PAGE).map_err(doing("alloc"))?;
    (0..4).for_each(|page| store(base + page * PAGE, page + 1));
    let clone = section::clone_at(base, 0, 0, 0).map_err(doing("clone"))?;
    // Shared pages are there already, and stores make copies as ever.
    alloc(base, 4 * PAGE).map_err(doing("alloc of shared pages"))?;
    store(base, 9);
    same!((load(base), load(clone)), (9, 1), "a store to a page that was shared");
    free(base + PAGE, 3 * PAGE).map_err(doing("free"))?;
    same!((load(base + PAGE), load(clone + PAGE)), (0, 2), "a page given back, and the clone's");
    free(clone, 4 * PAGE).map_err(doing("free the clone's"))?;
    same!((load(base), load(clone)), (9, 0), "the first page, and the clone's given back");
    section::delete(clone).map_err(doing("delete"))?;
    section.delete().map_err(doing("delete"))
}

fn attributes() -> Outcome {
    let section = data(3 * PAGE).map_err(doing("create"))?;
    let base = section.base();
    // A page that is invalid is had, and stays invalid until it is made valid.
    invalidate(base + PAGE, PAGE).map_err(doing("invalidate"))?;
    alloc(base, 3 * PAGE).map_err(doing("alloc"))?;
    same!(info(base)?.resident, 3, "pages that are there");
    // SAFETY: the check's own section; if it cannot be read that is an error, not undefined.
    let invalid = unsafe { core::slice::from_raw_parts((base + PAGE) as *const u8, 8) };
    holds!(fault::copy_in(invalid).is_err(), "an invalid page can be read");
    validate(base + PAGE, PAGE).map_err(doing("validate"))?;
    same!(load(base + PAGE), 0, "a page that is valid again");
    store(base, 5);
    section::grant(base, &everybody(Rights::READ)).map_err(doing("grant"))?;
    section::grant(base, &everybody(Rights::empty())).map_err(doing("revoke"))?;
    same!(load(base), 5, "a page after changes of the list");
    section.delete().map_err(doing("delete"))
}

fn refusals() -> Outcome {
    let section = data(2 * PAGE).map_err(doing("create"))?;
    let base = section.base();
    for call in [alloc, free] {
        same!(call(base + 1, PAGE), Err(Error::BadAddress), "not a whole page");
        same!(call(base, 0), Err(Error::BadAddress), "no page");
        same!(call(base + PAGE, 2 * PAGE), Err(Error::BadAddress), "beyond the end");
        same!(call(base, u64::MAX), Err(Error::BadAddress), "everything");
        same!(call(u64::MAX - PAGE + 1, PAGE), Err(Error::NotFound), "no address");
        let text = refusals as fn() -> Outcome as usize as u64 / PAGE * PAGE;
        holds!(call(text, PAGE).is_err(), "pages of a text");
    }
    same!(info(base)?.resident, 0, "pages after refusals");
    section.delete().map_err(doing("delete"))
}
