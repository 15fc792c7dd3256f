//! The short ways into the kernel (SSS-24): how long each keeps the processor at most, calls at their bounds. The trace sees none of them, since it has
//! all calls take the full entry; so rounds of them are measured, and what of a round is the kernel's is seen from outside (`host/measure`).

use crate::report::{Case, Report};
use crate::rounds::Plan;
use crate::{info, pager};
use alloc::format;
use alloc::string::String;
use musubi::abi::calls::{Entry, Kernel, TABLE};
use musubi::abi::layout::PAGE;
use musubi::abi::section::kind;
use musubi::rt::section::{alloc, free, invalidate, validate};
use musubi::rt::{Section, Trap, mbcf};

const PLAN: Plan = Plan::new(50).warm(4);
/// Pages that one call goes through at most.
const BOUND: u64 = 512;

pub fn run(report: &Report) -> Result<(), String> {
    let report = report.of_longest();
    let failed = |e| format!("pages of an own section: {e}");
    // With nothing: most refuse that, which is a way in and out, too.
    for row in TABLE.iter().filter(|row| row.entry != Entry::Full) {
        let one = PLAN.measure(|| _ = core::hint::black_box(Trap.enter_light(row.number, [0; 6])));
        report.case(Case { case: row.name, way: "light-with-nothing", bytes: 0 }, &one, &[]);
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
    // Over the border of two pages.
    let (at, bytes) = (base + PAGE - mbcf::DATA_MAX / 2, [1; mbcf::DATA_MAX as usize]);
    let rounds = PLAN.measure(|| done(mbcf::write(at, &bytes)));
    report.case(Case { case: "mbcf_write", way: "mbcf", bytes: bytes.len() }, &rounds, &[]);
    section.delete().map_err(failed)?;
    pager::run(&report)?;
    info::run(&report)
}
