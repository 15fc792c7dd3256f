#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod ring;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use musubi::abi::task::USER_SYSTEM;
use musubi::interfaces::pipes::{Pipes, pipes_serve_by};
use musubi::interfaces::stream::{Stream, stream_serve_by};
use musubi::rt::serve::{LOOK_NS, Seldom, Shares, Ways, away};
use musubi::rt::{Condition, Mutex, Once, fault, random, section, task, thread, time};
use musubi::{Caller, Error, Start, servers};
use ring::{Ring, Users};

musubi::program!(run);

/// Pipes of one task, and of all together: nobody's half of what is left is ever another one's (`Shares`).
const EACH: usize = 128;
const MOST: usize = 256;
/// How often it is looked for those that nobody needs any more, at most.
const SWEEP_NS: u64 = 20_000_000;
/// Most bytes moved while the lock is held.
const PART: usize = 4096;

struct Pipe {
    ring: Mutex<Ring>,
    changed: Condition,
    maker: Maker,
    /// Whose share it is of.
    task: u64,
}

/// Who closes a pipe's ends, and as long as he is there they are not over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Maker {
    /// A program, on whichever thread.
    Text(u64),
    /// The task on whose thread a program of the system's does what it was told: that program is there for ever, and knows nothing of the pipe.
    Task(u64),
}

/// For whom a pipe counts: for the thread's task if a program of the system's makes it, otherwise for the program's own. A stranger, whom a thread calls,
/// would use up what its task may have.
fn counts_for(caller: &Caller) -> Result<(u64, u64), Error> {
    let owner = section::owner(caller.text)?;
    let user = if owner == caller.task { caller.user } else { task::info(owner).ok_or(Error::Dead)?.user };
    Ok(if user == USER_SYSTEM { (caller.task, caller.user) } else { (owner, user) })
}

impl Maker {
    fn of(caller: &Caller) -> Result<Maker, Error> {
        let owner = section::owner(caller.text)?;
        let is_systems = owner != caller.task && task::info(owner).is_some_and(|info| info.user == USER_SYSTEM);
        Ok(if is_systems { Maker::Task(caller.task) } else { Maker::Text(caller.text) })
    }

    fn is_there(self) -> bool {
        match self {
            Maker::Text(text) => section::info(text).is_ok_and(|info| info.base == text),
            Maker::Task(task) => lives(task),
        }
    }
}

/// Pipes are found by their numbers in parts, so that who uses one waits for nobody who uses another one.
const PARTS: usize = 32;

/// In cache lines of its own.
#[repr(align(64))]
struct Part(Mutex<BTreeMap<u64, Arc<Pipe>>>);

struct All([Part; PARTS]);

/// Who has how many: in hand of who makes some or takes them away, before a part is.
struct Made {
    shares: Shares,
    sweep: Seldom,
    /// The same, because somebody was refused.
    short: Seldom,
}

struct Service {
    pipes: All,
    made: Mutex<Made>,
    streams: Once<u64>,
}

static SERVICE: Service = Service {
    pipes: All([const { Part(Mutex::new(BTreeMap::new())) }; PARTS]),
    made: Mutex::new(Made {
        shares: Shares::new(EACH, MOST),
        sweep: Seldom::new(SWEEP_NS),
        short: Seldom::new(SWEEP_NS),
    }),
    streams: Once::new(),
};

fn run(_: &Start) -> i32 {
    let offered = servers::stream_post().and_then(|post| {
        let gates = stream_serve_by(&SERVICE, Ways::default().post(post))?;
        SERVICE.streams.get_or_try(|| Ok::<_, Error>(gates.address()))?;
        musubi::names::publish("pipes", &pipes_serve_by(&SERVICE, Ways::default().post(servers::post()?))?)
    });
    if offered.is_err() {
        return 1;
    }
    thread::park()
}

impl Service {
    fn pipe(&self, id: u64) -> Result<Arc<Pipe>, Error> {
        self.pipes.part(id / 2).lock().get(&(id / 2)).cloned().ok_or(Error::NotFound)
    }
}

impl All {
    /// Where a pipe of this number is. (They are drawn at random.)
    fn part(&self, number: u64) -> &Mutex<BTreeMap<u64, Arc<Pipe>>> {
        &self.0[number as usize % PARTS].0
    }

    /// Those whose makers have ended, and that nobody uses who is left, are no more.
    fn sweep(&self, shares: &mut Shares) {
        for part in &self.0 {
            part.0.lock().retain(|_, pipe| {
                let is_needed = pipe.maker.is_there() || pipe.is_used();
                if !is_needed {
                    shares.give(pipe.task);
                }
                is_needed
            });
        }
    }
}

