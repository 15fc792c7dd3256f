//! Signals (SSS-105 to 121): their structures, and the programs that they start. A program is a gate of the text that its thread was started in;
//! it is called as a pager is (`aside.rs`), before the thread's own code goes on, and nowhere else: while the thread is in a callee or between
//! two programs it waits for the return (pitfalls, H12).

use super::Done;
use super::pair::{Both, Range, TRIES, get, prepare, put, settle, settle_at_once};
use super::queue::{self, NONE, Record, Step, sender};
use super::structure::{Site, show};
use crate::aside;
use crate::crossing::OWN;
use crate::domain::Domain;
use crate::epc::More;
use crate::gate::find_gate;
use ::gate::Block;
use crate::machine::{machine, spare_heap_at_all_for};
use crate::processor::{Processor, here};
use crate::section::{Section, State};
use crate::thread::Thread;
use crate::view::Stale;
use ::mbcf::fifo::{How, Verdict as Stored};
use ::mbcf::registry::Structure;
use ::mbcf::signal::{Signal, Start, Store, Verdict};
use abi::gate::{GATE_BASE, flag};
use abi::layout::PAGE;
use abi::mbcf::{STRUCTURE_ALIGN, SignalSetup, status};
use abi::refusal::Object;
use abi::{Error, Rights};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use arch::apic;
use arch::context::{Area, Registers};
use arch::pass::Card;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};
use spin::{Mutex, MutexGuard};
use zerocopy::{FromZeros, IntoBytes};

/// Programs that may be due on one thread; of more, signals are cancelled.
const DUE_MAX: usize = 64;
/// How long one waits for a thread to be out of the gate.
const SOON_NS: u64 = 20_000;

/// A program that is to start: which structure's, which gate, and what the sender has named.
struct Prepared {
    section: Arc<Section>,
    offset: u64,
    program: u64,
    named: u64,
}

/// Of a thread: what is to start on it, the last one first.
#[derive(Default)]
pub struct Due {
    list: Mutex<Vec<Prepared>>,
    any: AtomicBool,
    /// It is to be looked at again in a moment.
    soon: AtomicBool,
}

/// A program that runs: what its thread has left.
pub struct Begun {
    area: Area,
    section: Arc<Section>,
    offset: u64,
}

impl Begun {
    /// What its thread was interrupted with.
    pub fn registers(&self) -> &Registers {
        self.area.registers()
    }

    pub fn area(&mut self) -> &mut Area {
        &mut self.area
    }
}

impl Due {
    #[inline]
    pub fn is_any(&self) -> bool {
        self.any.load(Ordering::SeqCst)
    }

    fn push(&self, one: Prepared) {
        let mut list = self.list.lock();
        list.push(one);
        self.any.store(true, Ordering::SeqCst);
    }

    fn pop(&self) -> Option<Prepared> {
        let mut list = self.list.lock();
        let last = list.pop();
        self.any.store(!list.is_empty(), Ordering::SeqCst);
        last
    }

    /// The picture of the next one can be written to, unless somebody shares its page meanwhile. Call without locks: where many views have the page they lose it
    /// in stretches.
    fn make_ready(&self) {
        let next = self.list.lock().last().map(|next| (next.section.clone(), next.offset));
        let Some((section, offset)) = next else { return };
        for _ in 0..TRIES {
            let mut state = section.state.lock();
            let is_there = state.structures.signal(offset).is_some();
            match is_there.then(|| prepare(&mut state, offset, STRUCTURE_ALIGN)) {
                Some(Ok(Some(stale))) => settle(&section, state, stale),
                _ => return,
            }
        }
    }

    /// In how many ns the running thread, which leaves the kernel, is to be looked at again for its signals.
    pub fn looks_in(&self) -> Option<u64> {
        self.soon.swap(false, Ordering::Relaxed).then_some(SOON_NS)
    }

    /// The running thread is back from a call: it is looked at on its way out.
    pub fn back(&self) {
        if self.is_any() {
            here().attend();
        }
    }

