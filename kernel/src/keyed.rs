//! The view of a task with protection keys: one for all its threads and for the servers that they are bound to
//! (architecture, section 3). `core/keys` says which class of sections has which key; this tells the gates, the page
//! tables and the processors. What has no key runs in a view of its own, as everything does on machines without keys.

mod fetched;

use crate::crossing::{FEW, OWN};
use crate::domain::Domain;
use crate::epc::EARNING;
use crate::info::user::KeysSlot;
use crate::info::word;
use crate::processor::{self, Scope};
use crate::sched;
use crate::section::{Section, State};
use crate::task::Task;
use crate::thread::{Inner, Thread};
use crate::view::View;
use abi::gate::{BINDINGS_MAX, slot};
use abi::info::layout::Key as Told;
use abi::rights::{ANY_TEXT, principal};
use abi::section::kind;
use abi::task::KeyUse;
use abi::{AclEntry, Error, Rights};
use ::sched::Crowd;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use arch::cpu::has;
use arch::gate::records;
use core::sync::atomic::Ordering;
use fetched::{Fetched, May};
use keys::{Called, Class, KEYS, Key, Keys, Leaving, ON_NO_PAGE, Uses, Want};
use spin::Mutex;

/// Calls that a thread is in whose callees keep their own keys, from the innermost.
const PINNED: usize = 8;
/// Texts of a list that are looked at for how much a class is used. A class with more is taken to be used all the time.
const NAMED: usize = 16;

pub struct TaskView {
    pub lower: Arc<View>,
    state: Mutex<Inside>,
    /// What its user's programs read of its keys. Written with `state` locked.
    shown: KeysSlot,
}

struct Inside {
    keys: Keys,
    threads: Crowd<Weak<Thread>>,
    fetched: Fetched,
}

/// What has become of an access to a page that was not there.
pub enum Tag {
    Mapped,
    /// Not now: keys change hands, and the access is tried again.
    Again(Change),
    /// There is no key: the domain has to go on in a view of its own, until its class has earned one.
    NoKey(Class),
    /// Whatever keys there are, the domain has to go on in a view of its own.
    Apart(Class),
    /// [`TaskView::look_at`] says whether the access is tried again or the domain goes on in a view of its own.
    LookAt(Class),
}

/// A key that changes hands.
pub enum Change {
    /// A free one has come to this class.
    Given(Class),
    /// It leaves a class: no page gets it until that is settled.
    Leaves(Leaving),
}

/// The part of an ACL that matters for a section's pages. Pages of texts are never writable: reading them is all there is.
fn class_of(section: &Section, state: &State, domain: &Domain, own_part: bool) -> Class {
    let own = own_part.then_some(domain.subject.thread);
    if section.kind() != kind::TEXT {
        return Class::of(state.acl.entries(), &domain.subject, own);
    }
    let reads = |entry: &AclEntry| entry.rights & Rights::READ.bits() != 0;
    let all = |entry: &AclEntry| entry.text == ANY_TEXT && entry.principal == principal::ANY;
    let public = state.acl.entries().iter().any(|entry| all(entry) && reads(entry));
    let widened = |entry: &AclEntry| {
        let rights = if !reads(entry) {
            Rights::empty()
        } else if public {
            Rights::READ
        } else {
            Rights::READ | Rights::WRITE
        };
        AclEntry { rights: rights.bits(), ..*entry }
    };
    let entries: Vec<AclEntry> = state.acl.entries().iter().map(widened).collect();
    Class::of(&entries, &domain.subject, own)
}

/// So many domains of a thread are asked at a step whether they use a key that has changed hands.
const ASKED_AT_ONCE: usize = 16;
/// So many records that are found out anew are as much work.
const RECORDS_A_STEP: usize = 4;

/// Whoever has gone is forgotten, a few at a time: many may have gone at once, and what is freed here takes its time.
fn add<T>(to: &mut Crowd<Weak<T>>, one: &Arc<T>) {
    to.join(Arc::downgrade(one), |other| other.strong_count() == 0);
}

