//! All views that have mapped a section, when its pages change.

use super::{Mapping, Stale};
use crate::processor;
use crate::sched;
use crate::section::{Section, State};
use abi::layout::PAGE;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use spin::MutexGuard;

/// The section is no more: of the last few views that are registered with it nothing of it is mapped in any, and none counts as registered. (The next one at its
/// address is another.) Nothing is allocated: it ends also where memory is used up.
pub fn disown(section: &Section, state: &mut State) -> Stale {
    // Pages are shown by what is remembered only to who is registered.
    state.last.take();
    let mut stale = Stale::default();
    let rest = state.mapped.len().saturating_sub(FEW_TABLES as usize);
    for mapping in state.mapped.drain(rest..) {
        change_one(&mapping, 0, section.reserve, Change::Unmap, &mut stale);
        if let Some(view) = mapping.view.upgrade() {
            view.known.lock().remove(&[section.base, mapping.at, mapping.offset, mapping.len]);
        }
    }
    stale
}

/// What to do to the mappings of a section.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Unmap,
    /// Stores must fault again: the pages are about to be shared.
    WriteProtect,
}

/// All accesses to `[offset, offset + len)` of a section fault from now on, in all views, until the pages are shown. `None`: this
/// processor was the only one that had anything to forget, if any.
#[inline(always)]
pub fn hide(mapped: &mut Vec<Mapping>, offset: u64, len: u64) -> Option<Box<Stale>> {
    close::<false>(mapped, offset, len)
}

/// The same for good, of few pages: they are taken out, and the tables stay.
#[inline(always)]
pub fn take_out(mapped: &mut Vec<Mapping>, offset: u64, len: u64) -> Option<Box<Stale>> {
    close::<true>(mapped, offset, len)
}

#[inline(always)]
fn close<const OUT: bool>(mapped: &mut Vec<Mapping>, offset: u64, len: u64) -> Option<Box<Stale>> {
    let me = processor::here();
    let (mut left, mut all_count): (Option<Box<Stale>>, _) = (None, true);
    for mapping in mapped.iter() {
        let Some((view, at, len)) = mapping.part(offset, len) else { continue };
        let stale = match view {
            Some((view, true)) => view.close::<OUT>(me, at, len),
            // Emptied, if not forgotten: `register`.
            Some((view, false)) if view.owed.taken(false) => Some(Box::new(Stale { processors: view.users(), ..Stale::default() })),
            _ => {
                all_count = false;
                None
            }
        };
        if let Some(stale) = stale {
            left = Some(match left {
                Some(mut left) => {
                    left.join(*stale);
                    left
                }
                None => stale,
            });
        }
    }
    if !all_count {
        tidy(mapped);
    }
    left
}

/// Hidden pages are as they were, in all views. (What was not hidden comes by faults.)
#[inline(always)]
pub fn show(mapped: &mut Vec<Mapping>, offset: u64, len: u64) {
    let mut all_count = true;
    for mapping in mapped.iter() {
        let Some((view, at, len)) = mapping.part(offset, len) else { continue };
        match view {
            Some((view, true)) => view.show(at, len),
            _ => all_count = false,
        }
    }
    if !all_count {
        tidy(mapped);
    }
}

/// Pages that are hidden, shown or taken out at once, with interrupts off and the section's lock: each counts in each view.
const PAGES_AT_ONCE: u64 = 2048;

/// How much that is of `len` bytes, a page at least: as far as a call goes that says how far it has come.
#[inline]
pub fn at_once(mapped: &[Mapping], len: u64) -> u64 {
    if mapped.len() <= FEW { len } else { len.min((PAGES_AT_ONCE / mapped.len() as u64).max(1) * PAGE) }
}

/// So many views have room for all that a call may take.
pub const FEW: usize = (PAGES_AT_ONCE / 512) as usize;

/// Most registrations of a section, beside those that are about to go: their list is no longer than a block of the kernel's heap, which is there
/// when that is in pieces.
const MAPPED_MAX: usize = 1472;
const LISTED_MAX: usize = 1536;