    /// A thread that waits does not go on by the short way, where nobody would look.
    pub fn keep_from_short(&self, card: &Card) {
        if self.is_any() {
            card.do_not_lie();
        }
    }
}

/// `signal_init`.
pub fn init(d: &Domain, structure: u64, setup: u64) -> Result<u64, Error> {
    let site = Site::new(structure)?;
    let mut wanted = SignalSetup::new_zeroed();
    {
        let range = Range::new(d, setup, size_of::<SignalSetup>() as u64)?;
        let mut state = range.section().state.lock();
        range.needs(d, &state, Rights::READ)?;
        get(&mut state, range.offset(), wanted.as_mut_bytes())?;
    }
    let signal = Signal::new(&wanted).ok_or(Error::BadArgument)?;
    let thread = machine().threads.find(wanted.thread).ok_or(Error::NotFound)?;
    if thread.task.number != d.text.owner().number {
        return Err(d.subject.refused(Object::Thread(wanted.thread)));
    }
    let is_own = |gate| find_gate(gate).is_some_and(|(text, ..)| Arc::ptr_eq(&text, &d.text));
    let is_good = if signal.start == Start::Source { wanted.entry == 0 } else { is_own(wanted.entry) };
    if !is_good || !thread.own_text().is_some_and(|text| Arc::ptr_eq(&text, &d.text)) {
        return Err(Error::BadArgument);
    }
    for _ in 0..TRIES {
        let mut state = site.section.state.lock();
        site.check(d, &state, Rights::CHANGE_ACL)?;
        match signal.store {
            Store::Memory { start, end } if site.may_use(&state, start, end) => {}
            Store::Memory { .. } => return Err(Error::BadAddress),
            Store::Queue { at } => {
                let offset = at.checked_sub(site.section.base).filter(|offset| *offset != site.offset).ok_or(Error::BadAddress)?;
                state.structures.fifo(offset).ok_or(Error::NotFound)?;
            }
        }
        match site.register(&mut state, Structure::Signal(Box::new(signal.clone())))? {
            Some(stale) => settle(&site.section, state, stale),
            None => return Ok(0),
        }
    }
    Err(Error::Busy)
}