impl TaskView {
    /// `None` on machines without keys.
    pub fn new(task: &Arc<Task>) -> Result<Option<Arc<TaskView>>, Error> {
        if !has(abi::info::feature::PKU) {
            return Ok(None);
        }
        let state = Inside {
            keys: Keys::new(),
            threads: Crowd::new(),
            fetched: Fetched::new(),
        };
        let shown = task.about.keys(task.number);
        Ok(Some(Arc::new(TaskView { lower: View::to_lend(task)?, state: Mutex::new(state), shown })))
    }

    pub fn add_thread(&self, thread: &Arc<Thread>) {
        add(&mut self.state.lock().threads, thread);
    }

    /// Maps pages of a section of data that is no secret as [`TaskView::tag`] does, if this view was the last in which one of the section was mapped and neither its list nor the keys have
    /// changed since. Whether that was so.
    #[inline]
    pub fn tag_again(&self, state: &State, view: &View, map: impl FnOnce(u8) -> bool) -> bool {
        let this = self.state.lock();
        let (shown, key) = state.last.get();
        let is_same = shown == view.shown(state.acl.changes(), this.keys.changes());
        is_same && map(key)
    }

    /// Maps a page of a section for a domain that has tried to use it, with the key of its class. The section's lock is
    /// held, and the view's during `map`: no key changes hands between its choice and its use.
    pub fn tag(&self, domain: &Domain, section: &Arc<Section>, state: &State, view: &View, map: impl FnOnce(u8)) -> Tag {
        let own_part = !core::ptr::eq(view, &*self.lower);
        let class = class_of(section, state, domain, own_part);
        if section.is_secret() {
            domain.secret.store(true, Ordering::SeqCst);
            domain.joins.store(false, Ordering::SeqCst);
            return Tag::Apart(class);
        }
        let mut this = self.state.lock();
        if section.is_text() {
            match this.fetched.may_be(section, state) {
                May::Yes => {}
                May::LookAt => return Tag::LookAt(class),
                May::No => {
                    domain.joins.store(false, Ordering::SeqCst);
                    return Tag::Apart(class);
                }
            }
        }
        match this.keys.find(&class) {
            Want::Has(key) => {
                map(key.number());
                // (No section is in a window of a domain that is here.)
                state.last.set((view.shown(state.acl.changes(), this.keys.changes()), key.number()));
                Tag::Mapped
            }
            Want::Take { .. } => {
                self.shows(&this.keys);
                Tag::Again(Change::Given(class))
            }
            Want::None => {
                self.shows_counts(&this.keys);
                // What all in the view may fetch, it may: so it stays, and nobody has to ask when it comes back.
                domain.joins.store(true, Ordering::SeqCst);
                Tag::NoKey(class)
            }
        }
    }

    /// A domain that lives apart wants to come back: counts towards a key for the class that it missed. Whether it has one. Call
    /// without locks.
    pub fn earn(&self, thread: &Thread, domain: &Domain, class: &Class) -> Result<bool, Change> {
        let due = self.state.lock().keys.is_due(class);
        let uses = due.then(|| self.uses());
        // Who gets a key at the price of its own, or of one that it is called by, would miss that next.
        let inside = if due { thread.inner.lock().inside() } else { Vec::new() };
        let is_kept = |class: &Class| {
            let mut named = class.named();
            let only = named.next().filter(|_| named.next().is_none());
            only.is_some_and(|text| text == domain.text.base || inside.contains(&text))
        };
        let mut this = self.state.lock();
        let wanted = this.keys.earn(class, is_kept, uses.as_ref());
        if due { self.shows(&this.keys) } else { self.shows_counts(&this.keys) }
        match wanted {
            Want::Has(_) => Ok(true),
            Want::Take { evicted: None, .. } => Err(Change::Given(class.clone())),
            Want::Take { evicted: Some(leaving), .. } => Err(Change::Leaves(leaving)),
            Want::None => Ok(false),
        }
    }

