//! Threads that wait call the scheduler itself where one offers that (interface `passing`), instead of asking the kernel to ask
//! it. Looked for when something waits for the first time, and again now and then.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use interfaces::passing::PassingClient;
use rt::Error;
use rt::sched::{self, Direct};
use rt::sync::Place;

/// Waits until it is looked for again.
const PAUSE: u32 = 256;

/// A scheduler that was bound, and which task that is.
struct Known {
    client: PassingClient,
    task: u64,
    /// It has ended.
    is_over: AtomicBool,
}

static CLIENT: Place<Known> = Place::new();
/// Waits until then.
static PAUSED: AtomicU32 = AtomicU32::new(0);

/// Those that were bound last, and which of them the next one takes the place of. Who has looked at one may still be about to call it, so it is
/// unbound only when so many others have come.
static ALL: [Place<Known>; 16] = [const { Place::new() }; 16];
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// What `rt` uses for waits without a limit of time.
pub(crate) const DIRECT: Direct = Direct { sleep, wake_up, pass };

#[inline]
fn client() -> Option<&'static PassingClient> {
    CLIENT.get().or_else(look).map(|known| &known.client)
}

#[cold]
#[inline(never)]
fn look() -> Option<&'static Known> {
    let paused = PAUSED.load(Ordering::Relaxed);
    let next = paused.checked_sub(1).unwrap_or(PAUSE);
    // One looks, the others ask the kernel meanwhile.
    if PAUSED.compare_exchange(paused, next, Ordering::Relaxed, Ordering::Relaxed).is_err() || paused > 0 {
        return None;
    }
    let gate = crate::names::lookup("passing").ok()?;
    let task = systems_task(gate)?;
    let is_it = |known: &&Known| {
        (known.task, known.client.bound().gate()) == (task, gate) && !known.is_over.load(Ordering::Relaxed)
    };
    let found = match ALL.iter().filter_map(Place::get).find(is_it) {
        Some(known) => known,
        None => keep(Known { client: PassingClient::bind(gate).ok()?, task, is_over: AtomicBool::new(false) }),
    };
    CLIENT.set(Some(found));
    Some(found)
}

fn keep(known: Known) -> &'static Known {
    let known = Box::leak(Box::new(known));
    let place = &ALL[NEXT.fetch_add(1, Ordering::Relaxed) % ALL.len()];
    let before = place.get();
    place.set(Some(known));
    if let Some(before) = before {
        let _ = before.client.bound().gate_way().unbind();
    }
    known
}

/// Whose it is. Whoever else offers it could keep threads that wait, or not wake them.
fn systems_task(gate: u64) -> Option<u64> {
    let owner = rt::section::info(gate).ok().and_then(|text| rt::task::info(text.owner))?;
    (owner.user == rt::abi::task::USER_SYSTEM).then_some(owner.task)
}

/// It cannot be called any more, or not yet.
#[cold]
fn forget(error: Error) {
    PAUSED.store(PAUSE, Ordering::Relaxed);
    if let Some(known) = CLIENT.get()
        && error == Error::Dead
    {
        known.is_over.store(true, Ordering::Relaxed);
    }
    CLIENT.set(None);
}

/// Whether there is nothing more to be done. Who sleeps may be woken for nothing, so what went wrong is only that.
fn had(answer: Result<(), Error>) -> bool {
    match answer {
        Ok(()) | Err(Error::Changed | Error::Killed) => true,
        Err(error) => {
            forget(error);
            false
        }
    }
}

fn sleep() -> Option<Result<(), Error>> {
    client().map(|client| match client.sleep() {
        Err(Error::Killed) => Err(Error::Killed),
        answer => {
            had(answer);
            Ok(())
        }
    })
}

fn wake_up(thread: u64) -> bool {
    client().is_some_and(|client| match client.wake_up(thread) {
        // It has ended.
        Err(Error::NotFound) => true,
        answer => had(answer),
    })
}

fn pass(thread: u64) -> Option<Result<(), Error>> {
    client().map(|client| match client.pass(thread) {
        Err(Error::Killed) => Err(Error::Killed),
        // It has ended: nobody is left to sleep for.
        Err(Error::NotFound) => Ok(()),
        answer => {
            if !had(answer) {
                let _ = sched::wake_up(thread);
            }
            Ok(())
        }
    })
}
