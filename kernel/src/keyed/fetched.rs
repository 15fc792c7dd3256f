//! Who may fetch what in a task's view. Keys do not check fetches: what is mapped there for execution all that are in the view may execute.

use super::{TaskView, add};
use crate::domain::Domain;
use crate::sched::{self, Stretch};
use crate::section::{Section, State};
use ::sched::Crowd;
use abi::Rights;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

/// Who is in the view, and the texts whose pages it may map for execution.
pub(super) struct Fetched {
    members: Crowd<Weak<Domain>>,
    texts: Crowd<Text>,
    /// Counts what is added to either.
    admitted: u64,
}

struct Text {
    text: Weak<Section>,
    /// The changes of its list when all were found to have the right, after which only such come in as have it, too.
    changes: u64,
}

/// Whether a text's pages may be mapped for execution.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum May {
    Yes,
    No,
    /// That is to be found out without locks ([`TaskView::look_at`]): so many are there to be asked for, or so long is its list.
    LookAt,
}

/// So often it is tried while others add to what is asked about: not for ever, for each time takes long.
const TRIES: usize = 8;

/// So many steps are made with locks in hand.
const AT_ONCE: usize = 64;

impl Fetched {
    pub const fn new() -> Fetched {
        Fetched { members: Crowd::new(), texts: Crowd::new(), admitted: 0 }
    }

    /// Whether all may execute the text, and it cannot write the register. Its lock is held.
    pub fn may_be(&mut self, section: &Arc<Section>, state: &State) -> May {
        if !section.is_clear() {
            return May::No;
        }
        if self.texts.iter().any(|one| one.is(section) && one.changes == state.acl.changes()) {
            return May::Yes;
        }
        if self.members.iter().count() * state.steps() > AT_ONCE {
            return May::LookAt;
        }
        let may = |member: Arc<Domain>| asks_nothing_of(&member, section) || state.acl.rights(&member.subject).contains(Rights::EXECUTE);
        if !self.members.iter().filter_map(Weak::upgrade).all(may) {
            return May::No;
        }
        self.allow(section, state.acl.changes());
        May::Yes
    }

    /// Some of those who are in the view, from the back, and where the next part ends; to begin with [`usize::MAX`]. Of whom nothing is left is
    /// forgotten.
    fn members_before(&mut self, end: usize) -> (Vec<Arc<Domain>>, usize) {
        let (part, begin) = self.members.sifted(end, AT_ONCE, |one| one.strong_count() == 0);
        (part.iter().filter_map(Weak::upgrade).collect(), begin)
    }

    /// Some of the texts likewise.
    fn texts_before(&mut self, end: usize) -> (Vec<Arc<Section>>, usize) {
        let (part, begin) = self.texts.sifted(end, AT_ONCE, |one| one.text.strong_count() == 0);
        (part.iter().filter_map(|one| one.text.upgrade()).collect(), begin)
    }

    /// All may, by a list that has changed so often.
    fn allow(&mut self, section: &Arc<Section>, changes: u64) {
        let known = self.texts.iter_mut().find(|one| one.is(section)).map(|known| known.changes = changes);
        if known.is_none() {
            self.texts.join(Text { text: Arc::downgrade(section), changes }, |one| one.text.strong_count() == 0);
            self.admitted += 1;
        }
    }
}

impl Text {
    fn is(&self, section: &Arc<Section>) -> bool {
        core::ptr::eq(self.text.as_ptr(), Arc::as_ptr(section))
    }
}

/// In its own text each may be, and who is not in the view may be where it likes.
fn asks_nothing_of(member: &Domain, text: &Arc<Section>) -> bool {
    !member.is_member() || Arc::ptr_eq(&member.text, text)
}

fn executes(domain: &Domain, text: &Arc<Section>) -> bool {
    Arc::ptr_eq(&domain.text, text) || text.rights(domain).contains(Rights::EXECUTE)
}

impl TaskView {
    /// Whether it is so of all that are in one of the lists for the whole time, part by part, in stretches that are shorter where it takes more
    /// steps. Call without locks.
    fn all<T>(&self, part: impl Fn(&mut Fetched, usize) -> (Vec<T>, usize), mut is_so: impl FnMut(&T) -> bool, steps: impl Fn(&T) -> usize) -> bool {
        let (mut end, mut stretch) = (usize::MAX, Stretch::default());
        while end > 0 {
            let (some, begin) = part(&mut self.state.lock().fetched, end);
            end = begin;
            for one in &some {
                if stretch.is_over_after(steps(one)) {
                    sched::breathe();
                }
                if !is_so(one) {
                    return false;
                }
            }
        }
        true
    }

    /// Whether a domain may execute all texts that have not ended.
    fn may_all(&self, domain: &Domain) -> bool {
        let may = |text: &Arc<Section>| text.is_dead() || executes(domain, text);
        self.all(Fetched::texts_before, may, |text| text.state.lock().steps())
    }

    /// Whether all who are in the view may execute a text. Each is met by the way.
    fn all_may(&self, text: &Arc<Section>, mut met: impl FnMut(&Arc<Domain>)) -> bool {
        let steps = text.state.lock().steps();
        let may = |member: &Arc<Domain>| {
            met(member);
            asks_nothing_of(member, text) || executes(member, text)
        };
        self.all(Fetched::members_before, may, |_| steps)
    }

    /// Takes a domain in, if nobody in the view could then fetch what he may not execute. Call without locks.
    pub fn admit(&self, domain: &Arc<Domain>) -> bool {
        if !domain.text.is_clear() || domain.supervisor {
            return false;
        }
        for _ in 0..TRIES {
            let seen = self.state.lock().fetched.admitted;
            // Their rights are asked for without the lock: sections are locked before views.
            let changes = domain.text.state.lock().acl.changes();
            let mut is_there = false;
            if !self.may_all(domain) || !self.all_may(&domain.text, |member| is_there |= Arc::ptr_eq(member, domain)) {
                return false;
            }
            let mut state = self.state.lock();
            let fetched = &mut state.fetched;
            if fetched.admitted != seen {
                continue;
            }
            domain.joins.store(true, Ordering::SeqCst);
            if !is_there {
                add(&mut fetched.members, domain);
            }
            fetched.allow(&domain.text, changes);
            fetched.admitted += 1;
            drop(state);
            // From here on nothing is mapped for execution that it may not execute. A right that was taken away before that is
            // seen now.
            let still_may = self.may_all(domain);
            if !still_may {
                domain.joins.store(false, Ordering::SeqCst);
            }
            return still_may;
        }
        // For now.
        false
    }

    /// Finds out whether all may execute a text, however many they are. Call without locks; the access is tried again then, since its list may
    /// be another one by now.
    pub fn look_at(&self, section: &Arc<Section>) -> bool {
        for _ in 0..TRIES {
            let seen = self.state.lock().fetched.admitted;
            let changes = section.state.lock().acl.changes();
            if !self.all_may(section, |_| ()) {
                return false;
            }
            let fetched = &mut self.state.lock().fetched;
            if fetched.admitted == seen {
                fetched.allow(section, changes);
                return true;
            }
        }
        false
    }
}
