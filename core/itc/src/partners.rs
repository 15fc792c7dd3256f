//! The other threads: who they are, whether they live, and how one waits for them.

use crate::atomic::{Ordering, fence};
use crate::waiters::{Found, Wake};
use abi::Error;
use core::cell::Cell;
use core::marker::PhantomData;

/// Threads that one handle may deal with.
pub const PARTNERS_MAX: usize = 8;

/// What the machine does for threads. Times are ns since boot.
pub trait Threads {
    /// The calling thread.
    fn me(&self) -> u64;
    /// Whether a thread is running now: read from memory, without the kernel.
    fn is_running(&self, thread: u64) -> bool;
    /// How many watched threads have ended: read from memory, too.
    fn ends(&self) -> u64;
    /// From now on the thread may wake this one, and its end wakes it.
    ///
    /// # Errors
    /// `Dead` if it has ended, `NotFound`, `TooBig`.
    fn watch(&self, thread: u64) -> Result<(), Error>;
    /// Takes that back.
    fn unwatch(&self, thread: u64);
    /// Sleeps until somebody wakes this thread; it may also wake for nothing.
    ///
    /// # Errors
    /// `TimedOut`, `Killed`.
    fn sleep(&self, until: u64) -> Result<(), Error>;
    /// Wakes a thread, or lets its next sleep end at once.
    fn wake_up(&self, thread: u64);
    /// Both in one: wakes a thread and sleeps.
    ///
    /// # Errors
    /// As [`Threads::sleep`].
    fn pass(&self, thread: u64, until: u64) -> Result<(), Error>;
    fn now(&self) -> u64;
    /// Between two looks of a spinning thread.
    fn relax(&self);
}

/// How long to wait, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Not at all: `Busy` if it cannot be had.
    Poll,
    /// Asleep, until then (`u64::MAX`: for ever).
    Sleep(u64),
    /// Spinning as long as a partner is running, then asleep.
    Snoop(u64),
}

/// Between two looks at the clock.
const SPINS: u32 = 1024;

/// The threads that the calling thread deals with, watched as long as this value lives. It stays with its thread.
#[derive(Debug)]
pub struct Partners<T: Threads> {
    threads: T,
    me: u64,
    others: [u64; PARTNERS_MAX],
    count: usize,
    /// Those that live, as bits; those whose end was told or that live.
    live: Cell<u32>,
    told: Cell<u32>,
    /// How many threads had ended when it was last looked who lives.
    seen: Cell<u64>,
    _stays: PhantomData<*const ()>,
}

impl<T: Threads> Partners<T> {
    /// Begins to watch `others`.
    ///
    /// # Errors
    /// `Dead` if one of them has ended, `NotFound` if it never was, `TooBig` if they are more than [`PARTNERS_MAX`],
    /// `BadArgument` if one is this thread or has too great a number.
    pub fn watch(threads: T, others: &[u64]) -> Result<Partners<T>, Error> {
        let me = threads.me();
        if others.len() > PARTNERS_MAX {
            return Err(Error::TooBig);
        }
        let is_bad = |thread: u64| thread == 0 || thread > u64::from(u32::MAX);
        if is_bad(me) || others.iter().any(|&other| is_bad(other) || other == me) {
            return Err(Error::BadArgument);
        }
        let mut partners = Partners {
            seen: Cell::new(threads.ends()),
            threads,
            me,
            others: [0; PARTNERS_MAX],
            count: 0,
            live: Cell::new(0),
            told: Cell::new(0),
            _stays: PhantomData,
        };
        for &other in others {
            partners.threads.watch(other)?;
            partners.others[partners.count] = other;
            partners.live.set(partners.live.get() | 1 << partners.count);
            partners.told.set(partners.live.get());
            partners.count += 1;
        }
        Ok(partners)
    }

    /// This thread.
    pub fn me(&self) -> u64 {
        self.me
    }

    /// Who sleeps and wakes.
    pub fn threads(&self) -> &T {
        &self.threads
    }

    fn all(&self) -> &[u64] {
        &self.others[..self.count]
    }

    /// Its place among the partners.
    pub(crate) fn find(&self, thread: u64) -> Option<usize> {
        self.all().iter().position(|&other| other == thread)
    }

    /// Who has a place.
    pub(crate) fn number(&self, place: u32) -> u64 {
        self.others[place as usize % PARTNERS_MAX]
    }

    /// Whether a thread is a partner: one that is only named in memory is none.
    pub(crate) fn has(&self, thread: u64) -> bool {
        self.find(thread).is_some()
    }

    /// Whether it is a partner that has ended.
    pub(crate) fn has_ended(&self, thread: u64) -> bool {
        self.look();
        self.find(thread).is_some_and(|at| self.live.get() >> at & 1 == 0)
    }

    /// Finds out who lives, if somebody has ended at all.
    #[inline]
    fn look(&self) {
        let ends = self.threads.ends();
        if ends != self.seen.get() {
            self.ask(ends);
        }
    }

