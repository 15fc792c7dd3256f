//! Placement (SSS-61 to 68; docs/decisions/0018): in which mode a text is executed, and whether its threads are preempted there.
//! `core/sched` has the rules. Supervisor mode is a matter of views (domain.rs) and of the way out (`arch`); here is what a thread in an
//! NSys text has to itself: its processor until its next switch point, and the texts of its group on all of them.

use crate::domain::Domain;
use crate::machine::spare_heap_for;
use crate::processor::Processor;
use crate::saved::Saved;
use crate::sched;
use crate::seat::{self, NO_SEAT};
use crate::section::Section;
use crate::thread::Thread;
use ::sched::{BEAT_NS, Class, Exclusion, Placement, QUANTUM_NS, Watch};
use abi::section::Placed;
use abi::{Error, Rights};
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use arch::gate::MORE;
use arch::time;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use spin::Mutex;

mod right;

pub use right::set_up;

/// What is kept of a text.
#[derive(Default)]
pub struct Place {
    placement: Placement,
    name: AtomicU64,
    group: Mutex<Option<Arc<Group>>>,
    long_runs: AtomicU64,
    longest: AtomicU64,
}

/// Texts of which one thread runs at a time, and who waits: with which ticket.
pub struct Group(Mutex<Exclusion<(Arc<Thread>, u64)>>);

/// Groups by name, as long as they have texts.
static GROUPS: Mutex<BTreeMap<u64, Weak<Group>>> = Mutex::new(BTreeMap::new());
/// There is, or was, an NSys text: whoever leaves the kernel looks.
static ANY: AtomicBool = AtomicBool::new(false);
/// Long runs that are logged.
const LINES_MAX: u64 = 100;

/// The thread that runs on a processor, while it is in an NSys text.
#[derive(Default)]
pub struct Stay {
    inside: Option<Inside>,
    watch: Watch,
}

struct Inside {
    thread: Arc<Thread>,
    text: Arc<Section>,
    /// `None`: a text of schedulers, which are one for each processor.
    group: Option<Arc<Group>>,
}

impl Place {
    /// Somebody is about to execute it; `in_window`: what lies in a window is user mode's. Whether in supervisor mode.
    pub fn take_up(&self, in_window: bool) -> bool {
        self.placement.take_up().is_supervisor() && !in_window
    }

    pub fn is_supervisor(&self) -> bool {
        self.class().is_supervisor()
    }

    pub fn is_nsys(&self) -> bool {
        self.class() == Class::NSys
    }

    pub fn class(&self) -> Class {
        self.placement.class()
    }

    pub fn class_number(&self) -> u64 {
        self.placement.number()
    }

    pub fn info(&self) -> Placed {
        Placed {
            class: self.class_number(),
            group: self.name.load(Ordering::Relaxed),
            lost: u64::from(self.placement.has_lost()),
            long_runs: self.long_runs.load(Ordering::Relaxed),
            longest_ns: self.longest.load(Ordering::Relaxed),
        }
    }

    /// What programs read of it where the text's record is (`abi::info::layout::Section::placed`).
    pub fn word(&self) -> u64 {
        let Placed { class, lost, long_runs, longest_ns, .. } = self.info();
        class | lost << 8 | long_runs.min(u16::MAX.into()) << 16 | (longest_ns / 1000).min(u32::MAX.into()) << 32
    }

    /// A run in it has taken so long.
    fn note(&self, base: u64, ns: u64) {
        self.longest.fetch_max(ns, Ordering::Relaxed);
        if ns < QUANTUM_NS {
            return;
        }
        self.long_runs.fetch_add(1, Ordering::Relaxed);
        // It may do so as often as it likes; the serial line is slow.
        static LINES: AtomicU64 = AtomicU64::new(0);
        if LINES.fetch_add(1, Ordering::Relaxed) < LINES_MAX {
            log::info!("class: text {base:#x} has kept a processor for {} us without a switch point", ns / 1000);
        }
    }
}

