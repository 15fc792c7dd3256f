//! Texts: sections of executable code. What makes one, what rests on it while it lives, and how it ends.

use crate::alarm;
use crate::pressure;
use crate::domain::Domain;
use crate::fault;
use crate::line;
use crate::machine::machine;
use crate::pass;
use crate::post;
use crate::processor::{self, Processor, Scope};
use crate::sched::{self, Progress};
use crate::section::Section;
use crate::task::ENDS;
use crate::thread::{Inner, Thread};
use crate::view;
use abi::{Error, Rights};
use abi::gate::slot;
use abi::layout::PAGE;
use abi::refusal::Object;
use abi::section::kind;
use abi::task::USER_SYSTEM;
use ::gate::Change;
use ::sched::Phase;
use alloc::sync::{Arc, Weak};
use arch::gate::{binding_of, domain_of, is_loose, records};
use core::sync::atomic::Ordering;
use scan::{Rules, Summary};

/// Pages that are looked through with interrupts off.
const SCAN_SLICE: u64 = 64;
/// Sections whose lists forget a text that is no more, at a time.
const NAMES_AT_ONCE: usize = 32;
/// Records that are cleared in the time in which a thread is looked at.
const RECORDS_A_STEP: usize = 16;

/// How far a section was looked through that becomes a text.
#[derive(Clone, Copy, Default)]
pub struct Looked {
    page: u64,
    /// What the page before it is like.
    before: Option<Summary>,
}

/// A thread, and the record by which it calls a text: in the order of what it calls from. By number: who is remembered here keeps no memory when it has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Caller {
    /// Base of the text that calls, and its binding.
    from: (u64, u64),
    thread: u64,
    record: u64,
}

/// Instead of a binding's number: for plain calls.
const NO_BINDING: u64 = u64::MAX;

impl Caller {
    fn new(thread: &Thread, from: &Section, record: u64) -> Caller {
        let binding = if is_loose(record) { NO_BINDING } else { binding_of(record) };
        Caller { from: (from.base, binding), thread: thread.number, record }
    }

    /// Before or behind all that call by this binding.
    fn bound(from: &Section, binding: u64, thread: u64) -> Caller {
        Caller { from: (from.base, binding), thread, record: 0 }
    }

    /// Whether it may make that call still. When its text's end is over its records have been cleared, and nobody is on his way by one: not before, or
    /// whoever takes a right back meanwhile would not find it.
    fn lives(&self) -> bool {
        machine().threads.has(self.thread) && Section::find(self.from.0).is_some_and(|from| !(from.is_dead() && from.is_over()))
    }

    fn thread(&self) -> Option<Arc<Thread>> {
        machine().threads.find(self.thread)
    }
}

/// None of those that were given is on its way any more.
fn forget(mut change: Change<'_, Caller>) {
    while change.forget() {
        sched::breathe();
    }
}

impl Section {
    /// The text that this one is a clone of, or itself.
    pub fn original(&self) -> u64 {
        self.original.load(Ordering::Acquire)
    }

    /// Whether it has ended, or its task has, of which it is yet to hear.
    pub fn is_closed(&self) -> bool {
        self.is_dead() || self.owner().is_dead()
    }

    /// Whether it is a text that cannot write the key register: its domains may share a view.
    pub fn is_clear(&self) -> bool {
        self.clear.load(Ordering::Acquire)
    }

    /// Whether an address lies in the page of gates, where nothing is ever mapped.
    pub fn is_gate_address(&self, address: u64) -> bool {
        self.is_text() && address >= self.base + self.reserve - PAGE
    }

    /// A thread makes calls into this text by a record that it has checked, from `generation` on. Whether what it has checked still holds.
    pub fn entered(&self, thread: &Arc<Thread>, from: &Section, record: u64, generation: u64) -> bool {
        let caller = Caller::new(thread, from, record);
        self.callers.enter(caller, generation, Caller::lives)
    }

    /// A thread has ended that may have made such calls by this record.
    pub fn left(&self, thread: &Thread, from: &Section, record: u64) {
        self.callers.left(&Caller::new(thread, from, record));
    }

    /// Before a call into this text is prepared, which may be refused.
    pub fn tidy_callers(&self) {
        self.callers.tidy(Caller::lives);
    }

    /// Something that bindings rest on has changed: every thread checks them anew. Call without locks.
    pub fn changed(&self) {
        let mut processors = 0;
        let mut change = self.callers.change();
        sched::in_stretches(change.by_ref(), |caller| {
            if let Some(caller) = caller
                && let Some(thread) = caller.thread()
            {
                thread.inner.lock().gate.clear_record(caller.record);
                // Where it is, is not always written down: by the short way it goes on anywhere.
                processors = u64::MAX;
            }
        });
        // One that is between two programs begins again.
        processor::make_forget(processors, Scope::All);
        forget(change);
    }

