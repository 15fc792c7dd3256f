//! Sections: making, resizing, cloning, deleting, sealing; one address for all.

use crate::memory::{CODE_42, data, load, store};
use crate::peer::{Peer, op};
use crate::refusals::lacks;
use crate::report::{Check, Outcome, doing};
use crate::{holds, same};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;
use musubi::abi::calls::stub;
use musubi::abi::layout::{COMMON_LEN, GRANULE, PAGE, RESERVE_MAX, SLICE_LEN, SPACE_BASE, SPACE_END};
use musubi::abi::rights::{ANY_TEXT, principal};
use musubi::abi::section::{flag, kind};
use musubi::abi::task::{Exit, exit};
use musubi::command::Command;
use musubi::rt::{Section, Trap, section, task};
use musubi::{AclEntry, Error, Rights, files};

pub const CHECKS: &[Check] = &[
    ("create", create),
    ("create_refuses", create_refuses),
    ("far_apart", far_apart),
    ("resize", resize),
    ("reserve_is_kept", reserve_is_kept),
    ("beyond_the_end", beyond_the_end),
    ("addresses_are_not_soon_reused", addresses_are_not_soon_reused),
    ("clone_copies_on_write", clone_copies_on_write),
    ("clone_of_clone", clone_of_clone),
    ("clone_of_text_as_data", clone_of_text_as_data),
    ("clone_shares_frames", clone_shares_frames),
    ("delete", delete),
    ("seal", seal),
    ("write_xor_execute", write_xor_execute),
    ("one_address_for_all", one_address_for_all),
    ("list_passed_by_its_head", list_passed_by_its_head),
    ("reading_takes_no_entry", reading_takes_no_entry),
    ("info_and_list", info_and_list),
    ("names", names),
    ("give", give),
];

/// Anybody in any text may do this.
pub fn everybody(rights: Rights) -> AclEntry {
    AclEntry { principal: principal::ANY, rights: rights.bits(), id: 0, text: ANY_TEXT }
}

/// Runs a role of this program in a task of its own.
pub fn role(words: &[&str]) -> Result<Exit, alloc::string::String> {
    let all: Vec<&str> = ["check", "as"].iter().chain(words).copied().collect();
    let child = Command::new(b"bin/check").args(all).spawn().map_err(doing("role"))?;
    child.wait_for(60_000_000_000).map_err(doing("the role's end"))
}

fn create() -> Outcome {
    let mut section = data(3 * PAGE - 1).map_err(doing("create"))?;
    let info = section::info(section.base() + PAGE).map_err(doing("info"))?;
    same!(info.base, section.base(), "base");
    same!(info.len, 3 * PAGE, "length in whole pages");
    same!(info.kind, kind::DATA, "kind");
    same!(info.owner, musubi::start().task(), "owner");
    same!(info.resident, 0, "resident before the first touch");
    holds!((SPACE_BASE..SPACE_END).contains(&info.base) && info.base % GRANULE == 0, "base {:#x}", info.base);
    holds!(section.bytes().iter().all(|&b| b == 0), "a new section is not zero");
    section.bytes_mut().fill(7);
    holds!(section.bytes().iter().all(|&b| b == 7), "what was written is not there");
    same!(section::info(info.base).map_err(doing("info"))?.resident, 3, "resident after");
    Ok(())
}

fn create_refuses() -> Outcome {
    let try_it = |len, reserve, what, flags, at, room| stub::section_create(&Trap, len, reserve, what, flags, at, room);
    for what in [kind::TEXT, kind::DEVICE, kind::PORTS, kind::STACK, 5, u64::MAX] {
        same!(try_it(PAGE, 0, what, 0, 0, 0), Err(Error::BadArgument), "kind {what}");
    }
    for flags in [flag::AS_DATA, 8, u64::MAX] {
        same!(try_it(PAGE, 0, kind::DATA, flags, 0, 0), Err(Error::BadArgument), "flags {flags:#x}");
    }
    for (len, reserve, room) in [
        (u64::MAX, 0, 0),
        (0, u64::MAX, 0),
        (0, RESERVE_MAX + 1, 0),
        (RESERVE_MAX + 1, 0, 0),
        (PAGE, 0, u64::MAX),
        (PAGE, 0, RESERVE_MAX + 1),
    ] {
        same!(try_it(len, reserve, kind::DATA, 0, 0, room), Err(Error::TooBig), "{len:#x} {reserve:#x} {room:#x}");
    }
    let own = data(PAGE).map_err(doing("create"))?.base();
    for at in
        [own, own + GRANULE, own + PAGE, 1, u64::MAX, !(GRANULE - 1), 0xffff_8000_0000_0000, musubi::start().text()]
    {
        holds!(try_it(PAGE, 0, kind::DATA, 0, at, 0).is_err(), "a section at {at:#x}, where it has no room");
    }
    Ok(())
}

