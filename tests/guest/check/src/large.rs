//! Real pages with attributes (SSS-38): of 2 MiB and 1 GiB, and with memory in a row. Whoever changes a part of one changes no other part.

use crate::memory::{data, load, store};
use crate::pages::{counts, faults, info};
use crate::report::{Check, Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::info::feature;
use musubi::abi::layout::PAGE;
use musubi::abi::section::{flag, kind, real};
use musubi::rt::pager::{supply_page, take_page};
use musubi::rt::section::{self, Section, alloc, alloc_as, free, invalidate, validate};
use musubi::rt::{Trap, fault, task, thread};
use musubi::{Error, Rights};

pub const CHECKS: &[Check] = &[
    ("a_large_page_is_one_entry", one_entry),
    ("a_part_of_a_large_page_is_given_back", part_freed),
    ("a_part_of_a_large_page_is_invalid", part_invalid),
    ("clones_of_large_pages", clones),
    ("pages_out_of_a_large_page", moved),
    ("large_pages_and_what_else_is_done_to_sections", sections),
    ("parts_change_while_others_are_used", meanwhile),
    ("memory_in_a_row", in_a_row),
    ("large_pages_are_refused", refusals),
    ("broken_memory_comes_together_again", together),
];

/// On a machine with room for it.
pub const HUGE: &[Check] = &[("a_page_of_1_gib", huge), ("memory_in_a_row_of_1_gib", huge_row)];

const MIB2: u64 = 2 << 20;
const GIB: u64 = 1 << 30;
/// Pages in one of 2 MiB.
const PARTS: u64 = MIB2 / PAGE;

/// A section of large pages, each part with its number in it.
fn large(count: u64) -> Result<Section, String> {
    let section = data(count * MIB2).map_err(doing("create"))?;
    alloc_as(section.base(), count * MIB2, real::SIZE_2M).map_err(doing("large pages"))?;
    fill(section.base(), count * PARTS);
    Ok(section)
}

fn fill(base: u64, count: u64) {
    (0..count).for_each(|page| store(base + page * PAGE, page + 1));
}

/// What is in a page and in the next ones, but for some that were emptied.
fn expect(base: u64, count: u64, empty: core::ops::Range<u64>) -> Outcome {
    for page in 0..count {
        let wanted = if empty.contains(&page) { 0 } else { page + 1 };
        same!(load(base + page * PAGE), wanted, "page {page}");
    }
    Ok(())
}

/// Nobody has any of it mapped.
fn forgotten(base: u64) -> Outcome {
    section::grant(base, &everybody(Rights::READ)).map_err(doing("grant"))?;
    section::grant(base, &everybody(Rights::empty())).map_err(doing("revoke"))
}

/// Faults of this thread while it does something, but for those at what it executes.
fn faults_in(what: impl FnOnce() -> Outcome) -> Result<u64, String> {
    let text = info(faults as fn() -> Result<u64, String> as usize as u64)?;
    (text.base..text.base + text.len).step_by(PAGE as usize).for_each(|page| _ = load(page));
    let before = faults()?;
    what()?;
    Ok(faults()? - before)
}

fn is_unreadable(address: u64) -> bool {
    // SAFETY: the check's own section; if it cannot be read that is an error, not undefined.
    fault::copy_in(unsafe { core::slice::from_raw_parts(address as *const u8, 8) }).is_err()
}

/// Tables of views come and go meanwhile, on each processor. A large page is 512.
const FEW: u64 = 16;

fn frames_used() -> Result<u64, String> {
    let own = musubi::start().task();
    Ok(task::list().find(|t| t.task == own).ok_or("the own task is not listed")?.used.frames)
}

fn one_entry() -> Outcome {
    for (count, first) in [(1, 0), (3, 0), (2, 1)] {
        let section = data((first + count) * MIB2).map_err(doing("create"))?;
        let (base, at) = (section.base(), section.base() + first * MIB2);
        // What was there before leaves tables behind.
        alloc(base, 5 * PAGE).map_err(doing("alloc"))?;
        store(at, 7);
        free(base, (first + count) * MIB2).map_err(doing("free"))?;
        faults()?;
        alloc_as(at, count * MIB2, real::SIZE_2M).map_err(doing("large pages"))?;
        let told = counts(base)?;
        same!((told.resident, told.large), (count * PARTS, count * PARTS), "what is told of {count} large pages");
        let touch = || {
            for page in 0..count * PARTS {
                same!(load(at + page * PAGE), 0, "a new page");
                store(at + page * PAGE, page + 1);
            }
            Ok(())
        };
        same!(faults_in(touch)?, 0, "faults at large pages that are there");
        forgotten(base)?;
        same!(faults_in(|| expect(at, count * PARTS, 0..0))?, count, "faults at large pages that no view knows");
        // Again is as once, and with small pages, too.
        alloc_as(at, count * MIB2, real::SIZE_2M).map_err(doing("large pages again"))?;
        forgotten(base)?;
        alloc(at, count * MIB2).map_err(doing("small ones again"))?;
        same!(faults_in(|| expect(at, count * PARTS, 0..0))?, 0, "faults at large pages that are shown again");
        section.delete().map_err(doing("delete"))?;
    }
    Ok(())
}

fn part_freed() -> Outcome {
    for (first, count) in [(0, 1), (100, 1), (511, 1), (1, 510), (7, 20), (0, 512), (500, 24)] {
        let section = large(2)?;
        let base = section.base();
        free(base + first * PAGE, count * PAGE).map_err(doing("free"))?;
        let told = counts(base)?;
        same!(told.resident, 2 * PARTS - count, "pages that are left");
        let whole = if first + count > PARTS { 0 } else { 1 };
        same!(told.large, whole * PARTS, "pages that are still large");
        let faults = faults_in(|| expect(base, 2 * PARTS, first..first + count))?;
        same!(faults, count, "faults at {count} pages that were given back, from {first}");
        section.delete().map_err(doing("delete"))?;
    }
    Ok(())
}

fn part_invalid() -> Outcome {
    for (first, count) in [(0, 1), (300, 3), (511, 1), (500, 24), (0, 512), (0, 1024), (1, 1023)] {
        let section = large(2)?;
        let base = section.base();
        let is_in = |page: u64| (first..first + count).contains(&page);
        for _ in 0..3 {
            invalidate(base + first * PAGE, count * PAGE).map_err(doing("invalidate"))?;
            holds!(is_unreadable(base + first * PAGE), "page {first} can be read");
            holds!(is_unreadable(base + (first + count - 1) * PAGE), "the last one from {first} can be read");
            let others = || {
                let mut pages = (0..2 * PARTS).filter(|page| !is_in(*page));
                pages.try_for_each(|page| Ok(same!(load(base + page * PAGE), page + 1, "page {page}")))
            };
            same!(faults_in(others)?, 0, "faults at other pages than {count} from {first}");
            validate(base + first * PAGE, count * PAGE).map_err(doing("validate"))?;
            same!(faults_in(|| expect(base, 2 * PARTS, 0..0))?, 0, "faults at valid pages, {count} from {first}");
        }
        // In parts that are not those that were made invalid.
        invalidate(base, 2 * MIB2).map_err(doing("invalidate all"))?;
        validate(base + 3 * PAGE, 600 * PAGE).map_err(doing("validate some"))?;
        holds!(is_unreadable(base + 2 * PAGE) && is_unreadable(base + 603 * PAGE), "an invalid page can be read");
        same!(load(base + 602 * PAGE), 603, "a valid page");
        validate(base, 2 * MIB2).map_err(doing("validate all"))?;
        expect(base, 2 * PARTS, 0..0)?;
        same!(counts(base)?.large, 2 * PARTS, "pages that are still large");
        section.delete().map_err(doing("delete"))?;
    }
    Ok(())
}

fn clones() -> Outcome {
    let section = large(2)?;
    let base = section.base();
    let clone = section::clone_at(base, 0, 0, 0).map_err(doing("clone"))?;
    same!(faults_in(|| expect(clone, 2 * PARTS, 0..0))?, 2, "faults at a clone's large pages");
    same!(counts(clone)?.large, 2 * PARTS, "a clone's pages that are large");
    store(base + 5 * PAGE, 99);
    same!((load(base + 5 * PAGE), load(clone + 5 * PAGE)), (99, 6), "a store to a page that was shared");
    store(clone + 6 * PAGE, 98);
    same!((load(base + 6 * PAGE), load(clone + 6 * PAGE)), (7, 98), "a store by the clone");
    same!((counts(base)?.large, counts(clone)?.large), (PARTS, PARTS), "pages that are large after stores");
    for page in (0..2 * PARTS).filter(|page| ![5, 6].contains(page)) {
        same!((load(base + page * PAGE), load(clone + page * PAGE)), (page + 1, page + 1), "page {page}");
    }
    section::delete(clone).map_err(doing("delete"))?;
    // Nobody else has any of the second one now: it is one entry again, for stores, too.
    forgotten(base)?;
    let faults = faults_in(|| {
        (PARTS..2 * PARTS).for_each(|page| store(base + page * PAGE, page + 1));
        Ok(())
    })?;
    same!(faults, 1, "faults at a large page that was shared");
    section.delete().map_err(doing("delete"))
}

/// As pagers do it.
fn moved() -> Outcome {
    let (section, other) = (large(1)?, data(4 * PAGE).map_err(doing("create"))?);
    let (base, to) = (section.base(), other.base());
    supply_page(to, base + 9 * PAGE, 0).map_err(doing("supply"))?;
    same!((load(to), load(base + 9 * PAGE)), (10, 0), "a page that went elsewhere");
    take_page(base + 11 * PAGE, to + PAGE).map_err(doing("take"))?;
    same!((load(to + PAGE), load(base + 11 * PAGE)), (12, 0), "a page that was taken");
    let second = large(1)?;
    supply_page(to + 2 * PAGE, second.base() + 3 * PAGE, musubi::abi::pager::supply::COPY).map_err(doing("copy"))?;
    store(second.base() + 3 * PAGE, 77);
    same!((load(to + 2 * PAGE), load(second.base() + 3 * PAGE)), (4, 77), "a copy, and a store beside it");
    for page in (0..PARTS).filter(|page| ![9, 11].contains(page)) {
        same!(load(base + page * PAGE), page + 1, "page {page}");
    }
    [section, other, second].into_iter().try_for_each(|one| one.delete().map_err(doing("delete")))
}

fn sections() -> Outcome {
    // Shorter and longer.
    let mut section = large(2)?;
    let base = section.base();
    section.resize(MIB2 + 3 * PAGE).map_err(doing("shorter"))?;
    section.resize(2 * MIB2).map_err(doing("longer"))?;
    expect(base, 2 * PARTS, PARTS + 3..2 * PARTS)?;
    section.resize(PAGE).map_err(doing("shorter still"))?;
    same!((load(base), info(base)?.resident, counts(base)?.large), (1, 1, 0), "what is left of it");
    section.delete().map_err(doing("delete"))?;
    // A text.
    let section = Section::create(MIB2, 2 * MIB2, kind::DATA, 0).map_err(doing("create"))?;
    alloc_as(section.base(), MIB2, real::SIZE_2M).map_err(doing("a large page"))?;
    fill(section.base(), PARTS);
    let text = section.seal().map_err(doing("seal"))?;
    expect(text, PARTS, 0..0)?;
    section::delete(text).map_err(doing("delete"))?;
    // A secret.
    let section = Section::create(MIB2, MIB2, kind::DATA, flag::SECRET).map_err(doing("create"))?;
    alloc_as(section.base(), MIB2, real::SIZE_2M).map_err(doing("a large page"))?;
    fill(section.base(), PARTS);
    expect(section.base(), PARTS, 0..0)?;
    section.delete().map_err(doing("delete"))?;
    // Invalid before it is there.
    let section = data(MIB2).map_err(doing("create"))?;
    invalidate(section.base() + 5 * PAGE, PAGE).map_err(doing("invalidate"))?;
    alloc_as(section.base(), MIB2, real::SIZE_2M).map_err(doing("a large page"))?;
    holds!(is_unreadable(section.base() + 5 * PAGE), "an invalid page can be read");
    same!(load(section.base() + 6 * PAGE), 0, "the next one");
    validate(section.base() + 5 * PAGE, PAGE).map_err(doing("validate"))?;
    same!(load(section.base() + 5 * PAGE), 0, "a page that is valid");
    // By the kernel.
    let at = section.base() + 7 * PAGE;
    stub::section_info(&Trap, section.base(), at).map_err(doing("info"))?;
    same!((load(at), load(at + 8)), (section.base(), MIB2), "what the kernel has written there");
    section.delete().map_err(doing("delete"))
}

/// Another thread uses all other parts meanwhile: it loses nothing.
fn meanwhile() -> Outcome {
    static STOP: AtomicBool = AtomicBool::new(false);
    let section = large(1)?;
    let base = section.base();
    // The last 112 pages are the other thread's.
    let counts = thread::spawn(
        move || {
            let mut rounds = 0;
            while !STOP.load(Ordering::SeqCst) {
                for page in 400..PARTS {
                    store(base + page * PAGE, load(base + page * PAGE) + 1);
                }
                rounds += 1;
            }
            store(base + 399 * PAGE, rounds);
        },
        0,
    );
    let counts = counts.map_err(doing("thread"))?;
    for round in 0..300 {
        let (at, len) = (base + round % 390 * PAGE, (1 + round % 7) * PAGE);
        match round % 4 {
            0 | 1 => {
                invalidate(at, len).map_err(doing("invalidate"))?;
                holds!(is_unreadable(at), "an invalid page can be read");
                validate(at, len).map_err(doing("validate"))?;
            }
            2 => {
                let clone = section::clone_at(base, 0, 0, 0).map_err(doing("clone"))?;
                section::delete(clone).map_err(doing("delete"))?;
                forgotten(base)?;
            }
            _ => thread::yield_now(),
        }
        if round == 250 {
            free(base + 10 * PAGE, 5 * PAGE).map_err(doing("free"))?;
        }
    }
    STOP.store(true, Ordering::SeqCst);
    counts.join().map_err(doing("join"))?;
    let rounds = load(base + 399 * PAGE);
    for page in 0..399 {
        let wanted = if (10..15).contains(&page) { 0 } else { page + 1 };
        same!(load(base + page * PAGE), wanted, "page {page}");
    }
    for page in 400..PARTS {
        same!(load(base + page * PAGE), page + 1 + rounds, "page {page} after {rounds} rounds");
    }
    section.delete().map_err(doing("delete"))
}

fn in_a_row() -> Outcome {
    for (first, count) in [(0, 1), (3, 5), (0, 64), (500, 30), (0, 512), (512, 1024), (3, 1500)] {
        let section = data((first + count) * PAGE).map_err(doing("create"))?;
        let at = section.base() + first * PAGE;
        let before = frames_used()?;
        alloc_as(at, count * PAGE, real::CONTIGUOUS).map_err(doing("memory in a row"))?;
        let told = counts(section.base())?;
        same!((told.resident, told.pieces), (count, 1), "pages and pieces of {count} from {first}");
        fill(at, count);
        expect(at, count, 0..0)?;
        if count > 2 {
            free(at + PAGE, PAGE).map_err(doing("free"))?;
            same!(counts(section.base())?.pieces, 2, "pieces when one page was given back");
        }
        section.delete().map_err(doing("delete"))?;
        holds!(frames_used()?.abs_diff(before) <= FEW, "{} frames are used, and were {before}", frames_used()?);
    }
    // What is left of it when it is given up in the middle goes back.
    for end in 0..4 {
        let mut section = data(1024 * PAGE).map_err(doing("create"))?;
        let base = section.base();
        let before = frames_used()?;
        let done = stub::page_alloc(&Trap, base, 1024 * PAGE, real::CONTIGUOUS).map_err(doing("the first part"))?;
        same!(done, 512 * PAGE, "what one call does");
        holds!(frames_used()? >= before + 1024, "all of it is charged at once");
        match end {
            0 => {
                store(base + 700 * PAGE, 1);
                let next = stub::page_alloc(&Trap, base + done, 512 * PAGE, real::CONTIGUOUS);
                same!(next, Err(Error::Exists), "somebody was faster");
                same!(info(base)?.resident, 513, "pages that are there");
            }
            1 => free(base, PAGE).map_err(doing("free"))?,
            2 => section.resize(800 * PAGE).map_err(doing("shorter"))?,
            _ => alloc_as(base + done, MIB2, real::SIZE_2M).map_err(doing("something else"))?,
        }
        let (resident, used) = (info(base)?.resident, frames_used()?);
        holds!(
            used.abs_diff(before + resident) <= FEW,
            "{used} frames are used by {resident} pages, and were {before}"
        );
        section.delete().map_err(doing("delete"))?;
        holds!(
            frames_used()?.abs_diff(before) <= FEW,
            "{} frames are used in the end, and were {before}",
            frames_used()?
        );
    }
    Ok(())
}

fn refusals() -> Outcome {
    let section = Section::create(2 * MIB2, 64 << 30, kind::DATA, 0).map_err(doing("create"))?;
    let base = section.base();
    let before = frames_used()?;
    for attributes in [3, 7, 8, u64::MAX] {
        same!(alloc_as(base, MIB2, attributes), Err(Error::BadArgument), "attributes {attributes}");
    }
    same!(alloc_as(base + PAGE, MIB2, real::SIZE_2M), Err(Error::BadAddress), "not a large page's beginning");
    same!(alloc_as(base, MIB2 + PAGE, real::SIZE_2M), Err(Error::BadAddress), "not whole large pages");
    same!(alloc_as(base, 3 * MIB2, real::SIZE_2M), Err(Error::BadAddress), "beyond the end");
    same!(alloc_as(base, 0, real::SIZE_2M), Err(Error::BadAddress), "no page");
    store(base + 5 * PAGE, 1);
    for attributes in [real::SIZE_2M, real::CONTIGUOUS] {
        same!(alloc_as(base, MIB2, attributes), Err(Error::Exists), "a page is there");
    }
    same!((info(base)?.resident, load(base + 5 * PAGE)), (1, 1), "what is there after refusals");
    free(base, MIB2).map_err(doing("free"))?;
    // More than there is, or than one may have.
    stub::section_resize(&Trap, base, 32 << 30).map_err(doing("longer"))?;
    let most = alloc_as(base, 32 << 30, real::CONTIGUOUS);
    holds!(matches!(most, Err(Error::MemoryQuota | Error::NoMemory)), "32 GiB in a row: {most:?}");
    let has = task::processors().all(|p| p.features & feature::PAGES_1G != 0);
    let huge = alloc_as(base, GIB, real::SIZE_1G);
    if has {
        holds!(matches!(huge, Err(Error::MemoryQuota | Error::NoMemory | Error::Scattered)), "1 GiB: {huge:?}");
    } else {
        same!(huge, Err(Error::NotSupported), "1 GiB on a machine without such pages");
    }
    same!(info(base)?.resident, 0, "pages after refusals");
    holds!(frames_used()?.abs_diff(before) <= FEW, "{} frames are used, and were {before}", frames_used()?);
    section.delete().map_err(doing("delete"))
}

/// As many large pages as there are to be had in a section, each marked; and why no more.
fn have_all(base: u64, most: u64) -> (u64, Error) {
    for count in 0..most {
        if let Err(error) = alloc_as(base + count * MIB2, MIB2, real::SIZE_2M) {
            return (count, error);
        }
        store(base + count * MIB2, count + 1);
    }
    (most, Error::TooBig)
}

/// Single pages everywhere leave no large ones; when they are given back there are as many as before.
fn together() -> Outcome {
    const MOST: u64 = 2 << 30;
    let (small, big) = (data(MOST).map_err(doing("create"))?, data(MOST).map_err(doing("create"))?);
    let (first, _) = have_all(big.base(), MOST / MIB2);
    holds!(first > 8, "{first} large pages are all there are");
    free(big.base(), MOST).map_err(doing("free"))?;
    for _ in 0..2 {
        let mut count = 0;
        while alloc(small.base() + count * PAGE, PAGE).is_ok() {
            count += 1;
        }
        holds!(count >= first * PARTS * 9 / 10, "{count} pages, and {first} large ones before");
        // Of each large page's worth one stays.
        for page in (0..count).step_by(64) {
            let end = (page + 63).min(count);
            free(small.base() + page * PAGE, (end - page).max(1) * PAGE).map_err(doing("free"))?;
        }
        let (few, why) = have_all(big.base(), MOST / MIB2);
        same!(why, Error::Scattered, "why there are no more large pages than {few}");
        holds!(few < first, "{few} large pages in broken memory");
        (0..few).try_for_each(|page| {
            Ok::<_, String>(same!(load(big.base() + page * MIB2), page + 1, "large page {page}"))
        })?;
        free(big.base(), MOST).map_err(doing("free"))?;
        free(small.base(), MOST).map_err(doing("free"))?;
        let (again, _) = have_all(big.base(), MOST / MIB2);
        holds!(again + 2 >= first, "{again} large pages, and {first} before");
        free(big.base(), MOST).map_err(doing("free"))?;
    }
    [small, big].into_iter().try_for_each(|one| one.delete().map_err(doing("delete")))
}

/// One page of each 2 MiB, but for some.
fn sparse(base: u64, but: u64) -> Outcome {
    let mut all = (0..GIB / MIB2).filter(|at| *at != but);
    all.try_for_each(|at| Ok(same!(load(base + at * MIB2 + PAGE), at + 1, "the page at {at} times 2 MiB")))
}

fn huge() -> Outcome {
    let section = data(GIB).map_err(doing("create"))?;
    let base = section.base();
    if !task::processors().all(|p| p.features & feature::PAGES_1G != 0) {
        same!(alloc_as(base, GIB, real::SIZE_1G), Err(Error::NotSupported), "1 GiB on a machine without such pages");
        return section.delete().map_err(doing("delete"));
    }
    let before = frames_used()?;
    for _ in 0..2 {
        // Something is in the way in the view.
        store(base + 3 * MIB2, 1);
        free(base + 3 * MIB2, PAGE).map_err(doing("free"))?;
        alloc_as(base, GIB, real::SIZE_1G).map_err(doing("a page of 1 GiB"))?;
        let told = counts(base)?;
        same!((told.resident, told.large, told.pieces), (GIB / PAGE, GIB / PAGE, 1), "what is told of it");
        let touch = || {
            for at in 0..GIB / MIB2 {
                same!(load(base + at * MIB2 + PAGE), 0, "a new page");
                store(base + at * MIB2 + PAGE, at + 1);
            }
            Ok(())
        };
        same!(faults_in(touch)?, 0, "faults at a page that is there");
        forgotten(base)?;
        same!(faults_in(|| sparse(base, GIB))?, 1, "faults at a page that no view knows");
        same!(alloc_as(base, GIB, real::SIZE_1G), Ok(()), "the same again");
        // In parts.
        invalidate(base + 7 * MIB2, MIB2).map_err(doing("invalidate"))?;
        holds!(is_unreadable(base + 7 * MIB2 + PAGE), "an invalid page can be read");
        same!(faults_in(|| sparse(base, 7))?, 0, "faults at other pages");
        validate(base + 7 * MIB2, MIB2).map_err(doing("validate"))?;
        same!(faults_in(|| sparse(base, GIB))?, 0, "faults at valid pages");
        let clone = section::clone_at(base, 0, 0, 0).map_err(doing("clone"))?;
        same!(faults_in(|| sparse(clone, GIB))?, 1, "faults at a clone's page");
        store(base + 9 * MIB2 + PAGE, 5);
        same!(load(clone + 9 * MIB2 + PAGE), 10, "the clone's page after a store");
        store(base + 9 * MIB2 + PAGE, 10);
        section::delete(clone).map_err(doing("delete"))?;
        free(base + 5 * MIB2 + PAGE, PAGE).map_err(doing("free a part"))?;
        same!(load(base + 5 * MIB2 + PAGE), 0, "a page that was given back");
        sparse(base, 5)?;
        free(base, GIB).map_err(doing("free"))?;
        same!(info(base)?.resident, 0, "pages after that");
        holds!(frames_used()?.abs_diff(before) <= 8, "{} frames are used, and were {before}", frames_used()?);
    }
    section.delete().map_err(doing("delete"))
}

fn huge_row() -> Outcome {
    // More than a page of 1 GiB, and not quite two: in a row, and yet of small pages.
    let len = GIB + 3 * MIB2 + 5 * PAGE;
    let section = data(len).map_err(doing("create"))?;
    alloc_as(section.base(), len, real::CONTIGUOUS).map_err(doing("memory in a row"))?;
    let told = counts(section.base())?;
    same!((told.resident, told.pieces), (len / PAGE, 1), "pages and pieces");
    let ends: Vec<u64> = [0, len - 8].iter().map(|at| load(section.base() + at)).collect();
    same!(ends, [0, 0], "its ends");
    section.delete().map_err(doing("delete"))
}
