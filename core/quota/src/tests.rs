//! The ledger against exact sums.

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

proptest! {
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
