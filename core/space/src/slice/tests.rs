//! The allocator against a plain list of granules.

use super::*;
use proptest::prelude::*;

const BASE: u64 = 1 << 46;

/// A slice of so few granules that everything happens in it.
const SMALL: u64 = 16;

#[test]
fn lengths_are_rounded_up_and_nothing_is_not_taken() {
    let mut slice = Slice::new(BASE, SMALL * GRANULE);
    assert_eq!(slice.take(0), None);
    assert_eq!(slice.take(1), Some(Extent { base: BASE, len: GRANULE }));
    assert_eq!(slice.take(GRANULE + 1), Some(Extent { base: BASE + GRANULE, len: 2 * GRANULE }));
    assert_eq!(slice.take(SMALL * GRANULE), None);
    assert_eq!(slice.take(u64::MAX), None);
    assert_eq!(slice.take(u64::MAX - GRANULE), None);
}

#[test]
fn long_ranges_begin_at_a_gib() {
    let mut slice = Slice::new(BASE, 8 * GIB);
    assert_eq!(slice.take(GRANULE).unwrap().base, BASE);
    assert_eq!(slice.take(GIB).unwrap().base, BASE + GIB);
    assert_eq!(slice.take(GIB - GRANULE).unwrap().base, BASE + 2 * GIB);
    assert_eq!(slice.take(GIB + GRANULE).unwrap(), Extent { base: BASE + 3 * GIB, len: GIB + GRANULE });
    assert_eq!(slice.take(GRANULE).unwrap().base, BASE + 4 * GIB + GRANULE);
}

#[test]
fn a_part_is_left_to_others() {
    let mut slice = Slice::new(BASE, SMALL * GRANULE);
    assert_eq!(slice.take_beside((SMALL - 3) * GRANULE, 4), None, "three are not a fourth of sixteen");
    let most = slice.take_beside((SMALL - 4) * GRANULE, 4).unwrap();
    assert_eq!((slice.take_beside(1, 4), slice.take_beside(u64::MAX, 4)), (None, None));
    let last = slice.take(4 * GRANULE).unwrap();
    slice.give(last);
    assert_eq!(slice.take_beside(GRANULE, 4), None);
    slice.give(most);
    assert!(slice.take_beside((SMALL - 4) * GRANULE, 4).is_some());
}

#[test]
fn what_was_given_back_waits_for_the_next_lap() {
    let mut slice = Slice::new(BASE, SMALL * GRANULE);
    for number in 0..3 * SMALL {
        let extent = slice.take(GRANULE).unwrap();
        assert_eq!(extent.base, BASE + number % SMALL * GRANULE);
        slice.give(extent);
    }
}

#[test]
fn what_is_kept_stays_taken_until_nobody_wants_it() {
    let mut slice = Slice::new(BASE, SMALL * GRANULE);
    let whole = slice.take(SMALL * GRANULE).unwrap();
    let kept = BASE + 3 * GRANULE;
    slice.keep(kept);
    slice.keep(kept);
    slice.give(whole);
    assert!(slice.is_kept(kept));
    assert_eq!(slice.take_at(kept, GRANULE), None);
    assert_eq!(slice.take_at(BASE, SMALL * GRANULE), None);
    slice.let_go(kept);
    assert_eq!(slice.take_at(kept, GRANULE), None, "somebody wants it still");
    slice.let_go(kept);
    assert!(!slice.is_kept(kept));
    let whole = slice.take_at(BASE, SMALL * GRANULE).unwrap();
    // Whoever lets go before the range is given back changes nothing.
    slice.keep(kept);
    slice.let_go(kept);
    slice.let_go(kept);
    slice.give(whole);
    assert!(slice.take_at(BASE, SMALL * GRANULE).is_some());
}

