//! Threads that wait call the scheduler itself where one offers that (interface `passing`), instead of asking the kernel to ask
//! it. Looked for when something waits for the first time, and again now and then.

use alloc::boxed::Box;
use interfaces::passing::PassingClient;
use rt::sched::{self, Direct};
use rt::{Error, Mutex};

/// Waits until it is looked for again.
const PAUSE: u32 = 256;

struct State {
    client: Option<&'static PassingClient>,
    pause: u32,
}

static STATE: Mutex<State> = Mutex::new(State { client: None, pause: 0 });

/// What `rt` uses for waits without a limit of time.
pub(crate) const DIRECT: Direct = Direct { sleep, wake_up, pass };

fn client() -> Option<&'static PassingClient> {
    {
        let mut state = STATE.lock();
        if state.client.is_some() || state.pause > 0 {
            state.pause = state.pause.saturating_sub(1);
            return state.client;
        }
        state.pause = PAUSE;
    }
    let found: &'static PassingClient =
        Box::leak(Box::new(crate::names::lookup("passing").and_then(PassingClient::bind).ok()?));
    STATE.lock().client = Some(found);
    Some(found)
}

/// It cannot be called any more, or not yet.
fn forget() {
    *STATE.lock() = State { client: None, pause: PAUSE };
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
