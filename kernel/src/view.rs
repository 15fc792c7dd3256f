//! Views: page tables as caches of ACLs, one per domain, filled on demand, emptied when an ACL or a page changes.
//! The only file that knows what a view is made of; keys will come in here.

use crate::machine::{machine, stacks_base};
use crate::processor;
use crate::task::Task;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use arch::frames::Frame;
use arch::gate::Gate;
use arch::tables::{Retired, ViewTables};
use core::sync::atomic::{AtomicU64, Ordering, fence};
use paging::{MapError, Prot};
use quota::Resource;
use spin::Mutex;

pub struct View {
    tables: Mutex<ViewTables>,
    root: u64,
    /// Processors that have loaded one of these have loaded this view: its own root, or those of threads that borrow its
    /// tables.
    roots: Mutex<Vec<u64>>,
    /// What is not a stack is mapped there, for all threads of the task.
    lower: Option<Arc<View>>,
    /// Who pays for the tables.
    task: Arc<Task>,
    charged: AtomicU64,
    /// Tables that nobody pays for: see [`View::map`].
    unpaid: AtomicU64,
    /// Section mappings that this view is registered in (section, address, offset, length), and the protection keys that
    /// pages of each may have, a bit for each.
    known: Mutex<BTreeMap<[u64; 4], u16>>,
    /// Counts how often the view was emptied because it knew too much; registrations of before are void.
    epoch: AtomicU64,
}

/// Most tables of one view that are not charged.
const UNPAID_MAX: u64 = 64;

/// Most registrations of one view.
const KNOWN_MAX: usize = 4096;

/// Where a view maps part of a section: what invalidation walks.
pub struct Mapping {
    view: Weak<View>,
    epoch: u64,
    /// `[at, at + len)` shows the section from `offset` on.
    at: u64,
    offset: u64,
    len: u64,
}

impl Mapping {
    /// Whether the view still lives and still counts this registration.
    fn counts(&self) -> bool {
        self.view.strong_count() > 0
            && self.view.upgrade().is_some_and(|view| view.epoch.load(Ordering::SeqCst) == self.epoch)
    }
}

/// What processors must forget before a change counts as done. Frames and tables in it are freed after that.
#[derive(Default)]
#[must_use = "flush it after dropping the section's lock"]
pub struct Stale {
    processors: u64,
    tables: Vec<Retired>,
    pub frames: Vec<Arc<Frame>>,
}

impl Stale {
    /// Waits until every processor has forgotten, then frees. Call without locks.
    pub fn flush(self) {
        processor::make_forget(self.processors);
    }

    pub fn join(&mut self, other: Stale) {
        self.processors |= other.processors;
        self.tables.extend(other.tables);
        self.frames.extend(other.frames);
    }
}

impl View {
    pub fn new(task: &Arc<Task>) -> Result<Arc<View>, abi::Error> {
        View::with(task, ViewTables::new, 1, None)
    }

    /// Tables that the threads of a task borrow.
    pub fn to_lend(task: &Arc<Task>) -> Result<Arc<View>, abi::Error> {
        let make = || ViewTables::new().and_then(|mut tables| tables.prepare_to_lend().map(|()| tables));
        View::with(task, make, 1 + arch::tables::LENT, None)
    }

    /// A thread's view of its task's: its own stacks, and what `lower` maps.
    pub fn of_thread(task: &Arc<Task>, lower: &Arc<View>) -> Result<Arc<View>, abi::Error> {
        let make = || {
            let mut tables = ViewTables::new()?;
            tables.borrow(&lower.tables.lock());
            Some(tables)
        };
        let view = View::with(task, make, 1, Some(lower.clone()))?;
        lower.roots.lock().push(view.root);
        Ok(view)
    }

    /// The view that holds what is at an address.
    pub fn part(self: &Arc<View>, address: u64) -> &Arc<View> {
        match &self.lower {
            Some(lower) if address < stacks_base(machine().node) => lower,
            _ => self,
        }
    }

    fn with(task: &Arc<Task>, make: impl FnOnce() -> Option<ViewTables>, frames: u64, lower: Option<Arc<View>>) -> Result<Arc<View>, abi::Error> {
        task.charge(Resource::Frames, frames)?;
        let Some(tables) = make() else {
            task.release(Resource::Frames, frames);
            return Err(abi::Error::NoMemory);
        };
        machine().view_frames.fetch_add(frames, Ordering::Relaxed);
        Ok(Arc::new(View {
            root: tables.root(),
            roots: Mutex::new(alloc::vec![tables.root()]),
            lower,
            tables: Mutex::new(tables),
            task: task.clone(),
            charged: AtomicU64::new(frames),
            unpaid: AtomicU64::new(0),
            known: Mutex::default(),
            epoch: AtomicU64::new(0),
        }))
    }