    /// Tells everyone that keys have changed hands (pitfalls, H3): first the tables that gates compare with, then page
    /// tables and processors, then who gets the key. Call without locks.
    pub fn change(self: &Arc<TaskView>, change: Change) {
        match change {
            Change::Given(class) => self.given(&class),
            Change::Leaves(leaving) => {
                self.tell(leaving.class());
                self.clear(leaving.key());
                processor::make_forget(self.lower.users(), Scope::All);
                let next = {
                    let mut this = self.state.lock();
                    let next = this.keys.settle(leaving).cloned();
                    self.shows(&this.keys);
                    next
                };
                next.iter().for_each(|class| self.given(class));
            }
        }
    }

    /// A class has a key now, until a text ends that it is named after.
    fn given(self: &Arc<TaskView>, class: &Class) {
        self.tell(class);
        for text in class.named().filter(|text| *text != ANY_TEXT) {
            // Of a text that has ended there may be lists until it is gone, and pages to be mapped; see `dissolve`. Lists may also name what
            // never was: that key is on no page some day, and idle.
            if let Some(text) = Section::find(text) {
                let views = &mut *text.keyed_in.lock();
                views.retain(|view| view.strong_count() > 0 && view.as_ptr() != Arc::as_ptr(self));
                views.push(Arc::downgrade(self));
            }
        }
    }

    /// A text has ended: keys of classes that name it are free.
    pub fn forget_text(self: &Arc<TaskView>, text: u64) {
        let leaving = self.state.lock().keys.forget(text);
        leaving.into_iter().for_each(|leaving| self.change(Change::Leaves(leaving)));
    }

    /// The key register's value in a domain.
    pub fn register(&self, domain: &Domain) -> u32 {
        self.state.lock().keys.register(&domain.subject)
    }

    /// How often each key was of use to all threads; never, if no page has it.
    fn uses(&self) -> Uses {
        let mut sum = [0; KEYS];
        let mut mapped = self.lower.keys();
        sched::in_stretches(self.threads(), |thread| {
            let Some(thread) = thread.upgrade() else { return };
            let inner = thread.inner.lock();
            // Lists name what texts are clones of as well; of those it is not known who is called.
            let starts = inner.domains.get(OWN as usize).and_then(|own| Some(own.as_ref()?.subject.original));
            let called = |text: u64| match inner.numbers.get(&text) {
                Some(&OWN) => Called::Starts,
                Some(number) => Called::Times(inner.gate.calls(*number)),
                None if starts == Some(text) => Called::Starts,
                None => Called::Never,
            };
            let uses = self.state.lock().keys.uses(NAMED, called);
            sum.iter_mut().zip(uses).for_each(|(sum, uses)| *sum += uses);
            mapped |= thread.shared.as_ref().map_or(0, |view| view.keys());
        });
        core::array::from_fn(|key| if mapped & 1 << key != 0 { sum[key] } else { ON_NO_PAGE })
    }

    /// All that are there the whole time, found one by one: as many as a program wants.
    fn threads(&self) -> impl Iterator<Item = Weak<Thread>> {
        let mut end = usize::MAX;
        core::iter::from_fn(move || {
            let state = self.state.lock();
            let (one, begin) = state.threads.before(end, 1);
            end = begin;
            one.first().cloned()
        })
    }

    /// What is counted of the keys is read as it is now.
    fn shows_counts(&self, keys: &Keys) {
        let keys::Stats { misses, given, evicted, looks } = keys.stats();
        let words = [misses, given, evicted, looks];
        words.into_iter().enumerate().for_each(|(at, word)| self.shown.set(word!(Keys, misses) + at, word));
    }

    /// And whose each is.
    fn shows(&self, keys: &Keys) {
        self.shows_counts(keys);
        let words = keys.told().into_iter().flat_map(|Told { text, entries, uses, heat }| [text, entries, uses, heat]);
        words.enumerate().for_each(|(at, word)| self.shown.set(word!(Keys, key) + at, word));
    }

