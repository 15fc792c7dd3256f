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
    paid -= all.cut(base, 50 * 128 + 64);
    assert_eq!(paid, 50_u64.div_ceil(PER_FRAME));
    assert!(all.get(49 * 128).is_some() && all.get(50 * 128).is_none());
    assert!(all.fifo(49 * 128).is_some() && all.signal(49 * 128).is_none());
    paid -= all.cut(base, 0);
    assert_eq!((paid, all.frames()), (0, 0));
}
