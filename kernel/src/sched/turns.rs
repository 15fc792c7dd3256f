//! What takes long goes by parts, each of which ends in bounded time; whoever else is ready has a turn in between (architecture, section 14, bounded
//! calls; pitfalls, R5).

use super::breathe;
use crate::machine::machine;
use crate::processor::here;
use crate::saved::Saved;
use crate::seat::NO_SEAT;
use crate::section::Section;
use crate::task::Task;
use crate::thread::{Inner, Thread};
use abi::Error;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use spin::Mutex;

/// How far something long has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Done,
    /// It goes on when it is asked for again.
    More,
}

/// Whether this processor has something else to see to: it may be somebody's turn, or the thread was killed. Asked where interrupts were just let in.
pub fn is_due() -> bool {
    here().must_attend()
}

/// The running thread makes its call once more when it goes on; what the kernel has done of it is done.
fn again(thread: Saved<'_>) {
    thread.inner.lock().area.registers_mut().repeat_call();
}

/// A call about a section that goes by parts. Its answer, or none yet.
pub fn by_parts(
    thread: Saved<'_>,
    base: u64,
    go_on: impl FnOnce(&Section) -> Result<Progress, Error>,
) -> Option<Result<u64, Error>> {
    let section = match Section::named(base).and_then(|section| thread.unfinished.goes_on_with(section)) {
        Ok(section) => section,
        Err(error) => {
            thread.unfinished.forget();
            return Some(Err(error));
        }
    };
    // First: who finds a part done is to know whose.
    thread.unfinished.note(&section);
    let progress = go_on(&section);
    if progress == Ok(Progress::More) {
        again(thread);
        return None;
    }
    thread.unfinished.forget();
    Some(progress.map(|_| 0))
}

/// What a thread has not finished: the section that its call goes on with when it is made again, if it is in the middle of one (another one that has come to
/// lie there is none of that call's business), or how far that has come; and ends of sections and tasks. Written by the thread alone.
#[derive(Default)]
pub struct Unfinished {
    /// 0: nothing is unfinished.
    base: AtomicU64,
    serial: AtomicU64,
    far: Mutex<Option<Far>>,
    rest: Rest,
}

/// Instead of a section's base: it goes on no more in user code.
const OVER: u64 = 1;

impl Unfinished {
    /// It begins, or goes on.
    pub fn note(&self, section: &Section) {
        self.serial.store(section.serial, Ordering::Relaxed);
        self.base.store(section.base, Ordering::Release);
    }

    /// The thread makes such a call, from the start or once more.
    ///
    /// # Errors
    /// `NotFound`: what it was about has gone.
    pub fn goes_on_with(&self, section: Arc<Section>) -> Result<Arc<Section>, Error> {
        let base = self.base.load(Ordering::Relaxed);
        if base == section.base && self.serial.load(Ordering::Relaxed) != section.serial { Err(Error::NotFound) } else { Ok(section) }
    }

    /// It goes on somewhere else.
    pub fn forget(&self) {
        self.base.store(0, Ordering::Relaxed);
        *self.far.lock() = None;
    }

    /// It makes none any more, and goes on with none: it ends, though it may have something to do yet.
    pub fn ends(&self) {
        self.forget();
        self.base.store(OVER, Ordering::Relaxed);
    }

    pub fn is_over(&self) -> bool {
        self.base.load(Ordering::Relaxed) == OVER
    }

    /// Whether a call about this section is in the middle.
    pub fn is_about(&self, section: &Section) -> bool {
        self.base.load(Ordering::Acquire) == section.base && self.serial.load(Ordering::Relaxed) == section.serial
    }
}

/// A call as it was made, and where: made again, it is the same one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Made {
    number: u64,
    arguments: [u64; 6],
    domain: u32,
    depth: usize,
}

impl Made {
    /// By a thread that has just been found where it is.
    pub fn new(inner: &Inner, number: u64, arguments: [u64; 6]) -> Made {
        Made { number, arguments, domain: inner.domain.number, depth: inner.seen.0 }
    }
}

/// How far a call has come that goes through what may be many.
struct Far {
    made: Made,
    at: u64,
}

/// What has come of such a call.
pub enum Step {
    Done(u64),
    /// It goes on from there when it is made again.
    At(u64),
}

/// Makes such a call, from where it is if it was in the middle, else from the beginning. `None`: it is to be made again.
pub fn go_on_from(thread: &Thread, made: Made, go_on: impl FnOnce(Option<u64>) -> Result<Step, Error>) -> Option<Result<u64, Error>> {
    let far = &thread.unfinished.far;
    let from = far.lock().take().filter(|far| far.made == made).map(|far| far.at);
    match go_on(from) {
        Ok(Step::Done(value)) => Some(Ok(value)),
        Ok(Step::At(at)) => {
            *far.lock() = Some(Far { made, at });
            None
        }
        Err(error) => Some(Err(error)),
    }
}