    /// Maps one page. The section's lock is held by the caller, which has decided `prot`. A few tables are lent to who has
    /// used up its quota: a callee on its thread, perhaps the one that tells it so, must still be able to run.
    pub fn map(&self, address: u64, frame: &Frame, prot: Prot) -> Result<(), abi::Error> {
        let mut charge = || {
            let paid = self.task.charge(Resource::Frames, 1).is_ok();
            let counter = if paid { &self.charged } else { &self.unpaid };
            if !paid && self.unpaid.load(Ordering::Relaxed) >= UNPAID_MAX {
                return false;
            }
            counter.fetch_add(1, Ordering::Relaxed);
            machine().view_frames.fetch_add(1, Ordering::Relaxed);
            true
        };
        self.tables.lock().map(address, frame, prot, &mut charge).map_err(|error| match error {
            MapError::NoMemory => abi::Error::NoMemory,
            _ => abi::Error::BadAddress,
        })
    }

    /// Registers this view in a section's list, once per place: a page of it is about to be mapped with `key`. A view that
    /// knows too many places is emptied first.
    pub fn register(self: &Arc<View>, mapped: &mut Vec<Mapping>, section: u64, place: (u64, u64, u64), key: u8) -> Stale {
        let (at, offset, len) = place;
        let mut known = self.known.lock();
        let mut stale = Stale::default();
        if known.len() >= KNOWN_MAX {
            // Emptied before it stops counting: who changes a section meanwhile finds nothing left to take away.
            stale = self.forget(0, abi::layout::SPACE_END);
            known.clear();
            self.epoch.fetch_add(1, Ordering::SeqCst);
        }
        let mut new = false;
        *known.entry([section, at, offset, len]).or_insert_with(|| {
            new = true;
            0
        }) |= 1 << key;
        if new {
            mapped.retain(Mapping::counts);
            let epoch = self.epoch.load(Ordering::SeqCst);
            mapped.push(Mapping { view: Arc::downgrade(self), epoch, at, offset, len });
        }
        stale
    }

    /// What a processor loads. Whoever owns the view keeps it while it may be loaded.
    pub fn root(&self) -> u64 {
        self.root
    }

    /// Shows the gate of the thread whose view this is. In a view that is not shared runs who may write the key register, and
    /// the kernel believes what stands in the gate's state.
    pub fn show_gate(&self, gate: &Gate) {
        self.tables.lock().show_gate(gate, self.lower.is_some());
    }

    /// Removes what the view holds of a range of addresses.
    pub fn forget(&self, at: u64, len: u64) -> Stale {
        let (any, retired) = self.tables.lock().unmap(at, len);
        self.returned(retired.len() as u64);
        let processors = if any || !retired.is_empty() { self.users() } else { 0 };
        Stale { processors, tables: [retired].into(), frames: Vec::new() }
    }

    /// Removes all pages that have this key.
    pub fn forget_key(&self, key: u8) -> Stale {
        let mut stale = Stale::default();
        for ([_, at, _, len], keys) in self.known.lock().iter_mut().filter(|(_, keys)| **keys & 1 << key != 0) {
            *keys &= !(1 << key);
            stale.join(self.forget(*at, *len));
        }
        stale
    }

    /// Processors that may remember what the tables said before they were changed just now. One that loads the root later
    /// reads what they say now: the fence puts our stores to the tables before our look at who has it loaded.
    pub fn users(&self) -> u64 {
        fence(Ordering::SeqCst);
        let roots = self.roots.lock();
        processor::with_root(|root| roots.contains(&root))
    }

    fn returned(&self, tables: u64) {
        if tables == 0 {
            return;
        }
        let lent = self.unpaid.load(Ordering::Relaxed).min(tables);
        self.unpaid.fetch_sub(lent, Ordering::Relaxed);
        self.charged.fetch_sub(tables - lent, Ordering::Relaxed);
        self.task.release(Resource::Frames, tables - lent);
        machine().view_frames.fetch_sub(tables, Ordering::Relaxed);
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if let Some(lower) = &self.lower {
            lower.roots.lock().retain(|root| *root != self.root);
        }
        self.returned(self.charged.load(Ordering::Relaxed) + self.unpaid.load(Ordering::Relaxed));
    }
}

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

/// Applies a change to `[offset, offset + len)` of a section in all views that map any of it.
pub fn change(mapped: &mut Vec<Mapping>, offset: u64, len: u64, what: Change) -> Stale {
    let mut stale = Stale::default();
    let end = offset.saturating_add(len);
    mapped.retain(|mapping| {
        let Some(view) = mapping.view.upgrade().filter(|view| view.epoch.load(Ordering::SeqCst) == mapping.epoch) else {
            return false;
        };
        let (from, to) = (offset.max(mapping.offset), end.min(mapping.offset + mapping.len));
        if from < to {
            let at = mapping.at + (from - mapping.offset);
            match what {
                Change::Unmap => stale.join(view.forget(at, to - from)),
                Change::WriteProtect => {
                    if view.tables.lock().write_protect(at, to - from) {
                        stale.processors |= view.users();
                    }
                }
            }
        }
        true
    });
    stale
}
