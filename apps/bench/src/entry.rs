//! The ways into the kernel (SSS-M2, SSS-M4): the same function by the light entry and by the full one; and giving way, alone and with
//! somebody who does, too.

use crate::report::{Case, Report};
use crate::rounds::Plan;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::sync::atomic::{AtomicBool, Ordering};
use musubi::abi::layout::PAGE;
use musubi::abi::section::kind;
use musubi::rt::section::free;
use musubi::rt::{Section, probe, task, thread, time};

const PLAN: Plan = Plan::new(1000);

pub fn run(report: &Report) -> Result<(), String> {
    let own = task::own();
    if own == 0 || task::own_by_full_entry() != own {
        return Err(format!("the task is {own} by the light entry and {} by the full one", task::own_by_full_entry()));
    }
    let case = |case, way| Case { case, way, bytes: 0 };
    let light = PLAN.measure(|| _ = core::hint::black_box(task::own()));
    report.case(case("get_taskid", "light"), &light, &[]);
    let full = PLAN.measure(|| _ = core::hint::black_box(task::own_by_full_entry()));
    report.case(case("get_taskid", "full"), &full, &[]);
    // A page that is there again with the fault: taken away before each round, outside of what counts.
    let page = Section::create(PAGE, PAGE, kind::DATA, 0).map_err(|e| format!("a section: {e}"))?;
    let base = page.base();
    let away = || free(base, PAGE).expect("the page of an own section");
    let fault = PLAN.first(&away).measure(|| _ = probe::read(base));
    report.case(case("touch", "fault"), &fault, &[]);
    page.delete().map_err(|e| format!("deleting: {e}"))?;
    report.case(case("sleep0", "full"), &PLAN.measure(|| time::sleep_ns(0)), &[]);
    let done: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let other = move || {
        while !done.load(Ordering::Relaxed) {
            time::sleep_ns(0);
        }
    };
    let other = thread::spawn(other, 0).map_err(|e| format!("a thread: {e}"))?;
    let both = PLAN.measure(|| time::sleep_ns(0));
    done.store(true, Ordering::Relaxed);
    other.join().map_err(|e| format!("a thread: {e}"))?;
    report.case(case("sleep0-x2", "full"), &both, &[]);
    Ok(())
}
