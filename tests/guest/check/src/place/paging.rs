//! A pager in an NSys text (decision 0018).

use super::{PAUSE_NS, shared, start_with};
use crate::memory::{data, load, store};
use crate::report::{Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::layout::PAGE;
use musubi::abi::section::class;
use musubi::abi::task::exit;
use musubi::interfaces::pager::{Pager, pager_serve};
use musubi::rt::pager::{self, answer};
use musubi::rt::{section, thread, time};
use musubi::{Error, Rights};

/// A pager in an NSys text runs on whoever has the fault, and has its group to itself as a callee has.
pub fn a_groups_pager() -> Outcome {
    const FAULTS: u64 = 2_000;
    let page = shared()?;
    let child = start_with("nsys-pager", class::NSYS, 0, [page, 0])?;
    let until = time::now_ns() + 60_000_000_000;
    while load(page + BASE) == 0 {
        holds!(time::now_ns() < until, "the pager does not begin");
        time::sleep_ns(1_000_000);
    }
    let base = load(page + BASE);
    for _ in 0..FAULTS {
        section::invalidate(base, PAGE).map_err(doing("invalidate"))?;
        let _ = load(base);
    }
    store(page + OVER, 1);
    let how = child.wait_for(200_000_000_000).map_err(doing("wait"))?;
    same!((how.kind, how.code), (exit::EXITED, 0), "the pager's program");
    let added = load(page + ADDED);
    holds!(added > FAULTS, "only {added} additions, {FAULTS} of them for faults");
    same!(load(page), added, "additions that are there, of a pager and of its program");
    Ok(())
}

/// Where in the page that both see: the section with the pager, that it is over, and how much was added.
const BASE: u64 = 8;
const OVER: u64 = 16;
const ADDED: u64 = 24;

/// Adds to a number that needs a lock, or a group.
struct Adds {
    at: u64,
    times: AtomicU64,
}

impl Adds {
    fn one(&self) {
        let value = load(self.at);
        let until = time::now_ns() + PAUSE_NS;
        while time::now_ns() < until {}
        store(self.at, value + 1);
        self.times.fetch_add(1, Ordering::Relaxed);
    }
}

impl Pager for Adds {
    fn fault(&self, _: u64, _: u64, _: u64, _: u64) -> Result<u64, Error> {
        self.one();
        Ok(answer::VALID)
    }
}

/// Is the pager of a section, and adds as well.
pub fn pages(at: u64) -> i32 {
    let adds: &'static Adds = Box::leak(Box::new(Adds { at, times: AtomicU64::new(0) }));
    let begin = || -> Result<u64, Error> {
        let section = data(PAGE)?;
        store(section.base(), 1);
        section::grant(section.base(), &everybody(Rights::READ | Rights::WRITE | Rights::CHANGE_ACL))?;
        pager::set(section.base(), pager_serve(adds)?.address(), 1, 0)?;
        Ok(section.base())
    };
    let base = match begin() {
        Ok(base) => base,
        Err(why) => return why.word() as i32,
    };
    store(at + BASE, base);
    for n in 0u64.. {
        adds.one();
        if n.is_multiple_of(4) {
            thread::yield_now();
        }
        if load(at + OVER) != 0 {
            break;
        }
    }
    store(at + ADDED, adds.times.load(Ordering::SeqCst));
    0
}
