//! Threads that wait call the scheduler itself where one offers that (interface `passing`), instead of asking the kernel to ask
//! it. Looked for when something waits for the first time, and again now and then.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, Ordering};
use interfaces::passing::PassingClient;
use rt::Error;
use rt::sched::{self, Direct};
use rt::sync::Place;

/// Waits until it is looked for again.
const PAUSE: u32 = 256;

static CLIENT: Place<PassingClient> = Place::new();
/// Waits until then.
static PAUSED: AtomicU32 = AtomicU32::new(0);

/// What `rt` uses for waits without a limit of time.
pub(crate) const DIRECT: Direct = Direct { sleep, wake_up, pass };

#[inline]
fn client() -> Option<&'static PassingClient> {
    CLIENT.get().or_else(look)
}

#[cold]
#[inline(never)]
fn look() -> Option<&'static PassingClient> {
    let paused = PAUSED.load(Ordering::Relaxed);
    let next = paused.checked_sub(1).unwrap_or(PAUSE);
    // One looks, the others ask the kernel meanwhile.
    if PAUSED.compare_exchange(paused, next, Ordering::Relaxed, Ordering::Relaxed).is_err() || paused > 0 {
        return None;
    }
    let gate = crate::names::lookup("passing").ok().filter(|gate| is_system(*gate))?;
    let found: &'static PassingClient = Box::leak(Box::new(PassingClient::bind(gate).ok()?));
    CLIENT.set(Some(found));
    Some(found)
}

/// Whoever else offers it could keep threads that wait, or not wake them.
fn is_system(gate: u64) -> bool {
    let owner = rt::section::info(gate).ok().and_then(|text| rt::task::info(text.owner));
    owner.is_some_and(|owner| owner.user == rt::abi::task::USER_SYSTEM)
}

/// It cannot be called any more, or not yet.
#[cold]
fn forget() {
    PAUSED.store(PAUSE, Ordering::Relaxed);
    CLIENT.set(None);
}

/// Whether there is nothing more to be done. Who sleeps may be woken for nothing, so what went wrong is only that.
fn had(answer: Result<(), Error>) -> bool {
    match answer {
        Ok(()) | Err(Error::Changed | Error::Killed) => true,
        Err(_) => {
            forget();
            false
        }
    }
}

fn sleep() -> bool {
    client().is_some_and(|client| {
        had(client.sleep());
        true
    })
}

fn wake_up(thread: u64) -> bool {
    client().is_some_and(|client| match client.wake_up(thread) {
        // It has ended.
        Err(Error::NotFound) => true,
        answer => had(answer),
    })
}

fn pass(thread: u64) -> bool {
    client().is_some_and(|client| {
        if !had(client.pass(thread)) {
            let _ = sched::wake_up(thread);
        }
        true
    })
}
