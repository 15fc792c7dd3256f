//! The patterns by every way that there is: what `sizes` does, and ITC, by both versions of the external scheduler
//! (CUBIX-40, 62, M2 to M6), and messages. An ITC is served by a thread of the server's own; its data lie where those of a call do.

use crate::report::{Case, Report};
use crate::rounds::Plan;
use crate::sched::by_each;
use crate::server;
use crate::sizes::{self, ArgNoRtn, ArgRtnCopy, ArgRtnNoCopy, LONGEST, SIZES, Way};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::array::from_fn;
use musubi::Error;
use musubi::abi::gate::grade;
use musubi::command::Command;
use musubi::interfaces::colour_map::ColourMapClient;
use musubi::interfaces::measure::{MeasureClient, MeasureLater};
use musubi::rt::Answers;
use musubi::rt::later::Answer;

/// What it is called, and the scheduler that is asked for.
const WAYS: [(&str, &str); 2] = [("itc-improved", "ageing"), ("itc-initial", "initial")];
const ROUNDS: usize = 40;
/// Calls posted before the first answer is collected: a round of an asynchronous case.
const POSTED: usize = 8;

pub fn run(report: &Report) -> Result<(), String> {
    // With nobody in a seat, who would have turns. (By calls with somebody in it: `under`.)
    sizes::run(report)?;
    by_each(&WAYS, |way| under(report, way))?;
    server::with(|gate| {
        posts(report, gate, "post").map_err(|e| format!("post: {e}"))?;
        by_each(&WAYS, |way| {
            itc(report, gate, way).map_err(|e| format!("{e}"))?;
            lines(report, gate, way).map_err(|e| format!("asynchronous: {e}"))
        })
    })?;
    colour_map(report)
}

/// Calls while the scheduler of this way of ITC has the seat: it is told of none, and none takes longer.
fn under(report: &Report, way: &str) -> Result<(), String> {
    let name = WAYS.into_iter().find(|(known, _)| *known == way).map_or(way, |(_, scheduler)| scheduler);
    for (way, wanted) in [("epc-h", grade::EPC_H), ("epc-s", grade::EPC_S)] {
        let way = format!("{way}-under-{name}");
        server::with(|gate| sizes::shortly(report, gate, wanted, &way).map_err(|e| format!("{way}: {e}")))?;
    }
    let way = format!("plain-under-{name}");
    server::with(|gate| sizes::plainly(report, gate, &way).map_err(|e| format!("{way}: {e}")))
}

/// A call without data by ITC, of both versions.
pub fn nulls(report: &Report) -> Result<(), String> {
    server::with(|gate| {
        by_each(&WAYS, |way| {
            let client = MeasureClient::bind_itc(gate, 0);
            let null = |client: MeasureClient| {
                Way { report, way, client: &client, asked: &client, rounds: report.enough(ROUNDS) }.null()?;
                client.unbind()
            };
            client.and_then(null).map_err(|e| format!("{e}"))
        })
    })
}

