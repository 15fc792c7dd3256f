//! The directory against a plain list of ranges, and on several threads.

use super::*;
use proptest::prelude::*;
use std::sync::Arc;

const BASE: u64 = 1 << 46;
const SLOTS: u64 = 5;

fn directory() -> Directory<Arc<u64>> {
    Directory::new(BASE, SLOTS * GIB)
}

#[test]
fn an_object_is_found_at_every_address_of_its_reserve() {
    let directory = directory();
    directory.insert(BASE + GIB - GRANULE, GIB + 2 * GRANULE, Arc::new(7)).unwrap();
    for address in [BASE + GIB - GRANULE, BASE + GIB - 1, BASE + GIB, BASE + 2 * GIB - 1, BASE + 2 * GIB + GRANULE - 1]
    {
        assert_eq!(directory.find(address).as_deref(), Some(&7), "{address:x}");
    }
    for address in [0, BASE - 1, BASE, BASE + GIB - GRANULE - 1, BASE + 2 * GIB + GRANULE, BASE + SLOTS * GIB, u64::MAX]
    {
        assert_eq!(directory.find(address), None, "{address:x}");
    }
}

#[test]
fn ranges_that_are_no_ranges_are_refused() {
    let directory = directory();
    for (base, reserve) in [
        (BASE, 0),
        (BASE + 4096, GRANULE),
        (BASE - GRANULE, GRANULE),
        (BASE, SLOTS * GIB + 1),
        (BASE + SLOTS * GIB, GRANULE),
        (BASE, u64::MAX),
        (u64::MAX - GRANULE + 1, GRANULE),
    ] {
        assert_eq!(directory.insert(base, reserve, Arc::new(0)), Err(Overlap), "{base:x} {reserve:x}");
        directory.remove(base, reserve);
    }
    assert_eq!(directory.after(0), None);
    assert_eq!(directory.after(u64::MAX), None);
}

#[test]
fn a_refused_insertion_leaves_nothing_behind() {
    let directory = directory();
    directory.insert(BASE + 3 * GIB, GRANULE, Arc::new(1)).unwrap();
    let object = Arc::new(2);
    assert_eq!(directory.insert(BASE + GRANULE, 3 * GIB, object.clone()), Err(Overlap));
    assert_eq!(Arc::strong_count(&object), 1);
    assert_eq!(directory.after(0), Some((BASE + 3 * GIB, Arc::new(1))));
    assert_eq!(directory.insert(BASE + GRANULE, 3 * GIB - GRANULE, object.clone()), Ok(()));
}

/// Dropping the last copy of an object may be work, and may even look into the directory again.
#[test]
fn no_lock_is_held_when_the_last_copy_goes() {
    struct Curious(Arc<Directory<Arc<Curious>>>, u64);
    impl Drop for Curious {
        fn drop(&mut self) {
            assert!(self.0.find(self.1).is_none());
        }
    }
    let directory = Arc::new(Directory::new(BASE, SLOTS * GIB));
    for reserve in [GRANULE, 3 * GRANULE, GIB, 2 * GIB + GRANULE] {
        directory.insert(BASE, reserve, Arc::new(Curious(directory.clone(), BASE))).ok().unwrap();
        directory.remove(BASE, reserve);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u64, u64),
    Remove(prop::sample::Index),
    /// Of a base where nothing, or something else, was inserted.
    RemoveWrong(u64, u64),
}

/// A granule near the border of a GiB, or any.
fn granule() -> impl Strategy<Value = u64> {
    let per = GIB / GRANULE;
    prop_oneof![(0..SLOTS, 0..4u64).prop_map(move |(gib, more)| gib * per + more), 0..SLOTS * per]
}

