//! What the pages of a section are, counted by as many calls as it is long.

use super::{counts, info};
use crate::memory::{data, load, store};
use crate::report::{Outcome, doing};
use crate::{holds, same};
use alloc::string::String;
use musubi::Error;
use musubi::abi::calls::stub;
use musubi::abi::layout::PAGE;
use musubi::abi::section::{SectionPages, real};
use musubi::rt::section::{self, alloc, alloc_as, free};
use musubi::rt::{Section, Trap};

/// As many pages are looked at as one, and as many such by a call.
const MANY: u64 = 512;
const AT_ONCE: u64 = 4;

/// One call.
fn count(base: u64, from: u64, told: &mut SectionPages) -> Result<u64, Error> {
    stub::section_pages(&Trap, base, from, core::ptr::from_mut(told) as u64)
}

/// Calls from `from` on, until there is no more, and how many these were.
fn from(base: u64, mut from: u64, end: u64) -> Result<(SectionPages, u64), String> {
    let (mut told, mut calls) = (SectionPages::default(), 0);
    while from < end {
        let next = count(base, from, &mut told).map_err(doing("count"))?;
        holds!((from + 1..=end).contains(&next), "from page {from} of {end} it goes on at {next}");
        (from, calls) = (next, calls + 1);
    }
    same!(count(base, from, &mut told), Ok(end), "at the end");
    Ok((told, calls))
}

/// With holes, and longer than one call counts.
pub fn by_parts() -> Outcome {
    const PARTS: u64 = 11;
    let section = data(PARTS * MANY * PAGE).map_err(doing("create"))?;
    let (base, end) = (section.base(), PARTS * MANY);
    same!(from(base, 0, end)?, (SectionPages::default(), 1), "one that has no page");
    // Some that are nowhere beside each other, but in one part.
    const NOTHING: u64 = 3;
    (0..PARTS).filter(|part| *part != NOTHING).for_each(|part| store(base + (part * MANY + 2 * part) * PAGE, 1));
    (0..5).for_each(|n| store(base + (6 * MANY + 100 + 7 * n) * PAGE, 1));
    let all = SectionPages { resident: 15, pieces: 15, ..SectionPages::default() };
    same!(from(base, 0, end)?, (all, (PARTS - 1).div_ceil(AT_ONCE)), "all, and by how many calls");
    same!((counts(base)?, info(base)?.resident), (all, 15), "the same by the library, and how many there are");
    for (first, left) in [(1, 14), (6 * MANY + 12, 10), (6 * MANY + 13, 9), (6 * MANY + 115, 6), (end - 1, 0)] {
        let told = SectionPages { resident: left, pieces: left, ..all };
        same!(from(base, first, end)?.0, told, "from page {first} on");
    }
    // In a row over the border between two parts: one piece, wherever a call begins.
    let row = NOTHING * MANY - 10;
    alloc_as(base + row * PAGE, 20 * PAGE, real::CONTIGUOUS).map_err(doing("memory in a row"))?;
    let more = SectionPages { resident: 35, pieces: 16, ..all };
    same!(counts(base)?, more, "with memory in a row");
    for first in [row + 1, row + 10, row + 19] {
        let left = SectionPages { resident: row + 20 - first + 12, pieces: 12, ..all };
        same!(from(base, first, end)?.0, left, "from the middle of it on, page {first}");
    }
    free(base + (row + 5) * PAGE, PAGE).map_err(doing("free"))?;
    same!(counts(base)?, SectionPages { resident: 34, pieces: 17, ..all }, "with a hole in it");
    section.delete().map_err(doing("delete"))
}

