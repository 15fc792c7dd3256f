//! The same of the machine's memory and of the kernel's heap: one user's programs take frames, sections and mappings in windows until they are refused, and another user
//! finds what he was promised (K1-U12).

use super::{ENOUGH, beside_a_user};
use crate::memory::data;
use crate::report::{Outcome, doing};
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::hint::black_box;
use core::mem::MaybeUninit;
use musubi::abi::calls::stub;
use musubi::abi::layout::PAGE;
use musubi::abi::rights::{ANY_TEXT, principal};
use musubi::abi::section::kind;
use musubi::abi::task::Limits;
use musubi::rt::{Section, Trap, section, task};
use musubi::{AclEntry, Error, Rights};

/// So many pages the second user has at least.
const PAGES: u64 = 4 * ENOUGH;
/// So many of each the first user gives back, to be able to ask for something: far less than the second one needs.
const BACK: u64 = 2 * ENOUGH;
/// Others of the first user's programs have some, for a while: of pages, of mappings and of sections.
const NEAR: [u64; 3] = [128, 512, 64];
/// Where mappings lie in a window, and how many of its pages each time.
const AT: u64 = 1 << 32;
const MAPPED: u64 = 1 << 14;
/// Windows.
const TASKS: usize = 3;

/// Entries that each section's access list has had.
const ENTRIES: u64 = 200;

/// What the first user takes beside pages and sections.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Also {
    Nothing,
    /// Mappings in windows of tasks that never start.
    Windows,
    /// Room in access lists that were long.
    Lists,
}

struct Taken {
    memory: Section,
    pages: u64,
    tasks: Vec<u64>,
    mappings: u64,
    sections: Vec<Section>,
}

/// Makes pages of a section be there, until there are no more. How many, and why.
fn fill(section: &Section, most: u64) -> (u64, Option<Error>) {
    for page in 0..most {
        // The kernel says that there is none, where a store would end the program.
        if let Err(error) = stub::identity(&Trap, section.base() + page * PAGE) {
            return (page, Some(error));
        }
    }
    (most, None)
}

/// One mapping is cut into many: of every second page.
fn cut(task: u64, section: &Section) -> (u64, Option<Error>) {
    let map = || stub::window_map(&Trap, task, AT, section.base(), 0, MAPPED * PAGE, Rights::READ.bits().into());
    let unmap = |n| stub::window_unmap(&Trap, task, AT + (2 * n + 1) * PAGE, PAGE);
    if let Err(error) = map() {
        return (0, Some(error));
    }
    let refused = (0..MAPPED / 2 - 1).find_map(|n| unmap(n).err().map(|error| (n + 1, Some(error))));
    refused.unwrap_or((MAPPED / 2, None))
}

/// The section's access list was long, and is short.
fn lengthen(section: &Section) -> Result<(), Error> {
    // (No task has such a number.)
    let set = |task: u64, rights: Rights| {
        let entry =
            AclEntry { principal: principal::TASK, rights: rights.bits(), id: u64::MAX / 2 + task, text: ANY_TEXT };
        section::grant(section.base(), &entry)
    };
    let outcome = (0..ENTRIES).try_for_each(|task| set(task, Rights::READ));
    (0..ENTRIES).for_each(|task| _ = set(task, Rights::empty()));
    outcome
}

/// Pages as long as there are; then, as long as the kernel has room for what it keeps of them, what is wanted besides, and sections.
fn all(also: Also, mut sections: Vec<Section>) -> Result<Taken, String> {
    let total = task::memory().map_err(doing("memory"))?.total;
    let memory = Section::create(total, 0, kind::DATA, 0).map_err(doing("a section for all memory"))?;
    let shown = Section::create(MAPPED * PAGE, 0, kind::DATA, 0).map_err(doing("a section for windows"))?;
    let mut tasks = Vec::with_capacity(TASKS);
    while also == Also::Windows && tasks.len() < TASKS {
        let user = musubi::start().user();
        tasks.push(task::create(&Limits::default(), user, b"window").map_err(doing("a task"))?);
    }
    let (pages, why) = fill(&memory, total / PAGE);
    holds!(
        matches!(why, Some(Error::NoMemory | Error::MemoryQuota)),
        "the refusal of pages after {pages} of {}: {why:?}",
        total / PAGE
    );
    let mut mappings = 0;
    for task in &tasks {
        let (cut, why) = cut(*task, &shown);
        mappings += cut;
        match why {
            None => {}
            Some(Error::NoMemory) => break,
            Some(other) => return Err(format!("the refusal of mappings after {mappings}: {other}")),
        }
    }
    let why = loop {
        match data(PAGE) {
            Ok(section) if sections.len() < sections.capacity() => {
                let outcome = if also == Also::Lists { lengthen(&section) } else { Ok(()) };
                sections.push(section);
                if let Err(error) = outcome {
                    break error;
                }
            }
            Ok(_) => return Err(format!("{} sections, and nothing was refused", sections.len())),
            Err(error) => break error,
        }
    };
    holds!(
        matches!(why, Error::NoMemory | Error::SectionQuota),
        "the refusal of sections after {}: {why}",
        sections.len()
    );
    shown.delete().map_err(doing("giving back what windows show"))?;
    Ok(Taken { memory, pages, tasks, mappings, sections })
}

