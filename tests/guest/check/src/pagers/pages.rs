//! Pages that pagers supply and take back, who pays for them, and what the kernel does when it needs one.

use super::{Does, own, paged, read};
use crate::memory::{data, load, store};
use crate::report::{Outcome, doing};
use crate::{holds, same};
use core::sync::atomic::Ordering;
use musubi::abi::calls::stub;
use musubi::abi::layout::PAGE;
use musubi::abi::section::SectionInfo;
use musubi::rt::pager::{self, Was, supply};
use musubi::rt::section::{self, invalidate};
use musubi::rt::{Trap, task};
use musubi::{Error, Rights};

fn resident(base: u64) -> Result<u64, alloc::string::String> {
    Ok(section::info(base).map_err(doing("info"))?.resident)
}

pub fn supplied() -> Outcome {
    const PAGES: u64 = 600;
    let section = data(PAGES * PAGE).map_err(doing("create"))?;
    let scratch = data(2 * PAGE).map_err(doing("scratch"))?;
    let base = section.base();
    let (own, gate) = own(Does::Supply)?;
    own.at.store(scratch.base(), Ordering::SeqCst);
    pager::set(base, gate, 1, 0).map_err(doing("pager"))?;
    for round in 0..3 {
        for page in (0..PAGES).step_by(7) {
            same!(load(base + page * PAGE), page + 1, "page {page}, round {round}");
        }
        let there = PAGES.div_ceil(7);
        same!((own.calls(), resident(base)?), (there, there), "how many were supplied");
        store(base, 77);
        same!(own.calls(), 0, "a store to a page that is there");
        // Back with one of them, and away with the others.
        same!(pager::take_page(base, scratch.base() + PAGE), Ok(Was::Dirty), "a page that was stored to");
        same!(load(scratch.base() + PAGE), 77, "what was in it");
        for page in (7..PAGES).step_by(7) {
            same!(pager::drop_clean(base + page * PAGE), Ok(Was::Clean), "page {page}");
        }
        same!(pager::drop_clean(base + PAGE), Ok(Was::Absent), "one that was never there");
        same!(resident(base)?, 0, "what is left");
    }
    // A copy shares until one of the two is stored to.
    store(scratch.base(), 5);
    pager::supply_page(base, scratch.base(), supply::COPY).map_err(doing("a copy"))?;
    same!((load(base), load(scratch.base())), (5, 5), "both of them");
    store(scratch.base(), 6);
    same!((load(base), load(scratch.base())), (5, 6), "after a store to one");
    store(base, 7);
    same!((load(base), load(scratch.base())), (7, 6), "after a store to the other");
    pager::supply_zeroes(base + PAGE, 0).map_err(doing("zeroes"))?;
    same!((load(base + PAGE), own.calls()), (0, 0), "zeroes");
    // An invalid page is replaced.
    invalidate(base, PAGE).map_err(doing("invalidate"))?;
    pager::supply_page(base, scratch.base(), 0).map_err(doing("replace"))?;
    same!((load(base), load(scratch.base()), own.calls()), (6, 0, 0), "a page that was replaced, and its source");
    scratch.delete().map_err(doing("delete"))?;
    section.delete().map_err(doing("delete"))
}

