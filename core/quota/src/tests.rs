//! The ledger against exact sums.

use super::ends::{Ends, FREE, PER_FRAME};
use super::*;
use proptest::prelude::*;

const ALL: [Resource; 4] = [Resource::Frames, Resource::Sections, Resource::Reserve, Resource::Threads];

fn limits(values: [u64; 4]) -> Limits {
    let [frames, sections, reserve, threads] = values;
    Limits { frames, sections, reserve, threads }
}

#[test]
fn a_refused_charge_takes_nothing() {
    let mut ledger = Ledger::new(limits([10, 1, 1 << 40, 0]));
    assert_eq!(ledger.charge(Resource::Frames, 11), Err(Error::MemoryQuota));
    assert_eq!(ledger.charge(Resource::Frames, 10), Ok(()));
    assert_eq!(ledger.charge(Resource::Frames, 1), Err(Error::MemoryQuota));
    assert_eq!(ledger.charge(Resource::Frames, u64::MAX), Err(Error::MemoryQuota));
    assert_eq!(ledger.charge(Resource::Frames, 0), Ok(()));
    assert_eq!(ledger.charge(Resource::Threads, 1), Err(Error::ThreadQuota));
    assert_eq!(ledger.used(), limits([10, 0, 0, 0]));
}

#[test]
fn a_ledger_without_limits_does_not_overflow() {
    let mut ledger = Ledger::new(limits([u64::MAX; 4]));
    assert_eq!(ledger.charge(Resource::Reserve, u64::MAX), Ok(()));
    assert_eq!(ledger.charge(Resource::Reserve, 1), Err(Error::SpaceQuota));
}

#[test]
fn limits_change_and_what_is_used_stays() {
    let mut ledger = Ledger::new(limits([10; 4]));
    assert_eq!(ledger.charge(Resource::Threads, 8), Ok(()));
    ledger.limit(&limits([0, 20, 0, 5]));
    assert_eq!(ledger.limits(), limits([10, 20, 10, 5]));
    assert_eq!(ledger.used(), limits([0, 0, 0, 8]));
    assert_eq!(ledger.charge(Resource::Threads, 1), Err(Error::ThreadQuota));
    ledger.release(Resource::Threads, 4);
    assert_eq!(ledger.charge(Resource::Threads, 1), Ok(()));
    assert_eq!(ledger.charge(Resource::Threads, 1), Err(Error::ThreadQuota));
    assert_eq!(ledger.charge(Resource::Sections, 20), Ok(()));
}

#[test]
fn a_child_fits_what_is_left() {
    let mut ledger = Ledger::new(limits([10, 10, 10, 10]));
    assert!(ledger.fits(&limits([10, 10, 10, 10])));
    for (at, what) in ALL.into_iter().enumerate() {
        ledger.charge(what, 1).unwrap();
        let mut child = [9; 4];
        assert!(ledger.fits(&limits(child)));
        child[at] = 10;
        assert!(!ledger.fits(&limits(child)), "{what:?}");
    }
}

#[test]
fn what_is_not_refused_counts_all_the_same() {
    let mut ledger = Ledger::new(limits([10; 4]));
    ledger.charge_beyond(Resource::Frames, 15);
    assert_eq!(ledger.used().frames, 15);
    assert_eq!(ledger.charge(Resource::Frames, 1), Err(Error::MemoryQuota));
    ledger.release(Resource::Frames, 6);
    assert_eq!(ledger.charge(Resource::Frames, 1), Ok(()));
    assert_eq!(ledger.charge(Resource::Frames, 1), Err(Error::MemoryQuota));
}

#[test]
fn what_somebody_else_keeps_is_not_had() {
    let mut ledger = Ledger::new(limits([100; 4]));
    ledger.charge(Resource::Frames, 30).unwrap();
    ledger.counts(Beside::Shared, 0, 20);
    assert_eq!((ledger.used().frames, ledger.own_frames()), (30, 10));
    ledger.counts(Beside::Shared, 20, 5);
    assert_eq!(ledger.own_frames(), 25);
    ledger.counts(Beside::Shared, 5, 0);
    ledger.release(Resource::Frames, 30);
    assert_eq!(ledger.own_frames(), 0);
}

/// An object, what it takes now, and its list.
type Object = (Resource, u64, u64);