/// For sections, with pages that are there when there are no more.
pub fn room() -> Vec<Section> {
    let mut sections = Vec::<Section>::with_capacity(1 << 16);
    sections.spare_capacity_mut().iter_mut().for_each(|place| *place = MaybeUninit::zeroed());
    black_box(sections.as_ptr());
    sections
}

/// One user takes all that he can get of all. The other one, who comes only then, has as much as if there were nobody else.
fn leaves_others_memory(also: Also) -> Outcome {
    beside_a_user(true, |other, alone| {
        let (mut sections, mut first) = (room(), None);
        for _ in 0..2 {
            let mut taken = all(also, core::mem::take(&mut sections))?;
            let counts = [taken.pages, taken.mappings, taken.sections.len() as u64];
            let left = taken.sections.len().saturating_sub(BACK as usize);
            taken.sections.drain(left..).try_for_each(Section::delete).map_err(doing("giving some sections back"))?;
            stub::section_resize(&Trap, taken.memory.base(), taken.pages.saturating_sub(BACK) * PAGE)
                .map_err(doing("giving some pages back"))?;
            let found = [other(), other()];
            // First what was taken goes back: what is said about it needs room.
            let Taken { sections: mut had, memory, tasks, .. } = taken;
            memory.delete().map_err(doing("giving memory back"))?;
            had.drain(..).try_for_each(Section::delete).map_err(doing("giving sections back"))?;
            tasks.into_iter().try_for_each(super::end)?;
            sections = had;
            for found in found {
                same!(found?, *alone, "what the other user can have beside {counts:?} pages, mappings and sections");
            }
            // (Of the heap mappings leave little to sections.)
            holds!(counts[0].min(counts[1] + counts[2]) >= ENOUGH, "pages, mappings and sections: only {counts:?}");
            let before = *first.get_or_insert(counts);
            let is_near = (0..3).all(|at| counts[at].abs_diff(before[at]) <= NEAR[at]);
            holds!(is_near, "{before:?} pages, mappings and sections at first, and then {counts:?}");
        }
        same!(other()?, *alone, "what the other user has afterwards");
        Ok(())
    })
}

pub fn a_user_leaves_others_memory() -> Outcome {
    [Also::Nothing, Also::Windows, Also::Lists].into_iter().try_for_each(leaves_others_memory)
}

/// Of a stranger on whose thread a program of this user's calls: who has as much of the kernel's heap as he may gives nothing of it to another user's program, or
/// he could have as much again, and that one what others were promised. Where there is enough he may. Bits: whether he was refused more, to give, and to
/// give when there is enough again.
pub fn gives(task: u64) -> Result<u64, Error> {
    // Nothing was ever stored there: it is of frames that there are enough.
    let gift = || data(PAGE).map(|section| section.base());
    let (first, second) = (gift()?, gift()?);
    section::give(first, task)?;
    let mut sections = room();
    let why = loop {
        match data(PAGE) {
            Ok(section) if sections.len() < sections.capacity() => sections.push(section),
            Ok(_) => break None,
            Err(error) => break Some(error),
        }
    };
    let given = section::give(second, task);
    sections.drain(..).try_for_each(Section::delete)?;
    let again = section::give(second, task);
    let bits = [why == Some(Error::NoMemory), given == Err(Error::NoMemory), again.is_ok()];
    Ok(bits.into_iter().enumerate().map(|(at, bit)| u64::from(bit) << at).sum())
}

/// What the second user needs of it.
pub fn takes_its_part() -> Outcome {
    let memory = data(PAGES * PAGE).map_err(doing("a section"))?;
    let (pages, why) = fill(&memory, PAGES);
    same!(why, None, "the refusal of pages after {pages}");
    let sections: Result<Vec<_>, _> = (0..ENOUGH).map(|_| data(PAGE)).collect();
    sections.map_err(doing("sections"))?.into_iter().try_for_each(Section::delete).map_err(doing("giving back"))?;
    memory.delete().map_err(doing("giving back"))
}
