//! What the kernel keeps for each processor, and how others make it forget (architecture, section 14).

use crate::domain::Domain;
use crate::light::Undone;
use crate::machine::machine;
use crate::place::Stay;
use crate::sched::Timeout;
use crate::thread::Thread;
use crate::trace::{self, Trace};
use crate::seat::Office;
use ::post::Lies;
use ::sched::{PutBy, Roll, Timers};
use abi::layout::PAGE;
use abi::trace::kind;
use alloc::sync::Arc;
use arch::only::Only;
use arch::percpu::Counters;
use arch::shown::TOLD;
use arch::{apic, cpu, time};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use spin::Mutex;

/// Pages that are forgotten one by one; of more, everything is.
const FEW: u64 = 16;

/// What of the views a processor is to forget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    #[default]
    All,
    /// Whole pages of `[at, at + len)`.
    Pages { at: u64, len: u64 },
}

/// What only the processor itself touches.
#[derive(Default)]
pub struct Local {
    pub current: Option<Arc<Thread>>,
    /// The domain whose root may still be loaded although its thread has gone elsewhere.
    pub keep: Option<Arc<Domain>>,
    pub segments: (u64, u64),
    pub quantum_end: u64,
    pub switched_at: u64,
    /// The running thread gives way by itself.
    pub yields: bool,
    /// Who runs next, whatever is ready besides: it was handed the processor.
    pub handed: Option<Arc<Thread>>,
    /// When the one in the seat is looked at next, while it decides.
    pub beat: u64,
    /// Who ran here last has touched a secret section.
    pub secret: bool,
    /// The running thread's light call, on its way out.
    pub undone: Option<Undone>,
}

pub struct Processor {
    pub index: usize,
    pub apic: u32,
    /// There is no other one.
    pub alone: bool,
    pub local: Only<Local>,
    /// Ready threads, each with the turn that it is here for.
    pub queue: Roll<(Arc<Thread>, u64)>,
    /// Who decides instead of the round robin.
    pub office: Office,
    timers: Mutex<Timers<Timeout>>,
    /// When the first of them is due, written by whoever has the lock; [`u64::MAX`]: there is none.
    next_timer: AtomicU64,
    /// When the timer comes, if it was set; [`u64::MAX`]: it was not. Only the processor itself sets it.
    alarm: AtomicU64,
    /// Record of the thread whose wait the short way of a message has ended here, for the kernel proper to do the rest; 0: nobody's.
    pub posted: AtomicU32,
    /// Where the message lies that its caller goes on with, if one was there.
    pub came: Only<Option<Lies>>,
    /// The same of one who is to go on here when the running thread waits, or who rests here while nobody runs.
    pub put_by: PutBy,
    /// Set when the running thread should make room.
    reschedule: AtomicBool,
    /// How often interrupts have been let in, one in what another one does.
    pub breaths: AtomicU32,
    pub idle: AtomicBool,
    /// Since it idles its scheduler was told of somebody who is ready.
    told: AtomicBool,
    pub online: AtomicBool,
    /// User code may be running, with whatever the TLB holds.
    in_user: AtomicBool,
    /// Somebody changed tables that this processor may have cached.
    stale: AtomicBool,
    /// A page that a call has missed and a pager may have: see [`crate::pager::note`].
    pub absent: AtomicU64,
    /// How often the kernel had been entered then.
    pub absent_at: AtomicU64,
    /// Where programs read them, too.
    pub counters: &'static Counters,
    /// The running thread, while it is not preempted (place.rs).
    pub stay: Only<Stay>,
    /// What has happened here, if somebody wants to know.
    pub trace: Trace,
}

impl Processor {
    pub fn new(index: usize, apic: u32, alone: bool) -> Processor {
        Processor {
            index,
            apic,
            alone,
            local: Only::new(index, Local::default()),
            queue: Roll::default(),
            office: Office::default(),
            timers: Mutex::new(Timers::new()),
            next_timer: AtomicU64::new(u64::MAX),
            alarm: AtomicU64::new(u64::MAX),
            posted: AtomicU32::new(0),
            came: Only::new(index, None),
            put_by: PutBy::default(),
            reschedule: AtomicBool::new(false),
            breaths: AtomicU32::new(0),
            idle: AtomicBool::new(false),
            told: AtomicBool::new(false),
            online: AtomicBool::new(false),
            in_user: AtomicBool::new(false),
            stale: AtomicBool::new(false),
            absent: AtomicU64::new(0),
            absent_at: AtomicU64::new(0),
            counters: arch::percpu::counters(index),
            stay: Only::new(index, Stay::default()),
            trace: Trace::default(),
        }
    }

