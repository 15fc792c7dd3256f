//! The patterns by every way that there is: what `sizes` does, and ITC, by both versions of the external scheduler
//! (CUBIX-40, 62, M2 to M6). An ITC is served by a thread of the server's own; its data lie where those of a call do.

use crate::report::{Case, Report};
use crate::rounds::Plan;
use crate::sched::by_each;
use crate::server;
use crate::sizes::{self, ArgNoRtn, ArgRtnCopy, ArgRtnNoCopy, LONGEST, SIZES, Way};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::Error;
use musubi::abi::gate::grade;
use musubi::command::Command;
use musubi::interfaces::colour_map::ColourMapClient;
use musubi::interfaces::measure::MeasureClient;
use musubi::rt::line::Answer;

/// What it is called, and the scheduler that is asked for.
const WAYS: [(&str, &str); 2] = [("itc-improved", "ageing"), ("itc-initial", "initial")];
const ROUNDS: usize = 300;
/// Calls posted before the first answer is collected: a round of an asynchronous case.
const POSTED: usize = 8;

pub fn run(report: &Report) -> Result<(), String> {
    sizes::run(report)?;
    server::with(|gate| {
        by_each(&WAYS, |way| {
            itc(report, gate, way).map_err(|e| format!("{e}"))?;
            asynchronous(report, gate, &format!("{way}-async")).map_err(|e| format!("asynchronous: {e}"))
        })
    })?;
    colour_map(report)
}

/// The paper's server: it changes a picture where it lies, by a table of colours.
fn colour_map(report: &Report) -> Result<(), String> {
    let name = format!("bench-colours-{}", musubi::start().task());
    let server =
        Command::new(b"bin/colour-map").arg(name.as_bytes()).spawn().map_err(|e| format!("colour-map: {e}"))?;
    let measured =
        musubi::names::await_name(&name, 60_000_000_000).map_err(|e| format!("{name}: {e}")).and_then(|gate| {
            for (way, wanted) in [("epc-h", grade::EPC_H), ("epc-s", grade::EPC_S)] {
                match ColourMapClient::bind_as(gate, COLOURS, wanted) {
                    Err(Error::NotSupported) => {}
                    client => {
                        client.and_then(|client| colours(report, client, way)).map_err(|e| format!("{way}: {e}"))?
                    }
                }
            }
            by_each(&WAYS, |way| {
                let client = ColourMapClient::bind_itc(gate, COLOURS);
                client.and_then(|client| colours(report, client, way)).map_err(|e| format!("{e}"))
            })
        });
    let _ = server.kill();
    measured
}

/// Room for the longest picture and the table.
const COLOURS: u64 = 16 << 10;

fn colours(report: &Report, client: ColourMapClient, way: &str) -> Result<(), Error> {
    let (mut picture, mut table) = (client.alloc(8 << 10)?, client.alloc(256)?);
    (0u8..=255).zip(&mut *table).for_each(|(n, entry)| *entry = n.wrapping_add(1));
    for bytes in [2 << 10, 4 << 10, 8 << 10] {
        picture.fill(0);
        let by = (&*table).try_into().map_err(|_| Error::BadArgument)?;
        let (mut outcome, mut times) = (Ok(()), 0u8);
        let rounds = Plan::new(ROUNDS).measure(|| {
            outcome = outcome.and(client.map(&mut picture[..bytes], by));
            times = times.wrapping_add(1);
        });
        outcome?;
        if picture[..bytes].iter().any(|pixel| *pixel != times) {
            return Err(Error::Changed);
        }
        report.case(Case { case: "ColourMap", way, bytes }, &rounds, &[]);
    }
    drop((picture, table));
    client.unbind()
}

fn itc(report: &Report, gate: u64, way: &str) -> Result<(), Error> {
    let (client, asked) = (MeasureClient::bind_itc(gate, 2 * LONGEST as u64)?, MeasureClient::bind_with_args(gate, 0)?);
    let (mut data, mut result) = (client.alloc(LONGEST)?, client.alloc(LONGEST)?);
    let bench = Way { report, way, client: &client, asked: &asked, rounds: ROUNDS };
    bench.null()?;
    bench.patterns(&[ArgNoRtn, ArgRtnNoCopy, ArgRtnCopy], &mut data, &mut result)?;
    drop((data, result));
    asked.unbind()?;
    client.unbind()
}

/// Nobody waits for the answer to each call. A round is [`POSTED`] of them, and all their answers.
fn asynchronous(report: &Report, gate: u64, way: &str) -> Result<(), Error> {
    let (client, asked) = (MeasureClient::bind_itc(gate, 2 * LONGEST as u64)?, MeasureClient::bind_with_args(gate, 0)?);
    let data = client.alloc(LONGEST)?;
    let bench = Way { report, way, client: &client, asked: &asked, rounds: ROUNDS };
    posted(&bench, "NullProc", 0, || client.post_null())?;
    for bytes in SIZES {
        posted(&bench, ArgNoRtn.name(), bytes, || client.post_take(&data[..bytes]))?;
    }
    drop(data);
    asked.unbind()?;
    client.unbind()
}

fn posted<'a>(
    bench: &Way,
    name: &str,
    bytes: usize,
    mut post: impl FnMut() -> Result<Answer<'a, ()>, Error>,
) -> Result<(), Error> {
    let mut outcome = Ok(());
    let mut posted = Vec::with_capacity(POSTED);
    let rounds = Plan::new(bench.rounds / 10).measure(|| {
        let mut round = || -> Result<(), Error> {
            for _ in 0..POSTED {
                posted.push(post()?);
            }
            posted.drain(..).try_for_each(Answer::collect)
        };
        if let Err(error) = round() {
            outcome = Err(error);
        }
    });
    outcome?;
    let case = Case { case: &format!("{name}_Async-of-{POSTED}"), way: bench.way, bytes };
    bench.report.case(case, &rounds, &[]);
    bench.report.per_call(case, &rounds, POSTED as u64);
    Ok(())
}
