//! Interrupts go to their drivers by EPC, on the thread in the seat (CUBIX-45, U10). It must not wait, so the bindings are made by
//! another thread of this program; until then, and where a driver fails, the driver's own thread is woken instead.

use super::Level;
use alloc::format;
use board::Ready;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use musubi::Error;
use musubi::abi::sched::Event;
use musubi::interfaces::interrupt::InterruptClient;
use musubi::rt::{Mutex, sched, sync, task, thread};

/// Interrupts have consecutive vectors, and there are fewer.
const LINES: usize = 32;

/// Times in a row that a handler may take too long: a machine that is busy with something else may make it look so.
const STRIKES: u32 = 4;

/// What is known of the handler of one interrupt.
struct Line {
    /// The gate that is to be bound.
    wanted: AtomicU64,
    bound: Mutex<Option<Bound>>,
    /// What has failed, and how: to be unbound.
    failed: Mutex<Option<(Bound, Error)>>,
}

struct Bound {
    gate: u64,
    client: InterruptClient,
    strikes: u32,
}

const NOBODY: Line = Line { wanted: AtomicU64::new(0), bound: Mutex::new(None), failed: Mutex::new(None) };
static HANDLERS: [Line; LINES] = [const { NOBODY }; LINES];
/// Goes up when something is wanted.
static WISHES: AtomicU32 = AtomicU32::new(0);

/// Starts the thread that makes bindings.
pub fn begin() -> Result<(), Error> {
    thread::spawn(bind_for_ever, 0).map(drop)
}

impl Level {
    /// An interrupt waits for a thread that waits here. Whoever has agreed on something has what that says.
    pub fn hurries(&mut self, event: &Event) {
        let ready = Ready { thread: event.thread, turn: event.a };
        if !self.order.has_agreed(ready.thread) {
            self.called.hurry(self.queue, ready);
        }
    }
}

/// An interrupt with a handler has come. Whether that took too long: in the same decision none is called any more (`calls`), since all
/// of them together have no more time than the decision has.
pub fn serve(event: &Event, calls: bool) -> bool {
    let (vector, section, gate) = (u64::from(event.detail), event.a, event.b);
    if gate == 0 {
        return false;
    }
    let line = &HANDLERS[event.detail as usize % LINES];
    // Taken: another processor is calling it, or it is being bound. Then its thread is asked.
    let (mut rest, mut late) = (true, false);
    if let Some(mut bound) = line.bound.try_lock().filter(|_| calls) {
        match bound.as_mut().filter(|bound| bound.gate == gate) {
            Some(known) => match known.client.arrived(section) {
                Ok(more) => (rest, known.strikes) = (more, 0),
                Err(Error::Busy) => {}
                Err(Error::TimedOut) if known.strikes + 1 < STRIKES => {
                    (known.strikes, late) = (known.strikes + 1, true)
                }
                Err(Error::Dead) => {
                    // The kernel has forgotten it, too. It may have been started again: then what is told of is the gate of the new one.
                    forget(line, bound.take(), Error::Dead);
                    line.wanted.store(gate, Ordering::Release);
                    wish();
                }
                Err(why) => {
                    // It is not to be called again, unless the driver binds it anew.
                    forget(line, bound.take(), why);
                    wish();
                    let _ = sched::give_back(vector, gate);
                    return why == Error::TimedOut;
                }
            },
            None => {
                line.wanted.store(gate, Ordering::Release);
                wish();
            }
        }
    }
    if rest {
        let _ = sched::give_back(vector, 0);
    }
    late
}

/// Its binding is for the other thread to give back.
fn forget(line: &Line, failed: Option<Bound>, why: Error) {
    if let Some(mut last) = line.failed.try_lock() {
        *last = failed.map(|bound| (bound, why));
    }
}

fn wish() {
    WISHES.fetch_add(1, Ordering::Release);
    sync::wake(&WISHES, 1);
}

fn say(gate: u64, why: Error) {
    task::log(&format!("sched: a driver is not called any more (gate {gate:#x}): {why}\n"));
}

fn bind_for_ever() {
    let mut refused = 0;
    loop {
        let seen = WISHES.load(Ordering::Acquire);
        for line in &HANDLERS {
            let gate = line.wanted.swap(0, Ordering::AcqRel);
            let client = (gate != 0).then(|| InterruptClient::bind(gate));
            let new = client.and_then(|client| {
                // Tried with each interrupt, and said once.
                client
                    .inspect_err(|why| {
                        if core::mem::replace(&mut refused, gate) != gate {
                            say(gate, *why)
                        }
                    })
                    .ok()
            });
            let old = new.and_then(|client| line.bound.lock().replace(Bound { gate, client, strikes: 0 }));
            if let Some(old) = old {
                let _ = old.client.unbind();
            }
            let failed = line.failed.lock().take();
            if let Some((Bound { gate, client, .. }, why)) = failed {
                say(gate, why);
                let _ = client.unbind();
            }
        }
        let _ = sync::wait(&WISHES, seen, u64::MAX);
    }
}