    /// A binding of `from`'s to a gate here has ended: who calls by it has it no more, and nobody else is disturbed. Call without locks.
    pub fn unbound(&self, from: &Arc<Section>, binding: u64) {
        let mut processors = 0;
        let [first, last] = [0, u64::MAX].map(|at| Caller::bound(from, binding, at));
        let mut change = self.callers.change_of_some(first, last);
        sched::in_stretches(change.by_ref(), |caller| {
            let Some(caller) = caller else { return };
            let (Some(thread), record) = (caller.thread(), caller.record) else { return };
            let inner = &mut *thread.inner.lock();
            if inner.domain_number(domain_of(record)).is_ok_and(|domain| Arc::ptr_eq(&domain.text, from)) {
                inner.gate.clear_record(record);
                processors = u64::MAX;
            }
        });
        if processors != 0 {
            // As above.
            processor::make_forget(processors, Scope::All);
        }
        forget(change);
    }

    /// Keys of classes that are named after this text are free, in whatever view.
    pub fn give_up_keys(&self) {
        let views = core::mem::take(&mut *self.keyed_in.lock());
        sched::in_stretches(views.iter().filter_map(Weak::upgrade), |view| view.forget_text(self.base));
    }

    /// Makes a data section a text section: nobody can write it from now on. What it holds is looked through for
    /// instructions that could write the key register when nobody can write it any more (pitfalls, H6): by parts, between which others have their
    /// turns. A thread that does not come back leaves it to whoever seals it, or deletes it.
    pub fn seal(&self, thread: &Thread, by: &Domain) -> Result<Progress, Error> {
        let mut looked = match self.begin_sealing(thread, by)? {
            Some(looked) => looked,
            None => {
                // Nothing is written there any more, by the kernel neither.
                while !self.cut_structures(&mut self.state.lock(), 0) {
                    sched::breathe();
                }
                // Faults wait for us.
                view::leave_all(self);
                Looked::default()
            }
        };
        while !self.looks(&mut looked) {
            sched::breathe();
            if sched::is_due() {
                self.state.lock().looked = Some((thread.number, looked));
                return Ok(Progress::More);
            }
        }
        let mut state = self.state.lock();
        (state.sealing, state.looked) = (false, None);
        if state.deleted {
            return Err(Error::NotFound);
        }
        // The right may have been taken away meanwhile.
        if let Err(error) = state.acl.check(self.base, &by.subject, Rights::CHANGE_ACL) {
            self.clear.store(false, Ordering::Release);
            state.unclear_at = None;
            return Err(error);
        }
        self.kind.store(kind::TEXT, Ordering::Release);
        state.acl.changed();
        state.show(self);
        Ok(Progress::Done)
    }

    /// From here on nobody writes it. How far it was looked through, if this thread has begun before, or somebody who has not come back.
    fn begin_sealing(&self, thread: &Thread, by: &Domain) -> Result<Option<Looked>, Error> {
        // Before the lock: of two sections at once only a source and its clone are locked, in this order, and a text may be a source.
        let author = by.text.owner().user;
        if let Some((_, looked)) = self.state.lock().looked.take_if(|looked| looked.0 == thread.number) {
            return Ok(Some(looked));
        }
        let began = self.state.lock().looked.map(|looked| looked.0);
        // (Without the lock: the thread may be let go of here.)
        let left = began.filter(|by| machine().threads.find(*by).is_none_or(|other| !other.unfinished.is_about(self)));
        let mut state = self.lock_for(by, Rights::CHANGE_ACL)?;
        if self.kind() != kind::DATA {
            return Err(Error::BadArgument);
        }
        // As for what is given: nobody makes a stranger the author of his code.
        let maker = state.owner.user;
        if author != USER_SYSTEM && author != maker {
            return Err(by.subject.refused(Object::Task(state.owner.number)));
        }
        if self.live || state.paged.pager.is_some() || state.lent_by.is_some() {
            // Texts are there, have been looked through, and nobody writes there. And they go by themselves, not with a binding.
            return Err(Error::NotSupported);
        }
        if let Some((_, looked)) = state.looked.take_if(|looked| Some(looked.0) == left) {
            return Ok(Some(looked));
        }
        if state.sealing || state.cloning {
            return Err(Error::Busy);
        }
        if state.len > self.reserve - PAGE {
            return Err(Error::TooBig);
        }
        state.sealing = true;
        state.give_up_making();
        Ok(None)
    }

    /// Finds out whether the text is clear. Nobody can write it meanwhile.
    pub fn look_through(&self) {
        let mut looked = Looked::default();
        while !self.looks(&mut looked) {
            sched::breathe();
        }
    }