/// The same for one that has come by the full entry.
pub fn in_steps(thread: Saved<'_>, go_on: impl FnOnce(Option<u64>) -> Result<Step, Error>) -> Option<Result<u64, Error>> {
    let made = {
        let inner = thread.inner.lock();
        let r = inner.area.registers();
        Made::new(&inner, r.rax, [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9])
    };
    let answer = go_on_from(&thread, made, go_on);
    if answer.is_none() {
        again(thread);
    }
    answer
}

/// What a thread has ended, and of which much is left: sections, which nobody reaches any more, and tasks. It goes by parts, on this thread's turns, before the
/// thread leaves the kernel. (Their lists are in themselves: ends take no memory.)
#[derive(Default)]
struct Rest {
    /// Asked on each way out; it is this thread's own affair.
    is_some: AtomicBool,
    /// The last turn on which some was done.
    turn: AtomicU64,
    first: Mutex<(Option<Arc<Section>>, Option<Arc<Task>>)>,
}

impl Rest {
    fn push(&self, section: Arc<Section>) {
        self.is_some.store(true, Ordering::Relaxed);
        let (first, _) = &mut *self.first.lock();
        let next = first.take();
        section.state.lock().next = next;
        *first = Some(section);
    }

    fn pop(&self) -> Option<Arc<Section>> {
        let (first, _) = &mut *self.first.lock();
        let section = first.take()?;
        *first = section.state.lock().next.take();
        Some(section)
    }

    fn push_task(&self, task: Arc<Task>) {
        self.is_some.store(true, Ordering::Relaxed);
        let (_, first) = &mut *self.first.lock();
        let next = first.take();
        *task.next().lock() = next;
        *first = Some(task);
    }

    fn pop_task(&self) -> Option<Arc<Task>> {
        let (_, first) = &mut *self.first.lock();
        let task = first.take()?;
        *first = task.next().lock().take();
        Some(task)
    }
}

/// The running thread, if it has turns to do something on before it leaves the kernel: who has ended has no more of them, and who is in a seat is not
/// interrupted.
fn who_has_turns() -> Option<Arc<Thread>> {
    let here = here();
    let running = here.local.hold().current.clone();
    let has_turns = |thread: &Arc<Thread>| {
        thread.seat.load(Ordering::Relaxed) == NO_SEAT && !thread.card.is_parked() && thread.wait.lock().life.runs_at(here.index)
    };
    running.filter(has_turns)
}

/// The running thread does the rest of this section's end, which nobody reaches any more. Whether there is one that does.
pub fn leaves_the_rest_of(section: &Section) -> bool {
    let Some(thread) = who_has_turns() else { return false };
    let section = machine().sections.find(section.base).filter(|found| core::ptr::eq(&**found, section));
    let Some(section) = section else { return false };
    thread.unfinished.rest.push(section);
    here().attend();
    true
}

/// The running thread does what there is to do for who has ended this task, which it has. Whether there is one that does.
pub fn leaves_the_end_of(task: &Arc<Task>) -> bool {
    let Some(thread) = who_has_turns() else { return false };
    task.in_hand().store(true, Ordering::Relaxed);
    thread.unfinished.rest.push_task(task.clone());
    here().attend();
    true
}

/// Some of that is done. Whether there was any: there may be more.
#[inline]
pub fn does_some(thread: &Thread) -> bool {
    let rest = &thread.unfinished.rest;
    if !rest.is_some.load(Ordering::Relaxed) {
        return false;
    }
    // (What interrupts leave meanwhile says so again.)
    rest.is_some.store(false, Ordering::Relaxed);
    let (turn, ran) = (thread.wait.lock().life.turn(), thread.ran());
    if let Some(section) = rest.pop() {
        if section.dissolve_some() {
            section.is_dissolved();
        } else {
            rest.push(section);
        }
    } else if let Some(task) = rest.pop_task() {
        if task.end_some() {
            task.in_hand().store(false, Ordering::Relaxed);
        } else {
            rest.push_task(task);
        }
    } else {
        return false;
    }
    rest.is_some.store(true, Ordering::Relaxed);
    let is_another = rest.turn.swap(turn, Ordering::Relaxed) != turn;
    thread.has_worked(u64::from(is_another), thread.ran().saturating_sub(ran));
    breathe();
    true
}

/// A thread that may end, and is the last one of a task that does: some of what the task has goes, on this thread's time. Whether there may be more; what
/// others wait for of the thread has gone before. (A scheduler's is not waited for.)
pub(super) fn lessens(thread: &Arc<Thread>) -> bool {
    let there_is_more = thread.seat.load(Ordering::Relaxed) == NO_SEAT && thread.task.lessen(thread);
    if there_is_more && thread.task.in_hand().load(Ordering::Relaxed) {
        // Who is ready here is not to wait for two that are at the same.
        let here = here();
        if !here.queue.is_empty() {
            here.make_room();
        }
    }
    there_is_more
}