pub fn clean() -> Outcome {
    let section = data(2 * PAGE).map_err(doing("create"))?;
    let scratch = data(2 * PAGE).map_err(doing("scratch"))?;
    let (base, from) = (section.base(), scratch.base());
    let (_, gate) = own(Does::Refuse)?;
    pager::set(base, gate, 1, 0).map_err(doing("pager"))?;
    for round in 1..4 {
        store(from, round);
        pager::supply_page(base, from, supply::CLEAN).map_err(doing("supply"))?;
        same!(load(base), round, "a clean page");
        same!(pager::take_page(base, from), Ok(Was::Clean), "one that was only read");
        pager::supply_page(base, from, supply::CLEAN).map_err(doing("supply"))?;
        same!(load(base), round, "a clean page again");
        store(base + 8, 1);
        same!(pager::drop_clean(base), Ok(Was::Dirty), "one that was stored to is not dropped");
        same!((load(base), load(base + 8)), (round, 1), "it is still there");
        same!(pager::take_page(base, from), Ok(Was::Dirty), "it is taken");
        // Stored to by the kernel.
        pager::supply_page(base, from, supply::CLEAN).map_err(doing("supply"))?;
        stub::section_info(&Trap, base, base).map_err(doing("info"))?;
        same!(pager::take_page(base, from), Ok(Was::Dirty), "one that the kernel has stored to");
        same!(load(from), base, "what it has stored");
        // Mapped by a call, without an access that asks: what is stored then is noticed all the same.
        pager::supply_page(base, from, supply::CLEAN).map_err(doing("supply"))?;
        musubi::rt::section::alloc(base, PAGE).map_err(doing("alloc"))?;
        store(base + 8, round);
        same!(pager::drop_clean(base), Ok(Was::Dirty), "one that was mapped by a call, and stored to");
        same!((load(base), load(base + 8)), (base, round), "what is in it");
        same!(pager::take_page(base, from), Ok(Was::Dirty), "it is taken");
        // What takes the place of a clean page is no clean one.
        pager::supply_page(base, from, supply::CLEAN).map_err(doing("supply"))?;
        musubi::rt::section::free(base, PAGE).map_err(doing("free"))?;
        musubi::rt::section::alloc(base, PAGE).map_err(doing("alloc"))?;
        same!(pager::take_page(base, from), Ok(Was::Dirty), "a page that was not supplied");
    }
    scratch.delete().map_err(doing("delete"))?;
    section.delete().map_err(doing("delete"))
}

/// A table for this program's own memory may come in between, once; what is counted wrongly is so each time.
pub fn paid() -> Outcome {
    const TRIES: usize = 3;
    (1..TRIES).map(|_| paid_exactly()).find(Outcome::is_ok).unwrap_or_else(paid_exactly)
}

fn paid_exactly() -> Outcome {
    // What children of the checks before have had comes back to this task when they are taken apart, which is after their end.
    crate::deaths::settled()?;
    let used = || task::info(musubi::start().task()).map(|info| info.used.frames).ok_or("no task");
    let section = data(64 * PAGE).map_err(doing("create"))?;
    let scratch = data(64 * PAGE).map_err(doing("scratch"))?;
    let (base, from) = (section.base(), scratch.base());
    (0..64).for_each(|page| store(from + page * PAGE, page));
    load(base);
    pager::supply_page(base + PAGE, from, supply::CLEAN).map_err(doing("supply"))?;
    let before = used()?;
    for page in 2..64 {
        pager::supply_page(base + page * PAGE, from + page * PAGE, supply::CLEAN).map_err(doing("supply"))?;
    }
    same!((used()?, resident(base)?, resident(from)?), (before, 64, 1), "pages that have moved are paid for once");
    for page in 2..64 {
        same!(pager::drop_clean(base + page * PAGE), Ok(Was::Clean), "page {page}");
    }
    same!(used()?, before - 62, "pages that were dropped");
    pager::supply_page(base + 2 * PAGE, from + PAGE, supply::COPY).map_err(doing("copy"))?;
    same!(used()?, before - 61, "a copy is paid for, too");
    section.delete().map_err(doing("delete"))?;
    scratch.delete().map_err(doing("delete"))?;
    holds!(used()? < before - 61, "what was deleted");
    Ok(())
}

