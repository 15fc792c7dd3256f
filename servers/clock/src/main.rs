#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod alarms;

use alarms::Alarms;
use core::sync::atomic::AtomicU32;
use musubi::interfaces::clock::{Clock, EACH, clock_serve_by};
use musubi::rt::post::{FOR_EVER, Post};
use musubi::rt::serve::{Deferred, Ways, defer};
use musubi::rt::{Mutex, sync, task, thread, time};
use musubi::{Caller, Error, Start, servers};

musubi::program!(run);

/// Messages of all tasks together that may wait: nobody's half of what is left is ever another one's (`Shares`).
const MOST: usize = 4096;
/// Operation of the kernel's messages.
const ALARM: u32 = 1;

struct Service {
    alarms: Mutex<Alarms<Deferred>>,
}

static SERVICE: Service = Service { alarms: Mutex::new(Alarms::new(EACH, MOST)) };

fn run(_: &Start) -> i32 {
    match begin() {
        Ok(()) => thread::park(),
        Err(error) => error.word() as i32,
    }
}

fn begin() -> Result<(), Error> {
    let alarm = Post::any()?;
    time::alarms_to(alarm, ALARM)?;
    thread::spawn(move || SERVICE.ring(alarm), 0)?;
    let post = servers::post()?;
    musubi::names::publish("clock", &clock_serve_by(&SERVICE, Ways::default().post(post))?)
}

impl Service {
    /// For ever: answers those whose moments have come.
    fn ring(&self, alarm: Post) -> ! {
        loop {
            match alarm.receive(FOR_EVER) {
                // A look too many does no harm.
                Ok(_) | Err(Error::TimedOut) => {}
                Err(error) => panic!("no word of the time: {error}"),
            }
            loop {
                let now = time::now_ns();
                let due = {
                    let mut alarms = self.alarms.lock();
                    let due = alarms.due(now);
                    if due.is_none() {
                        self.set(alarms.next());
                    }
                    due
                };
                match due {
                    // Not with the lock in hand.
                    Some(request) => request.answer(Ok(now)),
                    None => break,
                }
            }
        }
    }

    /// With the alarms in hand: what is set last is the next one.
    fn set(&self, at: u64) {
        if let Err(error) = time::alarm_at(at) {
            panic!("the alarm cannot be set: {error}");
        }
    }
}

impl Clock for Service {
    fn now(&self) -> (u64, u64) {
        (time::now_ns(), time::unix_ns())
    }

    fn wait_until(&self, caller: &Caller, at: u64) -> Result<u64, Error> {
        static NOBODY: AtomicU32 = AtomicU32::new(0);
        let now = time::now_ns();
        if at <= now {
            return Ok(now);
        }
        if let Some(request) = defer(caller)? {
            let mut alarms = self.alarms.lock();
            let (room, dead) = alarms.take_room(caller.task, caller.user, now, |task| task::info(task).is_some());
            let refused = if room {
                if alarms.add(at, caller.task, request) {
                    self.set(at);
                }
                None
            } else {
                Some(request)
            };
            // Not with the lock in hand.
            drop(alarms);
            drop(dead);
            refused.into_iter().for_each(|request| request.answer(Err(Error::Quota)));
            return Ok(0);
        }
        loop {
            match at.saturating_sub(time::now_ns()) {
                0 => return Ok(time::now_ns()),
                left => match sync::wait(&NOBODY, 0, left) {
                    Err(error @ (Error::Killed | Error::Dead)) => return Err(error),
                    _ => continue,
                },
            }
        }
    }
}