/// To be called before a view is [registered](super::View::register) with the section: where as many are as may be, some of them lose what they have mapped of
/// it, and come by faults again.
#[inline]
pub fn make_room(section: &Section, state: &mut State) -> Stale {
    if state.mapped.len() < MAPPED_MAX { Stale::default() } else { make_room_by_force(section, state) }
}

#[cold]
#[inline(never)]
fn make_room_by_force(section: &Section, state: &mut State) -> Stale {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let mut stale = Stale::default();
    tidy(&mut state.mapped);
    if state.mapped.len() >= MAPPED_MAX {
        // Pages are shown by what is remembered only to who is registered.
        state.last.take();
        for _ in 0..AT_ONCE {
            let at = NEXT.fetch_add(1, Ordering::Relaxed) % state.mapped.len();
            let mapping = &mut state.mapped[at];
            // (One that has ended already may have been registered anew.)
            if !mapping.counts() {
                continue;
            }
            change_one(mapping, 0, u64::MAX, Change::Unmap, &mut stale);
            mapping.end(section.base);
        }
    }
    stale
}

/// Room for one more registration.
#[inline]
pub(super) fn reserve(mapped: &mut Vec<Mapping>) {
    if mapped.len() == mapped.capacity() && (LISTED_MAX / 2..LISTED_MAX).contains(&mapped.len()) {
        mapped.reserve_exact(LISTED_MAX - mapped.len());
    }
}

impl Mapping {
    /// It does not count any more, and stays until what it owes is paid.
    fn end(&mut self, base: u64) {
        if let Some(view) = self.view.upgrade() {
            view.known.lock().remove(&[base, self.at, self.offset, self.len]);
        }
        self.epoch = u64::MAX;
    }
}

/// Without the registrations that do not count any more.
#[cold]
pub(super) fn tidy(mapped: &mut Vec<Mapping>) {
    mapped.retain(|mapping| mapping.counts() || mapping.is_owed());
}

/// Applies a change to `[offset, offset + len)` of a section in all views that map any of it.
pub fn change(mapped: &mut Vec<Mapping>, offset: u64, len: u64, what: Change) -> Stale {
    let mut stale = Stale::default();
    mapped.retain(|mapping| change_one(mapping, offset, offset.saturating_add(len), what, &mut stale));
    stale
}

/// Views of a section that are still to be changed: so many, counted from the beginning of its list. Those that come behind them meanwhile see what is there then.
#[derive(Clone, Copy)]
pub struct Rest {
    left: usize,
    offset: u64,
    len: u64,
    what: Change,
}

/// The same, where many views map the section in some of them only: the others are the [`Stale::rest`], and nobody uses what is there now before they are changed, too.
pub fn change_first(mapped: &mut Vec<Mapping>, offset: u64, len: u64, what: Change) -> Stale {
    if mapped.len() as u64 <= AT_ONCE {
        return change(mapped, offset, len, what);
    }
    change_rest(mapped, Rest { left: mapped.len(), offset, len, what })
}

/// Goes on with that. (Where registrations that do not count are tidied away in between, those that are left move down.)
pub fn change_rest(mapped: &[Mapping], rest: Rest) -> Stale {
    let Rest { left, offset, len, what } = rest;
    let mut stale = Stale::default();
    let to = left.min(mapped.len());
    let from = to.saturating_sub(AT_ONCE as usize);
    for mapping in &mapped[from..to] {
        change_one(mapping, offset, offset.saturating_add(len), what, &mut stale);
    }
    stale.rest = (from > 0).then_some(Rest { left: from, ..rest });
    stale
}