/// `mbcf_signal`: data first, then the start is prepared (SSS-107, 115, 118).
pub fn send(d: &Domain, structure: u64, from: u64, len: u64, named: u64) -> Result<Done, Error> {
    let site = Site::new(structure)?;
    let range = if len == 0 { None } else { Some(Range::new(d, from, len)?) };
    let source = range.as_ref().map_or(&site.section, Range::section);
    // Whom it is for; what depends on it is asked before the locks are held.
    let (number, kind) = {
        let mut state = site.section.state.lock();
        site.check(d, &state, Rights::CALL)?;
        let signal = state.structures.signal(site.offset).ok_or(Error::NotFound)?;
        (signal.thread, signal.start)
    };
    let thread = machine().threads.find(number).filter(|thread| !thread.is_killed()).ok_or(Error::Dead)?;
    let own = thread.own_text().ok_or(Error::Dead)?;
    // (At a gate that is called up by the kernel alone nobody else has anything started.)
    let is_for_all = |block: &Block| block.flags & flag::CALLED_UP == 0;
    if kind == Start::Source && !find_gate(named).is_some_and(|(text, block, _)| Arc::ptr_eq(&text, &own) && is_for_all(&block)) {
        return Err(Error::BadArgument);
    }
    for _ in 0..TRIES {
        let mut both = Both::lock(source, &site.section)?;
        site.check(d, both.b(), Rights::CALL)?;
        if let Some(range) = &range {
            range.check(d, both.a(), Rights::READ)?;
        }
        let signal = both.b().structures.signal(site.offset).ok_or(Error::NotFound)?.clone();
        if (signal.thread, signal.start) != (number, kind) {
            return Err(Error::Busy);
        }
        if let Some(stale) = prepare(both.b(), site.offset, STRUCTURE_ALIGN)? {
            both.settle_b(&site.section, stale);
            continue;
        }
        let verdict = signal.admit(named);
        let is_start = match verdict {
            Verdict::Refused => return Err(Error::BadArgument),
            Verdict::Cancelled => return Ok(Done::as_status(status::CANCELLED, 0)),
            Verdict::Start(_) if thread.due.list.lock().len() >= DUE_MAX => return Ok(Done::as_status(status::CANCELLED, 0)),
            // It is remembered with its thread.
            Verdict::Start(_) => spare_heap_at_all_for(&thread.task).map(|()| true)?,
            Verdict::Store => false,
        };
        let mut prefix = [0; 48];
        let told = if signal.tells_entry() { 8 } else { 0 };
        prefix[..told].copy_from_slice(&named.to_le_bytes()[..told]);
        let who = sender(d);
        let who = if signal.sender { who.as_bytes() } else { &[] };
        prefix[told..told + who.len()].copy_from_slice(who);
        let record = Record { prefix: &prefix[..told + who.len()], data: range.as_ref(), len };
        match store(&mut both, &site, &signal, d.subject.task, &record)? {
            Step::Settle(stale) => {
                both.settle_b(&site.section, stale);
                continue;
            }
            Step::Verdict(Stored::Store) => {}
            Step::Verdict(Stored::TooLong) => return Err(Error::TooBig),
            Step::Verdict(_) => return Ok(Done::as_status(status::CANCELLED, 0)),
        }
        if let Some(signal) = both.b().structures.signal(site.offset) {
            signal.commit(verdict);
        }
        show(both.b(), site.offset)?;
        if let Verdict::Start(program) = verdict {
            thread.due.push(Prepared { section: site.section.clone(), offset: site.offset, program, named });
        }
        drop(both);
        if is_start {
            tell(&thread);
        }
        return Ok(Done::as_status(status::DONE, 0));
    }
    Err(Error::Busy)
}

/// Stores the data where the structure says: a length and as many bytes, in a buffer as in a queue.
fn store(both: &mut Both<'_>, site: &Site, signal: &Signal, source: u64, record: &Record<'_>) -> Result<Step, Error> {
    let base = site.section.base;
    let (start, end) = match signal.store {
        Store::Queue { at } => return queue::store(both, base, at - base, How::Plain, source, record),
        Store::Memory { start, end } => (start, end),
    };
    let total = record.total();
    if end - start < total + 8 {
        return Ok(Step::Verdict(Stored::TooLong));
    }
    if let Some(stale) = prepare(both.b(), start - base, total + 8)? {
        return Ok(Step::Settle(stale));
    }
    let at = start - base;
    put(both.b(), at, &total.to_le_bytes())?;
    put(both.b(), at + 8, record.prefix)?;
    if let Some(range) = record.data {
        both.copy(range.offset(), at + 8 + record.prefix.len() as u64, record.len)?;
    }
    Ok(Step::Verdict(Stored::Store))
}

/// Has the thread looked at, wherever it is: this processor may be the one that it runs on, and it may be about to go on by a short way.
fn tell(thread: &Thread) {
    thread.due.keep_from_short(&thread.card);
    machine().processors.iter().for_each(Processor::look_around);
    // After a light entry nobody looks around: an interrupt comes at once then.
    apic::interrupt(here().apic, apic::RESCHEDULE);
}

/// `signal_take`.
pub fn take(d: &Domain, structure: u64, to: u64, max: u64) -> Result<u64, Error> {
    let site = Site::new(structure)?;
    let kept = {
        let mut state = site.section.state.lock();
        site.check(d, &state, Rights::READ)?;
        let signal = state.structures.signal(site.offset).ok_or(Error::NotFound)?;
        match signal.store {
            Store::Queue { at } => at,
            Store::Memory { .. } => return Ok(if signal.seen() { 0 } else { NONE }),
        }
    };
    queue::take(d, &site, kept - site.section.base, Some(site.offset), to, max)
}

