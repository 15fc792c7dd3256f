//! The central theorem: for any history, an access through views and processors that remember comes to what the plain
//! table says. And it is worth something: a machine that neglects any one of its duties is found out.

mod machine;
mod table;

use super::*;
use abi::AclEntry;
use abi::rights::principal;
use acl::Change;
use machine::{Machine, Neglect};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestError, TestRng, TestRunner};
use table::{Outcome, Section, Table, Thread};

/// Two threads of one task, and one of another user's.
const THREADS: [Thread; 3] = [
    Thread { thread: 11, task: 1, user: 1 },
    Thread { thread: 12, task: 1, user: 1 },
    Thread { thread: 13, task: 2, user: 2 },
];

#[derive(Clone, Debug)]
enum Step {
    Create { kind: u64, len: u64, task: Option<u64>, text: usize },
    Clone { section: usize, task: Option<u64>, text: usize },
    Delete { section: usize },
    Resize { section: usize, len: u64 },
    Seal { section: usize },
    Set { section: usize, principal: u32, thread: usize, text: Option<usize>, rights: u32 },
    Switch { processor: usize, thread: usize, text: usize },
    Access { processor: usize, section: usize, page: u64, access: Access, value: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let number = || 0..6usize;
    // The first entry names a task in a text, or mostly everybody, so that enough is allowed.
    let task = || prop::option::weighted(0.3, 1..3u64);
    let access = prop::sample::select(&[Access::Read, Access::Write, Access::Execute][..]);
    let kinds = [[kind::DATA; 5], [kind::TEXT, kind::TEXT, kind::STACK, kind::DEVICE, kind::PORTS]].concat();
    let kinds = prop::sample::select(kinds);
    // All rights, none, or any mixture.
    let rights = prop_oneof![1 => Just(0u32), 2 => Just(7), 1 => 0..64u32];
    prop_oneof![
        4 => (kinds, 1..4u64, task(), number())
            .prop_map(|(kind, len, task, text)| Step::Create { kind, len, task, text }),
        6 => (number(), task(), number()).prop_map(|(section, task, text)| Step::Clone { section, task, text }),
        2 => number().prop_map(|section| Step::Delete { section }),
        2 => (number(), 0..4u64).prop_map(|(section, len)| Step::Resize { section, len }),
        1 => number().prop_map(|section| Step::Seal { section }),
        10 => (number(), 0..5u32, 0..3usize, prop::option::of(number()), rights).prop_map(
            |(section, principal, thread, text, rights)| Step::Set { section, principal, thread, text, rights }
        ),
        8 => (0..4usize, 0..3usize, number())
            .prop_map(|(processor, thread, text)| Step::Switch { processor, thread, text }),
        60 => (0..4usize, number(), 0..2u64, access, 1..1000u64).prop_map(
            |(processor, section, page, access, value)| Step::Access { processor, section, page, access, value }
        ),
    ]
}

/// The entry of a new section: all rights for a task in a text, or for everybody in any.
fn first_entry(task: Option<u64>, text: Option<u64>) -> AclEntry {
    let rights = Rights::all().bits();
    match (task, text) {
        (Some(id), Some(text)) => AclEntry { principal: principal::TASK, rights, id, text },
        _ => AclEntry { principal: principal::ANY, rights, id: 0, text: 0 },
    }
}

/// A history, begun with two texts that everybody may execute, and a thread on each processor.
fn history() -> impl Strategy<Value = (usize, Vec<Step>)> {
    (1..5usize, prop::collection::vec(step(), 0..160)).prop_map(|(processors, steps)| {
        let text = |text| Step::Create { kind: kind::TEXT, len: 2, task: None, text };
        let thread = |at| Step::Switch { processor: at, thread: at, text: at };
        let begin = [text(0), text(1)].into_iter().chain((0..processors.min(3)).map(thread));
        (processors, begin.chain(steps).collect())
    })
}

/// Runs a step on the machine and on the table. The answers must be the same.
fn run(machine: &mut Machine, table: &mut Table, processors: usize, step: Step) -> Result<(), TestCaseError> {
    let any = |_: &Section| true;
    let is_text = |section: &Section| section.kind == kind::TEXT;
    match step {
        Step::Create { kind, len, task, text } => {
            let entry = first_entry(task, table.nth(text, is_text));
            if let Some(base) = machine.create(kind, len, entry) {
                let section = Section { kind, original: base, words: vec![0; len as usize], entries: vec![entry] };
                prop_assert!(table.sections.insert(base, section).is_none());
            }
        }
        Step::Clone { section, task, text } => {
            // Memory of devices is never cloned.
            let cloned = |section: &Section| ![kind::DEVICE, kind::PORTS].contains(&section.kind);
            let Some(from) = table.nth(section, cloned) else { return Ok(()) };
            let entry = first_entry(task, table.nth(text, is_text));
            if let Some(base) = machine.clone_section(from, entry) {
                let source = &table.sections[&from];
                let section = Section {
                    kind: source.kind,
                    original: if source.kind == kind::TEXT { source.original } else { base },
                    words: source.words.clone(),
                    entries: vec![entry],
                };
                prop_assert!(table.sections.insert(base, section).is_none());
            }
        }
        Step::Delete { section } => {
            // Without texts nobody runs, so they go more rarely.
            let rarely = |other: &Section| section > 3 || other.kind != kind::TEXT;
            if let Some(base) = table.nth(section, rarely) {
                machine.delete(base);
                table.sections.remove(&base);
            }
        }
        Step::Resize { section, len } => {
            if let Some(base) = table.nth(section, any) {
                machine.resize(base, len);
                table.sections.get_mut(&base).unwrap().words.resize(len as usize, 0);
            }
        }
        Step::Seal { section } => {
            if let Some(base) = table.nth(section, |section| section.kind == kind::DATA) {
                machine.seal(base);
                table.sections.get_mut(&base).unwrap().kind = kind::TEXT;
            }
        }
        Step::Set { section, principal, thread, text, rights } => {
            let Some(base) = table.nth(section, any) else { return Ok(()) };
            let Thread { thread, task, user } = THREADS[thread];
            let id = [0, thread, task, user, 1][principal as usize];
            let text = text.and_then(|text| table.nth(text, is_text)).unwrap_or(0);
            let entry = AclEntry { principal, rights, id, text };
            let before = table.sections[&base].entries.clone();
            let change = machine.set(base, &entry);
            table.set(base, entry);
            prop_assert!(change != Change::Same || before.len() == table.sections[&base].entries.len());
        }
        Step::Switch { processor, thread, text } => {
            if let Some(text) = table.nth(text, is_text) {
                machine.switch(processor % processors, THREADS[thread], text);
            }
        }
        Step::Access { processor, section, page, access, value } => {
            // One on which somebody runs.
            let all = (processor..processor + processors).map(|processor| processor % processors);
            let running = all.filter_map(|processor| Some((processor, machine.domain(processor)?)));
            let Some((processor, (thread, text))) = { running }.next() else { return Ok(()) };
            // Mostly what can be written, because most can go wrong there.
            let writable = |other: &Section| section > 3 || kind::DATA == other.kind;
            let Some(base) = table.nth(section, writable) else { return Ok(()) };
            let expected = table.access(base, page, access, value, thread, text);
            let got = machine.access(processor, base + page * abi::layout::PAGE, access, value);
            prop_assert_eq!(got, expected, "{:?} of page {} of {:x}", access, page, base);
        }
    }
    Ok(())
}

fn play(neglect: Neglect, processors: usize, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut machine = Machine::new(processors, neglect);
    let mut table = Table::default();
    for step in steps {
        run(&mut machine, &mut table, processors, step)?;
    }
    // What nobody happened to try: every translation that is left anywhere is one that the table allows.
    for (thread, text, address, prot) in machine.usable() {
        let thread = *THREADS.iter().find(|known| known.thread == thread).unwrap();
        let base = table.sections.range(..=address).next_back().map_or(0, |(base, _)| *base);
        let page = (address - base) / abi::layout::PAGE;
        let mut may = |access| {
            let before = table.sections.get(&base).and_then(|section| section.words.get(page as usize).copied());
            let outcome = table.access(base, page, access, before.unwrap_or(0), thread, text);
            matches!(outcome, Outcome::Done(_))
        };
        prop_assert!(may(Access::Read), "{:x} can be read", address);
        prop_assert!(!prot.write || may(Access::Write), "{:x} can be written", address);
        prop_assert!(!prot.execute || may(Access::Execute), "{:x} can be executed", address);
        prop_assert!(!(prot.write && prot.execute));
    }
    machine.end();
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn every_access_comes_to_what_the_table_says((processors, steps) in history()) {
        play(Neglect::Nothing, processors, steps)?;
    }
}

/// The theorem's test can fail: a machine that neglects one of its duties comes to something else than the table.
#[test]
fn every_neglected_duty_is_found_out() {
    for neglect in [
        Neglect::Revocation,
        Neglect::OtherProcessors,
        Neglect::Translations,
        Neglect::ProtectionOfClones,
        Neglect::CopiedPages,
        Neglect::CutPages,
        Neglect::DeletedSections,
        Neglect::Sealing,
        Neglect::Sharing,
    ] {
        let config =
            ProptestConfig { cases: 4000, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() };
        // The same histories each time: whether a fault is found must not be a matter of luck.
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let mut runner = TestRunner::new_with_rng(config, rng);
        let result = runner.run(&history(), |(processors, steps)| play(neglect, processors, steps));
        assert!(matches!(result, Err(TestError::Fail(..))), "{neglect:?} goes unnoticed");
    }
}

/// All rights, kinds, accesses and windows there are.
#[test]
fn decide_says_what_the_rules_say() {
    let windows = || std::iter::once(None).chain((0..8).map(|bits| Some(Rights::from_bits_truncate(bits))));
    for rights in (0..64).map(Rights::from_bits_truncate) {
        for section_kind in 0..7 {
            for window in windows() {
                let through = |right: Rights| match window {
                    None => true,
                    Some(window) if right == Rights::READ => !window.is_empty(),
                    Some(window) => window.contains(right),
                };
                let has = |right: Rights| rights.contains(right) && through(right);
                let data = [kind::DATA, kind::STACK, kind::DEVICE].contains(&section_kind);
                let read = has(Rights::READ) && (data || section_kind == kind::TEXT);
                let write = read && has(Rights::WRITE) && data;
                let execute = read && has(Rights::EXECUTE) && section_kind == kind::TEXT;
                for (access, allowed) in [(Access::Read, read), (Access::Write, write), (Access::Execute, execute)] {
                    let what = format!("{rights} {section_kind} {access:?} {window:?}");
                    match decide(rights, section_kind, access, window) {
                        Ok(prot) => {
                            let device = section_kind == kind::DEVICE;
                            let expected = Prot { write, execute, user: true, device, global: false, key: 0 };
                            assert!(allowed && prot == expected, "{what}");
                        }
                        Err(missing) => {
                            assert!(!allowed && !missing.is_empty() && access.needs().contains(missing), "{what}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_shared_page_is_not_writable() {
    let prot = decide(Rights::all(), kind::DATA, Access::Write, None).unwrap();
    assert!(while_shared(prot, true).write);
    assert_eq!(while_shared(prot, false), Prot { write: false, ..prot });
}

#[test]
fn only_a_loss_must_be_told() {
    assert_eq!(Invalidate::after(Change::Same, 0, 1), None);
    assert_eq!(Invalidate::after(Change::Grew, 0, 1), None);
    let told = Invalidate::after(Change::Shrank, 0x1000, 0x2000).unwrap();
    assert!(told.covers(0x1000) && told.covers(0x2fff) && !told.covers(0xfff) && !told.covers(0x3000));
}

/// What is named to people is missing, and it is the right of the access wherever that is missing.
#[test]
fn what_is_named_is_missing() {
    for access in [Access::Read, Access::Write, Access::Execute] {
        for has in (0..=Rights::all().bits()).map(Rights::from_bits_truncate) {
            match decide(has, kind::DATA, access, None) {
                Ok(_) => assert!(has.contains(access.needs())),
                Err(missing) => {
                    let named = access.named(missing);
                    assert!(!named.is_empty() && missing.contains(named), "{access:?} with {has}");
                    assert_eq!(named == access.right(), missing.contains(access.right()), "{access:?} with {has}");
                }
            }
        }
    }
}
