//! The trace (`abi::trace`, core/trace): what happens on each processor, written where programs can read it, and how long each way into the
//! kernel takes (SSS-24). While it is off, each place that would write asks one bit; while it is on, every call takes the full entry
//! (`arch::percpu::set_traced`), so that nothing is hidden by a short way.

use crate::machine::machine;
use crate::pass;
use crate::processor::{Processor, here};
use crate::section::{New, Section};
use crate::task::Task;
use crate::thread::Thread;
use crate::view::{self, Change};
use ::trace::{Stretch, Words, Writer};
use abi::calls::Call;
use abi::gate::CALL_BASE;
use abi::layout::{FIRST_TEXT, PAGE};
use abi::rights::principal;
use abi::section::kind as section_kind;
use abi::trace::{Event, ON, PAGES, RING, STEP, handler, kind};
use abi::{AclEntry, Error, Rights};
use alloc::sync::Arc;
use alloc::vec::Vec;
use arch::entry::Trap;
use arch::frames::{self, Frame};
use arch::shown::MACHINE;
use arch::{apic, cpu, percpu, time};
use core::sync::atomic::{AtomicU64, Ordering};
use spin::{Mutex, Once};

/// The pages of a processor's part.
struct Pages(Vec<Arc<Frame>>);

const WORDS: usize = PAGE as usize / 8;

impl Words for Pages {
    fn load(&self, at: usize) -> u64 {
        self.0[at / WORDS].load_long(at % WORDS * 8)
    }

    fn store(&self, at: usize, value: u64) {
        self.0[at / WORDS].store_long(at % WORDS * 8, value);
    }
}

/// What a processor writes with.
struct Pen {
    writer: Writer<Pages>,
    stretch: Stretch,
    /// Ticks of it in which other processors were waited for.
    waited: u64,
    /// By which way it came, and who has come.
    handler: u64,
    thread: u64,
    task: u64,
    text: u64,
}

/// Of a processor; only it takes the lock while the trace is on.
#[derive(Default)]
pub struct Trace(Mutex<Option<Pen>>);

impl Pen {
    fn put(&mut self, kind: u64, a: u64, b: u64) {
        let Pen { handler, thread, task, text, .. } = *self;
        self.writer.put(&Event { time: time::now(), kind, handler, thread, task, text, a, b });
    }

    fn is_now(&mut self, thread: Option<&Arc<Thread>>) {
        (self.thread, self.task, self.text) = match thread {
            Some(thread) => (thread.number, thread.task.number, thread.domain().text.base),
            None => (0, 0, 0),
        };
    }

    fn ends_stretch(&mut self) -> u64 {
        let Some((handler, ticks)) = self.stretch.end(cpu::tsc(), ROUND.load(Ordering::Relaxed)) else { return 0 };
        let waited = core::mem::take(&mut self.waited).min(ticks);
        ::trace::note(self.writer.words(), handler, ticks - waited);
        if waited > 0 {
            ::trace::note(self.writer.words(), handler::WAITS, waited);
        }
        ticks
    }

    fn begins_stretch(&mut self, handler: u64, now: u64) {
        (self.handler, self.waited) = (handler, 0);
        self.stretch.begin(handler, now, ROUND.load(Ordering::Relaxed));
    }
}

/// Counts how often it was switched.
static ROUND: AtomicU64 = AtomicU64::new(0);
/// Whose the section is, and its base, once there is one.
static OWNER: Once<Arc<Task>> = Once::new();
static SECTION: Once<Arc<Section>> = Once::new();
static SWITCHING: Mutex<()> = Mutex::new(());

/// Boot only.
pub fn set_up(owner: &Arc<Task>) {
    OWNER.call_once(|| owner.clone());
}

