//! The window: the part of the address space that is private to a task. Every page in it is an alias of a page of some
//! section (architecture, section 2).

use crate::domain::{Domain, Place};
use crate::machine::spare_heap_for;
use crate::promise;
use crate::sched::{self, Step};
use crate::section::Section;
use crate::task::Task;
use crate::view::{Stale, View};
use abi::layout::{PAGE, WINDOW_END};
use abi::{Error, Rights};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ops::Range;
use ::sched::Crowd;
use rangemap::RangeMap;

/// One mapping. `delta` = section offset minus window address: the same in every part when a mapping is cut.
#[derive(Clone)]
struct Alias {
    /// Whoever maps it keeps nobody from being rid of it: nothing is there then.
    section: Weak<Section>,
    delta: u64,
    protection: Rights,
}

impl PartialEq for Alias {
    fn eq(&self, other: &Alias) -> bool {
        Weak::ptr_eq(&self.section, &other.section) && self.delta == other.delta && self.protection == other.protection
    }
}
impl Eq for Alias {}

#[derive(Default)]
pub struct Window {
    aliases: RangeMap<u64, Alias>,
    /// So many of them are charged to the task.
    counted: usize,
    /// Views that may hold pages of this window.
    views: Crowd<Weak<View>>,
}

/// Most mappings in one window, but for what threads add that find room at the same time.
const ALIASES_MAX: usize = 65536;

/// What may make more mappings is refused where there are too many, or the kernel's heap is nearly used up. Call without locks.
fn room_for_more(task: &Task) -> Result<(), Error> {
    spare_heap_for(task)?;
    if task.window.lock().aliases.len() >= ALIASES_MAX { Err(Error::TooBig) } else { Ok(()) }
}

/// What its mappings take of the kernel's heap is charged to the task.
fn count(task: &Task) {
    let mut window = task.window.lock();
    let now = window.aliases.len();
    let before = core::mem::replace(&mut window.counted, now);
    if before != now {
        task.counts_list(before as u64 * promise::ALIAS, now as u64 * promise::ALIAS);
    }
}

impl Window {
    pub fn locate(&self, address: u64) -> Option<Place> {
        let (range, alias) = self.aliases.get_key_value(&address)?;
        Some(Place {
            section: alias.section.upgrade().filter(|section| !section.is_going())?,
            offset: address.wrapping_add(alias.delta),
            window: Some(alias.protection),
            at: range.start,
            from: range.start.wrapping_add(alias.delta),
            len: range.end - range.start,
        })
    }

    /// A view of a thread of this task: it will be told when mappings go.
    pub fn register(&mut self, view: &Arc<View>) {
        self.views.join(Arc::downgrade(view), |other| other.strong_count() == 0);
    }
}

/// So many mappings, or views, are dealt with at a stretch.
const AT_ONCE: usize = 16;

/// Does something with the mappings of a range, some at a time, as long as it says to go on. Whether it did to the end. Call without locks.
fn in_parts(task: &Task, range: &Range<u64>, does: impl FnMut(&mut RangeMap<u64, Alias>, Range<u64>) -> bool) -> bool {
    some(task, range, does, || false) == Some(range.end)
}

/// The same, unless something `else_is` to be seen to. How far; `None`: it was not to go on.
fn some(
    task: &Task,
    range: &Range<u64>,
    mut does: impl FnMut(&mut RangeMap<u64, Alias>, Range<u64>) -> bool,
    else_is: impl Fn() -> bool,
) -> Option<u64> {
    let mut from = range.start;
    loop {
        let to = {
            let aliases = &mut task.window.lock().aliases;
            let last = aliases.overlapping(from..range.end).nth(AT_ONCE - 1);
            let to = last.map_or(range.end, |(part, _)| part.end.min(range.end));
            if !does(aliases, from..to) {
                return None;
            }
            to
        };
        if to == range.end {
            return Some(to);
        }
        from = to;
        sched::breathe();
        if else_is() {
            return Some(to);
        }
    }
}

/// What a call changes in a range, from where it was if it is made again: what is changed is so for everybody before others have their turns. What it answers
/// in the end.
fn change(task: &Task, range: &Range<u64>, does: impl FnMut(&mut RangeMap<u64, Alias>, Range<u64>) -> bool, value: u64) -> Result<Step, Error> {
    let to = some(task, range, does, sched::is_due);
    count(task);
    forget(task, range);
    match to {
        None => Err(Error::Dead),
        Some(to) if to < range.end => Ok(Step::At(to)),
        Some(_) => Ok(Step::Done(value)),
    }
}

