//! Real pages (SSS-37): there when the call returns, without a later fault; and given back when the call returns.

use super::large::Large;
use super::{SLICE, Section, State};
use crate::claim;
use crate::domain::Domain;
use crate::keyed::{self, Tag};
use crate::machine::spare_heap_at_all_for;
use crate::promise;
use crate::task::Task;
use crate::view::{self, Change, Stale, View};
use abi::layout::{PAGE, pages_up};
use abi::section::kind;
use abi::{Error, Rights};
use ::view::{Access, decide, while_shared};
use alloc::boxed::Box;
use alloc::sync::Arc;
use arch::frames::Frame;
use core::ops::Range;
use paging::{Prot, Tables};
use quota::Resource;
use spin::MutexGuard;

/// `page_alloc`: of so many bytes from the beginning as one call may take.
///
/// # Errors
/// As for [`open`]; `MemoryQuota`, and nothing has changed; `NoMemory`: not even for the first page that is missing, if that is the first of all.
pub fn alloc(by: &Domain, address: u64, len: u64) -> Result<u64, Error> {
    let section = Section::find(address).ok_or(Error::NotFound)?;
    let (mut guard, pages) = open(&section, by, address, len)?;
    let state = &mut *guard;
    claim::spare_heap_for_page(state)?;
    let (first, count) = (pages.start, pages.end - pages.start);
    let missing = state.pages.absent(first, count);
    let mut end = pages.end;
    if missing > 0 {
        let paid = charge(&state.owner, missing)?;
        let made = match count {
            // Most are one page.
            1 => new().map_or(0, |new| u64::from(state.pages.supply(first, new).is_none())),
            _ => {
                let mut left = paid;
                state.pages.fill(first, count, || {
                    if left.is_multiple_of(promise::AT_ONCE) && (left == 0 || !promise::are_there_still(&state.owner)) {
                        return None;
                    }
                    left -= 1;
                    new()
                })
            }
        };
        state.charged += made;
        if made < missing {
            state.owner.release(Resource::Frames, paid - made);
            end = pages.clone().find(|page| state.pages.get(*page).is_none()).unwrap_or(end);
            if end == first {
                return Err(Error::NoMemory);
            }
        }
    }
    state.show_charged();
    let done = (end - first) * PAGE;
    if !show_again(&section, state, by, first..end) {
        show_all(&section, guard, by, first..end);
    }
    Ok(done)
}

fn new() -> Option<Arc<Frame>> {
    Frame::zeroed().map(Arc::new)
}

/// Charges so many frames, or as many as there are for the owner: one at least.
#[inline(always)]
fn charge(owner: &Task, missing: u64) -> Result<u64, Error> {
    match owner.charge(Resource::Frames, missing) {
        Ok(()) => Ok(missing),
        Err(why) => charge_some(owner, missing, why),
    }
}

#[cold]
#[inline(never)]
fn charge_some(owner: &Task, mut missing: u64, mut why: Error) -> Result<u64, Error> {
    while why == Error::NoMemory && missing > 1 {
        missing /= 2;
        match owner.charge(Resource::Frames, missing) {
            Ok(()) => return Ok(missing),
            Err(error) => why = error,
        }
    }
    Err(why)
}

/// Maps pages of a section where the domain sees them.
#[inline(never)]
pub(super) fn show_all(section: &Arc<Section>, mut state: MutexGuard<State>, by: &Domain, pages: Range<u64>) {
    let shown = show(section, &mut state, by, pages.clone());
    drop(state);
    shown.stale.flush();
    match (shown.change, &by.task_view) {
        // The pages' class has a key now.
        (Some(change), Some(keys)) => keys.change(change),
        _ if shown.again => {}
        _ => return,
    }
    if let Ok((mut state, _)) = open(section, by, section.base + pages.start * PAGE, PAGE) {
        let shown = show(section, &mut state, by, pages);
        drop(state);
        shown.stale.flush();
        // If the list has changed meanwhile, this is another class.
        if let (Some(change), Some(keys)) = (shown.change, &by.task_view) {
            keys.change(change);
        }
    }
}

