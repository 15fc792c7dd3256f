//! Thousands of holes between ranges that are taken, all of them too short for whoever looks for addresses beyond them (SSS-24).

use crate::handlers::{Done, say};
use alloc::vec::Vec;
use musubi::Error;
use musubi::abi::layout::{GRANULE, PAGE};
use musubi::abi::section::kind;
use musubi::rt::Section;

/// Sections beside each other, of which every second one is deleted: as many holes as are said beside the figures (`bars.rs`).
const SECTIONS: usize = 3000;
/// The greatest reserve.
const LONG: u64 = 64 << 30;
/// More than there is of addresses.
const LAPS: usize = 48;

/// The search begins where the last one ended: it comes to the holes when it has gone round all addresses.
pub fn holes() -> Done {
    let mut kept = Vec::new();
    let mut between = Vec::new();
    for n in 0..SECTIONS {
        let one = say("a section beside others", Section::create(PAGE, GRANULE, kind::DATA, 0))?;
        if n % 2 == 0 { kept.push(one) } else { between.push(one) }
    }
    between.into_iter().try_for_each(|one| say("a hole", one.delete()))?;
    // A lap: where it begins anew it passes all of them, too short as they are, before it finds room behind.
    let (mut last, mut crossed) = (0, false);
    for _ in 0..LAPS {
        let long = say("a long reserve", Section::create(PAGE, LONG, kind::DATA, 0))?;
        let base = long.base();
        crossed |= base < last;
        last = base;
        say("deleting it", long.delete())?;
    }
    for _ in 0..4 {
        let two = say("room for two", Section::create(PAGE, 2 * GRANULE, kind::DATA, 0))?;
        say("deleting it", two.delete())?;
    }
    kept.into_iter().try_for_each(|one| say("deleting", one.delete()))?;
    if crossed { Ok(()) } else { Err(("going round all addresses", Error::NotFound)) }
}