    /// It works from now on.
    pub fn set_online(&self) {
        self.online.store(true, Ordering::SeqCst);
        self.counters.apic.store(self.apic.into(), Ordering::Relaxed);
        self.counters.online.store(1, Ordering::Release);
    }

    /// It idles, or does something.
    pub fn set_idle(&self, idle: bool) {
        if idle {
            self.told.store(false, Ordering::SeqCst);
        }
        self.idle.store(idle, Ordering::SeqCst);
        if TOLD {
            self.counters.idle.store(idle.into(), Ordering::Relaxed);
        }
    }

    /// Before it returns to user code, this processor looks around: at the queue, the timers, the state of the thread.
    pub fn attend(&self) {
        arch::percpu::attend(self.index);
    }

    /// Whether it must look around.
    pub fn must_attend(&self) -> bool {
        arch::percpu::must_attend(self.index)
    }

    /// It is about to look around.
    pub fn attending(&self) {
        arch::percpu::attending(self.index);
    }

    /// The running thread is to make room for the next one.
    pub fn make_room(&self) {
        self.reschedule.store(true, Ordering::Relaxed);
        self.attend();
    }

    /// Whether it is.
    pub fn is_to_make_room(&self) -> bool {
        self.reschedule.load(Ordering::Relaxed)
    }

    /// Takes that wish back; whether there was one.
    pub fn take_make_room(&self) -> bool {
        self.reschedule.swap(false, Ordering::Relaxed)
    }

    /// Tells its scheduler of a ready thread. Whether there is one.
    pub fn tells_ready(&self, thread: &Thread, turn: u64, why: u32) -> bool {
        // First: by the time that it is told it may have dealt with that, and rest again.
        if self.office.is_taken() {
            self.told.store(true, Ordering::SeqCst);
        }
        self.office.tell_ready(thread, turn, why)
    }

    /// Whether it is idle, and nobody was put into its queue since, or its scheduler told of anybody. (Asked twice: it says that it is busy before it empties the queue.)
    pub fn is_free(&self) -> bool {
        let is_idle = || self.idle.load(Ordering::SeqCst);
        let is_promised = || self.told.load(Ordering::SeqCst) || !self.queue.is_empty();
        is_idle() && self.online.load(Ordering::Relaxed) && !is_promised() && is_idle()
    }

    /// Does something with what is to happen here at some moment.
    pub fn timers<T>(&self, what: impl FnOnce(&mut Timers<Timeout>) -> T) -> T {
        let mut timers = self.timers.lock();
        let done = what(&mut timers);
        self.next_timer.store(timers.next().unwrap_or(u64::MAX), Ordering::Relaxed);
        done
    }

    /// When the first of that is due.
    pub fn next_timer(&self) -> Option<u64> {
        Some(self.next_timer.load(Ordering::Relaxed)).filter(|at| *at != u64::MAX)
    }

    /// When the timer comes.
    pub fn alarm(&self) -> Option<u64> {
        Some(self.alarm.load(Ordering::Relaxed)).filter(|at| *at != u64::MAX)
    }

    /// It has come.
    pub fn alarm_over(&self) {
        self.alarm.store(u64::MAX, Ordering::Relaxed);
    }

    /// Has the timer come then, or not at all.
    pub fn set_alarm(&self, at: Option<u64>) {
        if self.alarm() != at {
            self.alarm.store(at.unwrap_or(u64::MAX), Ordering::Relaxed);
            time::set_alarm(at);
        }
    }

    /// The thread that entered the kernel here.
    pub fn current(&self) -> Arc<Thread> {
        self.local.hold().current.clone().expect("user code runs on a thread")
    }

    /// First thing on every entry: from now on this processor counts as having acknowledged invalidations.
    #[inline]
    pub fn left_user(&self) {
        // No kernel access depends on it: a release is enough, others only wait a moment longer.
        self.in_user.store(false, Ordering::Release);
        count(&self.counters.entries);
    }

    /// Last thing before user code: forgets what became stale while the kernel ran.
    #[inline]
    pub fn enter_user(&self) {
        self.enter_user_having();
    }

