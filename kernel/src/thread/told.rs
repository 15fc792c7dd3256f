//! What is told of a thread.

use super::{Inner, Thread};
use crate::info::word;
use crate::task::steady;
use abi::task::{ThreadInfo, state};
use ::info::tells;
use ::sched::Phase;
use core::sync::atomic::Ordering;

impl Thread {
    /// What a thread that runs since then has run. On the short way others have run besides; that is written down when its
    /// processor next enters the kernel.
    pub fn unaccounted(&self, since: u64) -> u64 {
        let runs = since != 0 && !self.card.has_moved();
        if runs { arch::time::now().saturating_sub(since) } else { 0 }
    }

    /// What it is doing is read from now on. With its wait locked, or by the processor that runs it.
    #[inline]
    pub fn shows(&self, state: u64) {
        self.shown.set(word!(Thread, state), state | (self.processor.load(Ordering::Relaxed) as u64) << 8);
    }

    /// The same of where it was when its processor let go of it.
    #[inline]
    pub fn shows_where(&self, inner: &Inner) {
        let text = &inner.domain.text;
        self.own.set_each([
            (word!(OwnThread, text), text.base),
            (word!(OwnThread, depth), inner.seen.0 as u64),
            (word!(OwnThread, class), text.place.class_number()),
        ]);
    }

    /// And at which posts it waits, once it does (`OwnThread::posts`). By the processor that lets go of it.
    #[inline]
    pub fn shows_posts(&self, posts: [u64; 2]) {
        let [first, second] = posts;
        self.own.set_each([(word!(OwnThread, posts), first), (word!(OwnThread, posts) + 1, second)]);
    }

    /// It runs since then, beyond what it had run when it last [stopped](Self::has_stopped).
    #[inline]
    pub fn runs_since(&self, since: u64) {
        self.running_since.store(since, Ordering::SeqCst);
        self.shown.set(word!(Thread, since), since);
    }

    /// The same for one that a processor takes up.
    #[inline]
    pub fn is_taken_up(&self, since: u64, processor: usize) {
        self.running_since.store(since, Ordering::SeqCst);
        self.shown.set_each([
            (word!(Thread, since), since),
            (word!(Thread, state), state::RUNNING | (processor as u64) << 8),
        ]);
    }

    /// It runs no longer, and has run for so many nanoseconds more. First taken out of the one, then put into the other: who asks
    /// meanwhile counts it once at most.
    #[inline]
    pub fn has_stopped(&self, ns: u64) {
        self.running_since.store(0, Ordering::SeqCst);
        let time = self.time_ns.fetch_add(ns, Ordering::Relaxed) + ns;
        self.shown.set_each([(word!(Thread, since), 0), (word!(Thread, time), time)]);
        self.task.has_run(ns);
    }

    /// It has had one fault more.
    #[inline]
    pub fn has_faulted(&self) {
        let faults = self.faults.fetch_add(1, Ordering::Relaxed) + 1;
        self.shown.set(word!(Thread, faults), faults);
    }

    /// What a program of this user is told of it (docs/decisions/0017).
    pub fn info_for(&self, asker: u64) -> ThreadInfo {
        let info = self.info();
        if tells(self.task.user, asker) { info } else { ThreadInfo { text: 0, depth: 0, class: 0, ..info } }
    }

    fn info(&self) -> ThreadInfo {
        let (text, class, depth) = {
            let mut inner = self.inner.lock();
            inner.sync();
            (inner.domain.text.base, inner.domain.text.place.class(), inner.depth() as u64)
        };
        let since = || self.running_since.load(Ordering::SeqCst);
        let time = steady(since, || self.time_ns.load(Ordering::SeqCst), |since| self.unaccounted(*since));
        ThreadInfo {
            thread: self.number,
            task: self.task.number,
            state: match self.wait.lock().life.phase() {
                Phase::Running if self.card.is_parked() => state::READY,
                // A moment ago (post/doze.rs), or others run in its place.
                Phase::Running if self.card.rests_at().is_some() => state::WAITING,
                Phase::Ready => state::READY,
                Phase::Running => state::RUNNING,
                Phase::Waiting => state::WAITING,
                Phase::Ended => state::ENDED,
            },
            processor: self.processor.load(Ordering::Relaxed) as u64,
            text,
            depth,
            time,
            faults: self.faults.load(Ordering::Relaxed),
            class: class.number(),
        }
    }
}
