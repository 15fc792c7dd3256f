//! Queues, signals and registries against plain models.

mod fifo;
mod signal;

use crate::fifo::Fifo;
use crate::registry::{PER_FRAME, Registry, Structure};

#[test]
fn structures_are_paid_for_and_cut() {
    let fifo = |start| Structure::Fifo(Fifo::new(start, start + 64, false).unwrap());
    let mut all = Registry::new();
    let base = 0x10_0000;
    let mut paid = 0;
    for n in 0..100 {
        let offset = n * 128;
        paid += all.frames_for(offset);
        all.put(offset, fifo(base + offset + 64));
        assert_eq!(all.frames_for(offset), 0, "the same again costs nothing");
        assert_eq!((paid, all.frames()), ((n + 1).div_ceil(PER_FRAME), paid));
    }
    assert_eq!(all.take(64), None);
    assert_eq!(all.take(99 * 128), Some(0));
    // The 51st begins within the new length, and its buffer ends beyond.
    let (less, is_all) = all.cut(base, 50 * 128 + 64, 20);
    assert!(!is_all && all.get(79 * 128).is_none() && all.get(78 * 128).is_some(), "twenty and no more");
    paid -= less;
    let (less, is_all) = all.cut(base, 50 * 128 + 64, 29);
    assert!(is_all, "the last ones of them");
    paid -= less;
    assert_eq!(paid, 50_u64.div_ceil(PER_FRAME));
    assert!(all.get(49 * 128).is_some() && all.get(50 * 128).is_none());
    assert!(all.fifo(49 * 128).is_some() && all.signal(49 * 128).is_none());
    paid -= all.cut(base, 0, 50).0;
    assert_eq!((paid, all.frames()), (0, 0));
    assert_eq!(all.cut(base, 0, 0), (0, true));
}

#[test]
fn what_writes_beyond_the_end_is_found() {
    let fifo = |start| Structure::Fifo(Fifo::new(start, start + 64, false).unwrap());
    let base = 0x10_0000;
    let mut all = Registry::new();
    (0..32).for_each(|n| all.put(n * 64, fifo(base + 0x4000 - n * 128)));
    // In the place of one with a buffer at the end: it is that one no more.
    all.put(0, fifo(base + 0x1000));
    assert_eq!(all.cut(base, 0x4000, 100), (0, true));
    assert!(all.get(1).is_none() && all.get(64).is_some());
    assert_eq!(all.take(64), Some(0));
    assert_eq!(all.cut(base, 0x4000 - 128 * 16 + 64, 100), (0, true));
    let left: Vec<u64> = (0..32).filter(|n| all.get(n * 64).is_some()).collect();
    assert_eq!(left, [0].into_iter().chain(16..32).collect::<Vec<u64>>());
}