/// The mappings of a range have changed: no view has what they were. Whoever enters a page in a view looks afterwards whether it is still that.
/// Call without locks.
fn forget(task: &Task, range: &Range<u64>) {
    let mut end = usize::MAX;
    loop {
        let mut stale = Stale::default();
        {
            let window = task.window.lock();
            let (views, begin) = window.views.before(end, AT_ONCE);
            let live = views.iter().filter_map(Weak::upgrade);
            live.for_each(|view| stale.join(view.forget(range.start, range.end - range.start)));
            end = begin;
        }
        stale.flush();
        if end == 0 {
            return;
        }
        sched::breathe();
    }
}

/// The task has ended.
pub fn clear(task: &Task) {
    in_parts(task, &(0..WINDOW_END), |aliases, part| {
        aliases.remove(part);
        true
    });
    count(task);
    let views = task.window.lock().views.disband();
    sched::in_stretches(views, drop);
}

/// A page-aligned, non-empty range inside the window.
fn range(address: u64, len: u64) -> Result<Range<u64>, Error> {
    let len = abi::layout::pages_up(len).ok_or(Error::BadAddress)?;
    let end = address.checked_add(len).ok_or(Error::BadAddress)?;
    if !address.is_multiple_of(PAGE) || len == 0 || end > WINDOW_END {
        return Err(Error::BadAddress);
    }
    Ok(address..end)
}

fn protection(bits: u64) -> Result<Rights, Error> {
    let rights = u32::try_from(bits).ok().and_then(Rights::from_bits).ok_or(Error::BadArgument)?;
    let most = Rights::READ | Rights::WRITE | Rights::EXECUTE;
    if !most.contains(rights) || rights.contains(Rights::WRITE | Rights::EXECUTE) {
        return Err(Error::BadArgument);
    }
    Ok(rights)
}

/// What is left of a range for a call that has come to `from`.
fn rest(range: &Range<u64>, from: Option<u64>) -> Range<u64> {
    from.map_or(range.start, |from| from.clamp(range.start, range.end))..range.end
}

/// Maps part of a section into the window of `task`. The domain must itself have the rights that it gives.
pub fn map(
    domain: &Domain,
    task: &Task,
    (address, len): (u64, u64),
    section: u64,
    offset: u64,
    bits: u64,
    from: Option<u64>,
) -> Result<Step, Error> {
    task.check_window(domain)?;
    let range = range(address, len)?;
    let protection = protection(bits)?;
    room_for_more(task)?;
    let section = Section::named(section)?;
    let end = offset.checked_add(range.end - range.start).ok_or(Error::BadAddress)?;
    if !offset.is_multiple_of(PAGE) || end > section.reserve {
        return Err(Error::BadAddress);
    }
    section.check_any(domain, Rights::CHANGE_ACL | Rights::READ, Rights::READ)?;
    let alias = Alias { delta: offset.wrapping_sub(range.start), section: Arc::downgrade(&section), protection };
    let insert = |aliases: &mut RangeMap<u64, Alias>, part| {
        // With the lock: who ends the task has said so before he takes out what is there, and nothing comes behind him.
        let is_dead = task.is_dead();
        if !is_dead {
            aliases.insert(part, alias.clone());
        }
        !is_dead
    };
    change(task, &rest(&range, from), insert, address)
}

/// Takes mappings out. Of many, whoever looks meanwhile finds a part gone.
pub fn unmap(domain: &Domain, task: &Task, (address, len): (u64, u64), from: Option<u64>) -> Result<Step, Error> {
    task.check_window(domain)?;
    let range = range(address, len)?;
    // Out of the middle: two are left of one.
    let is_within = |aliases: &RangeMap<u64, Alias>| aliases.get_key_value(&range.start).is_some_and(|(all, _)| all.start < range.start && range.end < all.end);
    if is_within(&task.window.lock().aliases) {
        room_for_more(task)?;
    }
    let remove = |aliases: &mut RangeMap<u64, Alias>, part| {
        aliases.remove(part);
        true
    };
    change(task, &rest(&range, from), remove, 0)
}

/// Changes what mappings may be used for, if all of the range is mapped.
pub fn protect(domain: &Domain, task: &Task, (address, len): (u64, u64), bits: u64, from: Option<u64>) -> Result<Step, Error> {
    task.check_window(domain)?;
    let range = range(address, len)?;
    let protection = protection(bits)?;
    room_for_more(task)?;
    let range = rest(&range, from);
    // (Where it goes on that was asked.)
    if from.is_none() && !in_parts(task, &range, |aliases, part| aliases.gaps(&part).next().is_none()) {
        return Err(Error::NotFound);
    }
    let set = |aliases: &mut RangeMap<u64, Alias>, part: Range<u64>| {
        let changed: Vec<_> = aliases
            .overlapping(part.clone())
            .map(|(one, alias)| (one.start.max(part.start)..one.end.min(part.end), Alias { protection, ..alias.clone() }))
            .collect();
        changed.into_iter().for_each(|(one, alias)| aliases.insert(one, alias));
        true
    };
    change(task, &range, set, 0)
}
