//! Calls that only the system's programs may make, made by them: servers start anew, one of them in another class, a scheduler sits down and leaves, devices
//! and the clock are asked for what they are there for.

use musubi::abi::section::class;
use musubi::abi::task::Limits;
use musubi::command::Command;
use musubi::interfaces::clock::ClockClient;
use musubi::interfaces::devices::{DevicesClient, ask};
use musubi::interfaces::keyboard::{KeyboardClient, way};
use musubi::interfaces::sched::SchedClient;
use musubi::interfaces::servers::act;
use musubi::rt::{Answers, time};
use musubi::{Error, names, processes, servers};

type Done = Result<(), (&'static str, Error)>;

/// Each has calls of its own to make when it starts.
const RESTARTED: [&str; 5] = ["processes", "clock", "memory", "keyboard", "console"];
/// Lines of the greatest length that are written to the log: more than it has room for, however much of that goes out meanwhile.
const MARKS: usize = 64;
/// Threads take turns so long under a scheduler.
const UNDER_NS: u64 = 20_000_000;
/// The keyboard's, and how often it comes.
const INTERRUPT: u64 = 1;
const INTERRUPTS: usize = 16;

pub fn calls() -> Done {
    for name in RESTARTED {
        servers::act(name, act::RESTART).map_err(|error| (name, error))?;
    }
    for class in [class::PSYS, class::PUSR] {
        servers::place("clock", class, 0).map_err(|error| ("another class", error))?;
    }
    under_a_scheduler().map_err(|error| ("a scheduler", error))?;
    devices().map_err(|error| ("a device", error))?;
    interrupts().map_err(|error| ("a device's interrupt", error))?;
    clock().map_err(|error| ("the clock", error))?;
    limits().map_err(|error| ("limits", error))
}

fn under_a_scheduler() -> Result<(), Error> {
    let client = names::lookup("sched").and_then(|gate| SchedClient::bind_with_args(gate, 4096))?;
    client.choose("ageing")?;
    time::sleep_ns(UNDER_NS);
    client.choose("none")?;
    client.unbind()
}

fn devices() -> Result<(), Error> {
    let client = names::lookup("devices").and_then(DevicesClient::bind)?;
    client.route(INTERRUPT, 0)?;
    client.route(INTERRUPT, u64::MAX)?;
    // It is on.
    client.trace(ask::ON)?;
    for _ in 0..MARKS {
        client.trace(ask::MARK)?;
    }
    for what in [ask::PORT_READ, ask::PORT_WRITE, ask::PORT_BYTES] {
        client.trace(what)?;
    }
    client.unbind()
}

/// The keyboard has something to tell, and its driver hears of it by its post.
fn interrupts() -> Result<(), Error> {
    let keyboard = names::lookup("keyboard").and_then(KeyboardClient::bind)?;
    keyboard.listen(way::THREAD)?;
    let told = (0..INTERRUPTS).try_for_each(|_| keyboard.probe().map(drop));
    keyboard.listen(way::CALL)?;
    told.and_then(|()| keyboard.unbind())
}

fn clock() -> Result<(), Error> {
    let client = names::lookup("clock").and_then(ClockClient::bind)?;
    let answers = Answers::new()?;
    let (now, _) = client.now()?;
    client.by_post(&answers)?.wait_until(now + UNDER_NS)?.wait()?;
    client.unbind()
}

/// Of a program that runs.
fn limits() -> Result<(), Error> {
    let child = Command::new(b"bin/spin").spawn().map_err(|refused| refused.error)?;
    let limited = processes::limit(child.task, &Limits { threads: 8, ..Limits::default() });
    child.kill()?;
    child.wait()?;
    limited
}