/// What clones have, too, and large pages.
pub fn kinds() -> Outcome {
    let mut section = data(4 * MANY * PAGE).map_err(doing("create"))?;
    let base = section.base();
    alloc_as(base + MANY * PAGE, MANY * PAGE, real::SIZE_2M).map_err(doing("a large page"))?;
    store(base, 1);
    let all = SectionPages { resident: MANY + 1, shared: 0, large: MANY, pieces: 2 };
    same!(counts(base)?, all, "a large page and a small one");
    let clone = Section::clone_of(base, 0, 0, 0).map_err(doing("clone"))?;
    let both = SectionPages { shared: MANY + 1, ..all };
    same!((counts(base)?, counts(clone.base())?), (both, both), "what a clone has, too");
    store(base, 2);
    let both = SectionPages { shared: MANY, ..all };
    same!((counts(base)?, counts(clone.base())?), (both, both), "after a store");
    store(base + (MANY + 7) * PAGE, 1);
    let own = counts(base)?;
    same!((own.resident, own.shared, own.large), (MANY + 1, MANY - 1, 0), "after a store to a large page");
    let its = counts(clone.base())?;
    same!((its.resident, its.shared, its.large), (MANY + 1, MANY - 1, MANY), "what the clone has then");
    clone.delete().map_err(doing("delete"))?;
    same!(counts(base)?.shared, 0, "without the clone");
    alloc(base + 2 * MANY * PAGE, 9 * PAGE).map_err(doing("alloc"))?;
    same!(counts(base)?.resident, MANY + 10, "with some more");
    section.resize((2 * MANY + 4) * PAGE).map_err(doing("shorter"))?;
    same!((counts(base)?.resident, info(base)?.resident), (MANY + 5, MANY + 5), "when it is shorter");
    section.resize(PAGE).map_err(doing("shorter still"))?;
    same!(counts(base)?, SectionPages { resident: 1, pieces: 1, ..SectionPages::default() }, "the first page");
    section.delete().map_err(doing("delete"))
}

/// Wrong arguments, and a record in which anything is.
pub fn refusals() -> Outcome {
    let section = data(3 * PAGE).map_err(doing("create"))?;
    let base = section.base();
    (0..2).for_each(|page| store(base + page * PAGE + 64, 1));
    let mut told = SectionPages::default();
    for from in [3, 4, MANY, 1 << 40, u64::MAX / PAGE, u64::MAX] {
        same!(count(base, from, &mut told), Ok(3), "from page {from} of 3");
    }
    same!(told, SectionPages::default(), "what is beyond the end");
    let mut told = SectionPages { resident: u64::MAX, shared: 7, large: u64::MAX, pieces: 0 };
    same!(count(base, 1, &mut told), Ok(3), "from the second page on");
    same!((told.resident, told.shared, told.large), (0, 7, u64::MAX), "what it was added to");
    for other in [0, base + PAGE, u64::MAX] {
        same!(count(other, 0, &mut told), Err(Error::NotFound), "a section at {other:#x}");
        same!(section::pages(other), Err(Error::NotFound), "the same by the library");
    }
    for out in [8, u64::MAX, u64::MAX - 7, base + 3 * PAGE] {
        same!(stub::section_pages(&Trap, base, 0, out), Err(Error::BadAddress), "a record at {out:#x}");
    }
    // In the section itself: its page is there before the pages are counted.
    let at = base + 2 * PAGE + 16;
    same!(stub::section_pages(&Trap, base, 0, at), Ok(3), "a record in a page that was not there");
    same!((load(at), load(at + 8)), (3, 0), "what is in it");
    // Over the border of two pages.
    let at = base + PAGE - 16;
    same!(stub::section_pages(&Trap, base, 0, at), Ok(3), "a record in two pages");
    same!((load(at), load(at + 8), load(at + 16)), (3, 0, 0), "what is in that one");
    let out = base + 3 * PAGE - 8;
    same!(stub::section_pages(&Trap, base, 0, out), Err(Error::BadAddress), "a record that does not end in time");
    same!(load(out), 0, "what was added to its beginning");
    section.delete().map_err(doing("delete"))?;
    same!(section::pages(base), Err(Error::NotFound), "when it is gone");
    Ok(())
}