    #[cold]
    #[inline(never)]
    fn ask(&self, ends: u64) {
        self.seen.set(ends);
        for (at, &other) in self.all().iter().enumerate() {
            let lives = self.live.get() >> at & 1 != 0;
            if lives && self.is_dead(other) {
                self.live.set(self.live.get() & !(1 << at));
            }
        }
    }

    /// Whether a thread, of whomever, has ended.
    fn is_dead(&self, thread: u64) -> bool {
        self.threads.watch(thread).map(|()| self.threads.unwatch(thread)) == Err(Error::Dead)
    }

    /// Whether no partner lives, or one has ended and no wait has told so before.
    pub fn has_lost(&self) -> bool {
        self.look();
        self.live.get() != self.told.get() || self.live.get() == 0
    }

    /// That is what a wait ends with, unless what it waited for came before the end.
    fn tell<R>(&self, last: Result<Option<R>, Error>) -> Result<R, Error> {
        last.transpose().unwrap_or_else(|| {
            self.told.set(self.live.get());
            Err(Error::Dead)
        })
    }

    /// Whether no partner lives.
    pub fn is_alone(&self) -> bool {
        self.look();
        self.live.get() == 0
    }

    /// Whether one of them is running now.
    #[inline]
    pub fn is_running(&self) -> bool {
        self.runs(self.all().iter().copied())
    }

    /// Whether one of these is, who may be partners or not. This thread is: where that is not said, nothing is believed of the others.
    #[inline]
    pub(crate) fn runs(&self, mut threads: impl Iterator<Item = u64>) -> bool {
        threads.any(|other| self.has(other) && self.threads.is_running(other)) && self.threads.is_running(self.me)
    }

    /// Waits until `attempt` has a value. `waiters` is where others find this thread, `wake` whom it still has to wake,
    /// `is_over` says when nobody is left to wait for.
    #[inline]
    pub(crate) fn wait<R>(
        &self,
        waiters: impl Found,
        limit: Limit,
        wake: Wake,
        is_over: impl Fn() -> bool,
        attempt: impl FnMut() -> Result<Option<R>, Error>,
    ) -> Result<R, Error> {
        self.wait_for(|| self.is_running(), waiters, limit, wake, is_over, attempt)
    }

    /// The same where `runs` says whether one of those runs who can give what is waited for: only as long is it worth spinning.
    #[inline]
    pub(crate) fn wait_for<R>(
        &self,
        runs: impl Fn() -> bool,
        waiters: impl Found,
        limit: Limit,
        mut wake: Wake,
        is_over: impl Fn() -> bool,
        mut attempt: impl FnMut() -> Result<Option<R>, Error>,
    ) -> Result<R, Error> {
        let until = match (attempt().transpose(), limit) {
            (Some(outcome), _) => {
                wake.now(self);
                return outcome;
            }
            (None, Limit::Poll) => {
                wake.now(self);
                return if is_over() { self.tell(attempt()) } else { Err(Error::Busy) };
            }
            (None, Limit::Sleep(until)) => until,
            (None, Limit::Snoop(until)) => {
                if let Some(outcome) = self.spin(runs, until, &mut wake, &mut attempt).transpose() {
                    return outcome;
                }
                until
            }
        };
        let outcome = loop {
            // A waker takes this thread off the list: each time anew.
            if !waiters.enter(self.me) {
                waiters.leave_out(|thread| self.is_dead(thread));
                if !waiters.enter(self.me) {
                    break Err(Error::Busy);
                }
            }
            // First it is on the list, then it looks; a waker first changes what is looked at, then reads the list.
            fence(Ordering::SeqCst);
            if let Some(outcome) = attempt().transpose() {
                break outcome;
            }
            if is_over() {
                break self.tell(attempt());
            }
            let slept = match wake.take_only(self) {
                Some(thread) => self.threads.pass(thread, until),
                None => {
                    wake.now(self);
                    self.threads.sleep(until)
                }
            };
            // Mostly it was woken for what it waits for.
            if let Some(outcome) = attempt().transpose().or_else(|| slept.err().map(Err)) {
                break outcome;
            }
        };
        waiters.leave(self.me);
        wake.now(self);
        outcome
    }

    /// Snoopy spin wait: as long as a partner is running.
    #[inline]
    fn spin<R>(
        &self,
        runs: impl Fn() -> bool,
        until: u64,
        wake: &mut Wake,
        attempt: &mut impl FnMut() -> Result<Option<R>, Error>,
    ) -> Result<Option<R>, Error> {
        if !runs() {
            return Ok(None);
        }
        wake.now(self);
        let mut spins = 0u32;
        loop {
            if let Some(value) = attempt()? {
                return Ok(Some(value));
            }
            spins = spins.wrapping_add(1);
            if spins.is_multiple_of(SPINS) && until != u64::MAX && self.threads.now() >= until {
                return Err(Error::TimedOut);
            }
            self.threads.relax();
            if !runs() {
                return Ok(None);
            }
        }
    }
}

impl<T: Threads> Drop for Partners<T> {
    fn drop(&mut self) {
        for (at, &other) in self.all().iter().enumerate() {
            if self.live.get() >> at & 1 != 0 {
                self.threads.unwatch(other);
            }
        }
    }
}
