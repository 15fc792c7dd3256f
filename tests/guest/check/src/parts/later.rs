//! A call that finds a section in the middle of something long leaves the kernel and is made again: nobody is waited for there, and others have their turns.

use crate::memory::{data, load, store};
use crate::report::{Outcome, doing};
use crate::{holds, same};
use alloc::string::String;
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::Error;
use musubi::abi::calls::stub;
use musubi::abi::layout::{GRANULE, PAGE};
use musubi::abi::section::SectionInfo;
use musubi::rt::section;
use musubi::rt::{Trap, task, thread};

/// With a page in each table it takes as long to clone as if all were there.
const LEN: u64 = 8 << 30;
const TRIES: usize = 40;
/// So often a call is made again at least, while somebody clones that; each that is made takes no more entries than that.
const AGAIN: u64 = 40;
const EACH: u64 = 8;

static STOP: AtomicBool = AtomicBool::new(false);
static DONE: AtomicU64 = AtomicU64::new(0);
static REFUSED: AtomicU64 = AtomicU64::new(0);

pub fn made_again() -> Outcome {
    if task::processors().count() < 2 {
        // Nobody is at anything while somebody is cloning.
        return Ok(());
    }
    let section = data(LEN).map_err(doing("create"))?;
    let base = section.base();
    (0..LEN).step_by(GRANULE as usize).for_each(|at| store(base + at, at + 1));
    while_it_is_cloned("page_alloc and page_free", base, move || {
        let page = base + PAGE;
        stub::page_alloc(&Trap, page, PAGE, 0)?;
        stub::page_free(&Trap, page, PAGE).map(drop)
    })?;
    while_it_is_cloned("a call that writes there", base, move || {
        stub::section_info(&Trap, base, base + 8 * PAGE).map(drop)
    })?;
    same!(load(base + 8 * PAGE + offset_of!(SectionInfo, len) as u64), LEN, "what that call has written");
    (0..LEN).step_by(GRANULE as usize).try_for_each(|at| {
        same!(load(base + at), at + 1, "a page that was not touched");
        Ok::<(), String>(())
    })?;
    section.delete().map_err(doing("delete"))
}

/// Somebody does this again and again, while the section is cloned, and has left the kernel meanwhile.
fn while_it_is_cloned(what: &str, base: u64, does: impl Fn() -> Result<(), Error> + Send + 'static) -> Outcome {
    STOP.store(false, Ordering::SeqCst);
    let beside = thread::spawn(
        move || {
            while !STOP.load(Ordering::SeqCst) {
                let counted = if does().is_ok() { &DONE } else { &REFUSED };
                counted.fetch_add(1, Ordering::SeqCst);
            }
        },
        0,
    );
    let beside = beside.map_err(doing("thread"))?;
    let entries = || task::processors().map(|one| one.entries).sum::<u64>();
    let mut most = 0;
    for _ in 0..TRIES {
        let (before, done) = (entries(), DONE.load(Ordering::SeqCst));
        let clone = section::clone_at(base, 0, 0, 0).map_err(doing("clone"))?;
        let done = DONE.load(Ordering::SeqCst) - done;
        most = most.max((entries() - before).saturating_sub(EACH * done));
        section::delete(clone).map_err(doing("delete"))?;
        if most >= AGAIN {
            break;
        }
    }
    STOP.store(true, Ordering::SeqCst);
    beside.join().map_err(doing("join"))?;
    holds!(most >= AGAIN, "{what}: made again {most} times while the section is cloned, {TRIES} times");
    same!(REFUSED.load(Ordering::SeqCst), 0, "{what}: refused");
    Ok(())
}
