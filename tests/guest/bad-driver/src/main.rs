#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use musubi::abi::boot::{DeviceRecord, device};
use musubi::abi::calls::stub;
use musubi::abi::layout::PAGE;
use musubi::abi::refusal::Object;
use musubi::abi::task::{Limits, state};
use musubi::driver::{Arrivals, Driver};
use musubi::interfaces::devices::{DevicesClient, RECORD};
use musubi::interfaces::keyboard::{Keyboard, keyboard_serve};
use musubi::interfaces::passing::PassingClient;
use musubi::rt::bound::result_of;
use musubi::rt::gate::ANYBODY;
use musubi::rt::section::Ports;
use musubi::rt::{Once, Trap, plain_call, probe, sync, task, thread, time};
use musubi::{Caller, Error, Start};
use zerocopy::FromBytes;

musubi::program!(run);

/// What a check's peer does with the first word 10: adds the second one.
const ADD: u64 = 10;
const LOOP: u64 = 10;
const SLEEP: u64 = 11;
const WAIT: u64 = 12;
const FAULT: u64 = 13;
const PASS: u64 = 14;
const YIELD: u64 = 15;
const END: u64 = 16;
const NAME: u64 = 17;
const ROUSED: u64 = 18;

// Ports of the controller, counted from 0x60.
const DATA: u64 = 0;
const COMMAND: u64 = 4;
const FULL: u64 = 1;

static HOW: AtomicU64 = AtomicU64::new(0);
static SEEN: AtomicU64 = AtomicU64::new(0);
static CALLED: AtomicU64 = AtomicU64::new(0);
static PASSING: Once<PassingClient> = Once::new();

/// Turns of one thread that a handler names; the first one is the first of its life.
const TURNS: u64 = 100;
/// Answers in the scheduler's place that a handler has had refused, and what else it has heard, or `Exists` if something has come of one.
static REFUSED: AtomicU64 = AtomicU64::new(0);
static OTHERWISE: AtomicU64 = AtomicU64::new(0);
/// What a handler waits for that another thread says again and again.
static AWAITED: AtomicU32 = AtomicU32::new(0);
/// While it is 1, that is said.
static ROUSES: AtomicU32 = AtomicU32::new(0);
/// While it is 1, threads of this program compute.
static BUSY: AtomicU32 = AtomicU32::new(0);

/// Handlers: one that has failed is not called again.
const HANDLERS: usize = 9;

