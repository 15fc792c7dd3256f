//! Interrupt lines: who serves them, and which processor they come to (K1-44, 45, CUBIX-U10). What the kernel does itself is bounded: it
//! tells one scheduler, or leaves one message.

mod mark;

pub use mark::{calls, goes_on, is_next, waits};

use crate::device;
use crate::domain::Domain;
use crate::gate;
use crate::info::{self, word};
use crate::machine::machine;
use crate::post::{self, notice, notice::Bound};
use crate::processor::{Processor, here};
use crate::seat;
use crate::section::Section;
use crate::thread::Thread;
use abi::info::layout::Interrupt;
use abi::info::way;
use abi::refusal::Object;
use abi::sched::{Event, event};
use abi::{Error, Rights};
use ::sched::Home;
use alloc::sync::Arc;
use arch::shown::Page;
use arch::{apic, ioapic, time};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use mark::Mark;
use spin::Mutex;

/// In place of a processor: none.
const NONE: usize = usize::MAX;

/// Who serves an interrupt at once.
#[derive(Clone, Copy)]
struct Handler {
    gate: u64,
    /// The serial number of the text that it was bound by: another one may come to have its gate's address.
    text: u64,
    /// The device's section.
    section: u64,
}

struct Line {
    index: usize,
    /// Called by the scheduler of the processor that the interrupt comes to.
    handler: Mutex<Option<Handler>>,
    /// Sent, where nobody calls that one.
    notice: Mutex<Option<Arc<Bound>>>,
    /// Its number on the ISA bus, plus one; 0: nobody has asked for it.
    isa: AtomicU64,
    section: AtomicU64,
    /// Its record, which programs read (`abi::info::layout::Interrupt`).
    shown: &'static [AtomicU64],
    /// The processor that somebody has named, and the one that the controller knows.
    pinned: AtomicUsize,
    aimed: AtomicUsize,
    floats: AtomicBool,
    came: &'static AtomicU64,
    /// Of those: to an idle processor; to a busy one, though another was idle.
    idle: &'static AtomicU64,
    missed: &'static AtomicU64,
    longest_ns: &'static AtomicU64,
    /// What it has left for somebody to do.
    mark: Mark,
}

/// Where programs read of the lines.
pub static SHOWN: Page = Page::new();

static LINES: spin::Once<[Line; apic::LINES as usize]> = spin::Once::new();
static HOME: Home = Home::new();
/// Lines that come to wherever somebody is idle.
static FLOATING: AtomicUsize = AtomicUsize::new(0);
/// One at a time tells the controller, so that what it knows in the end is the last that was wanted.
static AIMING: Mutex<()> = Mutex::new(());

fn lines() -> &'static [Line; apic::LINES as usize] {
    LINES.call_once(|| core::array::from_fn(Line::new))
}

/// The line of a device whose interrupts the caller may have.
fn of(domain: &Domain, base: u64) -> Result<&'static Line, Error> {
    let (_, ports) = device::section(domain, base, Rights::READ)?;
    let isa = ports.interrupt.ok_or(Error::NotSupported)?;
    let line = &lines()[usize::from(ioapic::line(isa).ok_or(Error::NotSupported)?)];
    line.section.store(base, Ordering::Relaxed);
    line.isa.store(u64::from(isa) + 1, Ordering::SeqCst);
    Ok(line)
}

/// `irq_bind`.
pub fn bind(domain: &Domain, base: u64, gate: u64) -> Result<u64, Error> {
    let line = of(domain, base)?;
    if gate != 0 && !gate::find_gate(gate).is_some_and(|(text, ..)| core::ptr::eq(&*text, &*domain.text)) {
        return Err(Error::NotFound);
    }
    if line.is_of_another(domain) {
        return Err(Error::Busy);
    }
    *line.handler.lock() = (gate != 0).then_some(Handler { gate, text: domain.text.serial, section: base });
    line.aim();
    if domain.text.is_dead() {
        // It may have been looked for before.
        text_ended(&domain.text);
    }
    // As if one had come: so the scheduler gets to know the handler, and one that did come is not overlooked.
    line.serve(line.vector());
    Ok(u64::from(line.vector()))
}

