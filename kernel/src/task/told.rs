//! What is told of a task, and what programs read of it.

use super::Task;
use crate::info::word;
use crate::machine::machine;
use crate::promise;
use crate::watch;
use abi::Error;
use abi::task::{Ended, TaskInfo};
use alloc::vec::Vec;
use ::info::tells;
use core::sync::atomic::Ordering;
use quota::{Ledger, Resource};

impl Task {
    /// Keeps the exit code of a thread for who joins it later.
    pub fn remember_end(&self, thread: u64, code: u64) {
        let most = self.ledger.lock().limits().threads;
        self.ended.lock().keep(thread, code, most, || {
            let is_paid = self.charge(Resource::Frames, 1).is_ok();
            if is_paid {
                self.counts_list(0, promise::FRAME);
            }
            is_paid
        });
    }

    /// `thread_join` of one that has ended: its code, which can be asked for once.
    pub fn joined(&self, thread: u64) -> Result<u64, Error> {
        let (code, frames) = self.ended.lock().take(thread);
        self.release_codes(frames);
        code.ok_or(Error::NotFound)
    }

    /// So many frames of codes are needed no more.
    pub(super) fn release_codes(&self, frames: u64) {
        if frames > 0 {
            self.counts_list(frames * promise::FRAME, 0);
            self.release(Resource::Frames, frames);
        }
    }

    /// One of its threads has run for so many nanoseconds more.
    #[inline]
    pub fn has_run(&self, ns: u64) {
        self.time_ns.fetch_add(ns, Ordering::Relaxed);
        self.shown.add(word!(Task, time), ns);
    }

    /// What it uses is read where it is now so much.
    #[inline]
    pub(super) fn shows_use(&self, what: Resource, ledger: &Ledger) {
        let used = ledger.used();
        let (at, value) = match what {
            Resource::Frames => (0, used.frames),
            Resource::Sections => (1, used.sections),
            Resource::Reserve => (2, used.reserve),
            Resource::Threads => (3, used.threads),
        };
        self.own.set(word!(OwnTask, used) + at, value);
    }

    /// And what of that is somebody else's, and what lists take.
    #[inline]
    pub(super) fn shows_besides(&self, ledger: &Ledger) {
        self.own.set(word!(OwnTask, shared), ledger.shared());
        self.own.set(word!(OwnTask, lists), ledger.lists());
    }

    /// And what it may use.
    pub(super) fn shows_limits(&self, ledger: &Ledger) {
        let now = ledger.limits();
        let words = [now.frames, now.sections, now.reserve, now.threads];
        words.into_iter().enumerate().for_each(|(at, limit)| self.own.set(word!(OwnTask, limits) + at, limit));
    }

    /// In which class its text is executed.
    pub fn shows_class(&self, class: u64) {
        self.shown.set(word!(Task, class), class);
    }

    /// Its user reads who its pager is.
    pub fn shows_pager(&self, text: u64) {
        self.own.set(word!(OwnTask, pager), text);
        self.own.set(word!(OwnTask, asked), 0);
    }

    /// And how often that was asked.
    pub fn shows_asked(&self, by: u64) {
        self.own.add(word!(OwnTask, asked), by);
    }

    /// What is told of one that has ended.
    pub fn ended_as(&self) -> Ended {
        Ended {
            task: self.number,
            payer: self.payer_number(),
            user: self.user,
            began: u64::from(self.has_started()),
            exit: self.exit.lock().unwrap_or_default(),
            name: self.name,
        }
    }

    /// Of its own text.
    fn class(&self) -> u64 {
        let first = self.threads.lock().values().next().cloned();
        first.and_then(|thread| thread.own_text()).map_or(0, |text| text.place.class().number())
    }

    fn payer_number(&self) -> u64 {
        self.payer.as_ref().map_or(0, |payer| payer.number)
    }

    /// What a program of this user is told of it (docs/decisions/0017).
    pub fn info_for(&self, asker: u64) -> TaskInfo {
        if tells(self.user, asker) {
            return self.info();
        }
        let TaskInfo { task, payer, user, threads, time, class, .. } = self.info();
        TaskInfo { task, payer, user, threads, time, class, ..TaskInfo::default() }
    }

    /// Those of its threads that run, and since when: no more than there are processors, however many it has.
    fn running(&self) -> Vec<(u64, u64)> {
        let all = watch::who_runs().filter_map(|number| machine().threads.find(number));
        let own = all.filter(|thread| core::ptr::eq(&*thread.task, self));
        own.map(|thread| (thread.number, thread.running_since.load(Ordering::SeqCst))).collect()
    }

    fn info(&self) -> TaskInfo {
        // The ledger is the last of the locks: a view is charged while it is held.
        let (used, limits) = {
            let ledger = self.ledger.lock();
            (ledger.used(), ledger.limits())
        };
        let threads = self.threads.lock().len() as u64;
        let time = steady(|| self.running(), || self.time_ns.load(Ordering::SeqCst), |running| {
            let runs = |(thread, since): &(u64, u64)| machine().threads.find(*thread).map(|thread| thread.unaccounted(*since));
            running.iter().filter_map(runs).sum()
        });
        let keys = self.keyed.lock().as_ref().map(|keys| keys.stats()).unwrap_or_default();
        TaskInfo {
            task: self.number,
            payer: self.payer_number(),
            user: self.user,
            foreign: u64::from(self.foreign.get().is_some()),
            threads,
            time,
            used,
            limits,
            name: self.name,
            keys,
            class: self.class(),
        }
    }
}

/// What has been accounted, and what runs besides: read anew while that changes, a few times.
pub fn steady<S: PartialEq>(since: impl Fn() -> S, accounted: impl Fn() -> u64, running: impl Fn(&S) -> u64) -> u64 {
    let mut before = since();
    for _ in 0..4 {
        let time = accounted();
        let after = since();
        if before == after {
            return time + running(&after);
        }
        before = after;
    }
    accounted()
}