/// The same in one. Whether its registration counts, or owes something.
fn change_one(mapping: &Mapping, offset: u64, end: u64, what: Change, stale: &mut Stale) -> bool {
    let Some(view) = mapping.view.upgrade() else { return false };
    let mut wait = || {
        if view.owed.taken(false) {
            stale.join(Stale { processors: view.users(), ..Stale::default() });
        }
    };
    if view.epoch.load(Ordering::SeqCst) != mapping.epoch {
        // Emptied, if not forgotten: `register`. It stays so long, for whoever comes next.
        wait();
        return view.owed.taken(false);
    }
    let (from, to) = (offset.max(mapping.offset), end.min(mapping.offset + mapping.len));
    if from < to {
        let at = mapping.at + (from - mapping.offset);
        stale.join(match what {
            Change::Unmap => view.forget(at, to - from),
            Change::WriteProtect => view.write_protect(at, to - from),
        });
    } else {
        // What was passed over is empty, but processors may remember what somebody has taken out and not flushed yet.
        wait();
    }
    true
}

/// What is done to views that map a section with interrupts off: so many are emptied of it, or so many tables made read-only.
pub const AT_ONCE: u64 = 32;
/// What a view takes of that that loses a table.
const OF_A_TABLE: u64 = 4;
/// So many views lose a table each in one stretch.
pub const FEW_TABLES: u64 = AT_ONCE / OF_A_TABLE;
/// What a table maps.
const TABLE: u64 = 512 * PAGE;

/// So many entries are looked at for where anything is mapped, which is no more work than a table.
const LOOKED_AT: usize = 512;

impl Change {
    /// Where it goes on in a stretch in which there is `room`, from `from` on; how far; and how much of the room that takes.
    fn goes(self, mapping: &Mapping, from: u64, end: u64, room: u64) -> (u64, u64, u64) {
        match self {
            // However much is mapped: tables go as a whole, and each is looked through when it is free.
            Change::Unmap => (from, end, room.min(OF_A_TABLE)),
            Change::WriteProtect => {
                let from = mapping.pass_over(from, end);
                let to = end.min(from + (room - 1) * TABLE);
                (from, to, 1 + (to - from).div_ceil(TABLE))
            }
        }
    }
}

impl Mapping {
    /// From where on in `[offset, end)` of the section there may be anything in this view.
    fn pass_over(&self, offset: u64, end: u64) -> u64 {
        let (from, to) = (offset.max(self.offset), end.min(self.offset + self.len));
        match self.view.upgrade() {
            Some(view) if from < to => {
                let at = self.at + (from - self.offset);
                let found = view.tables.lock().pass_over(at, to - from, LOOKED_AT) - at;
                if found < to - from { from + found } else { end }
            }
            _ => end,
        }
    }
}

/// The section leaves all views that map it now, however many they are; what they are registered for stays, so that who changes it meanwhile
/// waits for what they owe. Call without locks, when the rights that are to end are gone from its list, or it is dead, or nobody maps anything
/// of it anew for another reason.
pub fn leave_all(section: &Section) {
    change_all(section, section.state.lock(), section.reserve, Change::Unmap);
}

/// Applies a change to all of a section, up to `len`, in all views that map it now: under its lock, which is let go between stretches. Nobody undoes it
/// meanwhile.
pub fn change_all<'a>(section: &'a Section, state: MutexGuard<'a, State>, len: u64, what: Change) {
    change_part(section, state, (0, len), what);
}

/// The same in `[begin, len)` of the section.
pub fn change_part<'a>(section: &'a Section, mut state: MutexGuard<'a, State>, (begin, len): (u64, u64), what: Change) {
    // From the end: where registrations that do not count are tidied away in between, those that are left move down.
    let (mut left, mut from) = (state.mapped.len(), begin);
    loop {
        let (mut stale, mut room) = (Stale::default(), AT_ONCE);
        if left > state.mapped.len() {
            (left, from) = (state.mapped.len(), begin);
        }
        while left > 0 && room > 0 {
            let (at, to, taken) = what.goes(&state.mapped[left - 1], from, len, room);
            change_one(&state.mapped[left - 1], at, to, what, &mut stale);
            room -= taken;
            (left, from) = if to < len { (left, to) } else { (left - 1, begin) };
        }
        drop(state);
        stale.flush();
        if left == 0 {
            return;
        }
        sched::breathe();
        state = section.state.lock();
    }
}