struct Service {
    ports: Ports,
    handlers: [&'static Driver; HANDLERS],
    next: AtomicUsize,
}

fn run(_: &Start) -> i32 {
    match begin() {
        Ok((ports, arrivals)) => loop {
            first(ports);
            let _ = arrivals.wait(1_000_000_000);
            call_outside();
        },
        Err(e) => e.word() as i32,
    }
}

fn begin() -> Result<(Ports, Arrivals), Error> {
    let devices = DevicesClient::bind_with_args(musubi::names::lookup("devices")?, 4096)?;
    let mut record = [0; RECORD];
    devices.claim(device::PS2, 0, &mut record)?;
    let record = DeviceRecord::read_from_bytes(&record).map_err(|_| Error::BadArgument)?;
    let ports = Ports(record.section);
    first(ports);
    // By this program's own thread: a caller's may not let anybody in.
    let one = || Driver::begin(ports, move || called(ports));
    let handlers = [one()?, one()?, one()?, one()?, one()?, one()?, one()?, one()?, one()?];
    for _ in 0..=task::processors().count() {
        thread::spawn(compute, 0)?;
    }
    thread::spawn(rouses, 0)?;
    let service = Service { ports, handlers, next: AtomicUsize::new(0) };
    let gates = keyboard_serve(alloc::boxed::Box::leak(alloc::boxed::Box::new(service)))?;
    gates.admit(&ANYBODY)?;
    musubi::names::publish("keyboard", &gates)?;
    Ok((ports, Arrivals::of(ports)?))
}

/// By the scheduler. What it was told to do it does each time.
fn called(ports: Ports) -> bool {
    CALLED.fetch_add(1, Ordering::Relaxed);
    static NEVER: AtomicU32 = AtomicU32::new(0);
    match HOW.load(Ordering::SeqCst) {
        LOOP => loop {
            core::hint::spin_loop();
        },
        SLEEP => time::sleep_ns(50_000_000),
        WAIT => {
            let _ = sync::wait(&NEVER, 0, u64::MAX);
        }
        // Until its wait is ended for it.
        ROUSED => while sync::wait(&AWAITED, 0, u64::MAX).is_ok() {},
        FAULT => {
            probe::read(0x1000);
        }
        // In the scheduler's own text by then, which answers as it does for threads that have called it.
        PASS => _ = PASSING.get().map(|passing| heard(passing.sleep(), Error::Denied)),
        NAME => name_others(),
        YIELD => thread::yield_now(),
        END => task::exit(7),
        _ => {}
    }
    first(ports)
}

/// Wakes who waits, as often as it can.
fn rouses() {
    loop {
        let _ = sync::wait(&ROUSES, 0, u64::MAX);
        while ROUSES.load(Ordering::Relaxed) == 1 {
            let _ = sync::wake(&AWAITED, u64::MAX);
        }
    }
}

/// As long as it is to, and waits in between.
fn compute() {
    loop {
        let _ = sync::wait(&BUSY, 0, u64::MAX);
        while BUSY.load(Ordering::Relaxed) == 1 {
            core::hint::spin_loop();
        }
    }
}

/// An answer in the scheduler's place was heard, which should be this refusal.
fn heard(answer: Result<(), Error>, refusal: Error) {
    match answer {
        Err(error) if error == refusal => _ = REFUSED.fetch_add(1, Ordering::SeqCst),
        other => OTHERWISE.store(other.err().unwrap_or(Error::Exists).word(), Ordering::SeqCst),
    }
}

/// Names threads that are ready, on the thread in the seat: each turn that one can have, and nobody.
fn name_others() {
    let me = task::identity();
    let is_ready = |number| thread::info(number).is_some_and(|info| info.state == state::READY);
    let Some(here) = thread::info(me.thread).map(|info| info.processor as usize) else { return };
    let Some(other) = task::threads().find(|other| other.task == me.text_task && is_ready(other.thread)) else {
        return;
    };
    let switches = || task::processors().nth(here).map(|processor| processor.switches);
    let before = switches();
    let refusal = Error::no_right(Object::System, me.thread);
    for turn in 1..=TURNS {
        heard(stub::thread_next(&Trap, other.thread, turn, u64::MAX).map(drop), refusal);
    }
    heard(stub::thread_next(&Trap, 0, 0, u64::MAX).map(drop), refusal);
    if switches() != before {
        OTHERWISE.store(Error::Exists.word(), Ordering::SeqCst);
    }
    // On another processor it may have got a turn meanwhile.
    if is_ready(other.thread) {
        BUSY.store(0, Ordering::SeqCst);
        HOW.store(0, Ordering::SeqCst);
    }
}

fn first(ports: Ports) -> bool {
    while ports.read(COMMAND, 1).is_ok_and(|status| status & FULL != 0) {
        let _ = ports.read(DATA, 1);
        SEEN.fetch_add(1, Ordering::SeqCst);
    }
    false
}

impl Keyboard for Service {
    fn read(&self, _: &Caller, _: &mut [u8]) -> Result<u64, Error> {
        Err(Error::NotSupported)
    }

    /// A new handler, which does this when it is next called. Or, with an address, see [`deputy`].
    fn listen(&self, _: &Caller, how: u64) -> Result<(), Error> {
        if how > ROUSED {
            return if how % 2 == 0 { deputy(self.ports, how) } else { ask_outside(how - 1) };
        }
        if how == PASS {
            PASSING.get_or_try(|| PassingClient::bind(musubi::names::lookup("passing")?))?;
        }
        HOW.store(0, Ordering::SeqCst);
        ROUSES.store(0, Ordering::SeqCst);
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let handler = self.handlers.get(next).ok_or(Error::TooBig)?;
        handler.hear(true)?;
        // The scheduler gets to know it.
        let before = CALLED.load(Ordering::SeqCst);
        let until = time::now_ns() + 20_000_000_000;
        let mut heard = time::now_ns();
        while CALLED.load(Ordering::SeqCst) == before {
            self.cause()?;
            if time::now_ns() > heard + 200_000_000 {
                // On a busy host it may have been given up already.
                handler.hear(true)?;
                heard = time::now_ns();
            }
            if time::now_ns() > until {
                return Err(Error::TimedOut);
            }
        }
        REFUSED.store(0, Ordering::SeqCst);
        OTHERWISE.store(0, Ordering::SeqCst);
        HOW.store(how, Ordering::SeqCst);
        for (when, word) in [(NAME, &BUSY), (ROUSED, &ROUSES)] {
            if how == when {
                word.store(1, Ordering::SeqCst);
                sync::wake(word, u64::MAX);
            }
        }
        Ok(())
    }

