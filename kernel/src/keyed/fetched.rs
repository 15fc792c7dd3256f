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

/// So many of either are forgotten when a domain comes.
const FORGOTTEN: usize = 8;

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

    /// Those of whom nothing is left: as many as come, and more, but not all at once, for what is freed takes its time.
    fn forget(&mut self) {
        self.members.forget(FORGOTTEN, |one| one.strong_count() == 0);
        self.texts.forget(FORGOTTEN, |one| one.text.strong_count() == 0);
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

/// Whether it is so of all, in stretches that are shorter where lists are long. Call without locks.
fn all<T>(of: &[T], is_so: impl Fn(&T) -> bool, steps: impl Fn(&T) -> usize) -> bool {
    let mut stretch = Stretch::default();
    of.iter().all(|one| {
        if stretch.is_over_after(steps(one)) {
            sched::breathe();
        }
        is_so(one)
    })
}

impl TaskView {
    /// Takes a domain in, if nobody in the view could then fetch what he may not execute. Call without locks.
    pub fn admit(&self, domain: &Arc<Domain>) -> bool {
        if !domain.text.is_clear() || domain.supervisor {
            return false;
        }
        let may_all = |texts: &[Arc<Section>]| all(texts, |text| executes(domain, text), |text| text.state.lock().steps());
        for _ in 0..TRIES {
            let (texts, members, seen) = {
                let fetched = &mut self.state.lock().fetched;
                fetched.forget();
                let texts = fetched.texts.iter().filter_map(|one| one.text.upgrade());
                let texts: Vec<Arc<Section>> = texts.filter(|text| !text.is_dead()).collect();
                let members: Vec<Arc<Domain>> = fetched.members.iter().filter_map(Weak::upgrade).collect();
                (texts, members, fetched.admitted)
            };
            // Their rights are asked for without the lock: sections are locked before views.
            let changes = domain.text.state.lock().acl.changes();
            if !may_all(&texts) || !all_may(&members, &domain.text) {
                return false;
            }
            let mut state = self.state.lock();
            let fetched = &mut state.fetched;
            if fetched.admitted != seen {
                continue;
            }
            domain.joins.store(true, Ordering::SeqCst);
            if !members.iter().any(|member| Arc::ptr_eq(member, domain)) {
                add(&mut fetched.members, domain);
            }
            fetched.allow(&domain.text, changes);
            fetched.admitted += 1;
            drop(state);
            // From here on nothing is mapped for execution that it may not execute. A right that was taken away before that is
            // seen now.
            let still_may = may_all(&texts);
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
            let (members, seen) = {
                let fetched = &self.state.lock().fetched;
                (fetched.members.iter().filter_map(Weak::upgrade).collect::<Vec<_>>(), fetched.admitted)
            };
            let changes = section.state.lock().acl.changes();
            if !all_may(&members, section) {
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

fn all_may(members: &[Arc<Domain>], text: &Arc<Section>) -> bool {
    let steps = text.state.lock().steps();
    all(members, |member| asks_nothing_of(member, text) || executes(member, text), |_| steps)
}