    /// Its task is no more.
    pub fn hide(&self) {
        let _one_at_a_time = self.state.lock();
        self.shown.hide();
    }

    pub fn stats(&self) -> KeyUse {
        let keys::Stats { misses, given, evicted, looks } = self.state.lock().keys.stats();
        KeyUse { misses, given, evicted, looks }
    }

    /// Takes the pages of a key that leaves out of all page tables, and has processors forget them. Call without locks.
    fn clear(&self, key: Key) {
        let empty = |view: &Arc<View>| {
            let mut last = None;
            loop {
                let (stale, more) = view.forget_key(key.number(), last);
                stale.flush();
                if more.is_none() {
                    break;
                }
                // All of a stack was looked through for where its pages are.
                sched::breathe();
                last = more;
            }
        };
        empty(&self.lower);
        sched::in_stretches(self.threads(), |thread| {
            let thread = thread.upgrade();
            thread.iter().flat_map(|thread| &thread.shared).for_each(empty);
        });
    }

    /// Every thread's gate hears of the registers as they are now, of the domains that may use a class.
    fn tell(&self, class: &Class) {
        let mut stretch = sched::Stretch::default();
        sched::in_stretches(self.threads(), |thread| {
            let Some(thread) = thread.upgrade() else { return };
            // Domains that come meanwhile find the keys as they are.
            for first in (0..).step_by(ASKED_AT_ONCE) {
                let numbers: Vec<u32> = {
                    let inner = thread.inner.lock();
                    let Some(some) = inner.domains.get(first..) else { break };
                    let uses = |domain: &&Arc<Domain>| !class.rights(&domain.subject).is_empty();
                    some.iter().take(ASKED_AT_ONCE).flatten().filter(uses).map(|domain| domain.number).collect()
                };
                let mut rest = |steps| {
                    if stretch.is_over_after(steps) {
                        sched::breathe();
                    }
                };
                rest(1);
                numbers.into_iter().for_each(|number| rest(1 + refresh_leading_to(&thread, number) / RECORDS_A_STEP));
            }
        });
    }
}

/// A key has shut what the list allows: what the thread's records say of this domain is found out anew.
pub fn look_again(thread: &Thread, domain: &Domain) {
    refresh_leading_to(thread, domain.number);
}

/// [`Inner::refresh`] of all that lead to a domain, in stretches: how many. Call without locks.
pub fn refresh_leading_to(thread: &Thread, number: u32) -> usize {
    // Who comes meanwhile says it from the beginning.
    let mut next = 0;
    loop {
        let (count, last) = {
            let inner = &mut *thread.inner.lock();
            let all = inner.leads.get(&number).into_iter().flat_map(|leads| leads.range(next..));
            let some: Vec<u64> = all.take(FEW).copied().collect();
            inner.refresh(&some);
            (some.len(), some.last().copied())
        };
        let Some(last) = last.filter(|_| count == FEW) else { return if next == 0 { count } else { FEW } };
        next = last + 1;
        sched::breathe();
    }
}

/// The same of all that lead out of it, for each of which something is done before.
fn refresh_leading_from(thread: &Thread, number: u32, does: impl Fn(&mut Inner, u64)) {
    for first in (0..BINDINGS_MAX).step_by(FEW) {
        let is_last = {
            let inner = &mut *thread.inner.lock();
            let some: Vec<u64> = inner.leading_from(number, first).take(FEW).collect();
            some.iter().for_each(|address| does(inner, *address));
            inner.refresh(&some);
            some.len() < FEW
        };
        if is_last {
            break;
        }
        sched::breathe();
    }
}