/// `irq_post`.
pub fn send_to(thread: &Arc<Thread>, domain: &Domain, base: u64, post: u64, op: u64) -> Result<u64, Error> {
    let line = of(domain, base)?;
    let new = Bound::new(thread, domain, post, op, base)?;
    let is_handled = line.is_handler_of_another(domain);
    let old = {
        let mut bound = line.notice.lock();
        if is_handled || bound.as_ref().is_some_and(|bound| bound.is_of_another(domain)) {
            return Err(Error::Busy);
        }
        core::mem::replace(&mut *bound, new)
    };
    drop(old);
    line.mark.forget();
    line.aim();
    if domain.text.is_dead() {
        // It may have been looked for before.
        text_ended(&domain.text);
    }
    // As above.
    line.serve(line.vector());
    Ok(0)
}

/// `irq_route`.
pub fn route(isa: u64, processor: u64) -> Result<u64, Error> {
    let line = lines().iter().find(|line| isa < u64::MAX && line.isa.load(Ordering::SeqCst) == isa + 1).ok_or(Error::NotFound)?;
    let to = match processor {
        u64::MAX => NONE,
        index => {
            let index = usize::try_from(index).map_err(|_| Error::NotFound)?;
            let there = machine().processors.get(index).filter(|p| p.online.load(Ordering::Relaxed));
            there.ok_or(Error::NotFound)?.index
        }
    };
    line.pinned.store(to, Ordering::SeqCst);
    line.aim();
    Ok(0)
}

/// How many lines there are.
pub fn count() -> u64 {
    lines().len() as u64
}

/// What is left of an interrupt is a message. The scheduler will not call the handler at `gate` again (0: it will).
pub fn give_back(domain: &Domain, vector: u64, gate: u64) -> Result<u64, Error> {
    if !machine().processors.iter().any(|p| p.office.is_of(&domain.text)) {
        return Err(domain.subject.refused(Object::System));
    }
    let line = vector.checked_sub(u64::from(apic::LINE)).and_then(|index| lines().get(index as usize)).ok_or(Error::NotFound)?;
    if line.handler.lock().take_if(|handler| handler.gate == gate).is_some() {
        line.aim();
    }
    line.wake();
    Ok(0)
}

/// A scheduler is gone: what it was told of are messages.
pub fn fall_back() {
    seats_changed();
    lines().iter().filter(|line| line.handler.lock().is_some()).for_each(Line::wake);
}

/// A scheduler has sat down or gone: programs read who is called from now on.
pub fn seats_changed() {
    if lines().iter().any(|line| line.handler.lock().is_some()) {
        aim_all();
    }
}

/// A text has ended: its interrupts are messages no more, and nobody calls it for them.
pub fn text_ended(text: &Section) {
    for line in lines() {
        let gone = line.notice.lock().take_if(|bound| core::ptr::eq(&*bound.text, text));
        let called = line.handler.lock().take_if(|handler| handler.text == text.serial);
        if gone.is_some() || called.is_some() {
            drop(gone);
            line.mark.forget();
            line.aim();
        }
    }
}

/// The processor has nothing to do from now on.
pub fn idles(here: &Processor) {
    if FLOATING.load(Ordering::SeqCst) != 0 && HOME.idles(here.index, is_idle) {
        aim_all();
    }
}

/// The processor has something to do.
pub fn is_busy(here: &Processor) {
    if FLOATING.load(Ordering::SeqCst) != 0 && HOME.is_busy(here.index, machine().processors.len(), is_idle) {
        aim_all();
    }
}

fn is_idle(index: usize) -> bool {
    machine().processors.get(index).is_some_and(|p| p.idle.load(Ordering::SeqCst) && p.online.load(Ordering::Relaxed))
}

fn aim_all() {
    lines().iter().filter(|line| line.isa.load(Ordering::SeqCst) != 0).for_each(Line::aim);
}

/// An interrupt from a device.
pub fn interrupt(vector: u8) {
    let began = time::now();
    let line = &lines()[usize::from(vector - apic::LINE)];
    let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
    count(line.came);
    line.shown[word!(Interrupt, last)].store(here().index as u64, Ordering::Relaxed);
    if here().idle.load(Ordering::SeqCst) {
        count(line.idle);
    } else if (0..machine().processors.len()).any(is_idle) {
        count(line.missed);
    }
    line.serve(vector);
    line.longest_ns.fetch_max(time::now().saturating_sub(began), Ordering::Relaxed);
}