    /// Looks through a part of it. Whether that was the last one.
    fn looks(&self, looked: &mut Looked) -> bool {
        // XCR0 has x87, SSE and AVX (arch::cpu): XRSTOR cannot load the key register.
        let Ok(rules) = Rules::for_xcr0(arch::cpu::VECTOR_STATE) else { return true };
        let mut bytes = [0; PAGE as usize];
        for _ in 0..SCAN_SLICE {
            let mut state = self.state.lock();
            let page = looked.page;
            if page * PAGE >= state.len {
                self.clear.store(true, Ordering::Release);
                return true;
            }
            // What is absent is zeroes, however long it is.
            let next = state.pages.resident_from(page).unwrap_or(u64::MAX);
            let summary = match state.pages.get(page) {
                Some(frame) => {
                    frame.read(0, &mut bytes);
                    scan::scan(&bytes, rules)
                }
                None => Summary::ZEROES,
            };
            if !summary.is_clear() || looked.before.is_some_and(|before| scan::borders(before, summary)) {
                state.unclear_at = Some(self.base + page * PAGE);
                return true;
            }
            looked.before = Some(summary);
            looked.page = next.max(page + 1).min(state.len.div_ceil(PAGE));
        }
        false
    }

    /// Ends a text: nobody can enter it, threads in it fall out with an error. The section still exists for its owner.
    pub fn end_text(&self) {
        if !self.is_text() || self.dead.swap(true, Ordering::SeqCst) {
            return;
        }
        self.changed();
        view::leave_all(self);
        self.give_up_keys();
        let (is_inside, has_called) = wake_inside(self);
        post::text_ended(self);
        line::text_ended(self);
        alarm::text_ended(self);
        pressure::text_ended(self);
        ENDS.text_ended(self);
        if is_inside {
            // Who is in it goes on in user code only after looking around.
            machine().processors.iter().for_each(Processor::look_around);
        }
        if is_inside || has_called {
            // One that is between two programs begins again.
            processor::make_forget(u64::MAX, Scope::All);
        }
        self.over.store(true, Ordering::SeqCst);
    }
}

/// The thread makes no calls any more out of a text that has ended, by its first `bindings` bindings or plainly: later ones are not made. How
/// many records were looked at, if it has been there.
fn forget_calls(inner: &mut Inner, text: &Section, bindings: u64) -> Option<usize> {
    let number = *inner.numbers.get(&text.base)?;
    let there = inner.records_of(number).min(bindings);
    inner.gate.clear_records((0..there).map(|binding| records(number) + slot(binding)));
    inner.gate.forget_plain(number, 0);
    Some(there as usize)
}

/// Entries that name a text end with it: whatever text comes to lie at its address later starts without rights. Before it may; as many as a program has sections, so
/// some at a time. Whether there are no more.
pub fn forget_some_names(text: &Section) -> bool {
    for _ in 0..NAMES_AT_ONCE {
        let Some(base) = text.named_by.lock().pop_first() else { return true };
        let Ok(section) = Section::named(base) else { continue };
        sched::breathe();
        let mut state = section.state.lock();
        let change = state.acl.forget_text(text.base);
        state.count_lists();
        let _until_all_have_left = section.taking(&mut state, change);
        drop(state);
        section.list_changed(change);
        if change == ::acl::Change::Shrank {
            view::leave_all(&section);
        }
    }
    false
}

/// Wakes every thread that waits while it executes a text that has ended; who has called on from there has a bounded time. The text's
/// own threads may be gone before all are looked at, and another text lie at its address: who executes that has nothing to do with it.
/// Whether there are any, and whether any has been in the text.
fn wake_inside(text: &Section) -> (bool, bool) {
    let (mut is_inside, mut has_called) = (false, false);
    let bindings = text.bindings.lock().len() as u64;
    let mut stretch = sched::Stretch::default();
    for thread in machine().threads.all() {
        // Whoever was stopped in the gate on its way out needs nothing of the text to go on.
        let forgotten = forget_calls(&mut thread.inner.lock(), text, bindings);
        has_called |= forgotten.is_some();
        if fault::text_ended(&thread, text) {
            is_inside = true;
            pass::unpark(&thread);
        }
        let ticket = {
            let wait = thread.wait.lock();
            (wait.life.phase() == Phase::Waiting).then_some(wait.ticket)
        };
        // (Who was killed and left there executes nothing any more.)
        if let Some(ticket) = ticket.filter(|_| !thread.is_left())
            && core::ptr::eq(&*thread.domain().text, text)
        {
            sched::wake(&thread, ticket, Err(Error::Dead));
        }
        drop(thread);
        if stretch.is_over_after(1 + forgotten.unwrap_or(0) / RECORDS_A_STEP) {
            sched::breathe();
        }
    }
    (is_inside, has_called)
}