/// Whether a task is there.
fn lives(task: u64) -> bool {
    task::info(task).is_some()
}

impl Pipe {
    fn is_used(&self) -> bool {
        let ring = self.ring.lock();
        ring.readers.any(lives) || ring.writers.any(lives)
    }

    /// Does something as soon as it can be done, at the end whose users `end` tells.
    fn wait_until<T>(
        &self,
        caller: &Caller,
        end: fn(&mut Ring) -> &mut Users,
        mut what: impl FnMut(&mut Ring) -> Option<Result<T, Error>>,
    ) -> Result<T, Error> {
        let mut what = |ring: &mut Ring| {
            let done = what(ring)?;
            self.changed.notify_all();
            Some(done)
        };
        {
            let mut ring = self.ring.lock();
            end(&mut ring).note(caller.task, lives);
            if let Some(done) = what(&mut ring) {
                return done;
            }
        }
        // Who is waited for may be behind the same post.
        let away = away(caller)?;
        let mut ring = self.ring.lock();
        loop {
            if let Some(done) = what(&mut ring) {
                return done;
            }
            match self.changed.wait(&mut ring, away.patience_ns().min(LOOK_NS)) {
                Err(Error::TimedOut) => {
                    away.goes_on()?;
                    if !self.maker.is_there() {
                        ring.has_no_maker(lives);
                    }
                }
                waited => waited?,
            }
        }
    }
}

impl Pipes for Service {
    fn make(&self, caller: &Caller) -> Result<u64, Error> {
        let (maker, (task, user)) = (Maker::of(caller)?, counts_for(caller)?);
        let made = &mut *self.made.lock();
        if made.sweep.may(time::now_ns()) {
            self.pipes.sweep(&mut made.shares);
        }
        let mut has_room = made.shares.take(task, user);
        if !has_room && made.short.may(time::now_ns()) {
            self.pipes.sweep(&mut made.shares);
            has_room = made.shares.take(task, user);
        }
        if !has_room {
            return Err(Error::Quota);
        }
        // Who knows a pipe's number may use it, so it is not to be guessed.
        let number = loop {
            let mut random = [0; 8];
            random::fill(&mut random);
            let number = u64::from_le_bytes(random) >> 2;
            if !self.pipes.part(number).lock().contains_key(&number) {
                break number;
            }
        };
        let pipe = Pipe { ring: Mutex::new(Ring::new()), changed: Condition::new(), maker, task };
        self.pipes.part(number).lock().insert(number, Arc::new(pipe));
        Ok(number * 2)
    }

    fn streams(&self) -> u64 {
        self.streams.get().copied().unwrap_or(0)
    }
}

impl Stream for Service {
    fn write(&self, caller: &Caller, id: u64, bytes: &[u8]) -> Result<u64, Error> {
        if id.is_multiple_of(2) {
            return Err(Error::NotSupported);
        }
        let pipe = self.pipe(id)?;
        // Copied before the lock is taken: the caller's memory may go away at any moment.
        let part = fault::copy_in(&bytes[..bytes.len().min(PART)])?;
        pipe.wait_until(
            caller,
            |ring| &mut ring.writers,
            |ring| {
                if ring.no_reader {
                    return Some(Err(Error::Dead));
                }
                let n = ring.push(&part);
                (n > 0 || part.is_empty()).then_some(Ok(n as u64))
            },
        )
    }

    fn read(&self, caller: &Caller, id: u64, buffer: &mut [u8]) -> Result<u64, Error> {
        if id % 2 == 1 {
            return Err(Error::NotSupported);
        }
        let pipe = self.pipe(id)?;
        let mut part = vec![0; buffer.len().min(PART)];
        let n = pipe.wait_until(
            caller,
            |ring| &mut ring.readers,
            |ring| {
                let n = ring.pop(&mut part);
                (n > 0 || ring.no_writer || part.is_empty()).then_some(Ok(n))
            },
        )?;
        fault::copy_out(buffer, &part[..n])?;
        Ok(n as u64)
    }

    fn close(&self, caller: &Caller, id: u64) -> Result<(), Error> {
        let pipe = self.pipe(id)?;
        if pipe.maker != Maker::of(caller)? {
            return Err(Error::Denied);
        }
        let over = {
            let mut ring = pipe.ring.lock();
            if id.is_multiple_of(2) {
                ring.no_reader = true
            } else {
                ring.no_writer = true
            }
            pipe.changed.notify_all();
            ring.no_reader && ring.no_writer
        };
        if over {
            let mut made = self.made.lock();
            if self.pipes.part(id / 2).lock().remove(&(id / 2)).is_some() {
                made.shares.give(pipe.task);
            }
        }
        Ok(())
    }

    fn is_console(&self, _id: u64) -> bool {
        false
    }
}