/// `trace_set`. A processor a call: its part is made with the first one, which is 130 pages.
pub fn set(processor: u64, what: u64) -> Result<u64, Error> {
    let index = usize::try_from(processor).map_err(|_| Error::NotFound)?;
    let p = machine().processors.get(index).filter(|p| p.online.load(Ordering::Relaxed)).ok_or(Error::NotFound)?;
    let _one = SWITCHING.lock();
    let changes = percpu::is_traced_at(index) != (what == 1);
    match what {
        0 => percpu::set_traced(index, false),
        1 => {
            let section = section()?;
            let mut pen = p.trace.0.lock();
            if pen.is_none() {
                let writer = Writer::new(make_part(&section, index)?);
                *pen = Some(Pen { writer, stretch: Stretch::default(), waited: 0, handler: 0, thread: 0, task: 0, text: 0 });
            }
        }
        _ => return Err(Error::BadArgument),
    }
    if changes {
        // What has begun before is no stretch. Where nothing changes it is, this call's among them.
        ROUND.fetch_add(1, Ordering::Relaxed);
    }
    if let Some(section) = SECTION.get()
        && let Some(head) = section.state.lock().pages.get(processor * PAGES)
    {
        head.store_long(ON * 8, what);
    }
    if what == 1 {
        percpu::set_traced(index, true);
    }
    Ok(SECTION.get().map_or(0, |section| section.base))
}

/// The section, with the pages that say that nothing was written. Who may read it is the first program's affair.
fn section() -> Result<Arc<Section>, Error> {
    if let Some(section) = SECTION.get() {
        return Ok(section.clone());
    }
    let owner = OWNER.get().ok_or(Error::NotFound)?.clone();
    let rights = Rights::READ.union(Rights::CHANGE_ACL);
    let entry = AclEntry { principal: principal::ANY, rights: rights.bits(), id: 0, text: FIRST_TEXT };
    let processors = machine().processors.len() as u64;
    let heads = pages(processors * (RING / WORDS) as u64)?;
    let new = New { len: STEP * processors, reserve: 0, kind: section_kind::DATA, at: 0, room: 0, owner, entry, ports: None, live: true };
    let section = Section::create(new)?;
    {
        let mut state = section.state.lock();
        state.name[..5].copy_from_slice(b"trace");
        for (i, frame) in heads.into_iter().enumerate() {
            let (processor, page) = (i / (RING / WORDS), i % (RING / WORDS));
            state.pages.supply(processor as u64 * PAGES + page as u64, frame);
        }
    }
    MACHINE.trace.store(section.base, Ordering::Release);
    Ok(SECTION.call_once(|| section).clone())
}

/// Memory that the system can do without.
fn pages(count: u64) -> Result<Vec<Arc<Frame>>, Error> {
    let pages = (0..count).map(|_| Frame::zeroed().map(Arc::new)).take_while(|_| frames::to_spare() > 0);
    let pages: Option<Vec<_>> = pages.collect();
    pages.filter(|pages| pages.len() as u64 == count).ok_or(Error::NoMemory)
}

/// The pages of a processor's ring, to be seen in its part of the section.
fn make_part(section: &Section, index: usize) -> Result<Pages, Error> {
    let first = index as u64 * PAGES;
    let heads = (RING / WORDS) as u64;
    let rest = pages(PAGES - heads)?;
    let mut state = section.state.lock();
    let mut pages: Vec<_> = (0..heads).filter_map(|page| state.pages.get(first + page).cloned()).collect();
    for (page, frame) in (heads..PAGES).zip(&rest) {
        state.pages.supply(first + page, frame.clone());
    }
    // Somebody may have looked already.
    let stale = view::change(&mut state.mapped, first * PAGE, STEP, Change::Unmap);
    drop(state);
    stale.flush();
    pages.extend(rest);
    Ok(Pages(pages))
}

/// Something has happened here.
#[inline(always)]
pub fn note(kind: u64, a: u64, b: u64) {
    if percpu::is_traced() {
        put(kind, a, b);
    }
}

#[cold]
#[inline(never)]
fn put(kind: u64, a: u64, b: u64) {
    if let Some(pen) = &mut *here().trace.0.lock() {
        pen.put(kind, a, b);
    }
}

/// A task has begun: its name is told by the record, since it may soon be gone.
#[inline(always)]
pub fn begins(task: &Task) {
    if percpu::is_traced()
        && let Some(pen) = &mut *here().trace.0.lock()
    {
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| task.name[at + i]));
        let Pen { handler, thread, text, .. } = *pen;
        let (a, b) = (word(0), word(8));
        pen.writer.put(&Event { time: time::now(), kind: kind::TASK, handler, thread, task: task.number, text, a, b });
    }
}