/// On the way out of the kernel, of the running thread: what is due starts, if its own text is executing. If not, whatever it is in is left
/// through the kernel. Call without locks.
pub fn attend(thread: &Arc<Thread>) {
    while starts_next(thread) {}
}

/// The next one that is due does, if it can. Whether there may be another one to start instead.
fn starts_next(thread: &Arc<Thread>) -> bool {
    if !thread.due.is_any() || thread.card.is_parked() || !thread.wait.lock().life.runs_at(here().index) {
        return false;
    }
    // First: with the thread's lock no interrupts are let in, however many views have the page.
    thread.due.make_ready();
    let (section, offset) = {
        let inner = &mut *thread.inner.lock();
        inner.sync();
        let signals = inner.more.iter().zip(1..).take_while(|((depth, more), at)| depth == at && matches!(more, More::Signal(_))).count();
        if inner.depth() > signals {
            inner.leave_by_kernel(signals + 1);
            return false;
        }
        let between = (GATE_BASE..GATE_BASE + PAGE).contains(&inner.area.registers().rip);
        if inner.domain.number != OWN || inner.domain.in_window || between {
            // It is about to call, which does not take long.
            thread.due.soon.store(true, Ordering::Relaxed);
            return false;
        }
        let Some(Prepared { section, offset, program, named }) = thread.due.pop() else { return false };
        if !change(&section, offset, settle_at_once, Signal::begin) {
            return true;
        }
        let gate = find_gate(program).filter(|(text, ..)| Arc::ptr_eq(text, &inner.domain.text));
        let words = [section.base + offset, named, 0, 0];
        let entered = gate.ok_or(Error::NotFound).and_then(|(text, block, index)| {
            spare_heap_at_all_for(&thread.task)?;
            let mut area = Area::spare(&mut inner.areas);
            aside::enter(thread, inner, &text, &block, index, words, &mut area).map(|depth| (depth, area))
        });
        if let Ok((depth, area)) = entered {
            inner.more.push((depth, More::Signal(Box::new(Begun { area, section, offset }))));
            return false;
        }
        (section, offset)
    };
    // It cannot be called here: its data stay where they are.
    let failed = |signal: &mut Signal| {
        signal.failed();
        true
    };
    change(&section, offset, settle, failed);
    true
}

/// Changes a signal's state, and its picture, whose page `settle`s if it is shared. `false` also where there is no signal any more.
fn change(section: &Section, offset: u64, settle: fn(&Section, MutexGuard<'_, State>, Stale), how: impl Fn(&mut Signal) -> bool) -> bool {
    let mut tries = 0;
    loop {
        let mut state = section.state.lock();
        if state.structures.signal(offset).is_none() {
            return false;
        }
        // The picture may lie where nothing can be written now: then it stays as it is.
        let prepared = prepare(&mut state, offset, STRUCTURE_ALIGN);
        let is_ready = match prepared {
            Ok(Some(stale)) => {
                settle(section, state, stale);
                tries += 1;
                if tries < TRIES {
                    continue;
                }
                state = section.state.lock();
                false
            }
            prepared => prepared.is_ok(),
        };
        let Some(signal) = state.structures.signal(offset) else { return false };
        let done = how(signal);
        if is_ready {
            let _ = show(&mut state, offset);
        }
        return done;
    }
}

/// A signal's program has returned, or failed: what it has interrupted goes on, after whatever else is due. Without locks.
pub fn returned(thread: &Arc<Thread>, begun: Begun) {
    let Begun { area, section, offset } = begun;
    let again = Cell::new(None);
    let ends = |signal: &mut Signal| {
        again.set(signal.end());
        true
    };
    change(&section, offset, settle, ends);
    if let Some(program) = again.get() {
        // What the sender has named stands with the data.
        thread.due.push(Prepared { section, offset, program, named: 0 });
    }
    aside::keep(thread, area);
    thread.due.back();
}