impl Inner {
    /// Makes records say what holds now: registers, and which calls the gate may make by itself.
    pub fn refresh(&mut self, addresses: &[u64]) {
        // All that lead to one domain follow each other, and its register is found out once: that takes long where lists are.
        let mut known = None;
        for &address in addresses {
            if let Some(record) = self.gate.record(address) {
                let register = known.filter(|(domain, _)| *domain == record.domain).map_or_else(|| self.register_of(record.domain), |known| known.1);
                known = Some((record.domain, register));
                let now = self.complete_with(address, &record, register);
                if now != record {
                    let _ = self.gate.set_record(address, &now, &mut || false);
                }
            }
        }
        // By no record.
        self.seen.1 = u64::MAX;
        self.sync();
    }

    /// The text that the thread has started in, and the latest that it is inside of.
    fn inside(&self) -> Vec<u64> {
        let top = self.depth();
        let frames = (top.saturating_sub(PINNED)..=top).map(|depth| self.gate.frame(depth));
        let numbers = frames.filter_map(|frame| self.gate.record(frame.record)).map(|record| record.domain);
        let domains = numbers.chain([OWN]).filter_map(|number| self.domains.get(number as usize)?.as_ref());
        domains.map(|domain| domain.text.base).collect()
    }

    /// Now and then such a call goes the long way, by which the domain may come back into the shared view.
    fn is_called_by_kernel(&mut self, number: u32) {
        self.gate.set_countdown(number, EARNING);
        if let Ok(called) = self.domain_number(number) {
            self.only_long_ways(&called);
        }
    }

    /// The bindings of a domain from one on. (Its plain calls go by records of nobody, which are never direct.)
    fn leading_from(&self, number: u32, first: u64) -> impl Iterator<Item = u64> {
        let all = (first..BINDINGS_MAX).map(move |binding| records(number) + slot(binding));
        all.take_while(|address| self.gate.record(*address).is_some())
    }
}

/// The running thread's domain goes on in a view of its own, because it has no key for `class`, or is lent what has none. Call without locks: until all that leads to it
/// and out of it says so the thread is here, so it goes by none of that.
pub fn set_apart(thread: &Thread, domain: &Arc<Domain>, class: Option<Class>) -> Result<(), Error> {
    {
        let inner = &mut *thread.inner.lock();
        let view = domain.own_view()?;
        view.show_gate(&inner.gate);
        *domain.missed.lock() = class;
        domain.keyed.store(false, Ordering::SeqCst);
        inner.gate.set_root(domain.number, view.root());
        inner.is_called_by_kernel(domain.number);
        inner.comes_back_by_kernel(domain.number);
    }
    refresh_leading_to(thread, domain.number);
    // It makes its own calls by the kernel, too.
    refresh_leading_from(thread, domain.number, |inner, address| {
        if let Some(called) = inner.gate.record(address).map(|record| record.domain).filter(|called| *called != 0) {
            inner.is_called_by_kernel(called);
        }
    });
    Ok(())
}

/// A domain that lives apart is called again: it may have earned a key. Call without locks.
pub fn try_back(thread: &Arc<Thread>, domain: &Arc<Domain>) {
    let Some(task_view) = &domain.task_view else { return };
    if domain.is_keyed() || domain.supervisor || domain.is_secret() {
        return;
    }
    let missed = domain.missed.lock().clone();
    if let Some(class) = missed {
        match task_view.earn(thread, domain, &class) {
            Ok(true) => {}
            Ok(false) => return,
            Err(change) => task_view.change(change),
        }
    }
    let stays = domain.joins.load(Ordering::SeqCst) && domain.text.is_clear();
    if stays || task_view.admit(domain) {
        bring_in(thread, domain);
    }
}

/// An admitted domain, of the running thread or of one that has not begun, goes on in the shared view. Call without locks.
pub fn bring_in(thread: &Thread, domain: &Arc<Domain>) {
    let Some(shared) = &thread.shared else { return };
    {
        let inner = &mut *thread.inner.lock();
        domain.keyed.store(true, Ordering::SeqCst);
        domain.joins.store(false, Ordering::SeqCst);
        *domain.missed.lock() = None;
        inner.gate.set_root(domain.number, shared.root());
    }
    refresh_leading_to(thread, domain.number);
    refresh_leading_from(thread, domain.number, |_, _| ());
}
