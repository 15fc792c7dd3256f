//! The cases.

use crate::report::{Counts, Report};
use crate::samples::Samples;
use alloc::format;
use alloc::string::String;
use musubi::Error;
use musubi::abi::calls::{Kernel, stub};
use musubi::command::{Child, Command};
use musubi::interfaces::measure::MeasureClient;
use musubi::rt::{Trap, time};

pub const NAMES: [&str; 4] = ["kernel-call", "epc-s", "plain-call", "spawn"];
/// What fits an exit status.
pub const STAMP_MASK: u64 = 0x7fff_ffff;

const CALLS: usize = 1000;
const SPAWNS: usize = 20;
/// Rounds before it is measured: bindings made, pages there, views filled.
const WARM: usize = 16;

pub fn run(name: &str, report: &mut Report) -> Result<(), String> {
    match name {
        "kernel-call" => kernel_call(report),
        "epc-s" => with_server(|gate| calls(report, "epc-s", MeasureClient::bind(gate)?)),
        "plain-call" => with_server(|gate| calls(report, "plain-call", MeasureClient::plain(gate))),
        _ => spawn(report),
    }
}

/// Ticks that measuring takes by itself.
fn overhead() -> u64 {
    let mut samples = Samples::new(CALLS);
    for _ in 0..CALLS {
        let began = time::ticks();
        samples.add(time::ticks() - began);
    }
    samples.summary().0
}

/// Measures `what`, less the overhead; and what the kernel counted meanwhile.
fn measure(rounds: usize, mut what: impl FnMut()) -> (Samples, Counts) {
    (0..WARM).for_each(|_| what());
    let overhead = overhead();
    let mut samples = Samples::new(rounds);
    let before = Counts::now();
    for _ in 0..rounds {
        let began = time::ticks();
        what();
        samples.add((time::ticks() - began).saturating_sub(overhead));
    }
    let after = Counts::now();
    let counts = Counts { entries: after.entries - before.entries, views: after.views - before.views };
    (samples, counts)
}

/// In and out of the kernel: a number that no call has, and a call that does next to nothing.
fn kernel_call(report: &Report) -> Result<(), String> {
    let (mut nothing, counts) = measure(CALLS, || {
        let _ = Trap.enter(0, [0; 6]);
    });
    report.case("kernel-call", "no such call", &mut nothing, &mut [], Some((counts, CALLS as u64)));
    let (mut clock, counts) = measure(CALLS, || {
        let _ = stub::clock(&Trap, 0);
    });
    report.case("kernel-call", "clock", &mut clock, &mut [], Some((counts, CALLS as u64)));
    Ok(())
}

fn with_server(body: impl FnOnce(u64) -> Result<(), Error>) -> Result<(), String> {
    let name = format!("bench-{}", musubi::start().task());
    let server =
        Command::new(b"bin/bench").arg(b"serve").arg(name.as_bytes()).spawn().map_err(|e| format!("bin/bench: {e}"))?;
    let outcome = musubi::names::await_name(&name, 10_000_000_000).and_then(body);
    let _ = server.kill();
    // Its name is free again when it has ended.
    let _ = server.wait();
    outcome.map_err(|e| format!("{e}"))
}

/// A null round trip, and where its ticks go.
fn calls(report: &Report, way: &str, client: MeasureClient) -> Result<(), Error> {
    client.null()?;
    let (mut total, counts) = measure(CALLS, || {
        let _ = client.null();
    });
    let mut there = Samples::new(CALLS);
    let mut inside = Samples::new(CALLS);
    let mut back = Samples::new(CALLS);
    let overhead = overhead();
    for _ in 0..WARM + CALLS {
        let began = time::ticks();
        let (arrived, left) = client.ticks()?;
        let ended = time::ticks();
        if inside.len() < CALLS {
            there.add((arrived - began).saturating_sub(overhead));
            inside.add((left - arrived).saturating_sub(overhead));
            back.add((ended - left).saturating_sub(overhead));
        }
    }
    let mut steps = [
        ("stub, kernel and skeleton, to the body", there),
        ("body", inside),
        ("back, to the value in the caller", back),
    ];
    report.case("null", way, &mut total, &mut steps, Some((counts, CALLS as u64)));
    let _ = client.unbind();
    Ok(())
}

/// From the request until the program's end is known.
fn spawn(report: &Report) -> Result<(), String> {
    let command = Command::new(b"bin/bench").arg(b"stamp");
    let mut total = Samples::new(SPAWNS);
    let mut load = Samples::new(SPAWNS);
    let mut first = Samples::new(SPAWNS);
    let mut last = Samples::new(SPAWNS);
    let start = || -> Result<Child, String> { command.spawn().map_err(|e| format!("{e}")) };
    start()?.wait().map_err(|e| format!("{e}"))?;
    let before = Counts::now();
    for _ in 0..SPAWNS {
        let began = time::ticks();
        let child = start()?;
        let loaded = time::ticks();
        let exit = child.wait().map_err(|e| format!("{e}"))?;
        let ended = time::ticks();
        // The program said, in the bits that fit, when its main function began. With several processors that may be
        // before the loader has returned.
        let ran = exit.code & STAMP_MASK;
        let since = |from: u64| ran.wrapping_sub(from) & STAMP_MASK;
        total.add(ended - began);
        load.add((loaded - began).min(since(began)));
        first.add(if since(began) > loaded - began { since(loaded) } else { 0 });
        last.add((ended & STAMP_MASK).wrapping_sub(ran) & STAMP_MASK);
    }
    let after = Counts::now();
    let counts = Counts { entries: after.entries - before.entries, views: after.views - before.views };
    let mut steps = [
        ("the loader: text cloned, data filled, task made", load),
        ("until its main function runs", first),
        ("its end, all given back, and the waiter runs", last),
    ];
    report.case("spawn", "loader", &mut total, &mut steps, Some((counts, SPAWNS as u64)));
    Ok(())
}