    /// The same. Whether anything had become stale.
    #[inline(always)]
    fn enter_user_having(&self) -> bool {
        let mut any = false;
        loop {
            self.in_user.store(true, Ordering::SeqCst);
            if !self.stale.load(Ordering::SeqCst) {
                return any;
            }
            any = true;
            self.in_user.store(false, Ordering::SeqCst);
            self.stale.store(false, Ordering::SeqCst);
            self.forget(Scope::All);
        }
    }

    /// Does something that may wait for other processors, in the middle of a light call too: then others do not wait for this one.
    pub fn away_from_user<T>(&self, does: impl FnOnce() -> T) -> T {
        let was_there = self.in_user.load(Ordering::Relaxed);
        if was_there {
            self.in_user.store(false, Ordering::SeqCst);
        }
        let done = does();
        // A key may have changed hands meanwhile, and the register that a light call goes back with is the one that it came with: the long way out
        // loads what it is to have now.
        if was_there && self.enter_user_having() {
            self.attend();
        }
        done
    }

    /// Forgets translations, here.
    #[inline(always)]
    fn forget(&self, scope: Scope) {
        count(&self.counters.tlb_flushes);
        match scope {
            Scope::Pages { at, len } if len <= FEW * PAGE => {
                let mut page = at;
                while page < at + len {
                    cpu::forget_page(page);
                    page += PAGE;
                }
            }
            _ => cpu::flush_tlb(),
        }
    }

    /// Has this processor, which executes this, forget `scope`, if no other one is among the `users` of what was changed. Whether that was so;
    /// otherwise nothing is done.
    #[inline(always)]
    pub fn forget_alone(&self, users: impl FnOnce() -> u64, scope: Scope) -> bool {
        if self.alone {
            // Nobody is asked what he has loaded: to forget a page too many does no harm.
            self.forget(scope);
            return true;
        }
        let (users, own) = (users(), 1 << self.index);
        if users == own {
            self.forget(scope);
        }
        users & !own == 0
    }

    /// Marks this processor as stale and interrupts it if user code runs there.
    fn invalidate(&self) {
        self.stale.store(true, Ordering::SeqCst);
        if self.in_user.load(Ordering::SeqCst) {
            count(&self.counters.shootdowns);
            apic::interrupt(self.apic, apic::SHOOTDOWN);
        }
    }

    /// Has it look around soon, wherever it is.
    pub fn look_around(&self) {
        self.attend();
        self.poke();
    }

    /// Asks the processor to look at its queue.
    pub fn poke(&self) {
        if self.index != here().index {
            apic::interrupt(self.apic, apic::RESCHEDULE);
        }
    }
}

/// Processors that have one of these page-table roots loaded, as bits.
pub fn with_root(is_one: impl Fn(u64) -> bool) -> u64 {
    let loaded = |p: &&Processor| is_one(arch::percpu::root_of(p.index));
    machine().processors.iter().filter(loaded).fold(0, |mask, p| mask | 1 << p.index)
}

/// Adds one to a counter that only this processor writes.
pub fn count(counter: &AtomicU64) {
    arch::percpu::add(counter, 1);
}

/// The kernel copies `bytes` from or to a program's memory, from page to page, or of a message that it keeps.
pub fn copied(bytes: u64) {
    let counters = here().counters;
    arch::percpu::add(&counters.copied_bytes, bytes);
    count(&counters.copies);
}

/// The processor that executes this.
#[inline(always)]
pub fn here() -> &'static Processor {
    arch::percpu::own()
}

/// Makes the processors in `mask` forget, and waits until each has, or is in the kernel (where it will before it
/// returns to user code). Call without holding locks. `scope` is what this
/// one forgets at the least; others forget everything.
pub fn make_forget(mask: u64, scope: Scope) {
    if mask == 0 {
        return;
    }
    let me = here();
    let others = || machine().processors.iter().filter(|p| mask >> p.index & 1 != 0 && p.index != me.index);
    if mask >> me.index & 1 != 0 {
        me.forget(scope);
    }
    trace::note(kind::SHOOTDOWN, mask, 0);
    if others().next().is_none() {
        return;
    }
    others().for_each(Processor::invalidate);
    let has_forgotten = |p: &Processor| !p.in_user.load(Ordering::SeqCst) || !p.stale.load(Ordering::SeqCst);
    trace::waits(me, || {
        for other in others() {
            while !has_forgotten(other) {
                cpu::relax();
            }
        }
    });
}
