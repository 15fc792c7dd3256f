//! The patterns by every way that there is: what `sizes` does, and ITC, by both versions of the external scheduler
//! (CUBIX-40, 62, M2 to M6). An ITC is served by a thread of the server's own; its data lie where those of a call do.

use crate::report::{Case, Report};
use crate::rounds::Plan;
use crate::server;
use crate::sizes::{self, ArgNoRtn, ArgRtnCopy, ArgRtnNoCopy, LONGEST, SIZES, Way};
use crate::switch::by_each;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::Error;
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
    })
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