/// The running thread has come into the kernel, just now.
#[cold]
#[inline(never)]
pub fn enters(here: &Processor, trap: &Trap) {
    let now = cpu::tsc();
    pass::settle(here);
    let thread = here.current();
    let in_window = thread.domain().in_window;
    let (rip, rax, rdi) = thread.registers(|r| (r.rip, r.rax, r.rdi));
    let (handler, a) = match *trap {
        Trap::Call if in_window => (handler::WINDOW, rax),
        Trap::Call if rax >= CALL_BASE => (handler::BOUND, rax),
        Trap::Call if Call::decode(rax, [0; 6]).is_none() => (handler::NO_CALL, rax),
        Trap::Call => (rax, rdi),
        Trap::PageFault { address, .. } => (handler::EXCEPTION + 14, address),
        Trap::Exception { vector, error } => (handler::EXCEPTION + (vector & 31), error),
        // (What is recorded begins in the middle of a light call.)
        Trap::Posted | Trap::Left => (handler::POSTED, 0),
        Trap::Interrupt { vector } => (interrupt(vector), u64::from(vector)),
    };
    if let Some(pen) = &mut *here.trace.0.lock() {
        pen.begins_stretch(handler, now);
        pen.is_now(Some(&thread));
        pen.put(kind::ENTER, a, rip);
    }
}

fn interrupt(vector: u8) -> u64 {
    handler::INTERRUPT + (u64::from(vector.saturating_sub(apic::FIRST_VECTOR)) & 63)
}

/// The thread is about to go on.
#[inline(always)]
pub fn leaves(here: &Processor, thread: &Arc<Thread>) {
    if percpu::is_traced() {
        do_leave(here, thread);
    }
}

#[cold]
#[inline(never)]
fn do_leave(here: &Processor, thread: &Arc<Thread>) {
    if let Some(pen) = &mut *here.trace.0.lock() {
        let ticks = pen.ends_stretch();
        pen.is_now(Some(thread));
        pen.put(kind::LEAVE, ticks, 0);
    }
}

/// The processor has gone from a thread to another; without a lock of either.
#[inline(always)]
pub fn switches(here: &Processor, old: u64, own_turn: bool) {
    if percpu::is_traced() {
        let new = here.local.hold().current.clone();
        if let Some(pen) = &mut *here.trace.0.lock() {
            pen.is_now(new.as_ref());
            pen.put(kind::SWITCH, old, own_turn.into());
        }
    }
}

/// Nothing is ready: interrupts are let in.
#[inline(always)]
pub fn idles(here: &Processor) {
    if percpu::is_traced()
        && let Some(pen) = &mut *here.trace.0.lock()
    {
        pen.ends_stretch();
        pen.put(kind::IDLE, 0, 0);
    }
}

/// Something is ready again.
#[inline(always)]
pub fn is_busy(here: &Processor) {
    if percpu::is_traced()
        && let Some(pen) = &mut *here.trace.0.lock()
    {
        pen.begins_stretch(handler::IDLE, cpu::tsc());
    }
}

/// Interrupts are let in between two parts of a long call: each is a stretch. (What an idle processor does in between is none.)
pub fn breathes(here: &Processor, serve: impl FnOnce()) {
    if !percpu::is_traced() {
        return serve();
    }
    let mut goes_on = None;
    if let Some(pen) = &mut *here.trace.0.lock() {
        goes_on = pen.stretch.is_on().then_some(pen.handler);
        pen.ends_stretch();
    }
    serve();
    if let (Some(handler), Some(pen)) = (goes_on, &mut *here.trace.0.lock()) {
        pen.begins_stretch(handler, cpu::tsc());
    }
}

/// Other processors are waited for, with interrupts off.
pub fn waits(here: &Processor, wait: impl FnOnce()) {
    if !percpu::is_traced() {
        return wait();
    }
    let began = cpu::tsc();
    wait();
    if let Some(pen) = &mut *here.trace.0.lock() {
        pen.waited += cpu::tsc() - began;
    }
}

/// An interrupt is served that was noted while kernel code ran with interrupts on: outside any stretch.
pub fn serves(here: &Processor, vector: u8, serve: impl FnOnce()) {
    if !percpu::is_traced() {
        return serve();
    }
    let mut before = 0;
    if let Some(pen) = &mut *here.trace.0.lock() {
        pen.put(kind::INTERRUPT, vector.into(), 0);
        before = pen.handler;
        pen.begins_stretch(interrupt(vector), cpu::tsc());
    }
    serve();
    if let Some(pen) = &mut *here.trace.0.lock() {
        pen.ends_stretch();
        pen.handler = before;
    }
}
