//! A fault that a pager outside the kernel deals with, and back (SSS-M5): the program is the pager of its own section.

use crate::report::{Case, Report};
use crate::rounds::Plan;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::Error;
use musubi::abi::layout::PAGE;
use musubi::abi::section::kind;
use musubi::interfaces::pager::{Pager, pager_serve};
use musubi::rt::Section;
use musubi::rt::pager::{answer, flag, set, set_for_task, supply_page, take_page};
use musubi::rt::section::{invalidate, validate};

const ROUNDS: usize = 500;

/// It has the kernel make the page valid.
struct Validates;

impl Pager for Validates {
    fn fault(&self, _: u64, _: u64, _: u64, _: u64) -> Result<u64, Error> {
        Ok(answer::VALID)
    }
}

/// It does that by a call of its own.
struct Calls;

impl Pager for Calls {
    fn fault(&self, section: u64, offset: u64, _: u64, _: u64) -> Result<u64, Error> {
        validate(section + offset / PAGE * PAGE, PAGE).map(|()| answer::DONE)
    }
}

/// It only returns, as the paper's does.
struct Empty;

impl Pager for Empty {
    fn fault(&self, _: u64, _: u64, _: u64, _: u64) -> Result<u64, Error> {
        Ok(answer::DONE)
    }
}

/// It moves a page of its own there.
struct Supplies(AtomicU64);

impl Pager for Supplies {
    fn fault(&self, section: u64, offset: u64, _: u64, _: u64) -> Result<u64, Error> {
        supply_page(section + offset / PAGE * PAGE, self.0.load(Ordering::Relaxed), 0).map(|()| answer::DONE)
    }
}

pub fn run(report: &Report) -> Result<(), String> {
    let made = |len| Section::create(len, len, kind::DATA, 0).map_err(|e| format!("a section: {e}"));
    let way = |way| Case { case: "round-trip", way, bytes: 0 };
    let with = |gate: Result<musubi::rt::Gates, Error>, flags| {
        let mut section = made(PAGE)?;
        touch(&mut section);
        let gate = gate.map_err(|e| format!("gates: {e}"))?.address();
        set(section.base(), gate, 1, flags).map_err(|e| format!("a pager: {e}"))?;
        Ok::<Section, String>(section)
    };
    for (name, mut section) in [
        ("validate", with(pager_serve(&Validates), 0)?),
        ("validate-by-call", with(pager_serve(&Calls), 0)?),
        ("validated-before", with(pager_serve(&Empty), flag::VALID_BEFORE)?),
    ] {
        let base = section.base();
        let first = || invalidate(base, PAGE).expect("a page of an own section");
        report.case(way(name), &Plan::new(ROUNDS).first(&first).measure(|| touch(&mut section)), &[]);
    }
    by_the_tasks(report, made(PAGE)?)?;
    let validates = || with(pager_serve(&Validates), 0);
    in_turn(report, "validate-two-in-turn", &mut [validates()?, validates()?]);
    in_turn(report, "validate-three-in-turn", &mut [validates()?, validates()?, validates()?]);
    in_turn(report, "validate-four-in-turn", &mut [validates()?, validates()?, validates()?, validates()?]);
    loads_and_stores(report, validates()?);
    let scratch = made(PAGE)?.base();
    let supplies = Box::leak(Box::new(Supplies(AtomicU64::new(scratch))));
    let mut section = with(pager_serve(supplies), 0)?;
    let base = section.base();
    let first = || _ = take_page(base, scratch).expect("a page that was supplied");
    report.case(way("supply"), &Plan::new(ROUNDS).first(&first).measure(|| touch(&mut section)), &[]);
    Ok(())
}

/// The section has no pager; its program's task has one (SSS-58).
fn by_the_tasks(report: &Report, mut section: Section) -> Result<(), String> {
    let gates = pager_serve(&Validates).map_err(|e| format!("gates: {e}"))?;
    touch(&mut section);
    let base = section.base();
    let first = || invalidate(base, PAGE).expect("a page of an own section");
    set_for_task(gates.address(), 0).map_err(|e| format!("a task's pager: {e}"))?;
    let rounds = Plan::new(ROUNDS).first(&first).measure(|| touch(&mut section));
    set_for_task(0, 0).map_err(|e| format!("without it: {e}"))?;
    report.case(Case { case: "round-trip", way: "validate-by-the-tasks", bytes: 0 }, &rounds, &[]);
    Ok(())
}

/// A thread keeps whom it has asked for the last three sections. What it takes where so many are missed in turn.
fn in_turn(report: &Report, way: &str, sections: &mut [Section]) {
    let bases: Vec<u64> = sections.iter().map(Section::base).collect();
    let first = || bases.iter().for_each(|base| invalidate(*base, PAGE).expect("a page of an own section"));
    let mut turn = 0;
    let rounds = Plan::new(ROUNDS).first(&first).measure(|| {
        turn = (turn + 1) % bases.len();
        touch(&mut sections[turn]);
    });
    report.case(Case { case: "round-trip", way, bytes: 0 }, &rounds, &[]);
}

/// The same where loads and stores are missed in turn.
fn loads_and_stores(report: &Report, mut section: Section) {
    let base = section.base();
    let first = || invalidate(base, PAGE).expect("a page of an own section");
    let mut stores = false;
    let rounds = Plan::new(ROUNDS).first(&first).measure(|| {
        stores = !stores;
        if stores {
            touch(&mut section);
        } else {
            core::hint::black_box(section.bytes()[0]);
        }
    });
    report.case(Case { case: "round-trip", way: "validate-load-then-store", bytes: 0 }, &rounds, &[]);
}

/// One store.
fn touch(section: &mut Section) {
    *core::hint::black_box(&mut section.bytes_mut()[0]) = 1;
}
