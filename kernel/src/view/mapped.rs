//! All views that have mapped a section, when its pages change.

use super::{Mapping, Stale};
use crate::processor;
use crate::sched;
use crate::section::Section;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

/// The section at `base` is no more: no view counts as registered with it. (The next one at its address is another.)
pub fn disown(mapped: &mut Vec<Mapping>, base: u64) {
    for mapping in mapped.drain(..) {
        if let Some(view) = mapping.view.upgrade() {
            view.known.lock().remove(&[base, mapping.at, mapping.offset, mapping.len]);
        }
    }
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

/// The same in one. Whether its registration counts.
fn change_one(mapping: &Mapping, offset: u64, end: u64, what: Change, stale: &mut Stale) -> bool {
    let Some(view) = mapping.view.upgrade() else { return false };
    if view.epoch.load(Ordering::SeqCst) != mapping.epoch {
        // Emptied, if not forgotten: `register`.
        if view.owed.taken(false) {
            stale.join(Stale { processors: view.users(), ..Stale::default() });
        }
        return false;
    }
    let (from, to) = (offset.max(mapping.offset), end.min(mapping.offset + mapping.len));
    if from < to {
        let at = mapping.at + (from - mapping.offset);
        stale.join(match what {
            Change::Unmap => view.forget(at, to - from),
            Change::WriteProtect => view.write_protect(at, to - from),
        });
    }
    true
}

/// Views that are emptied of a section with interrupts off.
pub const AT_ONCE: usize = 32;

/// The section leaves all views that map it now, however many they are; what they are registered for stays, so that who changes it meanwhile
/// waits for what they owe. Call without locks, when the rights that are to end are gone from its list, or it is dead.
pub fn leave_all(section: &Section) {
    let mut left = section.state.lock().mapped.len();
    while left > 0 {
        let mut stale = Stale::default();
        {
            let mapped = &section.state.lock().mapped;
            // From the end: where registrations that do not count are tidied away in between, those that are left move down.
            let end = left.min(mapped.len());
            left = end.saturating_sub(AT_ONCE);
            for mapping in &mapped[left..end] {
                change_one(mapping, 0, section.reserve, Change::Unmap, &mut stale);
            }
        }
        stale.flush();
        if left > 0 {
            sched::breathe();
        }
    }
}
