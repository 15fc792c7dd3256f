//! What a call without data costs, by each way; and what it costs to be refused.

use crate::ipc;
use crate::report::{Case, Report};
use crate::rounds::{EARNED, Plan};
use crate::server;
use alloc::format;
use alloc::string::String;
use musubi::Error;
use musubi::abi::calls::{Kernel, stub};
use musubi::abi::gate::grade;
use musubi::interfaces::measure::MeasureClient;
use musubi::rt::{Bound, Trap};

const ROUNDS: usize = 1000;
const PLAN: Plan = Plan::new(ROUNDS);

pub fn run(report: &Report) -> Result<(), String> {
    server::with(|gate| {
        let client = bound(report, gate)?;
        client.close().map_err(|e| format!("taking the right back: {e}"))?;
        expect(report, Case { case: "refused", way: "epc-s", bytes: 0 }, || {
            client.null().is_err_and(|e| e.refusal().is_some())
        })
    })?;
    server::with(|gate| {
        let client = MeasureClient::plain(gate);
        null(report, "plain", &client)?;
        // Memory that the server may not touch.
        let own = [0; 64];
        let case = Case { case: "refused-pointer", way: "plain", bytes: own.len() };
        expect(report, case, || client.take(&own) == Err(Error::Refused))
    })?;
    server::with(|gate| on_own_stack(report, &MeasureClient::plain(gate)))?;
    // Beside calls: two threads, between which a scheduler switches.
    ipc::nulls(report)?;
    let case = |case| Case { case, way: "kernel-call", bytes: 0 };
    expect(report, case("no-such-call"), || Trap.enter(0, [0; 6]) == Err(Error::NoSuchCall))?;
    expect(report, case("clock"), || stub::clock(&Trap, 0).is_ok())
}

/// A call without data, by each way.
pub fn nulls(report: &Report) -> Result<(), String> {
    server::with(|gate| bound(report, gate).map(drop))?;
    server::with(|gate| null(report, "plain", &MeasureClient::plain(gate)))
}

/// By a binding of either grade. The client of the second one.
fn bound(report: &Report, gate: u64) -> Result<MeasureClient, String> {
    let client = MeasureClient::bind(gate).map_err(|e| format!("binding: {e}"))?;
    if client.bound().binding().grade == grade::EPC_H {
        null(report, "epc-h", &client)?;
    }
    let client = MeasureClient::bind_as(gate, 0, grade::EPC_S).map_err(|e| format!("binding: {e}"))?;
    // What was printed meanwhile may have taken its key.
    (0..EARNED).try_for_each(|_| client.null()).map_err(|e| format!("calling: {e}"))?;
    null(report, "epc-s", &client)?;
    Ok(client)
}

/// The paper's mode: the callee executes on its caller's stack, which is lent to it for the call.
fn on_own_stack(report: &Report, client: &MeasureClient) -> Result<(), String> {
    let gate = client.on_callers_stack().map_err(|e| format!("its gate for callers' stacks: {e}"))?;
    let bound = Bound::bind_on_own_stack(gate, 0).map_err(|e| format!("binding on the own stack: {e}"))?;
    let case = Case { case: "NullProc", way: "caller-stack", bytes: 0 };
    expect(report, case, || bound.call(0, [0; 6]).is_ok())?;
    bound.unbind().map_err(|e| format!("unbinding: {e}"))
}

fn null(report: &Report, way: &str, client: &MeasureClient) -> Result<(), String> {
    expect(report, Case { case: "NullProc", way, bytes: 0 }, || client.null().is_ok())
}

/// Measures something that says whether it came out as it should.
fn expect(report: &Report, case: Case, mut what: impl FnMut() -> bool) -> Result<(), String> {
    let mut good = true;
    let rounds = PLAN.measure(|| good &= what());
    if !good {
        return Err(format!("{} by {}: it does not come out as it should", case.case, case.way));
    }
    report.case(case, &rounds, &[]);
    Ok(())
}
