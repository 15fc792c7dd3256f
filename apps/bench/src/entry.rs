//! The ways into the kernel (SSS-M2, SSS-M4): the same function by the light entry, by the full one, and of a Linux program; memory operations by
//! their door; a fault and an interrupt; giving way, alone and with somebody who does, too; and what of these a text in supervisor mode takes.

use crate::foreign;
use crate::report::{Case, Report};
use crate::rounds::Plan;
use crate::vectors::NO_PLACE;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::sync::atomic::{AtomicBool, Ordering};
use musubi::abi::layout::PAGE;
use musubi::abi::section::{class, kind};
use musubi::abi::task::exit;
use musubi::command::Command;
use musubi::rt::section::free;
use musubi::rt::thread::Thread;
use musubi::rt::{Section, mbcf, probe, task, thread, time};
use musubi::{Error, ended, eprintln};

const ROUNDS: usize = 1000;
const PLAN: Plan = Plan::new(ROUNDS);
/// Of a Linux program, to warm up.
const WARM: u32 = 64;
/// From one interrupt of the timer to the next.
const TICK_NS: u64 = 50_000;
/// What the program is called with that is in supervisor mode.
pub const IN_CLASS: &str = "entry-in-class";

pub fn run(report: &Report) -> Result<(), String> {
    let own = task::own();
    if own == 0 || task::own_by_full_entry() != own {
        return Err(format!("the task is {own} by the light entry and {} by the full one", task::own_by_full_entry()));
    }
    let case = |case, way| Case { case, way, bytes: 0 };
    let page = Section::create(PAGE, PAGE, kind::DATA, 0).map_err(|e| format!("a section: {e}"))?;
    let base = page.base();
    three_ways(report, ROUNDS, base, ["light", "full", "fault"]);
    let foreign = foreign::getpid(WARM, ROUNDS as u32)?;
    report.samples(case("get_taskid", "foreign"), &foreign);
    let bytes = [1; mbcf::DATA_MAX as usize];
    operation(report, ROUNDS, ["add-word", "mbcf"], &|| mbcf::add(base, 1).map(drop))?;
    operation(report, ROUNDS, ["write-1024", "mbcf"], &|| mbcf::write(base, &bytes))?;
    page.delete().map_err(|e| format!("deleting: {e}"))?;
    interrupt(report, "interrupt")?;
    report.case(case("sleep0", "full"), &PLAN.measure(|| time::sleep_ns(0)), &[]);
    let (other, done) = sleeper(0)?;
    let both = PLAN.measure(|| time::sleep_ns(0));
    done.store(true, Ordering::Relaxed);
    other.join().map_err(|e| format!("a thread: {e}"))?;
    report.case(case("sleep0-x2", "full"), &both, &[]);
    [class::PSYS, class::NSYS].into_iter().try_for_each(|class| placed(report, class))
}

/// So many rounds of the same function by the light entry and by the full one, and of a fault; and what these are called.
fn three_ways(report: &Report, rounds: usize, base: u64, [light, full, fault]: [&str; 3]) {
    let case = |case, way| Case { case, way, bytes: 0 };
    let plan = || Plan::new(rounds);
    report.case(case("get_taskid", light), &plan().measure(|| _ = core::hint::black_box(task::own())), &[]);
    let by_full = || _ = core::hint::black_box(task::own_by_full_entry());
    report.case(case("get_taskid", full), &plan().measure(by_full), &[]);
    // A page that is there again with the fault: taken away before each round, outside of what counts.
    let away = || free(base, PAGE).expect("the page of an own section");
    report.case(case("touch", fault), &plan().first(&away).measure(|| _ = probe::read(base)), &[]);
}

/// The same program in supervisor mode, which tells of itself.
fn placed(report: &Report, class: u64) -> Result<(), String> {
    let name = class::WORDS[class as usize];
    let words = ["bench", IN_CLASS, name].into_iter().chain(report.words());
    match Command::new(b"bin/bench").args(words).placed(class, 0).spawn() {
        Err(refused) if refused.error == Error::Denied => {
            report.not_measured(&format!("ways in of {name}"), NO_PLACE);
            Ok(())
        }
        Err(refused) => Err(format!("a program in {name}: {refused}")),
        Ok(child) => match child.wait() {
            Ok(how) if (how.kind, how.code) == (exit::EXITED, 0) => Ok(()),
            Ok(how) => Err(format!("a program in {name}: {}", ended::describe(&how, ended::section_name))),
            Err(e) => Err(format!("a program in {name}: {e}")),
        },
    }
}

/// Its main function. Few rounds: without preemption it comes to no switch point in them, but where it waits for the timer.
pub fn in_class(class: &str, flags: &[&str]) -> i32 {
    let report = Report::new("entry", flags.contains(&"--json"), flags.contains(&"--wall"));
    let Ok(page) = Section::create(PAGE, PAGE, kind::DATA, 0) else { return 1 };
    let (base, rounds) = (page.base(), ROUNDS / 5);
    let [light, full, fault, mbcf, timer] =
        ["light", "full", "fault", "mbcf", "interrupt"].map(|way| format!("{way}-{class}"));
    three_ways(&report, rounds, base, [&light, &full, &fault]);
    let outcome = operation(&report, rounds, ["add-word", &mbcf], &|| mbcf::add(base, 1).map(drop))
        .and_then(|()| interrupt(&report, &timer));
    i32::from(outcome.inspect_err(|why| eprintln!("{why}")).is_err() || page.delete().is_err())
}

/// So many memory operations, to the own node, in a section of one's own: a word that is added to, or as many bytes as one operation carries.
fn operation(
    report: &Report,
    rounds: usize,
    [case, way]: [&str; 2],
    operation: &dyn Fn() -> Result<(), Error>,
) -> Result<(), String> {
    let mut outcome = Ok(());
    let rounds = Plan::new(rounds).measure(|| outcome = outcome.and(operation()));
    outcome.map_err(|e| format!("{case}: {e}"))?;
    report.case(Case { case, way, bytes: 0 }, &rounds, &[]);
    Ok(())
}

/// One of the timer, which has set it for another thread, and back to the same one: the longest that the clock has stood still for a program that
/// looks at it all the time, less the shortest.
fn interrupt(report: &Report, way: &str) -> Result<(), String> {
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
    report.samples(Case { case: "timer", way, bytes: 0 }, interrupted);
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