    fn probe(&self, _: &Caller) -> Result<u64, Error> {
        self.cause()
    }

    /// How many of its answers in the scheduler's place were refused, or what else was heard; `Exists`: something came of one. `Busy`: it has yet to
    /// name somebody that was ready all the time.
    fn write_time(&self, _: &Caller) -> Result<u64, Error> {
        result_of([OTHERWISE.load(Ordering::SeqCst), 0])?;
        if HOW.load(Ordering::SeqCst) == NAME { Err(Error::Busy) } else { Ok(REFUSED.load(Ordering::SeqCst)) }
    }

    fn handled(&self) -> (u64, u64) {
        (CALLED.load(Ordering::SeqCst), SEEN.load(Ordering::SeqCst))
    }
}

/// The gate that this program's own thread is to call, the first word, and the answer.
static OUTSIDE: AtomicU64 = AtomicU64::new(0);
static ANSWER: AtomicU64 = AtomicU64::new(0);

fn ask_outside(gate: u64) -> Result<(), Error> {
    ANSWER.store(u64::MAX, Ordering::SeqCst);
    OUTSIDE.store(gate, Ordering::SeqCst);
    while ANSWER.load(Ordering::SeqCst) == u64::MAX {
        thread::yield_now();
    }
    result_of([ANSWER.load(Ordering::SeqCst), 0]).map(drop)
}

fn call_outside() {
    let gate = OUTSIDE.swap(0, Ordering::SeqCst);
    if gate != 0 {
        ANSWER.store(plain_call(gate, [ADD, 1, 0, 0, 0, 0]).map_or_else(Error::word, |_| 0), Ordering::SeqCst);
    }
}

/// Asks the kernel for what only the system may, on its caller's thread, with an address that it may not use itself. `Exists`: the kernel
/// has read there for it. The same with memory of its own is good.
fn deputy(ports: Ports, address: u64) -> Result<(), Error> {
    static OWN: [AtomicU8; PAGE as usize] = [const { AtomicU8::new(0xf4) }; PAGE as usize];
    let own = OWN.as_ptr() as u64;
    let written = |from| stub::port_write_bytes(&Trap, ports.0, DATA, from, 1);
    let logged = |from| stub::log_write(&Trap, from, 8);
    let waited = |to| of_an_end(|task| stub::task_wait(&Trap, task, u64::MAX, to));
    let ended = |to| of_an_end(|task| stub::task_ended(&Trap, task - 1, to));
    let limited = |from| stub::task_limit(&Trap, task::identity().task, from);
    for outcome in [written(address), logged(address), waited(address), ended(address), limited(address)] {
        match outcome {
            Err(error) if error == Error::BadAddress || error.refusal().is_some() => {}
            other => return other.and(Err(Error::Exists)),
        }
    }
    written(own).and_then(|_| logged(own)).and_then(|_| waited(own)).and_then(|_| ended(own)).map(drop)
}

/// Asks about a task that has ended, another one each time until nobody has it forgotten before it is asked about.
fn of_an_end(ask: impl Fn(u64) -> Result<u64, Error>) -> Result<u64, Error> {
    for _ in 0..1000 {
        let child = task::create(&Limits::default(), task::identity().user, b"ended")?;
        task::kill(child)?;
        match ask(child) {
            Err(Error::NotFound) => {}
            other => return other,
        }
    }
    Err(Error::NotFound)
}

impl Service {
    /// Has the controller send a byte, and waits until somebody has taken it. Value: how long that took, in ns.
    fn cause(&self) -> Result<u64, Error> {
        let seen = SEEN.load(Ordering::SeqCst);
        let began = time::now_ns();
        self.ports.write(COMMAND, 1, 0xd2)?;
        self.ports.write(DATA, 1, 0xfa)?;
        while SEEN.load(Ordering::SeqCst) == seen {
            if time::now_ns() > began + 20_000_000_000 {
                return Err(Error::TimedOut);
            }
            thread::yield_now();
        }
        Ok(time::now_ns() - began)
    }
}