impl Line {
    fn new(index: usize) -> Line {
        const WORDS: usize = info::words::<Interrupt>();
        let shown = &SHOWN.0[index * WORDS..(index + 1) * WORDS];
        let [isa, section] = [const { AtomicU64::new(0) }; 2];
        let [pinned, aimed] = [const { AtomicUsize::new(NONE) }; 2];
        Line {
            index,
            handler: Mutex::new(None),
            notice: Mutex::new(None),
            isa,
            section,
            pinned,
            aimed,
            floats: AtomicBool::new(false),
            shown,
            came: &shown[word!(Interrupt, came)],
            idle: &shown[word!(Interrupt, idle)],
            missed: &shown[word!(Interrupt, missed)],
            longest_ns: &shown[word!(Interrupt, longest_ns)],
            mark: Mark::new(&shown[word!(Interrupt, marked)], &shown[word!(Interrupt, longest_mark_ns)]),
        }
    }

    /// The vector that it comes with.
    fn vector(&self) -> u8 {
        let isa = self.isa.load(Ordering::SeqCst).wrapping_sub(1) as u8;
        apic::LINE + ioapic::line(isa).unwrap_or(0)
    }

    /// An interrupt has one handler, as long as that lives.
    fn is_of_another(&self, domain: &Domain) -> bool {
        let bound = self.notice.lock().clone();
        self.is_handler_of_another(domain) || bound.is_some_and(|bound| bound.is_of_another(domain))
    }

    fn is_handler_of_another(&self, domain: &Domain) -> bool {
        let handler = *self.handler.lock();
        let lives = |h: &Handler| gate::find_gate(h.gate).is_some_and(|(text, ..)| text.serial == h.text);
        handler.filter(|h| h.text != domain.text.serial).is_some_and(|h| lives(&h))
    }

    /// Who is called, as long as a scheduler sits where they come to.
    fn handler(&self) -> Option<Handler> {
        let there = machine().processors.get(self.aimed.load(Ordering::SeqCst));
        let sits = there.is_some_and(|there| there.office.is_taken());
        self.handler.lock().filter(|_| sits)
    }

    /// Lets the controller know where it is to come to. Any scheduler may call the handler, so one that is called goes where a message goes.
    fn aim(&self) {
        let _aiming = AIMING.lock();
        let is_served = self.handler.lock().is_some() || self.notice.lock().is_some();
        let pinned = self.pinned.load(Ordering::SeqCst);
        let floats = is_served && pinned == NONE;
        let to = if pinned == NONE { HOME.at() } else { pinned };
        if self.aimed.swap(to, Ordering::SeqCst) != to {
            let isa = self.isa.load(Ordering::SeqCst).wrapping_sub(1) as u8;
            ioapic::set(isa, Some(machine().processors[to].apic));
        }
        if floats != self.floats.swap(floats, Ordering::SeqCst) {
            let one = if floats { 1 } else { usize::MAX };
            FLOATING.fetch_add(one, Ordering::SeqCst);
        }
        self.show(pinned);
    }

    /// Programs read who serves it and where it comes to. One at a time: while it is being aimed.
    fn show(&self, pinned: usize) {
        let driver = self.notice.lock().as_ref().map(|bound| bound.text.clone());
        let (text, task) = driver.map_or((0, 0), |text| (text.base, text.owner().number));
        let way = if self.handler().is_some() { way::CALL } else if text != 0 { way::POST } else { way::NONE };
        let words = [
            self.isa.load(Ordering::SeqCst),
            self.vector().into(),
            self.section.load(Ordering::Relaxed),
            text,
            way,
            self.aimed.load(Ordering::SeqCst) as u64,
            pinned as u64,
        ];
        ::info::write(self.shown, |record| {
            ::info::fields(record, word!(Interrupt, number), &words);
            ::info::fields(record, word!(Interrupt, task), &[task]);
        });
    }

    /// For whoever is called, or else for whoever receives.
    fn serve(&self, vector: u8) {
        let here = here();
        let handler = *self.handler.lock();
        if !handler.is_some_and(|handler| here.office.tell_interrupt(here, vector, handler.section, handler.gate)) {
            seat::note(Event { kind: event::INTERRUPT, detail: u32::from(vector), ..Event::default() });
            self.wake();
        }
    }

    /// What its post is told of counts there; without a post nobody wants to know.
    fn wake(&self) {
        let bound = self.notice.lock().clone();
        let Some(bound) = bound else { return };
        match bound.notify() {
            Ok(Some(woken)) => {
                self.mark.handed();
                post::wake(woken);
            }
            Ok(None) => self.mark.hurries(self.index),
            Err(_) => {
                drop(notice::take(&self.notice, &bound));
                self.mark.forget();
                self.aim();
            }
        }
    }
}