/// Where a call ends that frees pages many views may have mapped. (A table goes as a whole, if there are not too many of them.)
#[cold]
#[inline(never)]
fn at_once(section: &Section, state: &State, pages: Range<u64>) -> u64 {
    let all = (pages.end - pages.start) * PAGE;
    if state.mapped.len() as u64 <= view::FEW_TABLES && Tables::covers_table(section.base + pages.start * PAGE, all) {
        return pages.end;
    }
    pages.start + view::at_once(&state.mapped, all) / PAGE
}

/// `page_free`: of so many bytes from the beginning as one call may take.
///
/// # Errors
/// As for [`open`].
pub fn free(by: &Domain, address: u64, len: u64) -> Result<u64, Error> {
    let section = Section::find(address).ok_or(Error::NotFound)?;
    let (mut state, mut pages) = open(&section, by, address, len)?;
    if state.mapped.len() > view::FEW {
        pages.end = at_once(&section, &state, pages.clone());
    }
    let count = pages.end - pages.start;
    if state.pages.copies(pages.start, count) {
        claim::spare_heap_for_page(&state)?;
    }
    state.give_up_making();
    let State { mapped, pages: map, owner, charged, paged, .. } = &mut *state;
    let (offset, len) = (pages.start * PAGE, count * PAGE);
    let mut stale = match Tables::covers_table(section.base + offset, len) {
        true => {
            let stale = view::change(mapped, offset, len, Change::Unmap);
            if stale.is_settled() { None } else { Some(Box::new(stale)) }
        }
        false => view::take_out(mapped, offset, len),
    };
    // Frames rest until no processor remembers them.
    let mut freed = 0;
    map.take(pages.start, count, |frame| {
        freed += 1;
        if let Some(stale) = &mut stale {
            stale.frames.push(frame);
        }
    });
    paged.clean.take(pages.start, count);
    if freed > 0 {
        let paid = freed.min(*charged);
        *charged -= paid;
        owner.release(Resource::Frames, paid);
        state.show_frames();
    }
    match stale {
        // (That lists have become shorter is seen with the next page that comes.)
        None => drop(state),
        Some(stale) => {
            state.count_lists();
            drop(state);
            stale.flush();
        }
    }
    Ok(len)
}

/// The section's lock, if its pages may be changed now; and which pages are meant.
///
/// # Errors
/// `Changed`: not while it is being cloned, or a page of it leaves many views; the call is made again, and others have their turns meanwhile. `BadAddress`: not a whole page, or not all of it within the section's length; `NotSupported`: not a section of data; `NotFound`; `Busy`: it
/// is becoming a text; a refusal without the right change-acl.
#[inline(always)]
pub(super) fn open<'a>(section: &'a Section, by: &Domain, address: u64, len: u64) -> Result<(MutexGuard<'a, State>, Range<u64>), Error> {
    let len = pages_up(len).filter(|len| *len > 0 && address.is_multiple_of(PAGE)).ok_or(Error::BadAddress)?;
    let state = section.lock_again(&by.subject, Rights::CHANGE_ACL)?;
    if section.kind() != kind::DATA {
        return Err(Error::NotSupported);
    }
    let offset = address - section.base;
    if state.len.checked_sub(offset).is_none_or(|rest| rest < len) {
        return Err(Error::BadAddress);
    }
    if state.sealing | state.cloning | (state.replacing > 0) {
        return Err(if state.sealing { Error::Busy } else { Error::Changed });
    }
    let first = offset / PAGE;
    Ok((state, first..first + len.min(SLICE) / PAGE))
}

/// Maps pages where the domain sees them, if pages of the section were mapped there last. Whether that was so, and all are.
#[inline]
fn show_again(section: &Section, state: &State, by: &Domain, mut pages: Range<u64>) -> bool {
    let prot = decide(state.acl.rights(&by.subject), kind::DATA, Access::Read, None);
    let (Ok(prot), false) = (prot, by.in_window) else { return false };
    let map = |view: &View, key| {
        pages.all(|page| {
            if state.invalid.has(page) {
                return true;
            }
            let Some(frame) = state.pages.get(page) else { return false };
            let prot = Prot { key, ..while_shared(prot, state.writable(page)) };
            view.enter(section.base + page * PAGE, frame, prot)
        })
    };
    as_before(section, state, by, section.base, map)
}

