//! Text that is passed to servers: whatever its owner does to it meanwhile, what they get is text, and not too much of it.

use crate::report::{Check, Outcome, doing, in_time};
use crate::{holds, same, sched};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use musubi::abi::layout::PAGE;
use musubi::interfaces::names::NamesClient;
use musubi::rt::bound::result_of;
use musubi::rt::gate::{Skeleton, TEXT_MAX, Values};
use musubi::rt::{Bound, Gates, task, thread};
use musubi::{Caller, Error};

pub const CHECKS: &[Check] = &[
    ("text_that_changes_while_it_is_passed", changes),
    ("long_text_is_refused_at_once", long),
    ("a_long_wish_stops_no_scheduler", wish),
];

struct Nothing;

impl Skeleton for Nothing {
    fn dispatch(&self, _: &Caller, _: u64, _: &[u64; 6]) -> Values {
        Values(0, 0)
    }
}

/// Gates of the interface `Names`, and of `Sched`, by their order.
const PUBLISH: u64 = 0;
const LOOKUP: u64 = 1;
const CHOOSE: u64 = 0;

/// One thread publishes a name that another one makes no text, and text again, all the time: no such name gets into the service.
fn changes() -> Outcome {
    const NAME: &[u8] = b"changes-aaaaaaaa";
    let gate = musubi::start().names();
    let bound: &'static Bound = Box::leak(Box::new(Bound::bind(gate, PAGE).map_err(doing("bind"))?));
    let own = Gates::export(Nothing, 1).map_err(doing("export"))?;
    let at = bound.binding().args;
    // SAFETY: this program's argument section, which it never deletes, touched by these words alone.
    let lent: &'static [AtomicU8] = unsafe { core::slice::from_raw_parts(at as *const AtomicU8, NAME.len()) };
    lent.iter().zip(NAME).for_each(|(to, byte)| to.store(*byte, Ordering::SeqCst));
    static OVER: AtomicBool = AtomicBool::new(false);
    let changer = thread::spawn(
        move || {
            while !OVER.load(Ordering::Relaxed) {
                lent[10].store(0xff, Ordering::Relaxed);
                lent[10].store(b'a', Ordering::Relaxed);
            }
        },
        0,
    );
    let changer = changer.map_err(doing("thread"))?;
    let names = NamesClient::bind_with_args(gate, PAGE).map_err(doing("bind"))?;
    let mut taken = 0;
    for round in 1..=6000 {
        match bound.call(PUBLISH, [at, NAME.len() as u64, own.address(), 0, 0, 0]).and_then(result_of) {
            Ok(_) => taken += 1,
            Err(Error::Refused) => {}
            Err(e) => return Err(alloc::format!("round {round}: {e}")),
        }
        if round % 200 == 0 {
            let mut name = [0; 64];
            let mut index = 0;
            while let Ok(len) = names.list(index, &mut name) {
                let name = &name[..(len as usize).min(64)];
                holds!(core::str::from_utf8(name).is_ok(), "a name that is no text: {name:x?}");
                index += 1;
            }
            // On one processor the other has its turn at any time.
            thread::yield_now();
        }
    }
    OVER.store(true, Ordering::Relaxed);
    changer.join().map_err(doing("join"))?;
    holds!(taken > 0, "no name was taken");
    Ok(())
}

/// Text of so many bytes in an argument section.
fn lent(gate: u64, len: u64) -> Result<Bound, alloc::string::String> {
    let bound = Bound::bind(gate, len).map_err(doing("bind"))?;
    // SAFETY: this program's argument section, which nobody else touches now.
    unsafe { core::ptr::write_bytes(bound.binding().args as *mut u8, b'a', len as usize) };
    Ok(bound)
}

/// Whoever passes megabytes as a name hears that it is too big, and the service has not even looked at them.
fn long() -> Outcome {
    const LEN: u64 = 32 << 20;
    let bound = lent(musubi::start().names(), LEN)?;
    let lookup = |len: u64| bound.call(LOOKUP, [bound.binding().args, len, 0, 0, 0, 0]).and_then(result_of);
    let free = || task::memory().map(|memory| memory.free).map_err(doing("memory"));
    same!(lookup(TEXT_MAX as u64), Err(Error::NotFound), "the longest text");
    let before = free()?;
    for len in [TEXT_MAX as u64 + 1, 1 << 20, LEN] {
        same!(lookup(len), Err(Error::TooBig), "a text of {len} bytes");
    }
    let lost = before.saturating_sub(free()?);
    holds!(lost < 1 << 20, "the service keeps {lost} bytes");
    bound.unbind().map_err(doing("unbind"))
}

/// A name as long as most of the memory, for the service of the schedulers, which copies it and holds a lock.
fn wish() -> Outcome {
    let gate = musubi::names::lookup("sched").map_err(doing("sched"))?;
    let len = task::memory().map_err(doing("memory"))?.free * 2 / 5 / PAGE * PAGE;
    let bound = lent(gate, len)?;
    let choose = |len: u64| bound.call(CHOOSE, [bound.binding().args, len, 0, 0, 0, 0]).and_then(result_of);
    for len in [65, TEXT_MAX as u64, TEXT_MAX as u64 + 1, len] {
        same!(choose(len), Err(Error::TooBig), "a name of {len} bytes");
    }
    bound.unbind().map_err(doing("unbind"))?;
    let lines: Option<Vec<_>> = in_time(|| sched::lines(0).unwrap_or_default());
    holds!(lines.is_some_and(|lines| !lines.is_empty()), "the service says nothing any more");
    Ok(())
}