/// `text_place`.
pub fn put(d: &Domain, base: u64, class: u64, group: u64) -> Result<u64, Error> {
    let (right, _held) = right::held(d)?;
    let class = Class::of(class).ok_or(Error::BadArgument)?;
    let text = Section::named(base)?;
    if Arc::ptr_eq(&text, right) || !text.is_text() || (class != Class::NSys && group != 0) {
        return Err(Error::BadArgument);
    }
    text.check(d, Rights::CHANGE_ACL)?;
    // For its group.
    spare_heap_for(&d.text.owner())?;
    // Nobody is in the text without its group: whoever looks for that waits for this lock.
    let mut of_text = text.place.group.lock();
    text.place.placement.put(class).map_err(|_| Error::Busy)?;
    let name = match (class, group) {
        (Class::NSys, 0) => base,
        _ => group,
    };
    *of_text = (name != 0).then(|| group_named(name));
    text.place.name.store(name, Ordering::Relaxed);
    if name != 0 {
        ANY.store(true, Ordering::SeqCst);
    }
    drop(of_text);
    text.state.lock().show(&text);
    Ok(0)
}

fn group_named(name: u64) -> Arc<Group> {
    let mut groups = GROUPS.lock();
    groups.retain(|_, group| group.strong_count() > 0);
    groups.get(&name).and_then(Weak::upgrade).unwrap_or_else(|| {
        let group = Arc::new(Group(Mutex::default()));
        groups.insert(name, Arc::downgrade(&group));
        group
    })
}

/// The running thread is about to call from one text into another: what the frame is to say besides, so that it comes back by the kernel
/// in full, where one of them is NSys.
///
/// # Errors
/// `Busy`: one in a seat would have to wait for the group, and nobody would decide meanwhile.
pub fn enters(thread: &Thread, from: &Arc<Section>, to: &Arc<Section>) -> Result<u64, Error> {
    if !to.place.is_nsys() {
        return Ok(if from.place.is_nsys() { MORE } else { 0 });
    }
    if thread.seat.load(Ordering::Relaxed) != NO_SEAT && !seat::is_schedulers(to) {
        comes_in_at_once(thread, to)?;
    }
    crate::processor::here().attend();
    Ok(MORE)
}

/// Without waiting.
fn comes_in_at_once(thread: &Thread, text: &Section) -> Result<(), Error> {
    let Some(group) = text.place.group.lock().clone() else { return Ok(()) };
    let mut own = thread.group.lock();
    let has_another = own.as_ref().is_some_and(|own| !Arc::ptr_eq(own, &group));
    if has_another || !group.0.lock().enter(thread.number) {
        return Err(Error::Busy);
    }
    *own = Some(group);
    Ok(())
}

/// The running thread comes back into a text from a call that it has made.
pub fn comes_back(text: &Section) {
    if text.place.is_nsys() {
        crate::processor::here().attend();
    }
}

