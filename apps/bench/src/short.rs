//! The short ways into the kernel (SSS-24): how long each keeps the processor at most, calls at their bounds. The trace sees none of them, since it has
//! all calls take the full entry; so rounds of them are measured, and what of a round is the kernel's is seen from outside (`host/measure`).

use crate::report::{Case, Report};
use crate::rounds::Plan;
use crate::worst::{Call, short_calls};
use crate::{info, lap, pager};
use alloc::format;
use alloc::string::String;
use core::cell::Cell;
use musubi::abi::calls::{Entry, TABLE};
use musubi::abi::layout::PAGE;
use musubi::abi::section::kind;
use musubi::interfaces::devices::{DevicesClient, ask};
use musubi::rt::Section;
use musubi::rt::section::{alloc, free, invalidate, validate};
use musubi::{Error, names};

const PLAN: Plan = Plan::new(50).warm(4);
/// Pages that one call goes through at most.
const BOUND: u64 = 512;

pub fn run(report: &Report) -> Result<(), String> {
    let report = report.of_longest();
    let failed = |e| format!("pages of an own section: {e}");
    let calls = short_calls().map_err(|e| format!("what calls work on: {e}"))?;
    let others = ["page_alloc", "page_free", "page_invalidate", "page_validate"];
    let is_there = |name: &str| others.contains(&name) || calls.iter().any(|call| call.name == name);
    if let Some(row) = TABLE.iter().find(|row| row.entry != Entry::Full && !is_there(row.name)) {
        return Err(format!("nobody makes this call by its short way: {}", row.name));
    }
    for Call { name, bytes, first, call } in &calls {
        let refused = Cell::new(None);
        let done = |outcome: Result<u64, Error>| _ = outcome.inspect_err(|error| refused.set(Some(*error)));
        let rounds = PLAN.first(&|| done(first())).measure(|| done(call()));
        if let Some(error) = refused.get() {
            return Err(format!("{name}: {error}"));
        }
        let way = if name.starts_with("mbcf") { "mbcf" } else { "light" };
        report.case(Case { case: name, way, bytes: *bytes as usize }, &rounds, &[]);
    }
    let section = Section::create(BOUND * PAGE, BOUND * PAGE, kind::DATA, 0).map_err(failed)?;
    let (base, len) = (section.base(), BOUND * PAGE);
    let done = |outcome: Result<(), _>| outcome.expect("whole pages of an own section");
    let calls: [(&str, &dyn Fn(), &dyn Fn()); 4] = [
        ("page_alloc", &|| done(free(base, len)), &|| done(alloc(base, len))),
        ("page_invalidate", &|| done(validate(base, len)), &|| done(invalidate(base, len))),
        ("page_validate", &|| done(invalidate(base, len)), &|| done(validate(base, len))),
        ("page_free", &|| done(alloc(base, len)), &|| done(free(base, len))),
    ];
    for (case, first, call) in calls {
        let rounds = PLAN.first(first).measure(call);
        report.case(Case { case, way: "light", bytes: len as usize }, &rounds, &[]);
    }
    section.delete().map_err(failed)?;
    of_a_driver(&report).map_err(|e| format!("a driver's calls: {e}"))?;
    pager::run(&report)?;
    lap::run(&report)?;
    info::run(&report)
}

/// Calls that a driver makes for this program: whoever has no right to a device's ports is refused.
fn of_a_driver(report: &Report) -> Result<(), Error> {
    let devices = names::lookup("devices").and_then(DevicesClient::bind)?;
    for (case, what) in [("port_read", ask::PORT_READ), ("port_write", ask::PORT_WRITE)] {
        devices.trace(what)?;
        let rounds = PLAN.measure(|| devices.trace(what).expect("it was done before"));
        report.case(Case { case, way: "light-of-a-driver", bytes: 0 }, &rounds, &[]);
    }
    devices.unbind()
}
