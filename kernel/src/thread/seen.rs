//! What a thread's registers are, for whom its task belongs to (SSS-71).

use super::{Inner, Thread};
use crate::claim;
use crate::domain::Domain;
use crate::frame;
use crate::machine::machine;
use crate::processor::{Processor, here};
use crate::task::Task;
use abi::Error;
use abi::frame::{Frame, reason};
use abi::gate::GATE_BASE;
use abi::layout::PAGE;
use abi::refusal::Object;
use alloc::sync::Arc;
use ::sched::Phase;
use arch::context::Registers;
use arch::gate::{BY_KERNEL, MORE, PLAIN};
use core::sync::atomic::{AtomicU64, Ordering};
use spin::Mutex;

/// A picture is not older than that, ns.
const FRESH_NS: u64 = 100_000_000;

/// Processors are told to look for a thread no more often than that, ns.
const AGAIN_NS: u64 = 200_000;

/// Of a thread that runs: only its processor can say with what.
#[derive(Default)]
pub struct Seen {
    /// The thread that wants to know; 0: none.
    asked: AtomicU64,
    /// When processors were last told to look for it.
    told: AtomicU64,
    picture: Mutex<Option<Shown>>,
}

struct Shown {
    asker: u64,
    at: u64,
    frame: Frame,
}

struct Picture {
    frame: Frame,
    /// It goes on in the gate, and from there where this domain's stack says.
    by_stack: Option<Arc<Domain>>,
}

impl Picture {
    /// With all that is to be said. Holding no lock: memory of programs is read.
    fn whole(self) -> Frame {
        let Picture { mut frame, by_stack } = self;
        let mut back = [0; 8];
        if by_stack.is_some_and(|domain| claim::wait_and_read(&domain, frame.rsp, &mut back).is_ok()) {
            frame.rip = u64::from_le_bytes(back);
            frame.rsp += 8;
        }
        frame
    }
}

/// `thread_registers`.
pub fn show(asker: &Thread, d: &Domain, number: u64, out: u64) -> Result<u64, Error> {
    let thread = machine().threads.find(number).ok_or(Error::NotFound)?;
    // Both: as for a kill.
    if !belongs_to(&thread.task, &asker.task) || !belongs_to(&thread.task, &d.text.owner()) {
        return Err(d.subject.refused(Object::Thread(number)));
    }
    if thread.number == asker.number {
        return Err(Error::BadArgument);
    }
    let frame = thread.look(asker.number)?;
    claim::write_record(d, out, &frame)
}

/// Whether it is that task, or one that counts for it: it has started it, or who has.
fn belongs_to(task: &Task, asker: &Task) -> bool {
    let mut next = Some(task);
    while let Some(task) = next {
        if task.number == asker.number {
            return true;
        }
        next = task.payer.as_deref();
    }
    false
}

impl Thread {
    /// For how long it has run, ns.
    pub fn ran(&self) -> u64 {
        self.time_ns.load(Ordering::Relaxed) + self.unaccounted(self.running_since.load(Ordering::SeqCst))
    }

    fn look(&self, asker: u64) -> Result<Frame, Error> {
        if self.exit_code().is_some() {
            return Err(Error::NotFound);
        }
        if let Some(picture) = self.put_aside() {
            return Ok(picture.whole());
        }
        let now = arch::time::now();
        let seen = self.seen.picture.lock().take_if(|seen| seen.asker == asker);
        if let Some(seen) = seen.filter(|seen| now < seen.at + FRESH_NS) {
            return Ok(seen.frame);
        }
        self.seen.asked.store(asker, Ordering::SeqCst);
        // By the short ways it may have got anywhere. (Not again and again: all others pay for that.)
        let told = self.seen.told.load(Ordering::SeqCst);
        if now.saturating_sub(told) >= AGAIN_NS && self.seen.told.compare_exchange(told, now, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            machine().processors.iter().for_each(Processor::look_around);
        }
        Err(Error::Busy)
    }

    /// Of a thread that no processor has. Under the lock of its wait, so that none takes it up meanwhile.
    fn put_aside(&self) -> Option<Picture> {
        let wait = self.wait.lock();
        let lies = self.card.lies();
        let is_aside = matches!(wait.life.phase(), Phase::Ready | Phase::Waiting)
            && !self.on_processor.load(Ordering::SeqCst)
            && !self.card.is_parked()
            && !self.card.has_moved();
        if !is_aside {
            return None;
        }
        // Not waited for: its holder may want the other lock.
        let inner = &mut *self.inner.try_lock()?;
        if !lies {
            return Some(self.picture(inner, None));
        }
        // The short way may have it go on at any moment, and asks for no lock.
        let picture = self.picture(inner, Some(self.card.registers_at_rest()));
        self.card.lies().then_some(picture)
    }

    /// Where it executes its own task's text, its registers; in a call out of that, where it goes on. `at_rest`: it waits in a post, where
    /// it has no more than these.
    fn picture(&self, inner: &mut Inner, at_rest: Option<Registers>) -> Picture {
        inner.sync();
        let depth = inner.depth();
        let domain_at = |depth: usize| {
            let (number, _) = inner.gate.lead(inner.gate.frame(depth).record)?;
            inner.domain_number(number).ok()
        };
        let own = (0..=depth).rev().find_map(|depth| {
            let domain = domain_at(depth)?;
            (depth == 0 || domain.text.owner().number == self.task.number).then_some((depth, domain))
        });
        let of_it = Frame { task: self.task.number, thread: self.number, ..Frame::default() };
        let all = |registers: &Registers| {
            let Frame { task, thread, .. } = of_it;
            Frame { task, thread, reason: reason::STOPPED, ..frame::of(registers) }
        };
        let is_gate = |rip: u64| (GATE_BASE..GATE_BASE + PAGE).contains(&rip);
        let just = |frame: Frame| Picture { frame, by_stack: None };
        let Some((at, domain)) = own else { return just(Frame { reason: reason::AWAY, ..of_it }) };
        if at == depth {
            let registers = at_rest.unwrap_or(*inner.area.registers());
            // Between two programs some may be the other one's.
            return just(match at_rest.is_some() || is_gate(registers.rip) {
                true => Frame { reason: reason::AWAY, rip: registers.rip, rsp: registers.rsp, ..of_it },
                false => all(&registers),
            });
        }
        let address = inner.domain.text.base;
        if let Some((_, more)) = inner.more.iter().find(|(depth, _)| *depth == at + 1) {
            return just(Frame { address, ..all(more.registers()) });
        }
        if let Some(registers) = inner.asked.as_ref().and_then(|asked| asked.left(at + 1)) {
            return just(Frame { address, ..all(registers) });
        }
        let rip = inner.gate.frame(at + 1).rip & !(BY_KERNEL | MORE | PLAIN);
        let rsp = inner.gate.sp(domain.number);
        Picture { frame: Frame { reason: reason::AWAY, address, rip, rsp, ..of_it }, by_stack: is_gate(rip).then_some(domain) }
    }
}

/// On the way out of the kernel, of the running thread: somebody wants to know its registers.
pub fn attend(thread: &Thread) {
    if thread.seen.asked.load(Ordering::SeqCst) == 0 || thread.card.is_parked() || !thread.wait.lock().life.runs_at(here().index) {
        return;
    }
    let asker = thread.seen.asked.swap(0, Ordering::SeqCst);
    let picture = thread.picture(&mut thread.inner.lock(), None);
    let frame = picture.whole();
    *thread.seen.picture.lock() = Some(Shown { asker, at: arch::time::now(), frame });
}
