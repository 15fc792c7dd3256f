//! Hundreds of threads that live in views of their own, since each has touched a secret, and have the same pages there: what one call does to these pages it does
//! in all of the views (SSS-24).

use crate::handlers::{Done, say};
use crate::server;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::layout::PAGE;
use musubi::abi::pager::supply;
use musubi::abi::section::{flag, kind};
use musubi::interfaces::measure::MeasureClient;
use musubi::rt::gate::ANYBODY;
use musubi::rt::section::{self, free, invalidate, validate};
use musubi::rt::{Bound, Section, Trap, pager, probe, sync, thread, time};
use musubi::{AclEntry, Error, Rights};

/// As many as are said beside the figures (`bars.rs`).
const VIEWS: usize = 900;
const PAGES: u64 = 8;
/// So long others may take.
const PATIENCE_NS: u64 = 600_000_000_000;

static SEEN: AtomicU64 = AtomicU64::new(0);
static OVER: AtomicU32 = AtomicU32::new(0);

pub fn calls() -> Done {
    let secret = say("a secret", Section::create(PAGE, PAGE, kind::DATA, flag::SECRET))?;
    let pages = say("pages", Section::create(PAGES * PAGE, PAGES * PAGE, kind::DATA, 0))?;
    let (hidden, base) = (secret.base(), pages.base());
    (0..PAGES).for_each(|page| probe::write(base + page * PAGE));
    // All see this thread's stack, too.
    let word = AtomicU64::new(1);
    let below = word.as_ptr() as u64;
    let stack = say("the stack", section::info(below))?.base;
    say("its list", section::grant(stack, &AclEntry { rights: Rights::READ.bits(), ..ANYBODY }))?;
    let mut crowd = Vec::new();
    let looks = move || {
        // Not this thread, which would keep that secret from then on.
        let _ = probe::read(hidden);
        (0..PAGES).for_each(|page| _ = probe::read(base + page * PAGE));
        let _ = probe::read(below);
        SEEN.fetch_add(1, Ordering::SeqCst);
        let _ = sync::wait(&OVER, 0, PATIENCE_NS);
    };
    for _ in 0..VIEWS {
        crowd.push(say("a thread with a view of its own", thread::spawn(looks, 0))?);
    }
    let began = time::now_ns();
    while SEEN.load(Ordering::SeqCst) < crowd.len() as u64 && time::now_ns() - began < PATIENCE_NS {
        time::sleep_ns(1_000_000);
    }
    let done = if SEEN.load(Ordering::SeqCst) < crowd.len() as u64 {
        Err(("their views", Error::TimedOut))
    } else {
        on_a_stack().and_then(|()| with(pages))
    };
    OVER.store(1, Ordering::SeqCst);
    sync::wake(&OVER, u64::MAX);
    crowd.into_iter().for_each(|one| _ = one.join());
    say("its list again", section::grant(stack, &AclEntry { rights: 0, ..ANYBODY }))?;
    done.and_then(|()| say("deleting the secret", secret.delete()))
}

/// Another program is called on the stack that all of them see: it is lent to that one, and taken back when the call returns.
fn on_a_stack() -> Done {
    let mut done = Ok(());
    let met = server::with(|gate| {
        done = MeasureClient::bind(gate).and_then(|client| {
            let bound = Bound::bind_on_own_stack(client.on_callers_stack()?, 0)?;
            bound.call(0, [0; 6])?;
            bound.unbind()
        });
        Ok(())
    });
    say("a call on a stack", done)?;
    met.map_err(|_| ("a program to call", Error::Refused))
}

/// What is done to pages that all of them see.
fn with(mut pages: Section) -> Done {
    let base = pages.base();
    let page = |number: u64| base + number * PAGE;
    let other = say("another section", Section::create(2 * PAGE, 2 * PAGE, kind::DATA, 0))?;
    let from = other.base();
    [from, from + PAGE].into_iter().for_each(probe::write);
    // Where a page is there, another one comes in its place only if it is invalid.
    say("making invalid", invalidate(base, 2 * PAGE))?;
    say("supplying a copy", pager::supply_page(page(0), from, supply::COPY))?;
    say("supplying a page", pager::supply_page(page(1), from, 0))?;
    say("taking a page", pager::take_page(page(2), from))?;
    say("making invalid", invalidate(page(3), PAGE))?;
    say("making valid", validate(page(3), PAGE))?;
    say("giving back", free(page(3), PAGE))?;
    let clone = say("cloning", Section::clone_of(base, 0, 0, 0))?;
    // What is shared is copied: for a store of this program, of the kernel's in its name, and by a memory operation.
    probe::write(page(4));
    say("a result", stub::identity(&Trap, page(5)))?;
    say("a memory operation", stub::mbcf_store(&Trap, page(6), 1, 0, 0))?;
    say("deleting a clone", clone.delete())?;
    say("making shorter", pages.resize(PAGE))?;
    say("deleting the other", other.delete())?;
    say("deleting", pages.delete())
}
