//! Shelves beside a shared heap: every object is in one place.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[test]
fn sizes_hold_what_they_are_for() {
    assert_eq!(Size::of(0, 1), None);
    assert_eq!(Size::of(SIZE_MAX + 1, 1), None);
    assert_eq!(Size::of(8, 2 * STEP), None);
    for size in 1..=SIZE_MAX {
        let bytes = Size::of(size, STEP).unwrap().bytes();
        assert!(bytes >= size && bytes < size + STEP && bytes.is_multiple_of(STEP));
        let size = Size::of(size, 1).unwrap();
        assert!(size.batch() >= 1 && size.room() * size.bytes() <= BYTES_MAX);
    }
}

/// A heap that all share: what is out, by address.
#[derive(Default)]
struct Shared {
    next: usize,
    out: BTreeMap<usize, usize>,
    visits: usize,
}

/// What the kernel does with a shelf.
fn alloc(shelf: &mut Shelf, shared: &mut Shared, size: Size) -> usize {
    if let Some(object) = shelf.take(size) {
        return object;
    }
    shared.visits += 1;
    for _ in 0..size.batch() {
        shared.next += size.bytes();
        shared.out.insert(shared.next, size.bytes());
        assert!(shelf.put(size, shared.next));
    }
    shelf.take(size).unwrap()
}

fn dealloc(shelf: &mut Shelf, shared: &mut Shared, size: Size, object: usize) {
    if shelf.put(size, object) {
        return;
    }
    shared.visits += 1;
    for _ in 0..size.batch() {
        assert_eq!(shared.out.remove(&shelf.take(size).unwrap()), Some(size.bytes()));
    }
    assert!(shelf.put(size, object));
}

proptest! {
    #[test]
    fn no_object_is_in_two_places(acts in prop::collection::vec((0..3usize, 0..4usize, 1..=SIZE_MAX, any::<prop::sample::Index>()), 1..600)) {
        let (mut shelves, mut shared) = ([const { Shelf::new() }; 3], Shared::default());
        let mut used: Vec<(usize, Size)> = Vec::new();
        for (processor, act, bytes, which) in acts {
            if act == 0 && !used.is_empty() {
                // Whoever releases it need not be who has had it.
                let (object, size) = used.swap_remove(which.index(used.len()));
                dealloc(&mut shelves[processor], &mut shared, size, object);
            } else {
                let size = Size::of(bytes, 8).unwrap();
                let object = alloc(&mut shelves[processor], &mut shared, size);
                prop_assert!(used.iter().all(|(other, _)| *other != object));
                prop_assert_eq!(shared.out.get(&object), Some(&size.bytes()));
                used.push((object, size));
            }
        }
        // All that is out is in use or on a shelf, once.
        let mut found: Vec<usize> = used.iter().map(|(object, _)| *object).collect();
        for shelf in &mut shelves {
            for size in (1..=SIZES).filter_map(|n| Size::of(n * STEP, STEP)) {
                while let Some(object) = shelf.take(size) {
                    found.push(object);
                }
            }
        }
        found.sort_unstable();
        let out: Vec<usize> = shared.out.keys().copied().collect();
        prop_assert_eq!(found, out);
    }
}

#[test]
fn the_shared_heap_is_seldom_visited() {
    let (mut shelf, mut shared) = (Shelf::new(), Shared::default());
    let size = Size::of(64, 8).unwrap();
    let objects: Vec<usize> = (0..1000).map(|_| alloc(&mut shelf, &mut shared, size)).collect();
    objects.into_iter().for_each(|object| dealloc(&mut shelf, &mut shared, size, object));
    assert!(shared.visits <= 2 * 1000 / size.batch());
    let before = shared.visits;
    for _ in 0..1000 {
        let object = alloc(&mut shelf, &mut shared, size);
        dealloc(&mut shelf, &mut shared, size, object);
    }
    assert!(shared.visits <= before + 1);
}