/// Maps one page of a section, which is there, where the domain sees it and where nothing is mapped, if pages of the section were mapped there
/// last. Whether that was so.
#[inline]
pub fn show_one_again(section: &Section, state: &State, by: &Domain, (at, frame): (u64, &Frame), prot: Prot) -> bool {
    as_before(section, state, by, at, |view, key| view.enter(at, frame, Prot { key, ..prot }))
}

/// Maps something of a section of data in the view where pages of it were mapped last, with the key that they had there, if that is the domain's for
/// this address. Whether it was, and `map` did it.
#[inline(always)]
fn as_before(section: &Section, state: &State, by: &Domain, at: u64, map: impl FnOnce(&View, u8) -> bool) -> bool {
    if section.kind() != kind::DATA || section.is_secret() {
        return false;
    }
    let view = by.view().part(at);
    let map = |key| map(view, key);
    match by.task_view.as_ref().filter(|_| by.is_keyed()) {
        Some(keys) => keys.tag_again(state, view, map),
        None => state.last.get().0 == view.shown(state.acl.changes(), 0) && map(0),
    }
}

/// What has come of showing pages.
#[derive(Default)]
struct Shown {
    /// To be flushed.
    stale: Stale,
    /// To be told everyone, and then the pages are to be shown once more.
    change: Option<keyed::Change>,
    /// They are to be shown once more: something was in the way of a large page.
    again: bool,
}

/// Maps pages where the domain sees them, as far as the list allows: what is left out comes by faults. Where they are part of a large page, that is mapped.
fn show(section: &Arc<Section>, state: &mut State, by: &Domain, pages: Range<u64>) -> Shown {
    let mut done = Shown::default();
    let prot = decide(state.acl.rights(&by.subject), kind::DATA, Access::Read, None);
    let (Ok(prot), false) = (prot, by.in_window || section.is_secret()) else { return done };
    // (Not more than two tables' worth are shown at once.)
    let larges = [pages.start, pages.end - 1].map(|page| state.large(section, page));
    let whole = by.view();
    let view = whole.part(section.base);
    if !view.may_register(spare_heap_at_all_for(&state.owner).is_err(), section.base, (section.base, 0, section.reserve)) {
        return done;
    }
    done.stale = view::make_room(section, state);
    let mut known = core::mem::take(&mut state.mapped);
    let state_now = &*state;
    let mut map = |key| {
        done.stale.join(view.register(&mut known, section.base, (section.base, 0, section.reserve), key));
        let mut page = pages.start;
        while page < pages.end {
            let piece = larges.iter().flatten().find(|large| large.pages().contains(&page));
            let piece = piece.copied().unwrap_or_else(|| Large { first: page, size: PAGE, writable: state_now.writable(page) });
            page = piece.pages().end;
            if state_now.invalid.has(piece.first) {
                continue;
            }
            let Some(frame) = state_now.pages.get(piece.first) else { break };
            let prot = Prot { key, ..while_shared(prot, piece.writable) };
            match view.map(section.base + piece.first * PAGE, frame, piece.size, prot) {
                Ok(None) => {}
                Ok(Some(forgotten)) => {
                    done.again = piece.size > PAGE;
                    return done.stale.join(forgotten);
                }
                Err((forgotten, _)) => return done.stale.join(forgotten),
            }
        }
    };
    match by.task_view.as_ref().filter(|_| by.is_keyed()) {
        Some(keys) => match keys.tag(by, section, state_now, view, map) {
            Tag::Again(change) => done.change = Some(change),
            // Without a key for it, the first access says what becomes of the domain.
            Tag::Mapped | Tag::NoKey(_) | Tag::Apart(_) | Tag::LookAt(_) => {}
        },
        None => {
            map(0);
            state_now.last.set((view.shown(state_now.acl.changes(), 0), 0));
        }
    }
    state.mapped = known;
    done
}