/// As many granules as some of a GiB, about a GiB, or more.
fn granules() -> impl Strategy<Value = u64> {
    let per = GIB / GRANULE;
    prop_oneof![1..4u64, per - 2..per + 3, per..3 * per]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (granule(), granules()).prop_map(|(at, len)| Step::Insert(at, len)),
        2 => any::<prop::sample::Index>().prop_map(Step::Remove),
        1 => (granule(), granules()).prop_map(|(at, len)| Step::RemoveWrong(at, len)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_a_list_of_ranges(
        steps in prop::collection::vec(step(), 0..60),
        looks in prop::collection::vec((granule(), 0..GRANULE), 20),
    ) {
        let directory = directory();
        // (first granule, granules, object)
        let mut list: Vec<(u64, u64, Arc<u64>)> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Insert(at, len) => {
                    let object = Arc::new(number as u64);
                    let free = at + len <= SLOTS * (GIB / GRANULE)
                        && list.iter().all(|(other, other_len, _)| at + len <= *other || other + other_len <= at);
                    let result = directory.insert(BASE + at * GRANULE, len * GRANULE, object.clone());
                    prop_assert_eq!(result.is_ok(), free);
                    if free {
                        list.push((at, len, object));
                    }
                }
                Step::Remove(which) => {
                    if !list.is_empty() {
                        let (at, len, object) = list.swap_remove(which.index(list.len()));
                        directory.remove(BASE + at * GRANULE, len * GRANULE);
                        prop_assert_eq!(Arc::strong_count(&object), 1, "nothing of it stays behind");
                    }
                }
                Step::RemoveWrong(at, len) => {
                    if list.iter().all(|(other, ..)| *other != at) {
                        directory.remove(BASE + at * GRANULE, len * GRANULE);
                    }
                }
            }
            for &(granule, within) in &looks {
                let covering = list.iter().find(|(at, len, _)| (*at..at + len).contains(&granule));
                let found = directory.find(BASE + granule * GRANULE + within);
                prop_assert_eq!(found.as_ref(), covering.map(|(.., object)| object));
                let address = BASE + granule * GRANULE + within;
                let next = list.iter().filter(|(at, ..)| BASE + at * GRANULE > address).min_by_key(|(at, ..)| *at);
                let after = directory.after(address);
                prop_assert_eq!(after, next.map(|(at, _, object)| (BASE + at * GRANULE, object.clone())));
            }
        }
        let mut listed = Vec::new();
        let mut last = 0;
        while let Some((base, _)) = directory.after(last) {
            listed.push((base - BASE) / GRANULE);
            last = base;
        }
        list.sort();
        prop_assert_eq!(listed, list.iter().map(|(at, ..)| *at).collect::<Vec<_>>());
        for (at, len, _) in list {
            directory.remove(BASE + at * GRANULE, len * GRANULE);
        }
        prop_assert!(directory.slots.iter().all(|slot| matches!(*slot.read(), Slot::Empty)), "memory is kept");
    }
}

/// Threads insert and remove in ranges of their own that share GiBs, while others look: each finds its own objects,
/// and nobody finds an object where it does not lie.
#[test]
fn several_processors_at_once() {
    let directory = directory();
    let lane = |thread: u64, round: u64| (BASE + (round % 64 * 8 + thread * 2) * GRANULE, (1 + round % 2) * GRANULE);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let directory = &directory;
            scope.spawn(move || {
                for round in 0..4000 {
                    let (base, reserve) = lane(thread, round);
                    directory.insert(base, reserve, Arc::new(base)).unwrap();
                    assert_eq!(directory.find(base + reserve - 1).as_deref(), Some(&base));
                    assert!(directory.after(base - 1).is_some_and(|(found, object)| found == base && *object == base));
                    directory.remove(base, reserve);
                    assert_eq!(directory.find(base), None);
                }
            });
        }
        scope.spawn(|| {
            for step in 0..20_000 {
                let address = BASE + step % 512 * GRANULE + 5;
                if let Some(object) = directory.find(address) {
                    assert!((*object..*object + 2 * GRANULE).contains(&address));
                }
            }
        });
    });
    assert_eq!(directory.after(0), None);
}