proptest! {
    /// Objects of any size that is possible for their kind, with lists that grow and shrink: the ledger never says less, or more, than they take.
    #[test]
    fn objects_take_what_the_ledger_says(steps in prop::collection::vec((0..4usize, 0..100u64, 0..100u64, any::<bool>()), 0..100)) {
        let weight = |least, most| Weight { least, most };
        let weights = Weights { section: weight(10, 30), thread: weight(20, 25), frame: weight(0, 4) };
        let of = |what: Resource| match what {
            Resource::Sections => weights.section,
            Resource::Threads => weights.thread,
            _ => weights.frame,
        };
        let mut ledger = Ledger::new(limits([u64::MAX; 4]));
        let mut all: Vec<Object> = Vec::new();
        for (which, size, list, goes) in steps {
            let at = (!all.is_empty()).then(|| size as usize % all.len());
            match at {
                Some(at) if goes => {
                    let (what, _, list) = all.swap_remove(at);
                    ledger.counts(Beside::Lists, list, 0);
                    ledger.release(what, 1);
                }
                Some(at) if which == 3 => {
                    ledger.counts(Beside::Lists, all[at].2, list);
                    all[at].2 = list;
                }
                _ => {
                    let what = [Resource::Sections, Resource::Threads, Resource::Frames][which % 3];
                    let Weight { least, most } = of(what);
                    ledger.charge(what, 1).unwrap();
                    all.push((what, least + size % (most - least + 1), 0));
                }
            }
            let takes: u64 = all.iter().map(|(_, size, list)| size + list).sum();
            let said = ledger.weight(&weights);
            prop_assert!(said.least <= takes && takes <= said.most, "{takes} of {said:?}");
            let exactly = |pick: fn(Weight) -> u64| all.iter().map(|one| pick(of(one.0))).sum::<u64>();
            prop_assert_eq!(said.least, exactly(|one| one.least));
            prop_assert_eq!(said.most, exactly(|one| one.most) + all.iter().map(|one| one.2).sum::<u64>());
        }
    }

    #[test]
    fn agrees_with_exact_sums(
        max in prop::array::uniform4(0..50u64),
        steps in prop::collection::vec((0..4usize, 0..30u64, any::<bool>()), 0..100),
    ) {
        let mut ledger = Ledger::new(limits(max));
        let mut sums = [0; 4];
        for (which, amount, give) in steps {
            if give {
                let amount = amount.min(sums[which]);
                ledger.release(ALL[which], amount);
                sums[which] -= amount;
            } else {
                let fits = sums[which] + amount <= max[which];
                prop_assert_eq!(ledger.charge(ALL[which], amount), if fits { Ok(()) } else { Err(ALL[which].exceeded()) });
                sums[which] += if fits { amount } else { 0 };
            }
            prop_assert_eq!(ledger.used(), limits(sums));
        }
        prop_assert_eq!(ledger.limits(), limits(max));
    }
}

/// As many codes as threads could have been there at one time: none is lost, what they cost is charged, and all of it comes back.
#[test]
fn codes_are_kept_until_they_are_asked_for() {
    const MOST: u64 = 1000;
    let (mut ends, mut charged) = (Ends::default(), 0);
    (1..=MOST).for_each(|thread| {
        ends.keep(thread, thread * 7, MOST, || {
            charged += 1;
            true
        });
    });
    assert_eq!(charged, (MOST - FREE).div_ceil(PER_FRAME));
    for thread in 1..=MOST {
        let (code, back) = ends.take(thread);
        assert_eq!(code, Some(thread * 7));
        charged -= back;
        assert_eq!(ends.take(thread), (None, 0), "asked for once");
    }
    assert_eq!(charged, 0);
}

#[test]
fn codes_that_nobody_wants_do_not_gather() {
    let kept = |ends: &mut Ends, upto: u64| (1..=upto).filter(|thread| ends.take(*thread).0.is_some()).count() as u64;
    let mut ends = Ends::default();
    (1..=1000).for_each(|thread| ends.keep(thread, 0, 100, || true));
    assert_eq!(ends.take(1000).0, Some(0), "the last one");
    assert_eq!(kept(&mut ends, 1000), 99);
    // Without a frame only what is free is kept; with few threads, too.
    (1..=1000).for_each(|thread| ends.keep(thread, 0, 1000, || false));
    assert_eq!(kept(&mut ends, 1000), FREE);
    (1..=1000).for_each(|thread| ends.keep(thread, 0, 2, || panic!("nothing to charge")));
    assert_eq!(kept(&mut ends, 1000), FREE);
    (1..=200).for_each(|thread| ends.keep(thread, 0, 200, || true));
    assert_eq!(ends.clear(), (200 - FREE).div_ceil(PER_FRAME));
    assert_eq!(kept(&mut ends, 1000), 0);
}
