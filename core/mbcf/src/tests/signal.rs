//! The signal's structure against a plain count of programs.

use crate::signal::{Signal, Verdict};
use abi::mbcf::{NEST_MAX, SignalSetup, condition, start, store};
use proptest::prelude::*;

const ENTRY: u64 = 0x1000;
const NAMED: u64 = 0x2000;

fn setup(start: u64, condition: u64, most: u64) -> SignalSetup {
    SignalSetup {
        thread: 5,
        entry: ENTRY,
        start,
        store: store::QUEUE,
        condition,
        most,
        buffer: 0x4000,
        ..SignalSetup::default()
    }
}

fn signal(start: u64, condition: u64, most: u64) -> Signal {
    Signal::new(&setup(start, condition, most)).unwrap()
}

#[test]
fn the_receiver_decides_what_is_started() {
    let with = |start, entry| signal(start, condition::REFUSE, 1).admit(entry);
    assert_eq!(with(start::SCHEDULER, NAMED), Verdict::Start(ENTRY));
    assert_eq!(with(start::SCHEDULER, 0), Verdict::Start(ENTRY));
    assert_eq!(with(start::DESTINATION, 0), Verdict::Start(ENTRY));
    assert_eq!(with(start::DESTINATION, NAMED), Verdict::Refused);
    assert_eq!(with(start::SOURCE, NAMED), Verdict::Start(NAMED));
    assert_eq!(with(start::SOURCE, 0), Verdict::Refused);
    assert!(signal(start::SCHEDULER, 1, 1).tells_entry() && !signal(start::SOURCE, 1, 1).tells_entry());
}

#[test]
fn numbers_that_mean_nothing_are_refused() {
    let good = setup(start::SOURCE, condition::REFUSE, NEST_MAX);
    assert!(Signal::new(&good).is_some());
    let memory = SignalSetup { store: store::MEMORY, buffer_len: 64, ..good };
    assert!(Signal::new(&memory).is_some());
    let bad = [
        SignalSetup { start: 0, ..good },
        SignalSetup { start: 4, ..good },
        SignalSetup { store: 3, ..good },
        SignalSetup { condition: 0, ..good },
        SignalSetup { most: 0, ..good },
        SignalSetup { most: NEST_MAX + 1, ..good },
        SignalSetup { flags: 1, ..good },
        SignalSetup { buffer_len: 8, ..good },
        SignalSetup { buffer_len: 9, ..memory },
        SignalSetup { buffer: 4, ..memory },
        SignalSetup { buffer: u64::MAX - 7, ..memory },
    ];
    bad.iter().for_each(|setup| assert!(Signal::new(setup).is_none(), "{setup:?}"));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Send,
    Begin,
    End,
    Look,
    /// A program that was begun could not be started.
    Fail,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn agrees_with_a_count(
        kind in 1_u64..4,
        most in 1..=NEST_MAX,
        steps in prop::collection::vec(
            prop_oneof![3 => Just(Step::Send), 3 => Just(Step::Begin), 3 => Just(Step::End), 1 => Just(Step::Look), 1 => Just(Step::Fail)], 300)
    ) {
        let mut signal = signal(start::DESTINATION, kind, most);
        // Programs to start and running, data stored, and those of them that nobody has been started for or has looked at.
        let (mut waiting, mut running, mut unseen) = (0_u64, 0_u64, 0_u64);
        // A start has failed: what has come waits for the next signal.
        let mut has_failed = false;
        for step in steps {
            match step {
                Step::Send => {
                    let verdict = signal.admit(0);
                    let busy = waiting + running > 0;
                    let expected = match kind {
                        _ if !busy => Verdict::Start(ENTRY),
                        condition::REFUSE => Verdict::Cancelled,
                        condition::STORE_ONLY => Verdict::Store,
                        _ if waiting + running >= most => Verdict::Cancelled,
                        _ => Verdict::Start(ENTRY),
                    };
                    prop_assert_eq!(verdict, expected);
                    signal.commit(verdict);
                    match verdict {
                        Verdict::Start(_) => (waiting, has_failed) = (waiting + 1, false),
                        Verdict::Store => unseen += 1,
                        _ => {}
                    }
                }
                Step::Begin => {
                    prop_assert_eq!(signal.begin(), waiting > 0);
                    if waiting > 0 {
                        (waiting, running) = (waiting - 1, running + 1);
                    }
                }
                Step::End if running > 0 => {
                    running -= 1;
                    let again = running + waiting == 0 && unseen > 0;
                    prop_assert_eq!(signal.end(), again.then_some(ENTRY), "whether it is started again");
                    if again {
                        (waiting, unseen) = (1, 0);
                    }
                }
                Step::Look => {
                    prop_assert_eq!(signal.seen(), unseen > 0);
                    unseen = 0;
                }
                Step::Fail if running > 0 => {
                    signal.failed();
                    running -= 1;
                    has_failed = true;
                }
                Step::End | Step::Fail => {}
            }
            prop_assert_eq!(signal.words().under_way, waiting + running);
            // No wake-up is lost: data that nobody has looked at have somebody who will.
            prop_assert!(unseen == 0 || waiting + running > 0 || has_failed);
        }
    }
}