/// The running thread goes on, as far as it can by itself. Whether it is to stay though others should run: it is in an NSys text, and not at
/// a switch point. `None`: it waits for its group.
pub fn goes_on(here: &Processor, thread: &Arc<Thread>) -> Option<bool> {
    if !ANY.load(Ordering::Relaxed) {
        return Some(false);
    }
    let yields = here.local.hold().yields;
    let text = {
        let inner = thread.inner.lock();
        inner.domain.supervisor.then(|| inner.domain.text.clone()).filter(|text| text.place.is_nsys())
    };
    let Some(text) = text else {
        lets_go(here);
        leave_group(thread);
        return Some(false);
    };
    let group = text.place.group.lock().clone().filter(|_| !seat::is_schedulers(&text));
    // One in a seat has come into another text's group for a call that could not be made.
    let strays = |own: &Arc<Group>| group.as_ref().is_none_or(|group| !Arc::ptr_eq(own, group));
    let same = !thread.group.lock().as_ref().is_some_and(strays) && {
        let stay = here.stay.hold();
        let same = |inside: &Inside| Arc::ptr_eq(&inside.thread, thread) && Arc::ptr_eq(&inside.text, &text);
        stay.inside.as_ref().is_some_and(same)
    };
    // A call within the group is no switch point (decision 18).
    let within = !yields && {
        let stay = here.stay.hold();
        let inside = stay.inside.as_ref().filter(|inside| Arc::ptr_eq(&inside.thread, thread));
        inside.is_some_and(|inside| inside.group.as_ref().zip(group.as_ref()).is_some_and(|(a, b)| Arc::ptr_eq(a, b)))
    };
    if !(same || within) || yields {
        lets_go(here);
        if !comes_into(thread, group.as_ref()) {
            return None;
        }
        here.stay.hold().inside = Some(Inside { thread: thread.clone(), text: text.clone(), group });
    }
    let over = here.stay.hold().watch.sees(thread.number, time::now());
    if over {
        // In which it has begun, and in which it is: in one group these may be two.
        let began = here.stay.hold().inside.as_ref().map(|inside| inside.text.clone());
        let texts = began.filter(|began| !Arc::ptr_eq(began, &text)).into_iter().chain([text]);
        let mut lost = false;
        for text in texts.filter(|text| text.place.placement.lose()) {
            shows(&text);
            text.owner().shows_class(text.place.class_number());
            log::warn!("class: text {:#x} is not NSys any more: it does not come to a switch point", text.base);
            lost = true;
        }
        if lost {
            lets_go(here);
            leave_group(thread);
        }
    }
    Some(!over && !yields)
}

/// Whether the thread has its group to itself from now on; otherwise it waits.
fn comes_into(thread: &Arc<Thread>, group: Option<&Arc<Group>>) -> bool {
    let before = thread.group.lock().take();
    if let Some(before) = before.filter(|before| group.is_none_or(|group| !Arc::ptr_eq(before, group))) {
        before.leave(thread);
    }
    let Some(group) = group else { return true };
    *thread.group.lock() = Some(group.clone());
    let mut inside = group.0.lock();
    if inside.enter(thread.number) {
        return true;
    }
    // Its registers are whole, and nothing is added to them when it is woken.
    let ticket = sched::begin_wait_as(Saved::on_its_way_out(thread), |wait| thread.awaits_group.store(wait.ticket, Ordering::SeqCst));
    inside.await_turn(thread.number, (thread.clone(), ticket));
    false
}

impl Group {
    fn leave(&self, thread: &Thread) {
        let next = self.0.lock().leave(thread.number);
        if let Some((next, ticket)) = next {
            sched::wake_with(&next, ticket, |_| {});
        }
    }
}

/// The thread that has stayed here does so no longer: it is at a switch point.
pub fn lets_go(here: &Processor) {
    if !ANY.load(Ordering::Relaxed) {
        return;
    }
    let (inside, ran) = {
        let stay = &mut *here.stay.hold();
        (stay.inside.take(), stay.watch.ends(time::now()))
    };
    if let Some(Inside { thread, text, group }) = inside {
        let before = text.place.word();
        text.place.note(text.base, ran);
        if text.place.word() != before {
            shows(&text);
        }
        if group.is_some() {
            leave_group(&thread);
        }
    }
}

/// Programs read what became of its placement.
fn shows(text: &Section) {
    text.state.lock().show(text);
}

/// The thread is in no group any more, and waits for none.
pub fn leave_group(thread: &Thread) {
    let group = thread.group.lock().take();
    if let Some(group) = group {
        group.leave(thread);
    }
}

/// When the running thread is looked at next, if it is in an NSys text; then all its ways into the kernel are full ones.
pub fn looks_at(here: &Processor) -> Option<u64> {
    if !ANY.load(Ordering::Relaxed) || here.stay.hold().inside.is_none() {
        return None;
    }
    here.attend();
    Some(time::now() + BEAT_NS)
}