#[test]
fn a_fixed_place_is_taken_whole_or_not_at_all() {
    let mut slice = Slice::new(BASE, SMALL * GRANULE);
    assert!(slice.take_at(BASE + 2 * GRANULE, 2 * GRANULE).is_some());
    for (base, len) in [
        (BASE + GRANULE, 2 * GRANULE),
        (BASE + 3 * GRANULE, GRANULE),
        (BASE, SMALL * GRANULE),
        (BASE - GRANULE, GRANULE),
        (BASE + SMALL * GRANULE, GRANULE),
        (BASE + (SMALL - 1) * GRANULE, 2 * GRANULE),
        (BASE + 1, GRANULE),
        (BASE, 0),
        (BASE, 4096),
        (BASE, u64::MAX - BASE + 1 - GRANULE),
        (u64::MAX - GRANULE + 1, GRANULE),
    ] {
        assert_eq!(slice.take_at(base, len), None, "{base:x} {len:x}");
    }
    assert!(slice.take_at(BASE, 2 * GRANULE).is_some());
    assert!(slice.take_at(BASE + 4 * GRANULE, (SMALL - 4) * GRANULE).is_some());
    assert_eq!(slice.take(GRANULE), None);
}

#[test]
fn only_whole_granules_belong_to_a_slice() {
    let mut slice = Slice::new(BASE + 1, 2 * GRANULE);
    assert_eq!(slice.take(GRANULE).unwrap().base, BASE + GRANULE);
    assert_eq!(slice.take(GRANULE), None);
    assert_eq!(Slice::new(BASE + 1, GRANULE).take(1), None);
    // At the end of 64 bits, too.
    let mut last = Slice::new(u64::MAX - 3 * GRANULE + 1, u64::MAX);
    assert!(last.take(2 * GRANULE).is_some());
    assert_eq!(last.take(GRANULE), None);
}

#[derive(Clone, Debug)]
enum Step {
    Take(u64),
    TakeAt(u64, u64),
    Give(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1..6u64).prop_map(Step::Take),
        1 => (0..SMALL + 2, 1..6u64).prop_map(|(at, len)| Step::TakeAt(at, len)),
        3 => any::<prop::sample::Index>().prop_map(Step::Give),
    ]
}

/// Granules of a GiB.
const A_GIB: u64 = GIB / GRANULE;

/// It knows of each GiB the longest free range that begins there.
fn knows_the_longest(slice: &Slice) -> bool {
    let known = slice.longest.clone();
    let mut anew = slice.clone();
    (0..known.len()).for_each(|part| anew.measure(part));
    known == anew.longest
}

#[test]
fn room_is_found_behind_thousands_of_holes() {
    let granules = 16 * A_GIB;
    let mut slice = Slice::new(BASE, (granules + 3) * GRANULE);
    let all: Vec<Extent> = (0..granules).map(|_| slice.take(GRANULE).unwrap()).collect();
    all.iter().step_by(2).for_each(|one| slice.give(*one));
    assert_eq!(slice.take(2 * GRANULE).unwrap().base, BASE + granules * GRANULE);
    assert_eq!(slice.take(2 * GRANULE), None);
    assert_eq!(slice.take(GRANULE).unwrap().base, BASE + (granules + 2) * GRANULE);
    assert_eq!(slice.take(GRANULE).unwrap().base, BASE);
    slice.give(all[4001]);
    assert_eq!(slice.take(3 * GRANULE).unwrap().base, all[4000].base);
    assert!(knows_the_longest(&slice));
}

#[test]
fn much_that_is_kept_is_given_back_at_once() {
    let mut slice = Slice::new(BASE, 4 * GIB);
    let whole = slice.take(3 * GIB).unwrap();
    (0..3 * A_GIB).step_by(2).for_each(|n| slice.keep(BASE + n * GRANULE));
    slice.give(whole);
    assert!(knows_the_longest(&slice));
    assert_eq!(slice.take(2 * GRANULE).unwrap().base, BASE + 3 * GIB);
    (0..3 * A_GIB).step_by(2).for_each(|n| slice.let_go(BASE + n * GRANULE));
    assert!(knows_the_longest(&slice));
    assert_eq!(slice.take(3 * GIB).unwrap().base, BASE);
}

/// In a slice of some GiB.
#[derive(Clone, Debug)]
enum Large {
    Take(u64),
    /// So many, of a granule each, of which every second one is given back.
    Holes(u64),
    Give(prop::sample::Index),
}

