//! The scheduler: what every thread may ask of it, and the seat of a processor for those that are one (docs/decisions/0007).

use abi::Error;
use abi::calls::stub;
use abi::layout::PAGE;
use abi::sched::{EVENTS, Event, RING_FIRST, SeatInfo, op};
use core::sync::atomic::{AtomicU64, Ordering};

use crate::Once;
use crate::Trap;
use crate::section;

/// Sleeps until another thread wakes this one, at most `ns`.
///
/// # Errors
/// `TimedOut`.
pub fn sleep(ns: u64) -> Result<(), Error> {
    stub::call_scheduler(&Trap, op::SLEEP, 0, ns).map(drop)
}

/// Wakes a thread that sleeps; one that does not will not the next time.
///
/// # Errors
/// What the kernel answers.
pub fn wake_up(thread: u64) -> Result<(), Error> {
    stub::call_scheduler(&Trap, op::WAKEUP, thread, 0).map(drop)
}

/// Wakes another thread and sleeps, in one step: the processor goes from one to the other.
///
/// # Errors
/// `TimedOut`, or what the kernel answers.
pub fn pass(thread: u64, ns: u64) -> Result<(), Error> {
    stub::call_scheduler(&Trap, op::PASS, thread, ns).map(drop)
}

/// From now on `thread` may wake this one, whoever's it is, and its end does so.
///
/// # Errors
/// `Dead` if it has ended; `NotFound`; `TooBig` if this thread watches too many.
pub fn watch(thread: u64) -> Result<(), Error> {
    stub::call_scheduler(&Trap, op::WATCH, thread, 0).map(drop)
}

/// Takes one `watch` back.
///
/// # Errors
/// `NotFound` if there was none (any more).
pub fn unwatch(thread: u64) -> Result<(), Error> {
    stub::call_scheduler(&Trap, op::UNWATCH, thread, 0).map(drop)
}

/// Asks for another priority for a thread of one's user: 0 is the highest, 31 the lowest.
///
/// # Errors
/// `NotSupported` where no scheduler sits, or what the kernel answers.
pub fn set_priority(thread: u64, level: u64) -> Result<(), Error> {
    stub::call_scheduler(&Trap, op::PRIORITY, thread, level).map(drop)
}

/// A thread that a scheduler has put aside, or is about to, is ready.
///
/// # Errors
/// What the kernel answers.
pub fn call_back(thread: u64) -> Result<(), Error> {
    stub::call_scheduler(&Trap, op::CALL_BACK, thread, 0).map(drop)
}

/// Puts the calling thread aside, which executes the scheduler's text without sitting in the seat, until somebody names it;
/// this processor goes on with another one, or (0) asks the one in the seat.
///
/// # Errors
/// `Changed`: somebody else has got that turn. `Busy`: there are events to be read first. Anything else: this is not the
/// scheduler here (any more). It was not put aside.
#[inline]
pub fn put_aside(thread: u64, turn: u64, limit: Limit) -> Result<(), Error> {
    crate::trap::put_aside(thread, turn, limit.word())
}

/// Tells the processor on which a thread runs.
#[derive(Clone, Copy, Debug)]
pub struct Where(());

impl Where {
    /// `None` if this machine cannot tell without the kernel.
    #[must_use]
    pub fn new() -> Option<Where> {
        const RDTSCP: u32 = 1 << 27;
        let extended = core::arch::x86_64::__cpuid(0x8000_0000).eax;
        let has = extended > 0x8000_0000 && core::arch::x86_64::__cpuid(0x8000_0001).edx & RDTSCP != 0;
        has.then_some(Where(()))
    }

    /// Number of the processor; the next moment it may be another one.
    #[inline]
    #[must_use]
    pub fn processor(self) -> usize {
        crate::trap::processor() as usize
    }
}

/// This thread is a level of a scheduler from now on, which has it run when it is wanted.
pub fn serve() {
    let _ = stub::call_scheduler(&Trap, op::SERVE, 0, 0);
}

/// Has the scheduler of another processor look around: for who sits in a seat.
///
/// # Errors
/// `NotSupported` where no scheduler sits, or what the kernel answers.
pub fn look(processor: u64) -> Result<(), Error> {
    stub::call_scheduler(&Trap, op::LOOK, processor, 0).map(drop)
}

/// How this program calls the scheduler itself, where one offers that: for waits without a limit of time, which may end for
/// nothing. Each says whether it was done, and how; if not, the kernel is asked. `Killed`: whoever waits is to wait no more.
#[derive(Clone, Copy, Debug)]
pub struct Direct {
    pub sleep: fn() -> Option<Result<(), Error>>,
    pub wake_up: fn(u64) -> bool,
    pub pass: fn(u64) -> Option<Result<(), Error>>,
}

