//! The ways into the kernel (SSS-M2, SSS-M4): the same function by the light entry, by the full one, and of a Linux program; memory operations by
//! their door; a fault and an interrupt; and giving way, alone and with somebody who does, too.

use crate::foreign;
use crate::report::{Case, Report};
use crate::rounds::Plan;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::sync::atomic::{AtomicBool, Ordering};
use musubi::Error;
use musubi::abi::layout::PAGE;
use musubi::abi::section::kind;
use musubi::rt::section::free;
use musubi::rt::thread::Thread;
use musubi::rt::{Section, mbcf, probe, task, thread, time};

const ROUNDS: usize = 1000;
const PLAN: Plan = Plan::new(ROUNDS);
/// Of a Linux program, to warm up.
const WARM: u32 = 64;
/// From one interrupt of the timer to the next.
const TICK_NS: u64 = 50_000;

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
    let foreign = foreign::getpid(WARM, ROUNDS as u32)?;
    report.samples(case("get_taskid", "foreign"), &foreign);
    memory_operations(report, base)?;
    page.delete().map_err(|e| format!("deleting: {e}"))?;
    interrupt(report)?;
    report.case(case("sleep0", "full"), &PLAN.measure(|| time::sleep_ns(0)), &[]);
    let (other, done) = sleeper(0)?;
    let both = PLAN.measure(|| time::sleep_ns(0));
    done.store(true, Ordering::Relaxed);
    other.join().map_err(|e| format!("a thread: {e}"))?;
    report.case(case("sleep0-x2", "full"), &both, &[]);
    Ok(())
}

/// To the own node, in a section of one's own: a word that is added to, and as many bytes as one operation carries.
fn memory_operations(report: &Report, base: u64) -> Result<(), String> {
    let bytes = [1; mbcf::DATA_MAX as usize];
    let operations: [(&str, &dyn Fn() -> Result<(), Error>); 2] =
        [("add-word", &|| mbcf::add(base, 1).map(drop)), ("write-1024", &|| mbcf::write(base, &bytes))];
    for (case, operation) in operations {
        let mut outcome = Ok(());
        let rounds = PLAN.measure(|| outcome = outcome.and(operation()));
        outcome.map_err(|e| format!("{case}: {e}"))?;
        report.case(Case { case, way: "mbcf", bytes: 0 }, &rounds, &[]);
    }
    Ok(())
}

/// One of the timer, which has set it for another thread, and back to the same one: the longest that the clock has stood still for a program that
/// looks at it all the time, less the shortest.
fn interrupt(report: &Report) -> Result<(), String> {
    let (other, done) = sleeper(TICK_NS)?;
    let interrupts = || task::processors().map(|processor| processor.interrupts).sum::<u64>();
    let rounds = Plan::new(ROUNDS / 5).first(&|| time::sleep_ns(0)).measure_steps(|| {
        let (before, mut last, mut least, mut most) = (interrupts(), time::ticks(), u64::MAX, 0);
        while interrupts() == before {
            let now = time::ticks();
            (least, most) = (least.min(now - last), most.max(now - last));
            last = now;
        }
        most = most.max(time::ticks() - last);
        [most - least.min(most), 0, 0]
    });
    done.store(true, Ordering::Relaxed);
    other.join().map_err(|e| format!("a thread: {e}"))?;
    let [interrupted, ..] = &rounds.steps;
    report.samples(Case { case: "timer", way: "interrupt", bytes: 0 }, interrupted);
    Ok(())
}

/// A thread that does nothing but sleep for so long, again and again, until it is told to end.
fn sleeper(ns: u64) -> Result<(Thread, &'static AtomicBool), String> {
    let done: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let sleeps = move || {
        while !done.load(Ordering::Relaxed) {
            time::sleep_ns(ns);
        }
    };
    let thread = thread::spawn(sleeps, 0).map_err(|e| format!("a thread: {e}"))?;
    Ok((thread, done))
}