/// All over the slice of this node, until the search for room begins anew: a list leads from one end to the other and back.
fn far_apart() -> Outcome {
    // Two at a time, of what a program may reserve.
    const LEN: u64 = RESERVE_MAX / 2;
    let start = musubi::start().text() / SLICE_LEN * SLICE_LEN;
    // Behind it lie what is the system's, posts, and then stacks.
    let end = start + COMMON_LEN;
    let one = || data(LEN).map_err(doing("create"));
    let mut high = one()?.base();
    let low = loop {
        let next = one()?.base();
        holds!((start..end).contains(&next) && next + LEN <= end, "{next:#x} is not in the slice");
        if next < high {
            break next;
        }
        section::delete(high).map_err(doing("delete"))?;
        high = next;
    };
    holds!(end - (high + LEN) < LEN, "{high:#x} is the last one before {end:#x}");
    holds!(low - start < LEN, "{low:#x} is the first one after {start:#x}");
    let last = |base: u64| base + LEN - 8;
    store(low, last(high));
    store(last(high), high);
    store(high, last(low));
    store(last(low), low);
    let mut at = low;
    for place in [last(high), high, last(low), low] {
        at = load(at);
        same!(at, place, "where the list leads");
    }
    for base in [low, high] {
        same!(section::info(base).map(|info| info.resident), Ok(2), "resident of {base:#x}");
        section::delete(base).map_err(doing("delete"))?;
    }
    // And the longest that there is.
    let longest = data(RESERVE_MAX).map_err(doing("the longest"))?.base();
    let end = longest + RESERVE_MAX - 8;
    store(longest, 1);
    store(end, 2);
    same!((load(longest), load(end)), (1, 2), "both ends of it");
    section::delete(longest).map_err(doing("delete"))
}

fn resize() -> Outcome {
    let mut section = Section::create(PAGE, 8 * PAGE, kind::DATA, 0).map_err(doing("create"))?;
    section.bytes_mut().fill(1);
    section.resize(8 * PAGE).map_err(doing("to the full reserve"))?;
    holds!(section.bytes()[..4096].iter().all(|&b| b == 1), "growing lost what was there");
    holds!(section.bytes()[4096..].iter().all(|&b| b == 0), "what was added is not zero");
    section.bytes_mut().fill(2);
    section.resize(2 * PAGE).map_err(doing("shorter"))?;
    same!(section::info(section.base()).map_err(doing("info"))?.resident, 2, "resident after shrinking");
    section.resize(8 * PAGE).map_err(doing("longer again"))?;
    holds!(section.bytes()[..8192].iter().all(|&b| b == 2), "shrinking lost what stayed");
    holds!(section.bytes()[8192..].iter().all(|&b| b == 0), "what was cut off came back");
    section.resize(0).map_err(doing("to nothing"))?;
    section.resize(PAGE).map_err(doing("from nothing"))?;
    holds!(section.bytes().iter().all(|&b| b == 0), "not zero after length 0");
    Ok(())
}

fn reserve_is_kept() -> Outcome {
    let mut section = Section::create(PAGE, GRANULE, kind::DATA, 0).map_err(doing("create"))?;
    same!(section.resize(GRANULE + 1), Err(Error::TooBig), "beyond the reserve");
    same!(section.resize(u64::MAX), Err(Error::TooBig), "to the end of all numbers");
    same!(section.len(), PAGE, "a refused resize changed the length:");
    let next = data(PAGE).map_err(doing("another"))?;
    holds!(next.base() >= section.base() + GRANULE || next.base() < section.base(), "another lies in the reserve");
    section.resize(GRANULE).map_err(doing("to the full reserve, with a neighbour"))?;
    let last = section.base() + GRANULE - 8;
    store(last, 5);
    same!(load(last), 5, "the last word");
    Ok(())
}

