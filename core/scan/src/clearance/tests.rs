//! The transitions against a plain table of who does what; and the order in which a kernel makes them, on an emulated
//! machine.

mod machine;

use super::*;
use machine::{Access, Machine, Neglect};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestError, TestRng, TestRunner};
use std::collections::BTreeSet;

#[derive(Clone, Debug)]
enum Use {
    BeginWrite(u8),
    EndWrite(u8),
    BeginExecute(u8),
    EndExecute(u8),
    Scanned(u8),
}

fn uses() -> impl Strategy<Value = Vec<Use>> {
    let who = || 0..4u8;
    vec(
        prop_oneof![
            who().prop_map(Use::BeginWrite),
            who().prop_map(Use::EndWrite),
            who().prop_map(Use::BeginExecute),
            who().prop_map(Use::EndExecute),
            (0..128u8).prop_map(Use::Scanned),
            Just(Use::Scanned(5)),
        ],
        0..60,
    )
}

/// Who uses the frame, by name, and what a scan of these bytes has found.
#[derive(Default)]
struct Table {
    writers: BTreeSet<u8>,
    executors: BTreeSet<u8>,
    scan: Option<Summary>,
}

impl Table {
    fn state(&self) -> State {
        match (self.writers.len() as u32, self.executors.len() as u32) {
            (0, 0) => State::Plain,
            (writers, 0) => State::Writable { writers },
            (0, executors) => State::Executable { executors, scan: self.scan },
            both => panic!("written and executed: {both:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn transitions_come_to_what_the_table_says(uses in uses()) {
        let mut table = Table::default();
        let mut frame = Clearance::PLAIN;
        for step in uses {
            let (after, expected) = match step {
                // Each uses it once at most; and ends only what it has begun, as far as anybody has begun anything.
                Use::BeginWrite(who) if table.writers.contains(&who) => continue,
                Use::BeginExecute(who) if table.executors.contains(&who) => continue,
                Use::EndWrite(who) if !table.writers.is_empty() && !table.writers.contains(&who) => continue,
                Use::EndExecute(who) if !table.executors.is_empty() && !table.executors.contains(&who) => continue,
                Use::BeginWrite(who) => (frame.begin_write(), match table.executors.len() as u32 {
                    0 => { table.writers.insert(who); Ok(()) }
                    some => Err(Refusal::Executed(some)),
                }),
                Use::BeginExecute(who) => (frame.begin_execute(), match table.writers.len() as u32 {
                    0 => { table.executors.insert(who); Ok(()) }
                    some => Err(Refusal::Written(some)),
                }),
                Use::EndWrite(who) => {
                    (frame.end_write(), if table.writers.remove(&who) { Ok(()) } else { Err(Refusal::NotBegun) })
                }
                Use::EndExecute(who) => {
                    let was = table.executors.remove(&who);
                    if table.executors.is_empty() {
                        table.scan = None;
                    }
                    (frame.end_execute(), if was { Ok(()) } else { Err(Refusal::NotBegun) })
                }
                Use::Scanned(bits) => {
                    let found = Summary::from_bits(bits).unwrap();
                    (frame.scanned(found), match table.scan {
                        _ if table.executors.is_empty() => Err(Refusal::NotBegun),
                        Some(before) if before != found => Err(Refusal::Changed),
                        _ => { table.scan = Some(found); Ok(()) }
                    })
                }
            };
            prop_assert_eq!(after.map(|_| ()), expected);
            frame = after.unwrap_or(frame);
            prop_assert_eq!(frame.state(), table.state());
            prop_assert_eq!(frame.is_clear(), table.scan.is_some_and(Summary::is_clear));
            prop_assert_eq!(Clearance::from_bits(frame.bits()), Some(frame));
        }
    }

    #[test]
    fn bits_are_a_state_or_refused(bits in any::<u32>(), role in 0..4u32, count in 0..3u32, short in any::<bool>()) {
        let bits = if short { role << 30 | bits & 0xff << 22 | count } else { bits };
        if let Some(frame) = Clearance::from_bits(bits) {
            prop_assert_eq!(frame.bits(), bits);
            let used = match frame.state() {
                State::Plain => bits == 0,
                State::Writable { writers } => writers > 0,
                State::Executable { executors, .. } => executors > 0,
            };
            prop_assert!(used, "{:?}", frame);
        }
    }
}

#[test]
fn zeroed_memory_is_plain() {
    assert_eq!(Clearance::from_bits(0), Some(Clearance::PLAIN));
    assert_eq!(Clearance::PLAIN.state(), State::Plain);
}

#[test]
fn more_than_can_be_counted_is_refused() {
    let full = |role: u32| Clearance::from_bits(role << ROLE | COUNT_MAX).unwrap();
    assert_eq!(full(WRITABLE).begin_write(), Err(Refusal::TooMany));
    assert_eq!(full(EXECUTABLE).begin_execute(), Err(Refusal::TooMany));
    assert_eq!(full(EXECUTABLE).begin_write(), Err(Refusal::Executed(COUNT_MAX)));
    assert!(full(WRITABLE).end_write().is_ok() && full(EXECUTABLE).end_execute().is_ok());
}

#[test]
fn the_last_to_leave_takes_the_scan_along() {
    let one = Clearance::PLAIN.begin_execute().unwrap().scanned(Summary::ZEROES).unwrap();
    let two = one.begin_execute().unwrap();
    assert!(one.is_clear() && two.is_clear());
    assert_eq!(two.end_execute(), Ok(one));
    assert_eq!(one.end_execute(), Ok(Clearance::PLAIN));
    assert!(!Clearance::PLAIN.begin_execute().unwrap().is_clear(), "not scanned is not clear");
}

#[derive(Clone, Debug)]
enum Step {
    Create,
    Access { processor: usize, section: usize, page: usize, access: Access },
    KernelWrite { section: usize, page: usize, content: usize },
    Clone { section: usize, as_data: bool },
    BeginSeal { section: usize },
    EndSeal { section: usize },
    Delete { section: usize },
    BeginDevice { section: usize, page: usize },
    DeviceWrite { device: usize, content: usize },
    EndDevice { device: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let section = || 0..4usize;
    let page = || 0..machine::PAGES;
    let content = || 0..machine::CONTENTS;
    let access = prop_oneof![3 => content().prop_map(Access::Store), 2 => Just(Access::Execute)];
    let step = prop_oneof![
        3 => Just(Step::Create),
        20 => (0..2usize, section(), page(), access).prop_map(|(processor, section, page, access)| {
            Step::Access { processor, section, page, access }
        }),
        3 => (section(), page(), content()).prop_map(|(section, page, content)| Step::KernelWrite {
            section, page, content
        }),
        3 => (section(), any::<bool>()).prop_map(|(section, as_data)| Step::Clone { section, as_data }),
        4 => section().prop_map(|section| Step::BeginSeal { section }),
        6 => section().prop_map(|section| Step::EndSeal { section }),
        2 => section().prop_map(|section| Step::Delete { section }),
        2 => (section(), page()).prop_map(|(section, page)| Step::BeginDevice { section, page }),
        2 => (0..2usize, content()).prop_map(|(device, content)| Step::DeviceWrite { device, content }),
        3 => (0..2usize).prop_map(|device| Step::EndDevice { device }),
    ];
    vec(step, 0..60)
}

/// Plays the steps; after each, what could be executed is what was scanned. An error is a broken promise.
fn play(neglect: Neglect, steps: Vec<Step>) -> Result<(), String> {
    let mut machine = Machine::new(neglect);
    for step in steps {
        match step {
            Step::Create => machine.create(),
            Step::Access { processor, section, page, access } => machine.access(processor, section, page, access)?,
            Step::KernelWrite { section, page, content } => machine.kernel_write(section, page, content)?,
            Step::Clone { section, as_data } => machine.clone_section(section, as_data)?,
            Step::BeginSeal { section } => machine.begin_seal(section),
            Step::EndSeal { section } => machine.end_seal(section)?,
            Step::Delete { section } => machine.delete(section)?,
            Step::BeginDevice { section, page } => machine.begin_device(section, page)?,
            Step::DeviceWrite { device, content } => machine.device_write(device, content),
            Step::EndDevice { device } => machine.end_device(device)?,
        }
        machine.check()?;
    }
    machine.end()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn what_is_executed_was_scanned_and_is_not_written(steps in steps()) {
        play(Neglect::Nothing, steps).map_err(TestCaseError::fail)?;
    }
}

/// The test can fail: a machine that neglects any one duty breaks a promise.
#[test]
fn every_neglected_duty_is_found_out() {
    for neglect in Neglect::ALL {
        let config =
            ProptestConfig { cases: 6000, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() };
        // The same histories each time: whether a fault is found must not be a matter of luck.
        let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
        let result = runner.run(&steps(), |steps| play(neglect, steps).map_err(TestCaseError::fail));
        assert!(matches!(result, Err(TestError::Fail(..))), "{neglect:?} goes unnoticed");
    }
}