/// The paper's server: it changes a picture where it lies, by a table of colours.
fn colour_map(report: &Report) -> Result<(), String> {
    let name = format!("bench-colours-{}", musubi::start().task());
    let server =
        Command::new(b"bin/colour-map").arg(name.as_bytes()).spawn().map_err(|e| format!("colour-map: {e}"))?;
    let measured =
        musubi::names::await_name(&name, 60_000_000_000).map_err(|e| format!("{name}: {e}")).and_then(|gate| {
            plain_colours(report, gate).map_err(|e| format!("plain: {e}"))?;
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

/// Calls after which a server has a key.
const EARNED: usize = 2000;
/// Room for the longest picture and the table.
const COLOURS: u64 = 2 * LONGEST as u64;
/// Rounds of the longest picture, each of which is some million instructions; and as many to warm up.
const LONG_ROUNDS: usize = 5;

/// By a plain call, in sections that the server was given the right to.
fn plain_colours(report: &Report, gate: u64) -> Result<(), Error> {
    let (mut picture, mut table) = (sizes::share(gate, LONGEST)?, sizes::share(gate, 256)?);
    pictures(report, &ColourMapClient::plain(gate), "plain", picture.bytes_mut(), &mut table.bytes_mut()[..256])?;
    picture.delete()?;
    table.delete()
}

fn colours(report: &Report, client: ColourMapClient, way: &str) -> Result<(), Error> {
    let (mut picture, mut table) = (client.alloc(LONGEST)?, client.alloc(256)?);
    pictures(report, &client, way, &mut picture, &mut table)?;
    drop((picture, table));
    client.unbind()
}

fn pictures(
    report: &Report,
    client: &ColourMapClient,
    way: &str,
    picture: &mut [u8],
    table: &mut [u8],
) -> Result<(), Error> {
    (0u8..=255).zip(&mut *table).for_each(|(n, entry)| *entry = n.wrapping_add(1));
    for bytes in SIZES {
        // Until the server has earned its key, where there are keys: what was printed since may have taken it away.
        for _ in 0..EARNED {
            client.map(&mut picture[..1], (&*table).try_into().map_err(|_| Error::BadArgument)?)?;
        }
        picture[..bytes].fill(0);
        let by = (&*table).try_into().map_err(|_| Error::BadArgument)?;
        let (mut outcome, mut times) = (Ok(()), 0u8);
        let plan =
            if bytes < LONGEST { Plan::new(report.enough(ROUNDS)) } else { Plan::new(LONG_ROUNDS).warm(LONG_ROUNDS) };
        let rounds = plan.measure(|| {
            outcome = outcome.and(client.map(&mut picture[..bytes], by));
            times = times.wrapping_add(1);
        });
        outcome?;
        if picture[..bytes].iter().any(|pixel| *pixel != times) {
            return Err(Error::Changed);
        }
        report.case(Case { case: "ColourMap", way, bytes }, &rounds, &[]);
    }
    Ok(())
}

fn itc(report: &Report, gate: u64, way: &str) -> Result<(), Error> {
    waited(report, gate, way, MeasureClient::bind_itc(gate, 2 * LONGEST as u64)?)
}

/// All patterns by a client whose calls a thread of the server's serves.
fn waited(report: &Report, gate: u64, way: &str, client: MeasureClient) -> Result<(), Error> {
    let asked = MeasureClient::bind_with_args(gate, 0)?;
    let (mut data, mut result) = (client.alloc(LONGEST)?, client.alloc(LONGEST)?);
    let bench = Way { report, way, client: &client, asked: &asked, rounds: report.enough(ROUNDS) };
    bench.null()?;
    bench.patterns(&[ArgNoRtn, ArgRtnNoCopy, ArgRtnCopy], &mut data, &mut result)?;
    drop((data, result));
    asked.unbind()?;
    client.unbind()
}

/// Room for the data and each result of an asynchronous round.
const ASYNCHRONOUS: u64 = (POSTED as u64 + 1) * LONGEST as u64;

fn lines(report: &Report, gate: u64, way: &str) -> Result<(), Error> {
    let (client, asked) = (MeasureClient::bind_itc(gate, ASYNCHRONOUS)?, MeasureClient::bind_with_args(gate, 0)?);
    let bench = Way { report, way, client: &client, asked: &asked, rounds: report.enough(ROUNDS) };
    asynchronous(&bench, client.later())?;
    asked.unbind()?;
    client.unbind()
}

/// By messages, under the kernel's own round robin.
fn posts(report: &Report, gate: u64, way: &str) -> Result<(), Error> {
    let (client, answers) = (MeasureClient::bind_with_args(gate, ASYNCHRONOUS)?, Answers::new()?);
    let bench = Way { report, way, client: &client, asked: &client, rounds: report.enough(ROUNDS) };
    let later = client.by_post(&answers)?;
    asynchronous(&bench, later)?;
    client.unbind()?;
    waited(report, gate, way, MeasureClient::bind_post(gate, 2 * LONGEST as u64)?)
}

/// Several calls are under way before an answer is waited for. A round is [`POSTED`] of them and their answers; each result has
/// its own place.
fn asynchronous<'a>(bench: &Way<'a>, later: MeasureLater<'a>) -> Result<(), Error> {
    let client = bench.client;
    let mut data = client.alloc(LONGEST)?;
    let mut results = (0..POSTED).map(|_| client.alloc(LONGEST)).collect::<Result<Vec<_>, Error>>()?;
    bench.measure_posted("NullProc", 0, POSTED as u64, || together(|_| later.null()))?;
    for pattern in [ArgNoRtn, ArgRtnNoCopy, ArgRtnCopy] {
        for bytes in SIZES {
            let data = &mut data[..bytes];
            sizes::fill(data);
            for result in &mut results {
                result.fill(0);
                if pattern == ArgRtnNoCopy {
                    client.prepare(&mut result[..bytes])?;
                }
            }
            let data = &*data;
            bench.measure_posted(pattern.name(), bytes, POSTED as u64, || {
                let mut places = results.iter_mut().map(|result| &mut result[..bytes]);
                let mut place = || places.next().ok_or(Error::TooBig);
                match pattern {
                    ArgNoRtn => together(|_| later.take(data)),
                    ArgRtnNoCopy => together(|_| later.answer(data, place()?)),
                    ArgRtnCopy => together(|_| later.copy(data, place()?)),
                }?;
                results.iter().for_each(|result| server::look(&result[..bytes]));
                Ok(())
            })?;
            if pattern != ArgNoRtn && !results.iter().all(|result| pattern.is_right(data, &result[..bytes])) {
                return Err(Error::Changed);
            }
        }
    }
    Ok(())
}

/// Makes a call [`POSTED`] times, then collects all answers.
fn together<'a>(mut post: impl FnMut(usize) -> Result<Answer<'a, ()>, Error>) -> Result<(), Error> {
    from_fn::<_, POSTED, _>(&mut post).into_iter().try_for_each(|posted| posted?.wait())
}
