//! Copy-on-write clones of sections.

use super::{New, Section, State};
use crate::domain::Domain;
use crate::machine::Kept;
use crate::sched;
use crate::view::{self, Change};
use abi::layout::PAGE;
use abi::section::kind;
use abi::{AclEntry, Error, Rights};
use alloc::sync::Arc;
use arch::frames::Frame;
use core::sync::atomic::Ordering;
use pages::{CHUNK, PageMap};
use quota::Resource;
use spin::MutexGuard;

/// So many times 512 pages are shared with a clone with interrupts off.
const SHARED_AT_ONCE: usize = 512;

/// At most 512 pages that lie beyond `len` go: of what was freed meanwhile this may be the last owner. (It is in no view.) Whether there was any.
fn cut_some(pages: &mut PageMap<Arc<Frame>>, len: u64) -> bool {
    let end = pages.end();
    if end > len {
        drop(pages.resize(end.saturating_sub(CHUNK).max(len)));
    }
    end > len
}

impl Section {
    /// Its pages are in another map, too. Nobody stores to them meanwhile, and none come.
    fn share_with(&self, pages: &mut PageMap<Arc<Frame>>) {
        let mut from = Some(0);
        while let Some(at) = from {
            from = self.state.lock().pages.share_some(pages, at, SHARED_AT_ONCE);
            sched::breathe();
        }
    }

    /// The section's lock, when the map has hardly more than the section: that may have become shorter.
    fn cut_to_length(&self, pages: &mut PageMap<Arc<Frame>>) -> MutexGuard<'_, State> {
        loop {
            let state = self.state.lock();
            let len = state.len / PAGE;
            if pages.end() <= len.next_multiple_of(CHUNK) {
                return state;
            }
            drop(state);
            cut_some(pages, len);
            sched::breathe();
        }
    }

    /// A copy-on-write clone with one entry in its ACL. `as_data`: the clone of a text is data again. A text's clone counts
    /// as its original in ACLs if its maker may change that one; who may only read it can run a copy, but not in its name.
    pub fn clone_section(&self, by: &Domain, as_data: bool, at: u64, room: u64, entry: AclEntry) -> Result<Arc<Section>, Error> {
        let owner = by.text.owner();
        let (kind, resident, shared) = {
            let mut state = self.lock_for(by, Rights::READ)?;
            let kind = match self.kind() {
                kind::TEXT if as_data => kind::DATA,
                // No thread calls on it: what a stack may have beyond its owner's quota is nothing for a copy.
                kind::STACK => kind::DATA,
                kind @ (kind::TEXT | kind::DATA) => kind,
                _ => return Err(Error::NotSupported),
            };
            if self.live || state.paged.pager.is_some() {
                // What is absent only its pager has.
                return Err(Error::NotSupported);
            }
            if state.cloning || state.sealing {
                return Err(Error::Busy);
            }
            state.cloning = true;
            // Nobody stores to a text, and the first task keeps its own as long as the machine runs. (Others of the system's may be paid for by a person, or drop theirs.)
            let is_firsts = kind == kind::TEXT && state.owner.is_first();
            let (resident, len) = (state.pages.resident(), state.len);
            view::change_all(self, state, len, Change::WriteProtect);
            // From here no processor can store to the pages without a fault, and faults wait for us.
            (kind, resident, if is_firsts { resident } else { 0 })
        };
        let uncharge = || {
            owner.counts_shared(shared, 0);
            owner.release(Resource::Frames, resident);
        };
        let made = owner.charge_shared(resident, shared, None).and_then(|()| {
            // Without length: others know its address already, and must not make pages in it that the clone's would replace.
            Section::create(New { len: 0, reserve: self.reserve, kind, at, room, owner: owner.clone(), entry, ports: None, live: false })
                .inspect_err(|_| uncharge())
        });
        let mut pages = PageMap::new(self.reserve / PAGE);
        if made.is_ok() {
            self.share_with(&mut pages);
        }
        let mut state = self.cut_to_length(&mut pages);
        state.cloning = false;
        let clone = made?;
        // The right may have been taken away while the lock was open.
        let still = state.acl.check(self.base, &by.subject, Rights::READ);
        if still.is_ok() {
            let mut new = clone.state.lock();
            let is_touched = new.deleted || new.len > 0 || new.sealing || new.cloning || new.paged.pager.is_some();
            if !is_touched && clone.kind() == kind && Arc::ptr_eq(&new.owner, &owner) {
                // As long as this one is now: it may have become shorter.
                new.len = state.len;
                new.acl.changed();
                clone.secret.store(self.is_secret(), Ordering::Release);
                drop(pages.resize(state.len / PAGE));
                new.pages = core::mem::replace(&mut pages, PageMap::new(0));
                (new.charged, new.shared) = (resident, shared);
                new.count_lists();
                new.name = state.name;
                clone.clear.store(kind == kind::TEXT && self.is_clear(), Ordering::Release);
                if kind == kind::TEXT && !state.deleted && state.acl.rights(&by.subject).contains(Rights::CHANGE_ACL) {
                    // Lists name clones by that address: nobody else comes to lie there while one of them is.
                    clone.kept_original.call_once(|| Kept::at(self.original()));
                    clone.original.store(self.original(), Ordering::Release);
                }
                new.show(&clone);
                return Ok(clone.clone());
            }
        }
        drop(state);
        uncharge();
        clone.delete();
        while cut_some(&mut pages, 0) {
            sched::breathe();
        }
        // Or else somebody has spoilt the clone meanwhile.
        Err(still.err().unwrap_or(Error::Busy))
    }
}
