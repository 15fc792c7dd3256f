//! The order of pagers against its definition, levels, and waiters under shuttle's interleavings.

mod race;

use crate::answer::Patience;
use crate::level;
use crate::transit::{Key, Transit};
use crate::who::{Candidate, Miss, Outcome, Who};
use abi::pager::{LEVEL_MAX, LEVEL_TASK, TRIES, why};
use proptest::prelude::*;

fn candidate(level: std::ops::RangeInclusive<u64>) -> impl Strategy<Value = Option<Candidate>> {
    proptest::option::of((level, any::<bool>(), any::<bool>()).prop_map(|(level, lives, known)| Candidate {
        level,
        lives,
        known,
    }))
}

fn miss() -> impl Strategy<Value = Miss> {
    let task = candidate(LEVEL_TASK..=LEVEL_TASK);
    let section = candidate(1..=LEVEL_MAX);
    (any::<bool>(), task, section, any::<bool>(), proptest::option::of(1..=LEVEL_TASK), any::<bool>()).prop_map(
        |(invalid, task, section, in_call, innermost, decides)| Miss {
            invalid,
            task,
            section,
            in_call,
            innermost,
            decides,
        },
    )
}

proptest! {
    #[test]
    fn the_first_whom_it_concerns_is_asked_or_nobody(miss in miss(), declined in 0..3u8) {
        let declined = [None, Some(Who::Task), Some(Who::Section)][declined as usize];
        // By the text of architecture 14, one after the other.
        let task = miss.task.filter(|_| miss.invalid && declined.is_none());
        let section = miss.section.filter(|_| declined != Some(Who::Section));
        let concerned = task.map(|one| (Who::Task, one)).or(section.map(|one| (Who::Section, one)));
        let outcome = miss.whom(declined);
        match concerned {
            None => prop_assert_eq!(outcome, if declined.is_some() { Outcome::Refused(why::DECLINED) } else { Outcome::Nobody }),
            Some((who, one)) => {
                let stranger = miss.in_call && !one.known;
                let deep = miss.innermost.is_some_and(|above| one.level >= above);
                let may = one.lives && !miss.decides && !stranger && !deep;
                prop_assert_eq!(matches!(outcome, Outcome::Ask(_)), may);
                if may {
                    prop_assert_eq!(outcome, Outcome::Ask(who));
                } else {
                    prop_assert!(matches!(outcome, Outcome::Refused(_)));
                }
            }
        }
    }

    #[test]
    fn chains_of_pagers_end(levels in proptest::collection::vec(1..=LEVEL_TASK, 0..40)) {
        let mut chain = Vec::new();
        for level in levels {
            if level::may_fault(chain.last().copied(), level) {
                chain.push(level);
            }
        }
        prop_assert!(chain.len() as u64 <= LEVEL_TASK);
        prop_assert!(chain.is_sorted_by(|a, b| a > b));
    }

    #[test]
    fn one_asks_for_a_page_and_all_others_hear(steps in proptest::collection::vec((0..3u8, 0..4u64, 0..2u64), 0..60)) {
        let mut transit = Transit::new();
        let mut model: Vec<(Key, Vec<usize>)> = Vec::new();
        for (number, (what, page, of)) in steps.into_iter().enumerate() {
            let key = Key { page, of };
            let at = model.iter().position(|(known, _)| *known == key);
            prop_assert_eq!(transit.is_asked(key), at.is_some());
            match what {
                0 => {
                    // Without room nothing changes, but for the first one, which needs none.
                    let refused = transit.ask_if(key, || false);
                    prop_assert_eq!(refused, model.is_empty());
                    prop_assert_eq!(transit.count(), model.len() + usize::from(refused));
                    prop_assert_eq!(transit.ask(key), at.is_none() && !refused);
                    if at.is_none() {
                        model.push((key, Vec::new()));
                    }
                }
                1 => {
                    prop_assert_eq!(transit.wait(key, number, |_| false).is_ok(), at.is_some());
                    if let Some(at) = at {
                        model[at].1.push(number);
                    }
                }
                _ => prop_assert_eq!(transit.answered(key), at.map_or(Vec::new(), |at| model.remove(at).1)),
            }
            prop_assert_eq!(transit.count(), model.len());
        }
    }
}

#[test]
fn levels_that_a_section_can_have() {
    assert!(!level::is_level(0) && level::is_level(1) && level::is_level(LEVEL_MAX) && !level::is_level(LEVEL_TASK));
    assert!(
        level::may_fault(None, LEVEL_TASK) && !level::may_fault(Some(1), 1) && !level::may_fault(Some(3), LEVEL_TASK)
    );
}

#[test]
fn bad_answers_are_counted_in_a_row() {
    let mut patience = Patience::new();
    for _ in 0..3 {
        for _ in 1..TRIES {
            assert!(patience.answered(false));
        }
        assert!(patience.answered(true), "one good answer, and it begins anew");
    }
    for _ in 1..TRIES {
        assert!(patience.answered(false));
    }
    assert!(!patience.answered(false));
    assert!(patience.answered(false), "the next fault begins anew");
}

#[test]
fn waiters_that_are_gone_are_not_kept() {
    let (mut transit, key) = (Transit::new(), Key { page: 1, of: 0 });
    assert_eq!(transit.wait(key, 1, |_| false), Err(1));
    assert!(transit.ask(key));
    for n in 0..100 {
        assert!(transit.wait(key, n, |other| *other < n).is_ok());
    }
    assert_eq!(transit.answered(key), [99]);
}