/// What lies beyond the end is no memory: for an access, and for the kernel on the program's behalf.
fn beyond_the_end() -> Outcome {
    let peer = Peer::start()?;
    let section = Section::create(PAGE, GRANULE, kind::DATA, 0).map_err(doing("create"))?;
    section::grant(section.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    same!(peer.call(op::PEEK, &[section.base() + PAGE - 1]), Ok(0), "the last byte");
    same!(peer.call(op::PEEK, &[section.base() + PAGE]), Err(Error::Faulted), "the first byte beyond");
    same!(peer.call(op::POKE, &[section.base() + PAGE, 1]), Err(Error::Faulted), "a store beyond");
    same!(stub::identity(&Trap, section.base() + PAGE), Err(Error::BadAddress), "the kernel's store beyond");
    let across = stub::identity(&Trap, section.base() + PAGE - 8);
    same!(across, Err(Error::BadAddress), "the kernel's store across the end");
    peer.end()
}

fn addresses_are_not_soon_reused() -> Outcome {
    let mut seen = BTreeSet::new();
    for n in 0..2000 {
        let section = data(PAGE).map_err(doing("create"))?;
        holds!(seen.insert(section.base()), "{:#x} was used again after {n} sections", section.base());
        section.delete().map_err(doing("delete"))?;
    }
    Ok(())
}

fn pattern(section: &mut Section, seed: u8) {
    section.bytes_mut().chunks_mut(512).zip(0u8..).for_each(|(part, n)| part.fill(seed ^ n));
}

fn has_pattern(section: &Section, seed: u8) -> bool {
    section.bytes().chunks(512).zip(0u8..).all(|(part, n)| part.iter().all(|&b| b == seed ^ n))
}

fn clone_copies_on_write() -> Outcome {
    let mut first = data(16 * PAGE).map_err(doing("create"))?;
    pattern(&mut first, 0x11);
    let mut second = Section::clone_of(first.base(), 0, 0, 0).map_err(doing("clone"))?;
    holds!(second.base() != first.base() && second.len() == first.len(), "not a section of its own");
    holds!(has_pattern(&second, 0x11), "the clone differs");
    first.bytes_mut()[5000] = 99;
    holds!(has_pattern(&second, 0x11), "a store to the original is seen in the clone");
    second.bytes_mut()[9000] = 98;
    same!(first.bytes()[9000], 0x11 ^ (9000 / 512) as u8, "a store to the clone is seen in the original:");
    pattern(&mut second, 0x33);
    first.bytes_mut()[5000] = 0x11 ^ (5000 / 512) as u8;
    holds!(has_pattern(&first, 0x11) && has_pattern(&second, 0x33), "they are not apart");
    first.delete().map_err(doing("delete the original"))?;
    holds!(has_pattern(&second, 0x33), "the clone died with its original");
    // What was never touched is zero in both.
    let blank = data(4 * PAGE).map_err(doing("create"))?;
    let copy = Section::clone_of(blank.base(), 0, 0, 0).map_err(doing("clone of nothing"))?;
    holds!(copy.bytes().iter().all(|&b| b == 0), "the clone of an untouched section is not zero");
    Ok(())
}

fn clone_of_clone() -> Outcome {
    let mut family = Vec::from([data(8 * PAGE).map_err(doing("create"))?]);
    pattern(&mut family[0], 0);
    for seed in 1..10u8 {
        let parent = usize::from(seed / 2);
        let mut clone = Section::clone_of(family[parent].base(), 0, 0, 0).map_err(doing("clone"))?;
        holds!(has_pattern(&clone, parent as u8), "clone {seed} of {parent} differs");
        pattern(&mut clone, seed);
        family.push(clone);
    }
    for (seed, section) in (0u8..).zip(&family) {
        holds!(has_pattern(section, seed), "section {seed} was changed by a relative");
    }
    // Every other one goes; the rest keep theirs, and can still be written.
    let mut kept = Vec::new();
    for (seed, section) in (0u8..).zip(family) {
        if seed % 2 == 0 {
            section.delete().map_err(doing("delete"))?;
        } else {
            kept.push((seed, section));
        }
    }
    for (seed, section) in &mut kept {
        holds!(has_pattern(section, *seed), "section {seed} lost its content");
        pattern(section, *seed + 100);
        holds!(has_pattern(section, *seed + 100), "section {seed} cannot be written");
    }
    Ok(())
}

/// A copy of the own code that can be written changes nothing in the code that runs.
fn clone_of_text_as_data() -> Outcome {
    let text = musubi::start().text();
    let before = section::view(text, PAGE).ok_or("the own text cannot be read")?.to_vec();
    let mut copy = Section::clone_of(text, flag::AS_DATA, 0, 0).map_err(doing("clone"))?;
    same!(section::info(copy.base()).map_err(doing("info"))?.kind, kind::DATA, "kind");
    same!(&copy.bytes()[..4096], &before[..], "the copy");
    copy.bytes_mut()[..4096].fill(0xcc);
    same!(section::view(text, PAGE).ok_or("unreadable")?, &before[..], "the text that runs after a store to the copy");
    Ok(())
}

fn clone_shares_frames() -> Outcome {
    let mut first = data(64 * PAGE).map_err(doing("create"))?;
    first.bytes_mut().fill(1);
    let free = || task::memory().map(|m| m.free).map_err(doing("memory"));
    let before = free()?;
    let clone = Section::clone_of(first.base(), 0, 0, 0).map_err(doing("clone"))?;
    let told = section::pages(clone.base()).map_err(doing("pages"))?;
    same!((told.resident, told.shared), (64, 64), "resident and shared pages of the clone");
    holds!(before - free()?.min(before) < 32 * PAGE, "the clone took memory of its own");
    first.bytes_mut()[0] = 2;
    same!(section::pages(clone.base()).map_err(doing("pages"))?.shared, 63, "shared after one store");
    Ok(())
}

fn delete() -> Outcome {
    let peer = Peer::start()?;
    let section = data(PAGE).map_err(doing("create"))?;
    let base = section.base();
    section::grant(base, &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    same!(peer.call(op::POKE, &[base, 1]), Ok(0), "a store before");
    section.delete().map_err(doing("delete"))?;
    same!(peer.call(op::PEEK, &[base]), Err(Error::Faulted), "a load after");
    same!(peer.call(op::POKE, &[base, 1]), Err(Error::Faulted), "a store after");
    same!(section::delete(base), Err(Error::NotFound), "deleting it twice");
    same!(section::info(base).err(), Some(Error::NotFound), "info after");
    same!(section::grant(base, &everybody(Rights::READ)), Err(Error::NotFound), "grant after");
    same!(section::delete(base + PAGE), Err(Error::NotFound), "deleting what never was");
    let inside = data(2 * PAGE).map_err(doing("create"))?;
    same!(section::delete(inside.base() + PAGE), Err(Error::NotFound), "deleting by an address inside");
    peer.end()
}

/// Code is made by writing and sealing: then it can be run, and not written any more, whatever an entry says.
fn seal() -> Outcome {
    let peer = Peer::start()?;
    let mut section = Section::create(PAGE, PAGE * 2, kind::DATA, 0).map_err(doing("create"))?;
    section.bytes_mut()[..CODE_42.len()].copy_from_slice(&CODE_42);
    let base = section.base();
    let all = Rights::READ | Rights::WRITE | Rights::EXECUTE;
    section::grant(base, &everybody(all)).map_err(doing("grant"))?;
    same!(peer.call(op::RUN, &[base]), Err(Error::Faulted), "running data");
    same!(peer.call(op::POKE, &[base + 64, 1]), Ok(0), "a store before sealing");
    section.seal().map_err(doing("seal"))?;
    same!(section::info(base).map_err(doing("info"))?.kind, kind::TEXT, "kind");
    same!(peer.call(op::RUN, &[base]), Ok(42), "running the text");
    same!(peer.call(op::POKE, &[base + 64, 2]), Err(Error::Faulted), "a store after sealing");
    lacks(stub::identity(&Trap, base), base, Rights::WRITE, "the kernel's store to a text")?;
    same!(crate::memory::call(base), 42, "running it here");
    same!(stub::section_seal(&Trap, base), Err(Error::BadArgument), "sealing twice");
    let full = data(GRANULE).map_err(doing("create"))?;
    same!(stub::section_seal(&Trap, full.base()), Err(Error::TooBig), "sealing without room for gates");
    peer.end()
}

/// No order of granting and mapping gives both.
fn write_xor_execute() -> Outcome {
    let peer = Peer::start()?;
    let all = Rights::all();
    let section = data(PAGE).map_err(doing("create"))?;
    let base = section.base();
    section::grant(base, &everybody(all)).map_err(doing("grant"))?;
    let may = |at, right| section::may(at, 1, right, section::Who::Own);
    holds!(may(base, Rights::WRITE) && !may(base, Rights::EXECUTE), "data: may says otherwise");
    same!(peer.call(op::RUN, &[base]), Err(Error::Faulted), "running data that all rights are given for");
    let own = musubi::start().text();
    section::grant(own, &everybody(all)).map_err(doing("grant on the own text"))?;
    holds!(!may(own, Rights::WRITE) && may(own, Rights::EXECUTE), "text: may says otherwise");
    same!(peer.call(op::POKE, &[own, 0]), Err(Error::Faulted), "a store to a text that all rights are given for");
    // In a window, neither by one mapping nor by changing it.
    let limits = musubi::abi::task::Limits::default();
    let task = task::create(&limits, musubi::start().user(), b"window").map_err(doing("task"))?;
    let map = |section, bits: Rights| stub::window_map(&Trap, task, 0x10000, section, 0, PAGE, u64::from(bits.bits()));
    same!(map(base, Rights::WRITE | Rights::EXECUTE), Err(Error::BadArgument), "mapping it w+x");
    holds!(map(base, Rights::READ | Rights::WRITE).is_ok(), "mapping it rw");
    let both = u64::from((Rights::WRITE | Rights::EXECUTE).bits());
    same!(stub::window_protect(&Trap, task, 0x10000, PAGE, both), Err(Error::BadArgument), "protecting it w+x");
    task::kill(task).map_err(doing("kill"))?;
    peer.end()
}

fn one_address_for_all() -> Outcome {
    let section = data(PAGE).map_err(doing("create"))?;
    store(section.base(), 0x5a);
    section::grant(section.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let peer = Peer::start()?;
    same!(peer.call(op::PEEK, &[section.base()]), Ok(0x5a), "what another text loads there");
    let exit = role(&["peek", &format!("{:#x}", section.base())])?;
    same!((exit.kind, exit.code), (exit::EXITED, 0x5a), "what another task loads there");
    same!(peer.call(op::POKE, &[section.base() + 8, 77]), Ok(0), "a store");
    same!(load(section.base() + 8), 77, "what the other one stored");
    peer.end()
}

/// Addresses mean the same everywhere: a list can be walked by whoever is told where it begins.
fn list_passed_by_its_head() -> Outcome {
    let section = data(16 * PAGE).map_err(doing("create"))?;
    let (base, count) = (section.base(), 4000u64);
    let place = |n: u64| base + n * 7919 % 4096 * 16;
    for n in 0..count {
        store(place(n), n);
        store(place(n) + 8, if n + 1 < count { place(n + 1) } else { 0 });
    }
    let peer = Peer::start()?;
    same!(peer.call(op::SUM_LIST, &[place(0)]), Err(Error::Faulted), "without a right");
    section::grant(base, &everybody(Rights::READ)).map_err(doing("grant"))?;
    same!(peer.call(op::SUM_LIST, &[place(0)]), Ok(count * (count - 1) / 2), "the sum of the list");
    peer.end()
}

/// Data of a partner that is there, and a file: loads, and nothing else (CUBIX-5).
fn reading_takes_no_entry() -> Outcome {
    const WORDS: u64 = 16 * PAGE / 8;
    let section = data(8 * WORDS).map_err(doing("create"))?;
    section::grant(section.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let peer = Peer::start()?;
    let file = files::open(b"bin/check").map_err(doing("open"))?;
    let entries = || task::processors().map(|processor| processor.entries).sum::<u64>();
    // The clock comes in at times: what is left in the best of some rounds is what the reading takes.
    let least = |read: &dyn Fn() -> u64| -> (u64, u64) {
        let round = |_| {
            let before = entries();
            let sum = read();
            (entries() - before, sum)
        };
        (0..50).map(round).min_by_key(|round| round.0).unwrap_or_default()
    };
    let sum_of_data = || (0..WORDS).map(|n| load(section.base() + 8 * n)).sum();
    let sum_of_file = || file.iter().map(|byte| u64::from(*byte)).sum();
    let (alone, _) = least(&|| 0);
    for value in 1..=3 {
        for page in (0..8 * WORDS).step_by(PAGE as usize) {
            peer.call(op::POKE, &[section.base() + page, value * page]).map_err(doing("the partner writes"))?;
        }
        let pages = 8 * WORDS / PAGE;
        same!(
            least(&sum_of_data),
            (alone, value * PAGE * pages * (pages - 1) / 2),
            "entries, and what the partner wrote"
        );
    }
    let (read, sum) = least(&sum_of_file);
    same!(read, alone, "entries for reading a file of {} bytes", file.len());
    holds!(sum > 0, "the file is empty");
    peer.end()
}

fn info_and_list() -> Outcome {
    let mine: Vec<u64> = (0..5).filter_map(|_| data(PAGE).ok()).map(|s| s.base()).collect();
    same!(mine.len(), 5, "sections made");
    let all: Vec<_> = section::list().collect();
    holds!(all.windows(2).all(|w| w[0].base < w[1].base), "the list is not in the order of addresses");
    holds!(all.windows(2).all(|w| w[0].base + w[0].reserve <= w[1].base), "sections overlap");
    holds!(mine.iter().all(|base| all.iter().any(|info| info.base == *base)), "an own section is not listed");
    for info in all.iter().filter(|info| info.owner == musubi::start().task()) {
        let again = section::info(info.base + info.len.max(1) - 1).map_err(doing("info"))?;
        same!(again.base, info.base, "found by its last byte");
    }
    same!(section::info(0).err(), Some(Error::NotFound), "info of address 0");
    same!(section::info(u64::MAX).err(), Some(Error::NotFound), "info of the last address");
    same!(stub::section_info(&Trap, mine[0], 8), Err(Error::BadAddress), "info to where nothing can be written");
    Ok(())
}

fn names() -> Outcome {
    let section = data(PAGE).map_err(doing("create"))?;
    section::name(section.base(), b"a name").map_err(doing("name"))?;
    let name = section::info(section.base()).map_err(doing("info"))?.name;
    same!(musubi::ended::text(&name), "a name", "the name");
    let long = [b'x'; 40];
    let named = stub::section_name(&Trap, section.base(), long.as_ptr() as u64, 33);
    same!(named, Err(Error::TooBig), "a name of 33 bytes");
    let foreign = section::list().find(|info| info.rights == 0).ok_or("every section is open to us")?;
    let named = section::name(foreign.base, b"mine");
    lacks(named, foreign.base, Rights::CHANGE_ACL, "naming another program's section")
}

fn give() -> Outcome {
    let section = data(4 * PAGE).map_err(doing("create"))?;
    store(section.base(), 5);
    let limits = musubi::abi::task::Limits::default();
    let user = musubi::start().user();
    let heir = task::create(&limits, user, b"heir").map_err(doing("task"))?;
    let used = |number| task::list().find(|t| t.task == number).map(|t| t.used).ok_or("no such task");
    let before = used(musubi::start().task())?;
    section::give(section.base(), heir).map_err(doing("give"))?;
    let (mine, theirs) = (used(musubi::start().task())?, used(heir)?);
    // (Not frames: these count tables of views, which come and go.)
    let counted = |used: &musubi::abi::task::Limits| (used.sections, used.reserve, used.threads);
    same!(counted(&mine), counted(&before), "what a child has counts for its parent, too:");
    same!((theirs.sections, theirs.frames), (1, 1), "sections and frames charged");
    same!(section::info(section.base()).map_err(doing("info"))?.owner, heir, "owner");
    same!(load(section.base()), 5, "rights stay as they were");
    let small = musubi::abi::task::Limits { sections: 1, ..limits };
    let poor = task::create(&small, user, b"poor").map_err(doing("task"))?;
    let (a, b) = (data(PAGE).map_err(doing("create"))?, data(PAGE).map_err(doing("create"))?);
    same!(section::give(a.base(), poor), Ok(()), "the first to a task that may have one");
    same!(section::give(b.base(), poor), Err(Error::SectionQuota), "the second");
    same!(section::info(b.base()).map_err(doing("info"))?.owner, musubi::start().task(), "who owns the second");
    for number in [heir, poor] {
        task::kill(number).map_err(doing("kill"))?;
    }
    same!(used(musubi::start().task())?.sections, before.sections - 1 + 1, "sections when heir and poor have ended");
    same!(section::info(section.base()).err(), Some(Error::NotFound), "the heir's section after its end");
    Ok(())
}