static DIRECT: Once<Direct> = Once::new();

/// From now on threads that wait for others try that first.
pub fn set_direct(direct: Direct) {
    let _ = DIRECT.get_or_try(|| Ok::<_, Error>(direct));
}

#[inline]
pub(crate) fn direct() -> Option<&'static Direct> {
    DIRECT.get()
}

/// What is left of an interrupt is for whoever waits for it; the handler at `gate` is not to be called again (0: it is).
///
/// # Errors
/// What the kernel answers.
pub fn give_back(vector: u64, gate: u64) -> Result<(), Error> {
    stub::call_scheduler(&Trap, op::GIVE_BACK, vector, gate).map(drop)
}

/// What is known of the seats of the processors, read where the kernel writes it.
pub fn seats() -> impl Iterator<Item = SeatInfo> {
    let all = crate::info::all().ok();
    let processors = all.map_or(0, |all| all.processors().count());
    all.into_iter().flat_map(|all| all.seats()).take(processors).map(|seat| seat.seat)
}

/// A section that others write, too, as words that are read and written at once.
///
/// # Errors
/// A refusal if this program may not write it.
pub fn words(base: u64) -> Result<&'static [AtomicU64], Error> {
    let info = section::info(base)?;
    let both = abi::Rights::READ | abi::Rights::WRITE;
    if info.base != base || !section::may(base, info.len, both, section::Who::Own) {
        return Err(section::why_not(base, both));
    }
    // SAFETY: the kernel says that this domain may read and write all of it, sections begin at a page, and whatever is
    // there is a valid word. Should the right be taken away, the access faults and the program ends.
    Ok(unsafe { core::slice::from_raw_parts(base as *const AtomicU64, (info.len / 8) as usize) })
}

/// The seat of a processor, for the thread that has asked for it.
#[derive(Debug)]
pub struct Seat {
    ring: &'static [AtomicU64],
    head: u32,
    asked: u64,
}

/// How long the kernel lets a thread go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// As long as was said before.
    Same,
    Ns(u64),
    Never,
}

impl Limit {
    fn word(self) -> u64 {
        match self {
            Limit::Same => 0,
            Limit::Ns(ns) => ns.max(1),
            Limit::Never => u64::MAX,
        }
    }
}

impl Seat {
    /// Asks for the seat of a processor, for the calling thread. It sits there from its first answer on.
    ///
    /// # Errors
    /// `Busy` while somebody else sits there, or what the kernel answers.
    pub fn ask(processor: u64) -> Result<Seat, Error> {
        let base = stub::scheduler_set(&Trap, processor)?;
        let ring = words(base)?;
        assert!(ring.len() as u64 * 8 >= PAGE);
        Ok(Seat { ring, head: 0, asked: 0 })
    }

    /// The next event, if there is one. What it says is the kernel's word as long as this program leaves the ring alone.
    pub fn event(&mut self) -> Option<Event> {
        // `head` and `tail` share the first word.
        let tail = (self.ring[0].load(Ordering::Acquire) >> 32) as u32;
        if tail == self.head {
            return None;
        }
        let at = RING_FIRST as usize / 8 + (self.head % EVENTS) as usize * (size_of::<Event>() / 8);
        let word = |i: usize| self.ring[at + i].load(Ordering::Relaxed);
        let event =
            Event { kind: word(0) as u32, detail: (word(0) >> 32) as u32, thread: word(1), a: word(2), b: word(3) };
        self.head = self.head.wrapping_add(1);
        self.publish();
        Some(event)
    }

    fn publish(&self) {
        // SAFETY: the low half of the first word is the reader's; nothing but this thread writes it.
        let head = unsafe { core::sync::atomic::AtomicU32::from_ptr(self.ring[0].as_ptr().cast()) };
        head.store(self.head, Ordering::Release);
    }

    /// Says which thread runs now, for how long; 0: none. Returns when there is something to decide.
    ///
    /// # Errors
    /// `Changed`: another processor has got that turn; name another. `Busy`: something has happened; read it first. Anything else: this is not a scheduler (any more).
    pub fn next(&mut self, thread: u64, turn: u64, limit: Limit) -> Result<(), Error> {
        stub::thread_next(&Trap, thread, turn, limit.word())?;
        self.asked += 1;
        Ok(())
    }

    /// How often it was asked to decide: the kernel counts its time from there.
    pub fn asked(&self) -> u64 {
        self.asked
    }
}