pub fn refusals() -> Outcome {
    let (section, _) = paged(2, Does::Validate, 0)?;
    let scratch = data(2 * PAGE).map_err(doing("scratch"))?;
    let (base, from) = (section.base(), scratch.base());
    store(from, 9);
    same!(pager::supply_page(base, from, 0), Err(Error::Exists), "onto a valid page");
    same!(pager::supply_zeroes(base, 0), Err(Error::Exists), "zeroes onto a valid page");
    same!(load(from), 9, "what was to be moved");
    same!(pager::supply_page(base + 8, from, 0), Err(Error::BadAddress), "not a page");
    same!(pager::supply_page(base, from + 8, 0), Err(Error::BadAddress), "not from a page");
    same!(pager::supply_page(base + 2 * PAGE, from, 0), Err(Error::BadAddress), "beyond the end");
    same!(pager::supply_page(PAGE, from, 0), Err(Error::NotFound), "no section");
    same!(pager::supply_page(base, from, 1 << 30), Err(Error::BadArgument), "an unknown flag");
    same!(pager::supply_page(base, base + PAGE, 0), Err(Error::BadArgument), "within one section");
    same!(pager::take_page(base, from + PAGE), Ok(Was::Dirty), "taken");
    same!(pager::supply_page(base, base + PAGE, 0), Err(Error::BadArgument), "within one section, absent");
    let empty = data(PAGE).map_err(doing("create"))?;
    same!(pager::supply_page(base, empty.base(), 0), Err(Error::Absent), "from where there is nothing");
    let text = section::info(refusals as *const () as u64).map_err(doing("info"))?.base;
    holds!(pager::supply_page(base, text, 0).is_err(), "out of a text");
    holds!(pager::supply_page(text, from, 0).is_err(), "into a text");
    holds!(pager::take_page(text, from).is_err(), "taken out of a text");
    let strangers =
        section::list().find(|info| info.rights == 0 && info.kind == 0 && info.resident > 0).ok_or("none")?;
    holds!(pager::supply_page(base, strangers.base, 0).is_err_and(|e| e.refusal().is_some()), "out of a stranger's");
    holds!(pager::take_page(strangers.base, from).is_err_and(|e| e.refusal().is_some()), "taken from a stranger");
    same!(load(from), 9, "what was to be moved, after all");
    empty.delete().map_err(doing("delete"))?;
    scratch.delete().map_err(doing("delete"))?;
    section.delete().map_err(doing("delete"))
}

/// Pitfalls, H14: an argument's page is not there. The call is made again when it is.
pub fn by_the_kernel() -> Outcome {
    let (section, own) = paged(3, Does::Validate, 0)?;
    let base = section.base();
    // The record lies across two pages.
    let at = base + 2 * PAGE - 16;
    let all = || invalidate(base, 3 * PAGE).map_err(doing("invalidate"));
    all()?;
    same!(stub::section_info(&Trap, base, at), Ok(base), "a record to be written across two pages");
    same!(own.calls(), 2, "how often the pager was asked");
    same!(load(at), base, "what was written");
    holds!(size_of::<SectionInfo>() > 16, "it is longer than that");
    (0..4).for_each(|word| store(at + 8 * word, 0));
    all()?;
    same!(stub::section_pages(&Trap, base, 0, at), Ok(3), "a record to be added to across two pages");
    same!((own.calls(), load(at)), (2, resident(base)?), "how often the pager was asked, and what was added: once");
    all()?;
    let name = section::name(base, &[b'x'; 8]);
    same!((name, own.calls()), (Ok(()), 0), "a name from elsewhere");
    same!((stub::section_name(&Trap, base, base, 8), own.calls()), (Ok(0), 1), "a name from an invalid page");
    all()?;
    same!((stub::wake(&Trap, base, 1), own.calls()), (Ok(0), 1), "a word to wait at");
    all()?;
    own.set(Does::Refuse);
    same!((stub::section_info(&Trap, base, at), own.calls()), (Err(Error::Absent), 1), "a pager that refuses");
    own.set(Does::Nothing);
    same!(stub::section_info(&Trap, base, at), Err(Error::Absent), "a pager that does nothing");
    own.set(Does::Validate);
    same!(
        (read(base), Rights::READ.is_empty()),
        (Some(u64::from_le_bytes([1, 0, 0, 0, 0, 0, 0, 0])), false),
        "the page itself"
    );
    section.delete().map_err(doing("delete"))
}
