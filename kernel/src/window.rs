//! The window: the part of the address space that is private to a task. Every page in it is an alias of a page of some
//! section (architecture, section 2).

use crate::domain::{Domain, Place};
use crate::machine::spare_heap_for;
use crate::section::Section;
use crate::task::Task;
use crate::view::{Stale, View};
use abi::layout::{PAGE, WINDOW_END};
use abi::{Error, Rights};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use rangemap::RangeMap;

/// One mapping. `delta` = section offset minus window address: the same in every part when a mapping is cut.
#[derive(Clone)]
struct Alias {
    section: Arc<Section>,
    delta: u64,
    protection: Rights,
}

impl PartialEq for Alias {
    fn eq(&self, other: &Alias) -> bool {
        Arc::ptr_eq(&self.section, &other.section) && self.delta == other.delta && self.protection == other.protection
    }
}
impl Eq for Alias {}

#[derive(Default)]
pub struct Window {
    aliases: RangeMap<u64, Alias>,
    /// Views that may hold pages of this window.
    views: Vec<Weak<View>>,
}

/// Most mappings in one window.
const ALIASES_MAX: usize = 65536;

impl Window {
    pub fn locate(&self, address: u64) -> Option<Place> {
        let (range, alias) = self.aliases.get_key_value(&address)?;
        Some(Place {
            section: alias.section.clone(),
            offset: address.wrapping_add(alias.delta),
            window: Some(alias.protection),
            at: range.start,
            from: range.start.wrapping_add(alias.delta),
            len: range.end - range.start,
        })
    }

    /// A view of a thread of this task: it will be told when mappings go.
    pub fn register(&mut self, view: &Arc<View>) {
        self.views.retain(|v| v.strong_count() > 0);
        self.views.push(Arc::downgrade(view));
    }

    fn forget(&self, address: u64, len: u64) -> Stale {
        let mut stale = Stale::default();
        for view in self.views.iter().filter_map(Weak::upgrade) {
            stale.join(view.forget(address, len));
        }
        stale
    }
}

/// A page-aligned, non-empty range inside the window.
fn range(address: u64, len: u64) -> Result<core::ops::Range<u64>, Error> {
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

/// Maps part of a section into the window of `task`. The domain must itself have the rights that it gives.
pub fn map(domain: &Domain, task: &Arc<Task>, address: u64, section: u64, offset: u64, len: u64, bits: u64) -> Result<u64, Error> {
    task.check_window(domain)?;
    let range = range(address, len)?;
    let protection = protection(bits)?;
    spare_heap_for(task)?;
    let section = Section::named(section)?;
    let end = offset.checked_add(range.end - range.start).ok_or(Error::BadAddress)?;
    if !offset.is_multiple_of(PAGE) || end > section.reserve {
        return Err(Error::BadAddress);
    }
    section.check_any(domain, Rights::CHANGE_ACL | Rights::READ, Rights::READ)?;
    let alias = Alias { delta: offset.wrapping_sub(range.start), section, protection };
    let mut window = task.window.lock();
    if window.aliases.len() >= ALIASES_MAX {
        return Err(Error::TooBig);
    }
    window.aliases.insert(range.clone(), alias);
    let stale = window.forget(range.start, range.end - range.start);
    drop(window);
    stale.flush();
    Ok(address)
}

pub fn unmap(domain: &Domain, task: &Arc<Task>, address: u64, len: u64) -> Result<u64, Error> {
    task.check_window(domain)?;
    let range = range(address, len)?;
    let mut window = task.window.lock();
    window.aliases.remove(range.clone());
    let stale = window.forget(range.start, range.end - range.start);
    drop(window);
    stale.flush();
    Ok(0)
}

pub fn protect(domain: &Domain, task: &Arc<Task>, address: u64, len: u64, bits: u64) -> Result<u64, Error> {
    task.check_window(domain)?;
    let range = range(address, len)?;
    let protection = protection(bits)?;
    spare_heap_for(task)?;
    let mut window = task.window.lock();
    if window.aliases.gaps(&range).next().is_some() {
        return Err(Error::NotFound);
    }
    let parts: Vec<_> = window
        .aliases
        .overlapping(range.clone())
        .map(|(part, alias)| (part.start.max(range.start)..part.end.min(range.end), Alias { protection, ..alias.clone() }))
        .collect();
    parts.into_iter().for_each(|(part, alias)| window.aliases.insert(part, alias));
    let stale = window.forget(range.start, range.end - range.start);
    drop(window);
    stale.flush();
    Ok(0)
}