fn large() -> impl Strategy<Value = Large> {
    prop_oneof![
        3 => (1..40u64).prop_map(Large::Take),
        2 => (A_GIB - 2..A_GIB * 2).prop_map(Large::Take),
        2 => (1..200u64).prop_map(Large::Holes),
        4 => any::<prop::sample::Index>().prop_map(Large::Give),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// The same in one of several GiB that begins in the middle of one, of which long ranges are taken, too.
    #[test]
    fn long_ranges_agree_with_a_list_of_granules(steps in prop::collection::vec(large(), 0..60)) {
        const BEGINS: u64 = 200;
        const ALL: u64 = 5 * A_GIB;
        let mut slice = Slice::new(BASE + BEGINS * GRANULE, (ALL - BEGINS) * GRANULE);
        let mut taken = [false; ALL as usize];
        let mut extents: Vec<Extent> = Vec::new();
        let mut cursor = BEGINS;
        for step in steps {
            let lens = match step {
                Large::Take(len) => (1, len),
                Large::Holes(count) => (count, 1),
                Large::Give(which) => {
                    if !extents.is_empty() {
                        let extent = extents.swap_remove(which.index(extents.len()));
                        slice.give(extent);
                        let at = ((extent.base - BASE) / GRANULE) as usize;
                        taken[at..at + (extent.len / GRANULE) as usize].fill(false);
                    }
                    (0, 0)
                }
            };
            let (count, len) = lens;
            let before = extents.len();
            for _ in 0..count {
                let unit = if len >= A_GIB { A_GIB } else { 1 };
                let fits = |at: &u64| {
                    let there = taken.get(*at as usize..(*at + len) as usize);
                    at.is_multiple_of(unit) && there.is_some_and(|there| there.iter().all(|taken| !taken))
                };
                let expected = (cursor..ALL).chain(BEGINS..ALL).find(fits);
                let got = slice.take(len * GRANULE);
                prop_assert_eq!(got.map(|extent| (extent.base - BASE) / GRANULE), expected);
                let Some(extent) = got else { break };
                let at = expected.unwrap();
                taken[at as usize..(at + len) as usize].fill(true);
                cursor = at + len;
                extents.push(extent);
            }
            if count > 1 {
                let mut at = before;
                while at < extents.len() {
                    let extent = extents.swap_remove(at);
                    slice.give(extent);
                    taken[((extent.base - BASE) / GRANULE) as usize] = false;
                    at += 1;
                }
            }
            prop_assert!(knows_the_longest(&slice));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Against a list that says of each granule whether it is taken: what is handed out was free, room that is there is
    /// found, and the search starts where the last one ended.
    #[test]
    fn agrees_with_a_list_of_granules(steps in prop::collection::vec(step(), 0..200)) {
        let mut slice = Slice::new(BASE, SMALL * GRANULE);
        let mut taken = [false; SMALL as usize];
        let mut extents: Vec<Extent> = Vec::new();
        let mut cursor = 0;
        for step in steps {
            let range = |at: u64, len: u64| at as usize..(at + len) as usize;
            let free = |taken: &[bool], at: u64, len: u64| {
                taken.get(range(at, len)).is_some_and(|range| range.iter().all(|taken| !taken))
            };
            let got = match step {
                Step::Take(len) => {
                    let expected = (cursor..SMALL).chain(0..SMALL).find(|&at| free(&taken, at, len));
                    let got = slice.take(len * GRANULE);
                    prop_assert_eq!(got.map(|extent| (extent.base - BASE) / GRANULE), expected);
                    cursor = expected.map_or(cursor, |at| at + len);
                    got
                }
                Step::TakeAt(at, len) => {
                    let got = slice.take_at(BASE + at * GRANULE, len * GRANULE);
                    prop_assert_eq!(got.is_some(), free(&taken, at, len));
                    got
                }
                Step::Give(which) => {
                    if !extents.is_empty() {
                        let extent = extents.swap_remove(which.index(extents.len()));
                        slice.give(extent);
                        taken[range((extent.base - BASE) / GRANULE, extent.len / GRANULE)].fill(false);
                    }
                    None
                }
            };
            if let Some(extent) = got {
                taken[range((extent.base - BASE) / GRANULE, extent.len / GRANULE)].fill(true);
                extents.push(extent);
            }
        }
    }
}
